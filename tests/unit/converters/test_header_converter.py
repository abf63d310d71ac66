"""SimpleHeaderConverter against what Kafka Connect 4.3.1's inferred from the same texts (``recorded_headers.jsonl``)."""

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.converters.plain import SimpleHeaderConverter
from airflow_provider_connect.data.schema import (
    BYTES_SCHEMA,
    DATE_SCHEMA,
    FLOAT32_SCHEMA,
    INT8_SCHEMA,
    STRING_SCHEMA,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    Schema,
    Struct,
    decimal_schema,
)

RECORDED = [json.loads(line) for line in (Path(__file__).parent / "recorded_headers.jsonl").read_text().strip().split("\n")]
HEADERS = SimpleHeaderConverter()


def described(schema: Schema) -> str:
    name = f"({schema.name},{schema.version})" if schema.name else ""
    inner = ",".join(described(s) for s in (schema.key_schema, schema.value_schema) if s is not None)
    return f"{schema.type.name}{name}{f'<{inner}>' if inner else ''}"


@pytest.mark.parametrize("row", RECORDED, ids=lambda row: row["text"] or "empty")
def test_type_is_inferred_as_by_connect(row: dict[str, Any]) -> None:
    schema, value = HEADERS.to_connect_header("t", "h", row["text"].encode())
    if "null" in row["schema"]:  # collections without a schema in common are schemaless here
        assert schema is None
    else:
        assert schema is not None
        assert described(schema) == row["schema"]
    assert HEADERS.from_connect_header("t", "h", schema, value) == row["back"].encode()


def test_values_have_python_types() -> None:
    def read(text: str) -> Any:
        return HEADERS.to_connect_header("t", "h", text.encode()).value

    assert read("5") == 5
    assert read("1e400") == Decimal("1e400")
    assert read("2020-01-01") == datetime.date(2020, 1, 1)
    assert read("12:30:00.000Z") == datetime.time(12, 30)
    assert read("2020-01-01T12:30:00.123Z") == datetime.datetime(2020, 1, 1, 12, 30, 0, 123000, tzinfo=datetime.UTC)
    assert read('{"a":[1,2],"b":[3]}') == {"a": [1, 2], "b": [3]}
    assert read("null") is None


def test_null_stays_null() -> None:
    assert tuple(HEADERS.to_connect_header("t", "h", None)) == (None, None)
    assert HEADERS.from_connect_header("t", "h", STRING_SCHEMA, None) is None


PLACE = Schema.struct({"x": INT8_SCHEMA, "n": STRING_SCHEMA})


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        (STRING_SCHEMA, 'a "b"', 'a "b"'),
        (BYTES_SCHEMA, b"hi", "aGk="),
        (FLOAT32_SCHEMA, 0.10000000149011612, "0.1"),
        (decimal_schema(1), Decimal("1.5"), "1.5"),
        (DATE_SCHEMA, datetime.date(1970, 1, 1), "00:00:00.000Z"),
        (TIME_SCHEMA, datetime.time(1, 2, 3, 4000), "01:02:03.004Z"),
        (TIMESTAMP_SCHEMA, datetime.datetime(2020, 1, 2, tzinfo=datetime.UTC), "2020-01-02"),
        (PLACE, Struct(PLACE, {"x": 1, "n": 'q"'}), '{"x":1,"n":"q\\""}'),
        (Schema.array(BYTES_SCHEMA), [b"hi"], '["aGk="]'),
        (None, [True, None, 1.0, "a\\"], '[true,null,1.0,"a\\\\"]'),
    ],
)
def test_text_of_a_value(schema: Schema | None, value: Any, text: str) -> None:
    assert HEADERS.from_connect_header("t", "h", schema, value) == text.encode()
