"""The cases of Apache's tests of the converters of numbers, booleans, bytes and text, and of SimpleHeaderConverter."""

from typing import Any

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
    SimpleHeaderConverter,
    StringConverter,
)
from airflow_provider_connect.data.schema import (
    BOOLEAN_SCHEMA,
    BYTES_SCHEMA,
    FLOAT32_SCHEMA,
    FLOAT64_SCHEMA,
    INT16_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    STRING_SCHEMA,
    Schema,
)
from airflow_provider_connect.errors import DataException

LARGEST_FLOAT, SMALLEST_FLOAT = float.fromhex("0x1.fffffep127"), 2.0**-149
SAMPLES: list[tuple[type[DataConverter], Schema, list[Any]]] = [
    (ShortConverter, INT16_SCHEMA, [-(2**15), 123, 2**15 - 1]),
    (IntegerConverter, INT32_SCHEMA, [-(2**31), 1234, 2**31 - 1]),
    (LongConverter, INT64_SCHEMA, [-(2**63), 12345, 2**63 - 1]),
    (FloatConverter, FLOAT32_SCHEMA, [SMALLEST_FLOAT, 1234.31005859375, LARGEST_FLOAT]),
    (DoubleConverter, FLOAT64_SCHEMA, [5e-324, 12345.31, 1.7976931348623157e308]),
    (BooleanConverter, BOOLEAN_SCHEMA, [True, False]),
    (ByteArrayConverter, BYTES_SCHEMA, [b"sample", b""]),
    (StringConverter, STRING_SCHEMA, ["a string", ""]),
]


def configured(cls: type[DataConverter], **settings: str) -> DataConverter:
    converter = cls()
    converter.configure({key.replace("_", "."): value for key, value in settings.items()}, is_key=True)
    return converter


@pytest.mark.parametrize(("cls", "schema", "values"), SAMPLES)
def test_values_and_null_come_back(cls: type[DataConverter], schema: Schema, values: list[Any]) -> None:
    converter = configured(cls)
    for value in [*values, None]:
        for given in (schema, schema.as_optional(), None):
            data = converter.from_connect_data("t", given, value)
            assert (data is None) is (value is None)
            assert converter.from_connect_header("t", "h", given, value) == data
            assert tuple(converter.to_connect_data("t", data)) == (schema.as_optional(), value)
            assert tuple(converter.to_connect_header("t", "h", data)) == (schema.as_optional(), value)


@pytest.mark.parametrize(("cls", "schema", "values"), SAMPLES[:6])
def test_what_is_no_number_or_boolean_is_refused(cls: type[DataConverter], schema: Schema, values: list[Any]) -> None:
    converter = configured(cls)
    for convert in (converter.to_connect_data, lambda topic, data: converter.to_connect_header(topic, "h", data)):
        with pytest.raises(DataException):
            convert("t", bytes(10))
    with pytest.raises(DataException):
        converter.from_connect_data("t", schema, "not valid")
    with pytest.raises(DataException):
        converter.from_connect_header("t", "h", schema, "not valid")
    with pytest.raises(DataException):
        converter.from_connect_data("t", STRING_SCHEMA, values[0])


def test_bytes_are_bytes_alone() -> None:
    converter = configured(ByteArrayConverter)
    assert converter.from_connect_data("t", BYTES_SCHEMA, memoryview(b"sample")) == b"sample"
    for schema, value in ((INT32_SCHEMA, b"sample"), (BYTES_SCHEMA, 12)):
        with pytest.raises(DataException):
            converter.from_connect_data("t", schema, value)


@pytest.mark.parametrize("schema", [BOOLEAN_SCHEMA, None])
def test_text_is_of_any_value(schema: Schema | None) -> None:
    assert configured(StringConverter).from_connect_data("t", schema, True) == b"true"
    assert configured(StringConverter).from_connect_header("t", "h", schema, True) == b"true"
    utf_16 = configured(StringConverter, converter_encoding="UTF-16")
    assert utf_16.to_connect_data("t", utf_16.from_connect_data("t", STRING_SCHEMA, "a string")).value == "a string"


SHORTS, INTS = {"foo": 12345, "bar": 0, "baz": -4321}, {"foo": 1234567890, "bar": 0, "baz": -987654321}
WORDS = {"foo": "123", "bar": "baz"}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (STRING_SCHEMA, "simple"),
        (STRING_SCHEMA, ""),
        (STRING_SCHEMA, 'three"blind\\"mice'),
        (STRING_SCHEMA, "string with delimiters: <>?,./\\=+-!@#$%^&*(){}[]|;':"),
        (Schema.map(STRING_SCHEMA, STRING_SCHEMA), WORDS),
        (Schema.map(STRING_SCHEMA, INT16_SCHEMA), SHORTS),
        (Schema.map(STRING_SCHEMA, INT32_SCHEMA), INTS),
        (Schema.array(STRING_SCHEMA), ["foo", "bar"]),
        (Schema.array(INT32_SCHEMA), [1234567890, -987654321]),
        (None, {"foo": "bar", "baz": 3456}),
        (None, ["foo", 13344]),
        (None, {}),
        (None, []),
    ],
)
def test_headers_come_back_by_their_text(schema: Schema | None, value: Any) -> None:
    converter = SimpleHeaderConverter()
    data = converter.from_connect_header("t", "h", schema, value)
    assert tuple(converter.to_connect_header("t", "h", data)) == (schema, value)


@pytest.mark.parametrize(
    ("text", "inner", "value"),
    [
        ('{"foo":"123","bar":"baz"}', STRING_SCHEMA, WORDS),
        ('{ "foo" : "123", \n"bar" : "baz" } ', STRING_SCHEMA, WORDS),
        ('{"foo":12345,"bar":0,"baz":-4321}', INT16_SCHEMA, SHORTS),
        (' { "foo" :  12345 , "bar" : 0,  "baz" : -4321 }  ', INT16_SCHEMA, SHORTS),
        ('{"foo":1234567890,"bar":0,"baz":-987654321}', INT32_SCHEMA, INTS),
        (' { "foo" :  1234567890 , "bar" : 0,  "baz" : -987654321 }  ', INT32_SCHEMA, INTS),
    ],
)
def test_the_text_of_a_map_is_a_map(text: str, inner: Schema, value: dict[str, Any]) -> None:
    found = SimpleHeaderConverter().to_connect_header("t", "h", text.encode())
    assert tuple(found) == (Schema.map(STRING_SCHEMA, inner), value)
