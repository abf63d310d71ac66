"""The first API of docs/rest-source.md, run by ``connect-run`` with two tasks: its topics, and offsets that the next run begins with."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.integration.standalone.agent import CHECKOUT
from tests.integration.standalone.test_one_run import Runs
from tests.unit.sdk.http.api import Asked, running

PAGE = CHECKOUT / "docs" / "rest-source.md"
JSON = "org.apache.kafka.connect.json.JsonConverter"


def test_the_first_api_of_the_page(worker_settings: Callable[..., dict[str, str]], tmp_path: Path, unique: str) -> None:
    (tmp_path / "plugins").mkdir()
    [text] = re.findall(r"^```python plugins/shop\.py\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    (tmp_path / "plugins" / "shop.py").write_text(text)
    runs = Runs(tmp_path, {**worker_settings(), "plugin.path": str(tmp_path / "plugins")})
    orders: list[int] = []

    def answer(asked: Asked) -> Any:
        assert asked.headers["authorization"] == "Bearer let-me-in"
        first = int(asked.params["offset"])
        if asked.path == "/customers":
            return {"data": [{"id": "ada"}][first:], "meta": {"total": 1}}
        return [{"id": number} for number in orders if number >= int(asked.params.get("from", "1"))][first:]

    with running() as api:
        api.answer = answer
        json = {"value.converter": JSON, "value.converter.schemas.enable": "false"}
        source = {"name": unique, "connector.class": "Shop", "topic": f"{unique}.${{resource}}", "base.url": api.url, "token": "let-me-in"}
        for new in ([1, 2, 3], [4, 5]):
            orders += new
            code, output = runs.run(**source, **json, **{"tasks.max": "2"})
            assert (code, "let-me-in" in output) == (0, False), output
    for resource, lines in {"orders": [f'{{"id":{number}}}' for number in orders], "customers": ['{"id":"ada"}'] * 2}.items():
        file = tmp_path / f"{resource}.txt"
        sink = {"name": f"{unique}-{resource}", "connector.class": "FileStreamSink", "file": str(file), "topics": f"{unique}.{resource}"}
        code, output = runs.run(**sink)
        assert code == 0, output
        assert file.read_text().splitlines() == lines
