"""The files of docs/functions.md, run by ``connect-run``: a paged HTTP source, a sink into SQLite, a transformation."""

from __future__ import annotations

import json
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.integration.standalone.agent import CHECKOUT
from tests.integration.standalone.test_one_run import Runs

PAGE = CHECKOUT / "docs" / "functions.md"
ITEMS = ("tea", "bread", "milk", "salt", "rice")
JSON = "org.apache.kafka.connect.json.JsonConverter"


class Shop(BaseHTTPRequestHandler):
    """``/orders?after=&limit=``, for those who have the token."""

    count = 0
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        asked = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        self.asked.append(f"{asked['after']}, {asked['limit']}")
        allowed = self.headers["Authorization"] == "Bearer let me in"
        ids = range(int(asked["after"]) + 1, self.count + 1)[: int(asked["limit"])]
        body = json.dumps([{"id": number, "item": ITEMS[number - 1]} for number in ids]).encode()
        self.send_response(200 if allowed else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def shop() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Shop)
    Shop.asked.clear()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def files_of_the_page() -> dict[str, str]:
    """The blocks that name a file."""
    return dict(re.findall(r"^```\w+ (\S+)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE))


def test_the_files_of_the_page_run(worker_settings: Callable[..., dict[str, str]], tmp_path: Path, unique: str, shop: str) -> None:
    (tmp_path / "plugins").mkdir()
    for name, text in files_of_the_page().items():
        (tmp_path / name).write_text(text)
    runs = Runs(tmp_path, {**worker_settings(), "plugin.path": str(tmp_path / "plugins")})
    given = dict(line.split("=", 1) for line in (tmp_path / "orders.properties").read_text().splitlines())
    source = given | {"base.url": shop, "token": "let me in", "topic": unique}
    converter = {"value.converter": JSON, "value.converter.schemas.enable": "false"}
    database = tmp_path / "shelf.db"
    sink = {"name": f"{unique}-shelf", "connector.class": "shelf", "topics": unique, "database": str(database), **converter}
    sink |= {"transforms": "later,loud", "transforms.later.type": "changes.later", "transforms.later.after": "1"}
    sink |= {"transforms.loud.type": "changes.shouted"}
    for Shop.count in (3, 5):
        for config in (source, sink):
            code, output = runs.run(**config)
            assert code == 0, output
            assert "let me in" not in output
    assert Shop.asked == ["0, 2", "2, 2", "3, 2", "3, 2", "5, 2"]
    with sqlite3.connect(database) as connection:
        found = connection.execute("SELECT id, item FROM orders ORDER BY id").fetchall()
    assert found == [(number, ITEMS[number - 1].upper()) for number in (2, 3, 4, 5)]
    code, output = runs.run(**{**source, "page.size": "many"})
    assert (code, "Invalid value many for configuration page.size" in output) == (2, True), output
