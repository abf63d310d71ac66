"""The Python of docs/functions.md, block after block; ``tests/integration/standalone/test_functions.py`` runs its files."""

import re
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from airflow_provider_connect.sdk import SinkConnector, SourceConnector, Transformation
from airflow_provider_connect.sdk.testing import SourceConnectorSuite

PAGE = Path(__file__).resolve().parents[4] / "docs" / "functions.md"
GIVEN = {"dataclass": dataclass, "datetime": datetime, "SourceConnectorSuite": SourceConnectorSuite, "__name__": "page"}


def test_each_block_declares_what_it_shows(tmp_path: Path) -> None:
    names: dict[str, Any] = dict(GIVEN)
    blocks = re.findall(r"^```python[^\n]*\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 8
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    for kind, found in (
        (SourceConnector, ("orders", "prices", "sold", "events")),
        (SinkConnector, ("shelf",)),
        (Transformation, ("later", "shouted")),
    ):
        assert [name for name in found if not issubclass(names[name], kind)] == []
    assert list(names["prices"].config_def.keys) == ["topic", "regions"]
    assert [field.name for field in names["orders"].declared.schema.__dataclass_fields__.values()] == ["id", "placed_at", "note"]
    config = {"topic": "t", "database": str(tmp_path / "orders.db")}
    with closing(sqlite3.connect(config["database"])) as connection:
        connection.execute("CREATE TABLE orders AS SELECT 5 AS id")
    answers = [names["sold"]().check_for_new_data(config, lambda _, at=at: {"cursor": at}) for at in (4, 5)]
    assert answers == [True, False]
