"""Whatever has a schema goes through Arrow and comes back as it was: schemas, defaults, values, records."""

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_connect.data.arrow_schema import arrow_field, arrow_type, schema_of
from airflow_provider_connect.data.columns import column_of, values_of
from airflow_provider_connect.data.records import Headers, SinkRecord, SourceRecord
from airflow_provider_connect.data.schema import (
    DATE,
    DATE_SCHEMA,
    DECIMAL,
    TIME,
    TIME_SCHEMA,
    TIMESTAMP,
    TIMESTAMP_SCHEMA,
    Schema,
    SchemaType,
    Struct,
    decimal_schema,
    validate_value,
)
from airflow_provider_connect.sdk.batch import Batch

tried = settings(deadline=None, derandomize=True, max_examples=50)  # a shared machine; the same examples in every run

SCALARS = [SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64, SchemaType.FLOAT32, SchemaType.FLOAT64,
           SchemaType.BOOLEAN, SchemaType.STRING, SchemaType.BYTES]  # fmt: skip
BITS = {SchemaType.INT8: 8, SchemaType.INT16: 16, SchemaType.INT32: 32, SchemaType.INT64: 64}
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def milliseconds(instant: datetime.datetime) -> datetime.datetime:
    return instant.replace(microsecond=instant.microsecond // 1000 * 1000)


def named() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {},
        optional={
            "name": TEXT.map(lambda text: f"n.{text}"),
            "version": st.integers(0, 9),
            "doc": TEXT,
            "parameters": st.dictionaries(TEXT, TEXT, max_size=2),
        },
    )


def scalars() -> st.SearchStrategy[Schema]:
    plain = st.builds(lambda type, rest: Schema(type, **rest), st.sampled_from(SCALARS), named())
    logical = st.sampled_from([DATE_SCHEMA, TIME_SCHEMA, TIMESTAMP_SCHEMA, decimal_schema(0), decimal_schema(4)])
    wide = st.just(decimal_schema(10, parameters={"scale": "10", "connect.decimal.precision": "60"}))
    return st.one_of(plain, logical, wide)


def nested(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    member = st.builds(lambda schema, optional: schema.as_optional() if optional else schema, inner, st.booleans())
    keys = st.builds(Schema, st.sampled_from([SchemaType.STRING, SchemaType.INT32, SchemaType.BOOLEAN]))
    return st.one_of(
        st.builds(lambda value, rest: Schema.array(value, **rest), member, named()),
        st.builds(lambda key, value, rest: Schema.map(key, value, **rest), keys, member, named()),
        st.builds(lambda fields, rest: Schema.struct(fields, **rest), st.dictionaries(TEXT.filter(bool), member, max_size=3), named()),
    )


def schemas() -> st.SearchStrategy[Schema]:
    whole = st.recursive(scalars(), nested, max_leaves=5)
    return st.builds(lambda schema, optional: schema.as_optional() if optional else schema, whole, st.booleans())


def values(schema: Schema) -> st.SearchStrategy[Any]:
    present = _present(schema)
    return st.one_of(st.none(), present) if schema.optional else present


def _decimals(schema: Schema) -> st.SearchStrategy[Decimal]:
    digits = int((schema.parameters or {}).get("connect.decimal.precision", 38))
    limit = 10**digits - 1
    return st.integers(-limit, limit).map(lambda unscaled: Decimal(f"{unscaled}E-{schema.scale}"))


def _present(schema: Schema) -> st.SearchStrategy[Any]:
    logical: dict[str | None, Callable[[], st.SearchStrategy[Any]]] = {
        DECIMAL: lambda: _decimals(schema),
        DATE: st.dates,
        TIME: lambda: st.times().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)),
        TIMESTAMP: lambda: st.datetimes(timezones=st.just(datetime.UTC)).map(milliseconds),
    }
    if schema.logical_name is not None:
        return logical[schema.logical_name]()
    if schema.type in BITS:
        limit = 1 << (BITS[schema.type] - 1)
        return st.integers(-limit, limit - 1)
    if schema.type is SchemaType.STRUCT:
        fields = {field.name: values(field.schema) for field in schema.fields}
        return st.fixed_dictionaries(fields).map(lambda given: Struct(schema, given))
    if schema.value_schema is not None and schema.key_schema is not None:
        return st.dictionaries(values(schema.key_schema), values(schema.value_schema), max_size=3)
    if schema.value_schema is not None:
        return st.lists(values(schema.value_schema), max_size=3)
    plain: dict[SchemaType, st.SearchStrategy[Any]] = {
        SchemaType.FLOAT32: st.floats(width=32, allow_nan=False),
        SchemaType.FLOAT64: st.floats(allow_nan=False),
        SchemaType.BOOLEAN: st.booleans(),
        SchemaType.STRING: TEXT,
        SchemaType.BYTES: st.binary(max_size=8),
    }
    return plain[schema.type]


def with_default(schema: Schema) -> st.SearchStrategy[Schema]:
    return _present(schema).map(schema.with_default)


@tried
@given(schemas())
def test_schema_survives_its_arrow_field(schema: Schema) -> None:
    field = arrow_field("f", schema)
    assert schema_of(field) == schema
    assert field.nullable == schema.optional
    assert hash(schema_of(field)) == hash(schema)


@tried
@given(scalars().flatmap(with_default) | nested(scalars()).flatmap(with_default))
def test_default_survives_its_arrow_field(schema: Schema) -> None:
    found = schema_of(arrow_field("f", schema))
    assert found == schema
    assert type(found.default) is type(schema.default)


@tried
@given(st.data())
def test_values_survive_their_column(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    given_values = data.draw(st.lists(values(schema), max_size=5))
    for value in given_values:
        validate_value(schema, value)
    column = column_of(given_values, schema)
    assert column.type == arrow_type(schema)
    found = values_of(column, schema)
    assert found == given_values
    assert [type(value) for value in found] == [type(value) for value in given_values]
    assert values_of(column.slice(1), schema) == given_values[1:]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)


@tried
@given(st.lists(json_values, max_size=5))
def test_schemaless_values_survive_their_column(given_values: list[Any]) -> None:
    found = values_of(column_of(given_values, None), None)
    assert found == given_values
    assert [type(value) for value in found] == [type(value) for value in given_values]


@tried
@given(st.data())
def test_records_survive_their_batches(data: st.DataObject) -> None:
    schema_choice = st.sampled_from([None, data.draw(schemas()), data.draw(schemas())])
    records = []
    for number in range(data.draw(st.integers(0, 6))):
        schema = data.draw(schema_choice)
        value = data.draw(json_values if schema is None else values(schema))
        headers = Headers().add("h", b"1").add("h", None) if data.draw(st.booleans()) else Headers()
        source_offset = data.draw(st.sampled_from([{"n": number}, None]))
        timestamp = data.draw(st.none() | st.integers(0, 2**40))
        partition = data.draw(st.sampled_from([{"p": 1}, {"p": 2}]))
        topic = data.draw(st.sampled_from(["a", "b"]))
        records.append(SourceRecord(partition, source_offset, topic, value, value_schema=schema, timestamp=timestamp, headers=headers))
    batches = Batch.from_source_records(records)
    found = [record for batch in batches for record in batch.source_records()]
    assert _plain(found) == _plain(records)
    sunk = [
        SinkRecord(r.topic, 3, 10 + n, r.value, r.value, r.value_schema, r.value_schema, r.timestamp, headers=r.headers)
        for n, r in enumerate(records)
    ]
    found_in_sink = [record for batch in Batch.from_sink_records(sunk) for record in batch.sink_records()]
    assert _plain(found_in_sink) == _plain(sunk)


def _plain(records: list[Any]) -> list[Any]:
    """Records with headers as bytes: a header's schema is the converter's affair."""
    return [(record.replace(headers=Headers()), [(header.key, header.value) for header in record.headers]) for record in records]
