"""The cases of Apache's JsonConverterTest: what a text is with schemas and without. Java's answers: test_json_converter."""

import datetime
import json
from decimal import Decimal
from typing import Any

import pytest

from airflow_provider_connect.converters.json.converter import JsonConverter
from airflow_provider_connect.data.schema import Schema, SchemaType
from airflow_provider_connect.errors import DataException

D = '"name":"org.apache.kafka.connect.data.{}","version":1'
DECIMAL = '"type":"bytes",' + D.format("Decimal") + ',"parameters":{"scale":"%d"}'
DATE, TIME, TIMESTAMP = (
    '"type":"int32",' + D.format("Date"),
    '"type":"int32",' + D.format("Time"),
    '"type":"int64",' + D.format("Timestamp"),
)
MIDNIGHT, EPOCH = datetime.time(), datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

CASES: list[tuple[str, str, SchemaType, Any]] = [
    ('"type":"boolean"', "true", SchemaType.BOOLEAN, True),
    ('"type":"boolean","default":true', "null", SchemaType.BOOLEAN, True),
    ('"type":"int8"', "12", SchemaType.INT8, 12),
    ('"type":"int8"', "0012", SchemaType.INT8, 12),
    ('"type":"int16"', "000123", SchemaType.INT16, 123),
    ('"type":"int32"', "000012345", SchemaType.INT32, 12345),
    ('"type":"int64"', "00000123456789", SchemaType.INT64, 123456789),
    ('"type":"int64"', "4398046511104", SchemaType.INT64, 4398046511104),
    ('"type":"float"', "12.34", SchemaType.FLOAT32, pytest.approx(12.34, rel=1e-7)),
    ('"type":"double"', "12.34", SchemaType.FLOAT64, 12.34),
    ('"type":"bytes"', '"dGVzdC1zdHJpbmc="', SchemaType.BYTES, b"test-string"),
    ('"type":"string"', '"foo-bar-baz"', SchemaType.STRING, "foo-bar-baz"),
    ('"type":"array","items":{"type":"int32"}', "[1, 2, 3]", SchemaType.ARRAY, [1, 2, 3]),
    ('"type":"map","keys":{"type":"string"},"values":{"type":"int32"}', '{"k1":12,"k2":15}', SchemaType.MAP, {"k1": 12, "k2": 15}),
    ('"type":"map","keys":{"type":"int32"},"values":{"type":"int32"}', "[[1,12],[2,15]]", SchemaType.MAP, {1: 12, 2: 15}),
    (DECIMAL % 2, '"AJw="', SchemaType.BYTES, Decimal("1.56")),
    (DECIMAL % 2, "1.56", SchemaType.BYTES, Decimal("1.56")),
    (DECIMAL % 4, "1.5600", SchemaType.BYTES, Decimal("1.5600")),
    (DECIMAL % 17, "1.23456789123456789", SchemaType.BYTES, Decimal("1.23456789123456789")),
    (DECIMAL % 2 + ',"default":"AJw="', "null", SchemaType.BYTES, Decimal("1.56")),
    (DATE, "10000", SchemaType.INT32, datetime.date(1997, 5, 19)),
    (DATE + ',"default":0', "null", SchemaType.INT32, EPOCH.date()),
    (TIME, "14400000", SchemaType.INT32, datetime.time(4)),
    (TIME + ',"default":0', "null", SchemaType.INT32, MIDNIGHT),
    (TIMESTAMP, "4000000000", SchemaType.INT64, EPOCH + datetime.timedelta(milliseconds=4_000_000_000)),
    (TIMESTAMP + ',"default":42', "null", SchemaType.INT64, EPOCH + datetime.timedelta(milliseconds=42)),
]


def converter(**config: Any) -> JsonConverter:
    made = JsonConverter()
    made.configure({name.replace("_", "."): value for name, value in config.items()}, is_key=False)
    return made


@pytest.mark.parametrize(("schema", "payload", "type", "value"), CASES)
def test_a_payload_is_read_by_its_schema(schema: str, payload: str, type: SchemaType, value: Any) -> None:
    for optional in ("", ',"optional":true'):
        found, got = converter().to_connect_data("t", f'{{"schema":{{{schema}{optional}}},"payload":{payload}}}'.encode())
        assert found is not None
        assert (found.type, found.optional, got) == (type, bool(optional), value)
    if '"default"' not in schema:
        found, got = converter().to_connect_data("t", f'{{"schema":{{{schema},"optional":true}},"payload":null}}'.encode())
        assert (found is not None and found.optional, got) == (True, None)


@pytest.mark.parametrize(("schema", "payload", "type", "value"), [case for case in CASES if case[1] != "null" and "00" not in case[1][:2]])
def test_what_was_read_is_written(schema: str, payload: str, type: SchemaType, value: Any) -> None:
    del type, value
    numeric = converter(decimal_format="NUMERIC" if "Decimal" in schema and not payload.startswith('"') else "BASE64")
    written = numeric.from_connect_data("t", *numeric.to_connect_data("t", f'{{"schema":{{{schema}}},"payload":{payload}}}'.encode()))
    assert written is not None
    made = json.loads(written, parse_float=Decimal)
    wanted = json.loads(payload, parse_float=Decimal)
    assert made["payload"] == (pytest.approx(wanted) if "." in payload else wanted)
    assert json.loads(f"{{{schema}}}").items() <= {**made["schema"], **_inner(schema, made["schema"])}.items()


def _inner(schema: str, made: dict[str, Any]) -> dict[str, Any]:
    """The schemas inside, without what the writer adds: that they are not optional."""
    return {key: {"type": made[key]["type"]} for key in ("items", "keys", "values") if f'"{key}"' in schema}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (None, None),
        ('{"schema":null,"payload":null}', None),
        ('{"schema":null,"payload":true}', True),
        ('{"schema":null,"payload":12}', 12),
        ('{"schema":null,"payload":12.24}', 12.24),
        ('{"schema":null,"payload":"a string"}', "a string"),
        ('{"schema":null,"payload":[1,"2",3]}', [1, "2", 3]),
        ('{"schema":null,"payload":{"f1":1,"f2":2}}', {"f1": 1, "f2": 2}),
    ],
)
def test_a_schema_that_is_null_is_none(text: str | None, value: Any) -> None:
    assert tuple(converter().to_connect_data("t", None if text is None else text.encode())) == (None, value)


@pytest.mark.parametrize(
    "text", ["{}", '{"payload":1}', '{"schema":{"type":"int32"},"payload":1,"x":2}', "1", '{"schema":{"type":"nope"},"payload":1}']
)
def test_what_is_no_envelope_is_refused(text: str) -> None:
    with pytest.raises(DataException):
        converter().to_connect_data("t", text.encode())


def test_a_value_of_another_schema_is_refused() -> None:
    with pytest.raises(DataException):
        converter().from_connect_data("t", Schema(SchemaType.FLOAT64), True)


@pytest.mark.parametrize(("text", "value"), [("", None), ('{"a":"","b":null}', {"a": "", "b": None}), ("0012", 12)])
def test_without_schemas_json_is_itself(text: str, value: Any) -> None:
    assert tuple(converter(schemas_enable=False).to_connect_data("t", text.encode())) == (None, value)
