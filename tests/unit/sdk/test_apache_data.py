"""The cases of Apache's connect/api tests of schemas, structs and headers that have no row in the tests of those modules."""

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from airflow_provider_connect.data.records import Header, Headers, SinkRecord, SourceRecord
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
    Field,
    Schema,
    SchemaType,
    Struct,
    decimal_schema,
    validate_value,
)
from airflow_provider_connect.errors import ConnectException, DataException, SchemaException

INTS = Schema.array(INT32_SCHEMA)
WORDS = Schema.map(INT32_SCHEMA, STRING_SCHEMA)
FLAT = Schema.struct({"field": INT32_SCHEMA})
WHOLE = Schema.struct({"first": INT32_SCHEMA, "second": STRING_SCHEMA, "array": INTS, "map": WORDS, "nested": FLAT})
WHOLES, FLOATS = [INT8_SCHEMA, INT16_SCHEMA, INT32_SCHEMA, INT64_SCHEMA], [FLOAT32_SCHEMA, FLOAT64_SCHEMA]
SCALARS = [*WHOLES, *FLOATS, BOOLEAN_SCHEMA, STRING_SCHEMA, BYTES_SCHEMA]
OPTIONAL_WORDS = Schema.map(STRING_SCHEMA.as_optional(), STRING_SCHEMA.as_optional())
OPTIONAL_LIST = Schema.array(STRING_SCHEMA.as_optional())
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        *((schema, value) for schema, value in zip(SCALARS, [1, 1, 1, 1, 1.0, 1.0, True, "a", b"a"], strict=True)),
        *((schema.as_optional(), None) for schema in SCALARS),
        (INTS, [1, 2, 3]),
        (INTS, []),
        (WORDS, {1: "value"}),
        (WORDS, {}),
        (OPTIONAL_LIST, ["a", None]),
        (OPTIONAL_LIST, [None, "b"]),
        (OPTIONAL_WORDS, {"key": None}),
        (OPTIONAL_WORDS, {None: "value"}),
        (OPTIONAL_WORDS, {None: None}),
        (WHOLE, Struct(WHOLE, {"first": 1, "second": "a", "array": [1], "map": {1: "a"}, "nested": {"field": 12}})),
        (Schema.struct({}), Struct(Schema.struct({}))),
        (decimal_schema(2), Decimal("1.56")),
        (DATE_SCHEMA, EPOCH.date()),
        (TIME_SCHEMA, datetime.time()),
        (TIMESTAMP_SCHEMA, EPOCH),
    ],
)
def test_values_of_the_schema_are_accepted(schema: Schema, value: Any) -> None:
    validate_value(schema, value)
    assert Headers().add("key", value, schema).last_with_name("key") == Header("key", value, schema)


MISFITS: list[tuple[Schema, Any]] = [
    *((schema, None) for schema in (*SCALARS, INTS, WORDS, Schema.struct({}))),
    (INT8_SCHEMA, 1.0),
    (INT16_SCHEMA, 1.0),
    (INT32_SCHEMA, 1.0),
    (INT64_SCHEMA, 1.0),
    (FLOAT32_SCHEMA, "1"),
    (FLOAT64_SCHEMA, "1"),
    (BOOLEAN_SCHEMA, 1.0),
    (BOOLEAN_SCHEMA, "wrong"),
    (STRING_SCHEMA, True),
    (STRING_SCHEMA.as_optional(), 0),
    (BYTES_SCHEMA, "oops"),
    (BYTES_SCHEMA, [1, "foo"]),
    (INTS, "value"),
    (INTS, ["a", "b"]),
    (INTS, [1, 2, "c"]),
    (WORDS, "value"),
    (WORDS, {"wrong": "value"}),
    (WORDS, {1: 2}),
    (WORDS, {1: "abc", "wrong": "abc"}),
    (WORDS, {1: "abc", 2: b"wrong"}),
    (Schema.array(STRING_SCHEMA), [None]),
    (Schema.array(STRING_SCHEMA), ["a", None]),
    (Schema.array(STRING_SCHEMA), [None, "b"]),
    (Schema.map(STRING_SCHEMA, STRING_SCHEMA), {"key": None}),
    (Schema.map(STRING_SCHEMA, STRING_SCHEMA), {None: "value"}),
    (FLAT, []),
    (FLAT, Struct(Schema.struct({"x": INT32_SCHEMA}), {"x": 1})),
    (WHOLE, Struct(WHOLE)),
    (decimal_schema(2), 156),
    (DATE_SCHEMA, 1000),
    (DATE_SCHEMA, EPOCH + datetime.timedelta(seconds=1)),
    (TIME_SCHEMA, 1000),
    (TIME_SCHEMA, EPOCH + datetime.timedelta(days=10_000)),
    (TIMESTAMP_SCHEMA, 1000),
]


@pytest.mark.parametrize(("schema", "value"), MISFITS)
def test_values_that_are_not_of_the_schema_are_refused(schema: Schema, value: Any) -> None:
    with pytest.raises(DataException):
        validate_value(schema, value)
    with pytest.raises(DataException):
        Headers().add("key", value, schema)
    if value is not None:
        with pytest.raises(SchemaException):
            schema.with_default(value)
    with pytest.raises(DataException):
        Struct(Schema.struct({"f": schema})).put("f", value)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Schema.struct({None: STRING_SCHEMA}), "name"),  # type: ignore[dict-item]
        (lambda: Schema.struct({"f": None}), "schema of field f"),  # type: ignore[dict-item]
        (lambda: Schema.array(None), "needs a value schema"),  # type: ignore[arg-type]
        (lambda: Schema.map(None, STRING_SCHEMA), "needs a key schema"),  # type: ignore[arg-type]
        (lambda: Schema.map(STRING_SCHEMA, None), "needs a value schema"),  # type: ignore[arg-type]
        (lambda: Schema(None), "type"),  # type: ignore[arg-type]
    ],
)
def test_a_schema_that_lacks_a_part_is_refused(make: Callable[[], Schema], text: str) -> None:
    with pytest.raises(SchemaException, match=text):
        make()


def test_schemas_differ_in_what_they_hold() -> None:
    assert Schema.array(INT8_SCHEMA) != Schema.array(INT16_SCHEMA)
    assert Schema.array(STRING_SCHEMA, default=["a"]) != Schema.array(STRING_SCHEMA, default=["b"])
    assert Schema.array(STRING_SCHEMA, default=["a"]) == Schema.array(STRING_SCHEMA, default=["a"])
    assert Schema.map(INT8_SCHEMA, INT16_SCHEMA) == Schema.map(INT8_SCHEMA, INT16_SCHEMA)
    assert Schema.map(INT8_SCHEMA, INT16_SCHEMA) not in (Schema.map(STRING_SCHEMA, INT16_SCHEMA), Schema.map(INT8_SCHEMA, STRING_SCHEMA))
    assert Schema.struct({"a": INT8_SCHEMA, "b": INT16_SCHEMA}) != Schema.struct({"a": INT8_SCHEMA, "c": INT16_SCHEMA})
    assert Field("n", 0, INT8_SCHEMA) == Field("n", 0, INT8_SCHEMA)
    assert Field("n", 0, INT8_SCHEMA) not in (Field("m", 0, INT8_SCHEMA), Field("n", 1, INT8_SCHEMA), Field("n", 0, INT16_SCHEMA))
    assert WHOLE.field("other") is None
    second = WHOLE.field("second")
    assert second is not None
    assert (second.index, second.schema) == (1, STRING_SCHEMA)


def test_structs_differ_in_values_and_schemas() -> None:
    def struct(text: str, data: bytes) -> Struct:
        return Struct(Schema.struct({"text": STRING_SCHEMA, "data": BYTES_SCHEMA}), {"text": text, "data": data})

    assert struct("a", b"a") == struct("a", b"a")
    assert struct("a", b"a") not in (struct("b", b"a"), struct("a", b"b"))
    assert Struct(Schema.struct({"f": INT8_SCHEMA.with_default(0)})).get("f") == 0
    assert Struct(FLAT).get("field") is None


def test_a_struct_needs_its_required_fields() -> None:
    fields = {"optional": INT8_SCHEMA.as_optional(), "default": INT8_SCHEMA.with_default(0)}
    Struct(Schema.struct(fields)).validate()
    with pytest.raises(DataException, match=r'^Invalid value: null used for required field: "one", schema type: STRING$'):
        Struct(Schema.struct({**fields, "one": STRING_SCHEMA, "two": STRING_SCHEMA})).validate()


def test_a_header_takes_its_schema_from_a_struct() -> None:
    struct = Struct(FLAT, {"field": 100})
    for headers in (Headers().add("h", struct), Headers().add("h", {"field": 100}, FLAT)):
        assert headers.last_with_name("h") == Header("h", struct, FLAT)
    assert list(Headers().add("h", None).add("h", "text")) == [Header("h"), Header("h", "text")]


def populated() -> Headers:
    headers = Headers().add("k1", True, BOOLEAN_SCHEMA).add("k1", 0, INT32_SCHEMA).add("other", "value", STRING_SCHEMA)
    return headers.add("k1", None, STRING_SCHEMA.as_optional()).add("k1", "third", STRING_SCHEMA)


def without_texts(header: Header) -> Header | None:
    return None if header.schema is not None and header.schema.type is SchemaType.STRING else header


def with_suffix(header: Header) -> Header:
    return Header(header.key + "-suffix", header.value, header.schema)


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (lambda headers: headers.retain_latest("other"), ["True", "0", "value", "None", "third"]),
        (lambda headers: headers.retain_latest("k1"), ["value", "third"]),
        (lambda headers: headers.retain_latest(), ["value", "third"]),
        (lambda headers: headers.remove("k1"), ["value"]),
        (lambda headers: headers.clear(), []),
        (lambda headers: headers.apply(without_texts, "k1"), ["True", "0", "value"]),
        (lambda headers: headers.apply(without_texts), ["True", "0"]),
    ],
)
def test_headers_of_a_key_are_kept_changed_and_removed(change: Callable[[Headers], Headers], left: list[str]) -> None:
    headers = populated()
    assert headers == headers.duplicate() == populated()
    assert headers.duplicate() is not headers
    assert [str(header.value) for header in change(headers)] == left
    assert (headers == populated()) is (len(left) == 5)
    assert not list(change(Headers()))


def test_headers_are_renamed_where_their_keys_match() -> None:
    headers = populated().apply(with_suffix, "k1")
    assert [header.key for header in headers] == ["k1-suffix", "k1-suffix", "other", "k1-suffix", "k1-suffix"]
    assert not headers.all_with_name("k1")
    assert [header.key for header in headers.apply(with_suffix) if header.key.startswith("other")] == ["other-suffix"]


def test_records_keep_their_position_and_their_own_headers() -> None:
    sink = SinkRecord("t", 0, 7, "key", False, STRING_SCHEMA, BOOLEAN_SCHEMA, timestamp=0)
    source = SourceRecord({"p": "1"}, {"o": 1}, "t", False, "key", key_schema=STRING_SCHEMA, value_schema=BOOLEAN_SCHEMA, timestamp=0)
    for record in (sink, source):
        copy = record.replace(topic="u", kafka_partition=3)
        assert (copy.topic, copy.kafka_partition, copy.key, copy.value, copy.timestamp) == ("u", 3, "key", False, 0)
        copy.headers.add("h", 100, INT32_SCHEMA)
        assert (len(record.headers), len(copy.headers)) == (0, 1)
        headers = Headers().add("h3", "v", STRING_SCHEMA)
        assert record.replace(headers=headers).headers is headers
    moved = sink.replace(topic="u", kafka_partition=3).replace(topic="v")
    assert (moved.topic, moved.kafka_offset, moved.topic_partition) == ("v", 7, ("t", 0))
    with pytest.raises(ConnectException):
        SourceRecord(None, {"o": 1}, "t")
