"""The Python of docs/functions.md, block after block; ``tests/integration/standalone/test_functions.py`` runs its files."""

import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from airflow_provider_connect.sdk import SinkConnector, SourceConnector, Transformation
from airflow_provider_connect.sdk.testing import SourceConnectorSuite

PAGE = Path(__file__).resolve().parents[4] / "docs" / "functions.md"
GIVEN = {"dataclass": dataclass, "datetime": datetime, "SourceConnectorSuite": SourceConnectorSuite, "__name__": "page"}


def test_each_block_declares_what_it_shows() -> None:
    names: dict[str, Any] = dict(GIVEN)
    blocks = re.findall(r"^```python[^\n]*\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 6
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    for kind, found in ((SourceConnector, ("orders", "prices")), (SinkConnector, ("shelf",)), (Transformation, ("later", "shouted"))):
        assert [name for name in found if not issubclass(names[name], kind)] == []
    assert list(names["prices"].config_def.keys) == ["topic", "regions"]
    assert [field.name for field in names["orders"].declared.schema.__dataclass_fields__.values()] == ["id", "placed_at", "note"]
