"""Each line of the table in docs/converters.md is what the converter does."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.data.schema import (
    BOOLEAN_SCHEMA,
    FLOAT32_SCHEMA,
    FLOAT64_SCHEMA,
    INT16_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    STRING_SCHEMA,
    Schema,
)
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import PluginCatalog

PAGE = Path(__file__).resolve().parents[2] / "docs" / "converters.md"
SCHEMAS = {
    "ShortConverter": INT16_SCHEMA,
    "IntegerConverter": INT32_SCHEMA,
    "LongConverter": INT64_SCHEMA,
    "FloatConverter": FLOAT32_SCHEMA,
    "DoubleConverter": FLOAT64_SCHEMA,
    "BooleanConverter": BOOLEAN_SCHEMA,
}
ROWS = re.findall(r"^\| `(\w+)` \| (.+?) \| `(.+?)` \| `(b'.*')` \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def schema_of(name: str, value: object) -> Schema | None:
    if name in SCHEMAS:
        return SCHEMAS[name]
    return STRING_SCHEMA if isinstance(value, str) else None


def test_the_table_is_read() -> None:
    assert {name for name, *_ in ROWS} == {*SCHEMAS, "StringConverter", "JsonConverter"}


@pytest.mark.parametrize(("name", "settings", "value", "written"), ROWS)
def test_a_line_of_the_table(name: str, settings: str, value: str, written: str) -> None:
    converter: Any = PluginCatalog().named(name)[-1].load()()
    given = {} if settings == "–" else dict([settings.strip("`").split("=")])
    converter.configure(given, is_key=False)
    plain = json.loads(value)
    assert converter.from_connect_data("topic", schema_of(name, plain), plain) == ast.literal_eval(written)
