"""A batch becomes what its records become one by one, whatever the values: the columns against the rules for one value."""

import datetime
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_connect.converters.plain import SimpleHeaderConverter
from airflow_provider_connect.data.columns import column_of, values_of
from airflow_provider_connect.data.records import SourceRecord
from airflow_provider_connect.data.schema import DATE_SCHEMA, TIME_SCHEMA, TIMESTAMP_SCHEMA, Schema, SchemaType, Struct, decimal_schema
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.transformations import Transformation
from airflow_provider_connect.transforms.cast import CastValue, cast_column
from airflow_provider_connect.transforms.cast_values import OUTPUTS, cast_value
from airflow_provider_connect.transforms.fields import InsertFieldValue, MaskFieldValue, ReplaceFieldValue
from airflow_provider_connect.transforms.headers import DropHeaders, HeaderFromValue, InsertHeader
from airflow_provider_connect.transforms.routing import TimestampRouter
from airflow_provider_connect.transforms.simple_date_format import SimpleDateFormat, SimpleDateParser
from airflow_provider_connect.transforms.structs import ExtractFieldValue, FlattenValue, HoistFieldValue, SetSchemaMetadataValue, ValueToKey
from airflow_provider_connect.transforms.timestamp_converter import TimestampConverterValue

tried = settings(deadline=None, derandomize=True, max_examples=40)  # a shared machine; the same examples in every run

BITS = {SchemaType.INT8: 8, SchemaType.INT16: 16, SchemaType.INT32: 32, SchemaType.INT64: 64}
TIMESTAMPS = st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1)).map(
    lambda instant: instant.replace(microsecond=instant.microsecond // 1000 * 1000, tzinfo=datetime.UTC)
)
TEXTS = st.one_of(st.sampled_from(["7", "-12", "1.5", "x", "", "true", "300", "1e3"]), st.text(st.characters(codec="utf-8"), max_size=5))
SCALARS: dict[Schema, st.SearchStrategy[Any]] = {
    **{Schema(type): st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) for type, bits in BITS.items()},
    Schema(SchemaType.FLOAT32): st.floats(width=32),
    Schema(SchemaType.FLOAT64): st.floats(),
    Schema(SchemaType.BOOLEAN): st.booleans(),
    Schema(SchemaType.STRING): TEXTS,
    Schema(SchemaType.BYTES): st.binary(max_size=4),
    decimal_schema(2): st.integers(-(10**12), 10**12).map(lambda number: Decimal(number).scaleb(-2)),
    DATE_SCHEMA: st.dates(datetime.date(1900, 1, 1), datetime.date(2200, 1, 1)),
    TIME_SCHEMA: st.integers(0, 86_399_999).map(lambda ms: (datetime.datetime.min + datetime.timedelta(milliseconds=ms)).time()),
    TIMESTAMP_SCHEMA: TIMESTAMPS,
}
INNER = Schema.struct({"x": Schema(SchemaType.INT32, True), "y": Schema(SchemaType.STRING, True, "d")}, optional=True)
ROW = Schema.struct(
    {
        "id": Schema(SchemaType.INT64),
        "name": Schema(SchemaType.STRING, True),
        "note": Schema(SchemaType.STRING, True, "none"),
        "at": TIMESTAMP_SCHEMA.as_optional(),
        "in": INNER,
    },
    name="row",
    optional=True,
)


def configured(transformation: Transformation, **config: str) -> Transformation:
    transformation.header_converter = SimpleHeaderConverter()
    settings = {name.replace("_", "."): text for name, text in config.items()}
    transformation.configure(transformation.config_def.parse(settings))
    return transformation


TRANSFORMATIONS: dict[str, Callable[[], Transformation]] = {
    "insert fields": lambda: configured(InsertFieldValue(), topic_field="t", timestamp_field="ts", partition_field="p"),
    "replace fields": lambda: configured(ReplaceFieldValue(), exclude="name", renames="id:key"),
    "cast fields": lambda: configured(CastValue(), spec="id:int16,at:string,name:boolean"),
    "cast what may fail": lambda: configured(CastValue(), spec="name:int32"),
    "flatten": lambda: configured(FlattenValue()),
    "extract": lambda: configured(ExtractFieldValue(), field="note"),
    "hoist": lambda: configured(HoistFieldValue(), field="h"),
    "mask": lambda: configured(MaskFieldValue(), fields="id,name,at"),
    "metadata": lambda: configured(SetSchemaMetadataValue(), schema_name="n"),
    "format": lambda: configured(TimestampConverterValue(), field="at", target_type="string", format="yyyy-MM-dd HH:mm:ss.SSS E a"),
    "route": lambda: configured(TimestampRouter(), timestamp_format="yyyy"),
    "key": lambda: configured(ValueToKey(), fields="name,in"),
    "headers": lambda: configured(HeaderFromValue(), fields="id,name,at", headers="a,b,c", operation="move"),
    "insert header": lambda: configured(InsertHeader(), header="a", value_literal="5"),
    "drop headers": lambda: configured(DropHeaders(), headers="a,c"),
}


@st.composite
def rows(draw: st.DrawFn) -> Struct | None:
    if draw(st.integers(0, 9)) == 0:
        return None
    row = Struct(ROW, {"id": draw(SCALARS[Schema(SchemaType.INT64)])})
    for name, values in (("name", TEXTS), ("note", TEXTS), ("at", TIMESTAMPS)):
        row.put(name, draw(st.one_of(st.none(), values)))
    if draw(st.booleans()):
        row.put("in", Struct(INNER, {"x": draw(st.one_of(st.none(), st.integers(-5, 5)))}))
    return row


@st.composite
def records(draw: st.DrawFn) -> list[SourceRecord]:
    made = []
    for number, row in enumerate(draw(st.lists(rows(), min_size=1, max_size=6))):
        timestamp = draw(st.integers(0, 4_000_000_000_000))
        record = SourceRecord({"p": 1}, {"o": number}, "orders", row, value_schema=ROW, timestamp=timestamp, kafka_partition=3)
        for key in draw(st.lists(st.sampled_from("abc"), max_size=3)):
            record.headers.add(key, str(number), Schema(SchemaType.STRING))
        made.append(record)
    return made


@pytest.mark.parametrize("name", TRANSFORMATIONS)
@tried
@given(given_records=records())
def test_a_batch_becomes_what_its_records_become(name: str, given_records: list[SourceRecord]) -> None:
    transformation, converter = TRANSFORMATIONS[name](), SimpleHeaderConverter()
    try:
        single = [transformation.apply(record) for record in given_records]
    except ConnectException:
        with pytest.raises(ConnectException):
            transformation.apply_batch(Batch.from_source_records(given_records, converter)[0])
        return
    made = transformation.apply_batch(Batch.from_source_records(given_records, converter)[0])
    batches = made if isinstance(made, list) else [made]
    together = [record for batch in batches if batch is not None for record in batch.source_records(converter)]
    assert [seen(record) for record in together] == [seen(record) for record in single if record is not None]


def seen(record: SourceRecord) -> tuple[Any, ...]:
    return (record.topic, record.key_schema, record.key, record.value_schema, record.value, record.timestamp, record.headers)


@tried
@given(data=st.data())
def test_a_column_is_cast_as_its_values_are(data: st.DataObject) -> None:
    schema = data.draw(st.sampled_from(list(SCALARS))).as_optional()
    target = data.draw(st.sampled_from(OUTPUTS))
    values = data.draw(st.lists(st.one_of(st.none(), SCALARS[schema.as_required()]), min_size=1, max_size=6))
    try:
        wanted = [cast_value(value, schema, target) for value in values]
    except ConnectException:
        with pytest.raises(ConnectException):
            cast_column(column_of(values, schema), schema, target)
        return
    cast = values_of(cast_column(column_of(values, schema), schema, target), Schema(target, optional=True))
    assert [shown(value) for value in cast] == [shown(value) for value in wanted]


def shown(value: Any) -> Any:
    return "NaN" if isinstance(value, float) and math.isnan(value) else (type(value), value)


@tried
@given(
    instants=st.lists(st.one_of(st.none(), st.integers(-(10**14), 10**14)), min_size=1, max_size=5),
    pattern=st.sampled_from(["yyyy-MM-dd'T'HH:mm:ss.SSS'Z'", "EEE d MMM y h a k K u D", "yyMMdd", "MMMM EEEE G z Z X S"]),
)
def test_timestamps_are_written_in_columns_as_one_by_one(instants: list[int | None], pattern: str) -> None:
    format = SimpleDateFormat(pattern)
    column = column_of(instants, Schema(SchemaType.INT64, optional=True))
    assert format.format_column(column).to_pylist() == [None if instant is None else format.format(instant) for instant in instants]


@tried
@given(instants=st.lists(st.one_of(st.none(), st.integers(-12_219_292_800_000, 253_402_300_799_999)), min_size=1, max_size=5))
def test_what_was_written_is_read_again(instants: list[int | None]) -> None:
    format, instants = SimpleDateFormat("yyyy-MM-dd HH:mm:ss.SSS"), [*instants, 0]
    texts = format.format_column(column_of(instants, Schema(SchemaType.INT64, optional=True)))
    parser = SimpleDateParser(format, datetime.date(2026, 1, 1))
    plain = parser.parse_plain(texts)
    assert plain is not None
    assert plain.to_pylist() == instants
    assert [None if text is None else parser.parse(text) for text in texts.to_pylist()] == instants
