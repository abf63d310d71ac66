"""The cases of Apache's ValuesTest: the type and the value that a text has, as SimpleHeaderConverter reads it."""

import datetime
from decimal import Decimal
from typing import Any

import pytest

from airflow_provider_connect.converters.plain import SimpleHeaderConverter
from airflow_provider_connect.data.schema import (
    BOOLEAN_SCHEMA,
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
    decimal_schema,
)

HEADERS = SimpleHeaderConverter()
AT = datetime.datetime(2019, 8, 23, 14, 34, 54, 346000, datetime.UTC)
DAY, TIME = AT.date(), datetime.time(14, 34, 54, 346000)
BIG = Decimal(2**63)

PLAIN: list[tuple[str, Schema | None, Any]] = [
    ("127", INT8_SCHEMA, 127),
    ("-128", INT8_SCHEMA, -128),
    ("32767", INT16_SCHEMA, 32767),
    ("-32768", INT16_SCHEMA, -32768),
    ("2147483647", INT32_SCHEMA, 2**31 - 1),
    ("-2147483648", INT32_SCHEMA, -(2**31)),
    ("9223372036854775807", INT64_SCHEMA, 2**63 - 1),
    ("-9223372036854775808", INT64_SCHEMA, -(2**63)),
    ("9223372036854775808", decimal_schema(0), BIG),
    ("-9223372036854775809", decimal_schema(0), -BIG - 1),
    ("1.0", INT8_SCHEMA, 1),
    ("300.0", INT16_SCHEMA, 300),
    ("66000.0", INT32_SCHEMA, 66000),
    ("1.1", FLOAT32_SCHEMA, pytest.approx(1.1, rel=1e-7)),
    ("300.01", FLOAT32_SCHEMA, pytest.approx(300.01, rel=1e-7)),
    ("66000.0008", FLOAT32_SCHEMA, pytest.approx(66000.0008, rel=1e-7)),
    ("3.4028235E38", FLOAT32_SCHEMA, pytest.approx(3.4028235e38, rel=1e-7)),
    ("-3.4028235E38", FLOAT32_SCHEMA, pytest.approx(-3.4028235e38, rel=1e-7)),
    ("1.7976931348623157E308", FLOAT64_SCHEMA, 1.7976931348623157e308),
    ("-1.7976931348623157E308", FLOAT64_SCHEMA, -1.7976931348623157e308),
    (" \n\t true \n ", BOOLEAN_SCHEMA, True),
    (" \n\t false \n ", BOOLEAN_SCHEMA, False),
    (" \n\t null \n ", None, None),
    ("null", None, None),
    ("2019-08-23", DATE_SCHEMA, DAY),
    ("14:34:54.346Z", TIME_SCHEMA, TIME),
    (r"14\:34\:54.346Z", TIME_SCHEMA, TIME),
    ("2019-08-23T14:34:54.346Z", TIMESTAMP_SCHEMA, AT),
    (r"2019-08-23T14\:34\:54.346Z", TIMESTAMP_SCHEMA, AT),
]
TEXTS = [
    "",
    "simple",
    "null=",
    "true}",
    "false]",
    "{6:9 4:20}",
    "[0 1 2]",
    "{null: 3}",
    "[1, 2, 3,,,]",
    "[1, null]",
    "[null, 1]",
    'three"blind\\"mice',
    "string with delimiters: <>?,./\\=+-!@#$%^&*(){}[]|;':",
]
COLLECTIONS: list[tuple[str, Schema | None, Any]] = [
    ("[true, false]", Schema.array(BOOLEAN_SCHEMA), [True, False]),
    ("{true: false, false: true}", Schema.map(BOOLEAN_SCHEMA, BOOLEAN_SCHEMA), {True: False, False: True}),
    ('{"foo":"123","bar":"baz"}', Schema.map(STRING_SCHEMA, STRING_SCHEMA), {"foo": "123", "bar": "baz"}),
    ('{ "foo" : "123", \n"bar" : "baz" } ', Schema.map(STRING_SCHEMA, STRING_SCHEMA), {"foo": "123", "bar": "baz"}),
    (' { "foo" :  12345 , "bar" : 0,  "baz" : -4321 }  ', Schema.map(STRING_SCHEMA, INT16_SCHEMA), {"foo": 12345, "bar": 0, "baz": -4321}),
    ('{"foo":1234567890,"bar":0}', Schema.map(STRING_SCHEMA, INT32_SCHEMA), {"foo": 1234567890, "bar": 0}),
    ("[1, 2, 32768]", Schema.array(INT32_SCHEMA), [1, 2, 32768]),
    ("[1, 2, 1.7976931348623157E308]", Schema.array(FLOAT64_SCHEMA), [1.0, 2.0, 1.7976931348623157e308]),
    ("[2019-08-23]", Schema.array(DATE_SCHEMA), [DAY]),
    ("[14:34:54.346Z]", Schema.array(TIME_SCHEMA), [TIME]),
    ("[2019-08-23T14:34:54.346Z,   2019-08-23T14:34:54.346Z]", Schema.array(TIMESTAMP_SCHEMA), [AT, AT]),
    ('{"k1":"14:34:54.346Z"}', Schema.map(STRING_SCHEMA, TIME_SCHEMA), {"k1": TIME}),
    ('{"k1":14:34:54.346Z}', Schema.map(STRING_SCHEMA, TIME_SCHEMA), {"k1": TIME}),
    ("[9223372036854775808, -9223372036854775809]", Schema.array(decimal_schema(0)), [BIG, -BIG - 1]),
    # without a type in common, or of none: Java's schemas have no type for the elements, which here is data without a schema
    ("{}", None, {}),
    ("[]", None, []),
    ("[[]]", None, [[]]),
    ("[{}]", None, [{}]),
    ('{"a":{}}', None, {"a": {}}),
    ('{"a":[]}', None, {"a": []}),
    ("{3: null}", None, {3: None}),
    ("[null]", None, [None]),
    ('[2, 300, "four", 1]', None, [2, 300, "four", 1]),
    ('{300:300, "four":1, 1:1, 2:1}', None, {300: 300, "four": 1, 1: 1, 2: 1}),
    ('{4:"four", 1:1, 2:1, 300:300}', None, {4: "four", 1: 1, 2: 1, 300: 300}),
    ('["1.0", 9223372036854775808, 1]', None, ["1.0", BIG, 1]),
]


@pytest.mark.parametrize(("text", "schema", "value"), [*PLAIN, *((text, STRING_SCHEMA, text) for text in TEXTS), *COLLECTIONS])
def test_a_text_has_a_type_and_a_value(text: str, schema: Schema | None, value: Any) -> None:
    assert tuple(HEADERS.to_connect_header("t", "h", text.encode())) == (schema, value)
