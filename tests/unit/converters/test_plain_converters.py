"""StringConverter, ByteArrayConverter and the converters of numbers, against the bytes that Kafka Connect writes and its texts."""

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.converters.plain import (
    BooleanConverter,
    ByteArrayConverter,
    DataConverter,
    DoubleConverter,
    FloatConverter,
    IntegerConverter,
    LongConverter,
    ShortConverter,
    StringConverter,
)
from airflow_provider_connect.data.columns import column_of
from airflow_provider_connect.data.schema import (
    BOOLEAN_SCHEMA,
    BYTES_SCHEMA,
    DATE_SCHEMA,
    FLOAT32_SCHEMA,
    FLOAT64_SCHEMA,
    INT8_SCHEMA,
    INT16_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    STRING_SCHEMA,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    Schema,
    Struct,
    decimal_schema,
)
from airflow_provider_connect.errors import ConfigException, DataException


def configured(cls: type[DataConverter], **settings: str) -> DataConverter:
    converter = cls()
    converter.configure({key.replace("_", "."): value for key, value in settings.items()}, is_key=False)
    return converter


NUMBERS: list[tuple[type[DataConverter], Schema, Any, bytes]] = [
    (ShortConverter, INT16_SCHEMA, -2, b"\xff\xfe"),
    (ShortConverter, INT16_SCHEMA, 258, b"\x01\x02"),
    (IntegerConverter, INT32_SCHEMA, 16909060, b"\x01\x02\x03\x04"),
    (IntegerConverter, INT32_SCHEMA, -(2**31), b"\x80\x00\x00\x00"),
    (LongConverter, INT64_SCHEMA, 2**63 - 1, b"\x7f\xff\xff\xff\xff\xff\xff\xff"),
    (LongConverter, INT64_SCHEMA, -1, b"\xff" * 8),
    (FloatConverter, FLOAT32_SCHEMA, 1.5, b"\x3f\xc0\x00\x00"),
    (DoubleConverter, FLOAT64_SCHEMA, -0.5, b"\xbf\xe0\x00\x00\x00\x00\x00\x00"),
    (BooleanConverter, BOOLEAN_SCHEMA, True, b"\x01"),
    (BooleanConverter, BOOLEAN_SCHEMA, False, b"\x00"),
]


@pytest.mark.parametrize(("cls", "schema", "value", "data"), NUMBERS)
def test_numbers_have_a_fixed_width_and_are_big_endian(cls: type[DataConverter], schema: Schema, value: Any, data: bytes) -> None:
    converter = configured(cls)
    assert converter.from_connect_data("t", schema, value) == data
    assert converter.from_connect_data("t", None, value) == data
    assert tuple(converter.to_connect_data("t", data)) == (schema.as_optional(), value)
    column = converter.from_connect_column("t", schema.as_optional(), column_of([None, value, None, value], schema).slice(1))
    assert column.to_pylist() == [data, None, data]
    [run] = converter.to_connect_column("t", pa.array([b"x", data, None, data], pa.binary()).slice(1))
    assert (run.schema, run.column.to_pylist()) == (schema.as_optional(), [value, None, value])


@pytest.mark.parametrize(
    ("cls", "text"),
    [
        (ShortConverter, "Failed to deserialize short: Size of data received by ShortDeserializer is not 2"),
        (IntegerConverter, "Failed to deserialize integer: Size of data received by IntegerDeserializer is not 4"),
        (LongConverter, "Failed to deserialize long: Size of data received by LongDeserializer is not 8"),
        (FloatConverter, "Failed to deserialize float: Size of data received by Deserializer is not 4"),
        (DoubleConverter, "Failed to deserialize double: Size of data received by Deserializer is not 8"),
        (BooleanConverter, "Failed to deserialize boolean: Size of data received by BooleanDeserializer is not 1"),
    ],
)
def test_wrong_length_is_refused(cls: type[DataConverter], text: str) -> None:
    for data in (b"", b"123"):
        with pytest.raises(DataException) as raised:
            configured(cls).to_connect_data("t", data)
        assert str(raised.value) == text


def test_other_byte_than_0_and_1_is_no_boolean() -> None:
    with pytest.raises(DataException, match=r"Unexpected byte received by BooleanDeserializer: -1"):
        configured(BooleanConverter).to_connect_data("t", b"\xff")


@pytest.mark.parametrize(
    ("cls", "schema", "value"),
    [
        (IntegerConverter, INT64_SCHEMA, 1),
        (IntegerConverter, STRING_SCHEMA, "1"),
        (IntegerConverter, None, 2**31),
        (IntegerConverter, None, 1.5),
        (IntegerConverter, DATE_SCHEMA, datetime.date(2020, 1, 1)),
        (LongConverter, None, True),
        (DoubleConverter, None, 1),
        (BooleanConverter, INT8_SCHEMA, 1),
        (BooleanConverter, None, 1),
        (ByteArrayConverter, STRING_SCHEMA, "x"),
        (ByteArrayConverter, None, "x"),
    ],
)
def test_what_is_not_of_the_type_is_refused(cls: type[DataConverter], schema: Schema | None, value: Any) -> None:
    with pytest.raises(DataException):
        configured(cls).from_connect_data("t", schema, value)


def test_bytes_go_through_uncopied() -> None:
    converter = configured(ByteArrayConverter)
    column = pa.array([b"a", None, b"\xff"])
    [run] = converter.to_connect_column("t", column)
    assert (run.schema, run.column) == (BYTES_SCHEMA.as_optional(), column)
    assert converter.from_connect_column("t", BYTES_SCHEMA.as_optional(), column).buffers()[2].address == column.buffers()[2].address
    with pytest.raises(DataException, match="Invalid schema type for ByteArrayConverter: STRING"):
        converter.from_connect_column("t", STRING_SCHEMA, pa.array(["a"]))


PLACE = Schema.struct({"x": INT32_SCHEMA, "y": STRING_SCHEMA.as_optional()})
JAVA_TEXTS: list[tuple[Schema | None, Any, str]] = [
    (STRING_SCHEMA, "é😀", "é😀"),
    (INT32_SCHEMA, -5, "-5"),
    (BOOLEAN_SCHEMA, True, "true"),
    (FLOAT64_SCHEMA, 1e10, "1.0E10"),
    (FLOAT64_SCHEMA, 100.0, "100.0"),
    (FLOAT32_SCHEMA, 0.10000000149011612, "0.1"),
    (BYTES_SCHEMA, b"caf\xc3\xa9", "café"),
    (decimal_schema(2), Decimal("1.20"), "1.20"),
    (DATE_SCHEMA, datetime.date(2020, 1, 1), "Wed Jan 01 00:00:00 UTC 2020"),
    (TIME_SCHEMA, datetime.time(12, 30), "Thu Jan 01 12:30:00 UTC 1970"),
    (TIMESTAMP_SCHEMA, datetime.datetime(2020, 1, 1, 12, 30, tzinfo=datetime.UTC), "Wed Jan 01 12:30:00 UTC 2020"),
    (Schema.array(FLOAT32_SCHEMA), [1.5, 2.0], "[1.5, 2.0]"),
    (Schema.map(STRING_SCHEMA, INT32_SCHEMA), {"a": 1, "b": 2}, "{a=1, b=2}"),
    (PLACE, Struct(PLACE, {"x": 1}), "Struct{x=1}"),
    (PLACE, Struct(PLACE, {"x": 1, "y": "z"}), "Struct{x=1,y=z}"),
    (None, {"a": [1, None, True, 2.5]}, "{a=[1, null, true, 2.5]}"),
    (None, "x", "x"),
    (None, 7, "7"),
]


@pytest.mark.parametrize(("schema", "value", "text"), JAVA_TEXTS)
def test_text_of_a_value_is_javas(schema: Schema | None, value: Any, text: str) -> None:
    converter = configured(StringConverter)
    assert converter.from_connect_data("t", schema, value) == text.encode()
    column = converter.from_connect_column("t", schema, column_of([None, value, None, value], schema).slice(1))
    assert column.to_pylist() == [text.encode(), None, text.encode()]


def test_utf8_text_is_not_copied() -> None:
    converter = configured(StringConverter)
    column = pa.array(["a", None, "é"])
    data = converter.from_connect_column("t", STRING_SCHEMA, column)
    assert data.type == pa.binary()
    assert data.buffers()[2].address == column.buffers()[2].address
    [run] = converter.to_connect_column("t", data)
    assert run.schema == STRING_SCHEMA.as_optional()
    assert run.column.buffers()[2].address == column.buffers()[2].address


@pytest.mark.parametrize(
    ("data", "text"),  # what Java's new String(bytes, UTF_8) made of them
    [
        (b"a\x80b", "a\ufffdb"),
        (b"\xed\xa0\x80x", "\ufffdx"),
        (b"\xed\xa0", "\ufffd"),
        (b"\xc0\xaf", "\ufffd\ufffd"),
        (b"\xf0\x90\x80", "\ufffd"),
        (b"\xe2\x82", "\ufffd"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"ok", "ok"),
    ],
)
def test_malformed_text_is_read_as_java_reads_it(data: bytes, text: str) -> None:
    converter = configured(StringConverter)
    assert converter.to_connect_data("t", data).value == text
    [run] = converter.to_connect_column("t", pa.array([data, b"x", None]))
    assert run.column.to_pylist() == [text, "x", None]


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        ("ISO-8859-1", b"\xe9?"),
        ("US-ASCII", b"??"),
        ("UTF-16", b"\xfe\xff\x00\xe9\x20\xac"),
        ("UTF-16LE", b"\xe9\x00\xac\x20"),
        ("windows-1252", b"\xe9\x80"),
    ],
)
def test_other_encodings(encoding: str, data: bytes) -> None:
    converter = configured(StringConverter, converter_encoding=encoding)
    assert converter.from_connect_data("t", STRING_SCHEMA, "é€") == data
    assert converter.from_connect_column("t", STRING_SCHEMA, pa.array(["é€", None])).to_pylist() == [data, None]
    if b"?" not in data:
        assert converter.to_connect_data("t", data).value == "é€"


def test_unknown_encoding_is_named() -> None:
    with pytest.raises(ConfigException, match=r"Invalid value nope for configuration converter\.encoding"):
        configured(StringConverter, converter_encoding="nope")


def test_headers_are_converted_as_values_are() -> None:
    converter = LongConverter()
    converter.configure({})
    assert converter.from_connect_header("t", "h", INT64_SCHEMA, 1) == b"\x00" * 7 + b"\x01"
    assert converter.to_connect_header("t", "h", b"\x00" * 7 + b"\x01").value == 1
