"""Batches: what slicing and filtering do to columns and positions, the forms of values, and the record form."""

import datetime
import inspect
from typing import Any

import numpy
import pandas  # type: ignore[import-untyped]
import polars
import pyarrow as pa
import pytest

from airflow_provider_connect import sdk
from airflow_provider_connect.data.columns import json_column
from airflow_provider_connect.data.records import Headers, SinkRecord, SourceRecord, TopicPartition
from airflow_provider_connect.data.schema import (
    INT32_SCHEMA,
    INT64_SCHEMA,
    STRING_SCHEMA,
    TIMESTAMP_SCHEMA,
    Schema,
    SchemaAndValue,
)
from airflow_provider_connect.errors import ConnectException, DataException
from airflow_provider_connect.sdk.batch import Batch, KafkaBatch
from airflow_provider_connect.sdk.converter import RAW_HEADERS, HeaderConverter
from airflow_provider_connect.sdk.record_columns import headers_type
from tests.columns import from_kafka, there

OF_SOURCES = ("source_partition", "source_offset", "source_offsets")
HEADERS = pa.array(
    [[{"key": "h", "value": b"1"}], None, [], [{"key": "a", "value": None}, {"key": "a", "value": b"2"}]], type=headers_type()
)


def source(**changes: Any) -> Batch:
    attributes: dict[str, Any] = {
        "value": pa.array(["a", "b", "c", "d"]),
        "key": pa.array([1, 2, None, 4]),
        "headers": HEADERS,
        "timestamp": pa.array([10, 20, 30, None]),
        "source_partition": {"file": "x"},
        "source_offset": {"position": 8},
        **changes,
    }
    return Batch.of("t", **attributes)


def sink(value: pa.Array | None = None, **changes: Any) -> KafkaBatch:
    batch = Batch.of("t", pa.array(["a", "b", "c", "d"]) if value is None else value, kafka_partition=1)
    return from_kafka(batch, **{"first_offset": 100, "next_offset": 106, **changes})


def test_schemas_are_taken_from_columns() -> None:
    batch = source()
    assert (batch.value_schema, batch.key_schema) == (STRING_SCHEMA, INT64_SCHEMA.as_optional())
    assert source(value_schema=STRING_SCHEMA.as_optional()).value_schema == STRING_SCHEMA.as_optional()
    assert source(schemaless=True).value_schema is None
    assert Batch.of("t", json_column(["{}"])).value_schema is None
    assert Batch.of("t", pa.nulls(2)).value_schema is None
    nested = Batch.of("t", pa.array([{"a": 1}]))
    assert nested.value_schema == Schema.struct({"a": INT64_SCHEMA.as_optional()})


def test_columns_are_cast_to_their_schema() -> None:
    batch = Batch.of("t", pa.chunked_array([[1], [2]]), pa.array([1], pa.timestamp("us")).take([0, 0]))
    assert there(batch.value).type == pa.int64()
    assert batch.key_schema == TIMESTAMP_SCHEMA
    assert there(batch.key).type == pa.timestamp("ms", "UTC")
    with pytest.raises(DataException):
        Batch.of("t", pa.array(["x"]), value_schema=INT64_SCHEMA)


def test_length() -> None:
    assert len(source()) == 4
    assert Batch("t").num_records == 0
    assert Batch("t", key=pa.array([1])).num_records == 1
    assert Batch("t", headers=HEADERS).num_records == 4
    assert Batch("t")  # an empty batch is not nothing


THREE = pa.array(["a", "b", "c"])
POSITIONS = [{"position": number} for number in range(3)]
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"topic": None}, "topic must be a non-empty string, got NoneType None"),
    ({"topic": ""}, "topic must be a non-empty string, got str ''"),
    ({"value": ["a", "b", "c"]}, "value must be one pyarrow Array"),
    ({"value": pa.chunked_array([["a"], ["b", "c"]])}, "value must be one pyarrow Array"),
    ({"key": "k"}, "key must be one pyarrow Array"),
    ({"key": pa.array(["k"])}, "key has 1 record, but value has 3 records"),
    ({"key": pa.array(["k"] * 4)}, "key has 4 records, but value has 3 records"),
    ({"headers": pa.array([[]], headers_type())}, "headers has 1 record, but value has 3 records"),
    ({"headers": pa.array(["h"] * 3)}, "headers must be a column of list<struct<key: string, value: binary>>, got string"),
    ({"headers": pa.array([[{"name": "h"}]] * 3)}, "headers must be a column of list<struct"),
    ({"timestamp": pa.array([1, 2])}, "timestamp has 2 records, but value has 3 records"),
    ({"timestamp": pa.array([1.5] * 3)}, "timestamp must be a column of int64 or timestamp"),
    ({"timestamp": pa.array([1] * 3, pa.timestamp("us", "UTC"))}, "timestamp must be a column of int64 or timestamp"),
    ({"value_schema": "string"}, "value_schema must be a Schema or None, got str 'string'"),
    ({"key_schema": str}, "key_schema must be a Schema or None"),
    ({"kafka_partition": -1}, "kafka_partition must be an integer of at least 0"),
    ({"kafka_partition": "0"}, "kafka_partition must be an integer of at least 0"),
    ({"kafka_partition": True}, "kafka_partition must be an integer of at least 0"),
    ({"source_partition": "x"}, "source_partition must be a mapping or None, got str 'x'"),
    ({"source_partition": {1: "x"}}, "source_partition must be a mapping with string keys"),
    ({"source_offset": 5}, "source_offset must be a mapping or None, got int 5"),
    ({"source_offset": {5: 5}}, "source_offset must be a mapping with string keys"),
    ({"source_offset": {"position": 5}, "source_partition": None}, "source_offset needs a source_partition"),
    ({"source_offsets": POSITIONS, "source_partition": None}, "source_offsets needs a source_partition"),
    ({"source_offsets": POSITIONS[:1]}, "source_offsets has 1 entries for 3 records"),
    ({"source_offsets": POSITIONS[0]}, "source_offsets must be a list of mappings"),
    ({"source_offsets": "abc"}, "source_offsets must be a list of mappings"),
    ({"source_offsets": [0, *POSITIONS[1:]]}, r"source_offsets\[0\] must be a mapping or None"),
    ({"source_offsets": [*POSITIONS[:2], 2]}, r"source_offsets\[-1\] must be a mapping or None"),
]


@pytest.mark.parametrize(("attributes", "message"), REFUSED)
def test_a_wrong_attribute_is_refused_by_its_name(attributes: dict[str, Any], message: str) -> None:
    given = {"topic": "t", "value": THREE, "source_partition": {"file": "x"}, **attributes}
    with pytest.raises(ConnectException, match=f"^Batch: {message}") as raised:
        Batch(**given)
    assert not isinstance(raised.value, DataException)  # which would pass for one unreadable record
    with pytest.raises(ConnectException, match=f"^Batch: {message}"):
        Batch("t", THREE, source_partition={"file": "x"}).replace(**attributes)


def test_kafka_offsets_are_as_many_as_records() -> None:
    with pytest.raises(ConnectException, match=r"^Batch: kafka_offset has 2 records, but value has 3 records"):
        KafkaBatch("t", THREE, kafka_offset=pa.array([1, 2]))


# The forms that ``of`` takes

ROWS = [{"id": 1, "name": "tea"}, {"id": 2, "name": None}]
TABLE = pa.table({"id": [1, 2], "name": ["tea", None]})
ROW_SCHEMA = Schema.struct({"id": INT64_SCHEMA.as_optional(), "name": STRING_SCHEMA.as_optional()})
FORMS: dict[str, Any] = {
    "a list of dicts": ROWS,
    "a table": TABLE,
    "a table of chunks": pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1)]),
    "a record batch": TABLE.to_batches()[0],
    "record batches": [*TABLE.slice(0, 1).to_batches(), *TABLE.slice(1).to_batches()],
    "a reader of record batches": TABLE.to_reader,  # is read once
    "a frame of polars": polars.DataFrame(ROWS),
    "a frame of pandas": pandas.DataFrame(ROWS),
    "an array of structs": pa.array(ROWS),
}


@pytest.mark.parametrize("form", FORMS)
def test_rows_in_any_form_become_structs(form: str) -> None:
    rows = FORMS[form]() if callable(FORMS[form]) else FORMS[form]
    batch = Batch.of("t", rows)
    assert batch.value_schema == ROW_SCHEMA
    assert there(batch.value).to_pylist() == ROWS
    assert [record.value.as_dict() for record in batch.source_records()] == ROWS


@pytest.mark.parametrize(
    "keys",
    [[1, 2], (1, 2), pa.array([1, 2]), pa.chunked_array([[1], [2]]), polars.Series([1, 2]), pandas.Series([1, 2]), numpy.array([1, 2])],
    ids=lambda keys: f"{type(keys).__module__.partition('.')[0]} {type(keys).__name__}",
)
def test_a_column_in_any_form_is_a_key(keys: Any) -> None:
    batch = Batch.of("t", ["a", "b"], keys)
    assert (batch.value_schema, batch.key_schema) == (STRING_SCHEMA, INT64_SCHEMA)
    assert there(batch.key).to_pylist() == [1, 2]


def test_a_list_may_hold_nulls() -> None:
    batch = Batch.of("t", [None, {"id": 1, "name": None}, {"name": "x"}], [None, "k", None])
    assert there(batch.value).to_pylist() == [None, {"id": 1, "name": None}, {"id": None, "name": "x"}]
    assert (there(batch.value_schema).optional, there(batch.key_schema).optional) == (True, True)
    assert there(Batch.of("t", [None, None]).value).null_count == 2
    assert len(Batch.of("t", [])) == 0


def test_a_field_of_dicts_without_a_value_is_left_out() -> None:
    assert Batch.of("t", [{"id": 1, "name": None}]).value_schema == Schema.struct({"id": INT64_SCHEMA.as_optional()})


def test_a_given_schema_decides_what_a_list_becomes() -> None:
    schema = Schema.struct({"id": INT32_SCHEMA, "tags": Schema.map(STRING_SCHEMA, INT64_SCHEMA).as_optional()})
    batch = Batch.of("t", [{"id": 1, "tags": {"a": 2}}, {"id": 2}], value_schema=schema)
    assert batch.value_schema == schema
    assert [record.value.as_dict() for record in batch.source_records()] == [{"id": 1, "tags": {"a": 2}}, {"id": 2, "tags": None}]
    assert there(Batch.of("t", TABLE.select(["id"]), value_schema=Schema.struct({"id": INT32_SCHEMA})).value).type[0].type == pa.int32()


def test_schemaless_lists_are_json() -> None:
    batch = Batch.of("t", [{"id": 1}, {"id": "x"}, None], schemaless=True)
    assert batch.value_schema is None
    assert [record.value for record in batch.source_records()] == [{"id": 1}, {"id": "x"}, None]


@pytest.mark.parametrize("value", ["a", 5, {"a": 1}, iter([{"a": 1}]), object()])
def test_values_of_no_form_are_refused(value: Any) -> None:
    with pytest.raises(ConnectException, match=r"^Batch: value must be an Arrow array or table, record batches, a frame or a list, got "):
        Batch.of("t", value)


def nested_list(levels: int) -> list[Any]:
    value: list[Any] = [1]
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, "x"], "Values have no common type; give a schema, or schemaless=True: "),
        ([2**70], "Values have no common type"),
        ([{"a": 1}, {"a": "x"}], "Field 'a' of row 1 is 'x'"),
        ([{"a": 1}, 5], "Row 1 is of type int; rows must be dicts"),
        ([{"a": 1}, "ab"], "Row 1 is of type str; rows must be dicts"),
        (["\ud800"], "Values have no common type"),
        ([{"\ud800": 1}], "Invalid field name"),
        ([{1: 1}], "Invalid field name"),
        ([datetime.date(2026, 1, 1), datetime.datetime(2026, 1, 1, 5)], "dates are mixed with a datetime"),
        ([{"d": datetime.date(2026, 1, 1)}, {"d": datetime.datetime(2026, 1, 1, 5)}], "Field 'd' of row 1 is datetime.datetime"),
        (
            [[{"d": datetime.date(2026, 1, 1)}, {"d": datetime.datetime(2026, 1, 1, 5)}]],
            "dates are mixed with a datetime",
        ),
        (pa.table([[1], [2]], names=["a", "a"]), "Two columns have the name 'a'"),
        (pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]), "Two fields of struct<a: int64, a: int64> have"),
        (pa.array([2**62], pa.timestamp("s")), r"Column of timestamp\[s\] does not fit"),
        (nested_list(900), "Values have more than 200 levels"),
        ([{}, {}], "Rows have no field with a value"),
    ],
)
def test_values_that_do_not_fit_one_another_are_refused(values: Any, message: str) -> None:
    with pytest.raises(DataException, match=f"^{message}"):
        Batch.of("t", values)


def test_digits_of_times_below_a_millisecond_are_cut_off_at_any_level() -> None:
    at = datetime.datetime(2026, 1, 1, 5, 0, 0, 123456, tzinfo=datetime.UTC)
    row = {"at": at, "all": [at], "day": datetime.date(2026, 1, 1), "time": at.time()}
    cut = at.replace(microsecond=123000)
    expected = {"at": cut, "all": [cut], "day": datetime.date(2026, 1, 1), "time": cut.time()}
    assert there(Batch.of("t", [row]).value).to_pylist() == [expected]


def test_a_position_that_its_author_changes_later_stays_in_the_batch() -> None:
    partition: dict[str, object] = {"file": "a"}
    offset: dict[str, object] = {"line": 1}
    batch = Batch("t", pa.array([1]), source_partition=partition, source_offset=offset)
    partition["file"], offset["line"] = "b", 2
    assert (batch.source_partition, batch.source_offset) == ({"file": "a"}, {"line": 1})


def test_an_author_sees_what_an_author_gives() -> None:
    given = list(inspect.signature(Batch).parameters)
    assert given == [*["topic", "value", "key", "value_schema", "key_schema", "headers", "timestamp", "kafka_partition"], *OF_SOURCES]
    assert set(inspect.signature(Batch.of).parameters) == {*given, "schemaless"}
    assert "KafkaBatch" not in sdk.__all__


def test_what_an_author_derives_from_a_sinks_batch_keeps_its_offsets() -> None:
    [batch] = Batch.from_sink_records([SinkRecord("t", 3, offset, value="x") for offset in (5, 7, 8)])
    for derived in (batch.replace(topic="u"), batch.filter(pa.array([True, True, True])), batch.slice(0, 3)):
        assert derived.is_from_kafka
        assert (derived.first_offset, derived.next_offset, derived.kafka_offsets.to_pylist()) == (5, 9, [5, 7, 8])
        assert (derived.topic_partition, derived.kafka_offset_at(1)) == (TopicPartition("t", 3), 7)


def test_a_sources_batch_has_no_offsets_in_kafka() -> None:
    batch = Batch.of("t", ["a", "b"], kafka_partition=3)
    assert (batch.first_offset, batch.next_offset, batch.timestamp_type) == (None, None, "CreateTime")
    assert not batch.is_from_kafka
    records = batch.sink_records()  # in an author's test of a sink
    assert [(record.topic_partition, record.kafka_offset, record.value) for record in records] == [
        (TopicPartition("t", 3), 0, "a"),
        (TopicPartition("t", 3), 1, "b"),
    ]


def test_a_position_without_records_and_records_without_a_position_are_batches() -> None:
    assert len(Batch("t", source_partition={"file": "x"}, source_offset={"position": 1})) == 0
    assert len(Batch("t", source_partition={"file": "x"}, source_offsets=[])) == 0
    assert len(Batch("t", THREE)) == len(Batch("t", THREE, source_partition={"file": "x"})) == 3
    assert len(Batch("t", timestamp=pa.array([1, 2, 3], pa.timestamp("ms", "UTC")), headers=pa.nulls(3))) == 3


def test_the_position_after_a_batch_is_its_own_or_the_last_of_its_records() -> None:
    of_records = source(source_offset=None, source_offsets=[{"position": 2}, {"position": 4}, None, None])
    assert of_records.last_offset == {"position": 4}  # what follows has no position, and is no reason to forget this one
    assert source().last_offset == {"position": 8}
    assert source(source_offset=None).last_offset is None


def test_a_record_with_an_offset_needs_a_partition() -> None:
    with pytest.raises(ConnectException, match="SourceRecord: source_offset needs a source_partition"):
        SourceRecord(None, {"position": 1}, "t", "a")
    assert SourceRecord(None, None, "t", "a").value == "a"


def test_slice_is_a_window_on_all_columns() -> None:
    whole = source()
    window = whole.slice(1, 2)
    assert there(window.value).to_pylist() == ["b", "c"]
    assert there(window.key).to_pylist() == [2, None]
    assert there(window.timestamp).to_pylist() == [20, 30]
    assert there(window.headers).to_pylist() == [None, []]
    assert there(window.value).buffers()[2].address == there(whole.value).buffers()[2].address  # no copy


def test_slice_knows_its_offset_only_where_it_ends_with_the_batch() -> None:
    assert source().slice(2).source_offset == {"position": 8}
    assert source().slice(0, 2).source_offset is None
    offsets = [{"position": 2}, None, {"position": 6}, {"position": 8}]
    batch = source(source_offsets=offsets)
    assert batch.slice(0, 2).source_offset == {"position": 2}
    assert batch.slice(1, 2).source_offset == {"position": 6}
    assert batch.slice(1, 2).source_offsets == [None, {"position": 6}]
    assert batch.slice(0, 99).source_offset == {"position": 8}
    assert len(batch.slice(9, 1)) == 0


SLICES = [
    ({}, (0, 4), (100, 106)),
    ({}, (0, 2), (100, 102)),
    ({}, (2, 2), (102, 106)),
    ({}, (4, 0), (104, 106)),
    ({"kafka_offset": [100, 102, 103, 105]}, (0, 1), (100, 102)),
    ({"kafka_offset": [100, 102, 103, 105]}, (1, 2), (102, 105)),
    ({"kafka_offset": [100, 102, 103, 105]}, (3, 1), (105, 106)),
    ({"kafka_offset": [101, 102, 103, 104]}, (0, 4), (100, 106)),
    ({"kafka_offset": [100, 102, 103, 105], "next_offset": None}, (2, 2), (103, 106)),
]


@pytest.mark.parametrize(("attributes", "window", "covered"), SLICES)
def test_slices_of_a_sinks_batch_cover_its_offsets_without_gap(attributes: Any, window: Any, covered: Any) -> None:
    offsets = attributes.get("kafka_offset")
    piece = sink(**{**attributes, "kafka_offset": None if offsets is None else pa.array(offsets)}).slice(*window)
    assert (piece.first_offset, piece.next_offset) == covered


def test_filter_keeps_positions() -> None:
    mask = pa.array([True, False, None, True])
    batch = source(source_offsets=[{"position": n} for n in (2, 4, 6, 8)]).filter(mask)
    assert there(batch.value).to_pylist() == ["a", "d"]
    assert there(batch.headers).to_pylist() == [HEADERS.to_pylist()[0], HEADERS.to_pylist()[3]]
    assert batch.source_offsets == [{"position": 2}, {"position": 8}]
    assert batch.source_offset == {"position": 8}
    nothing = source().filter(pa.array([False] * 4))
    assert (len(nothing), nothing.source_offset) == (0, {"position": 8})


@pytest.mark.parametrize("count", [4, 40])
def test_filter_keeps_each_records_kafka_offset(count: int) -> None:
    batch = sink(value=pa.array(["x"] * count), next_offset=100 + count)
    filtered = batch.filter(pa.array([n % 3 == 1 for n in range(count)]))
    assert there(filtered.kafka_offset).to_pylist() == [100 + n for n in range(count) if n % 3 == 1]
    assert (filtered.first_offset, filtered.next_offset) == (100, 100 + count)
    again = filtered.filter(pa.array([True] + [False] * (len(filtered) - 1)))
    assert there(again.kafka_offset).to_pylist() == [101]


def test_sinks_batch_remembers_where_it_lies() -> None:
    batch = sink().replace(topic="u").replace(topic="v", kafka_partition=9)
    assert (batch.topic, batch.kafka_partition) == ("v", 9)
    assert batch.topic_partition == TopicPartition("t", 1)
    assert sink().topic_partition == TopicPartition("t", 1)
    assert source().replace(topic="u").topic_partition == TopicPartition("u", 0)
    assert sink().is_from_kafka
    assert not source().is_from_kafka


def test_source_records_of_a_batch() -> None:
    records = source(kafka_partition=3).source_records()
    assert [record.value for record in records] == ["a", "b", "c", "d"]
    assert [record.key for record in records] == [1, 2, None, 4]
    assert [record.timestamp for record in records] == [10, 20, 30, None]
    assert [record.source_offset for record in records] == [None, None, None, {"position": 8}]
    assert [len(record.headers) for record in records] == [1, 0, 0, 2]
    assert {record.kafka_partition for record in records} == {3}
    assert {record.value_schema for record in records} == {STRING_SCHEMA}
    assert Batch("t").source_records() == []


def test_sink_records_of_a_batch() -> None:
    records = sink(timestamp=pa.array([5] * 4, pa.timestamp("ms", "UTC")), timestamp_type="LogAppendTime").sink_records()
    assert [record.kafka_offset for record in records] == [100, 101, 102, 103]
    assert {(r.topic, r.kafka_partition, r.key, r.timestamp, r.timestamp_type) for r in records} == {("t", 1, None, 5, "LogAppendTime")}
    with_gaps = sink(kafka_offset=pa.array([100, 101, 104, 105])).replace(topic="u").sink_records()
    assert [record.kafka_offset for record in with_gaps] == [100, 101, 104, 105]
    assert {record.topic_partition for record in with_gaps} == {TopicPartition("t", 1)}


def test_batch_without_values_is_all_tombstones() -> None:
    batch = Batch("t", key=pa.array(["k"]), key_schema=STRING_SCHEMA)
    assert batch.source_records() == [SourceRecord(None, None, "t", None, "k", key_schema=STRING_SCHEMA)]


def test_consecutive_records_of_a_kind_form_one_batch() -> None:
    partition = {"f": 1}
    kinds = [
        ("t", partition, STRING_SCHEMA, "a"),
        ("t", partition, STRING_SCHEMA, "b"),
        ("u", partition, STRING_SCHEMA, "c"),
        ("t", partition, STRING_SCHEMA, "d"),
        ("t", partition, None, "e"),
        ("t", {"f": 2}, None, "f"),
    ]
    records = [SourceRecord(p, {"n": n}, topic, value, value_schema=schema) for n, (topic, p, schema, value) in enumerate(kinds)]
    batches = Batch.from_source_records(records)
    assert [there(batch.value).to_pylist() for batch in batches] == [["a", "b"], ["c"], ["d"], ["e"], ["f"]]
    assert [batch.source_offset for batch in batches] == [{"n": 1}, {"n": 2}, {"n": 3}, {"n": 4}, {"n": 5}]
    assert batches[0].source_offsets == [{"n": 0}, {"n": 1}]
    assert batches[0].key is None
    assert batches[0].headers is None
    assert batches[0].timestamp is None


def test_batch_with_one_offset_stays_so_through_records() -> None:
    [again] = Batch.from_source_records(source().source_records())
    assert again.source_offset == {"position": 8}
    assert again.source_offsets is None
    assert there(again.headers).to_pylist() == [row or [] for row in HEADERS.to_pylist()]


def test_sink_records_become_batches_that_know_their_partition() -> None:
    records = [SinkRecord("t", 0, 5, None, "a", timestamp=1), SinkRecord("t", 0, 7, None, "b"), SinkRecord("t", 1, 0, None, "c")]
    moved = [record.replace(topic="u") for record in records]
    first, second = Batch.from_sink_records(moved)
    assert (first.first_offset, first.next_offset, first.kafka_offsets.to_pylist()) == (5, 8, [5, 7])
    assert (first.topic, first.topic_partition) == ("u", TopicPartition("t", 0))
    assert there(first.timestamp).to_pylist() == [1, None]
    assert (second.topic_partition, second.first_offset) == (TopicPartition("t", 1), 0)


class Shouting(HeaderConverter):
    """Text in capitals, to see when it is asked."""

    def __init__(self) -> None:
        self.read = self.written = 0

    def from_connect_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        self.written += 1
        return str(value).lower().encode()

    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        self.read += 1
        return SchemaAndValue(STRING_SCHEMA, (data or b"").decode().upper())


def test_headers_that_nothing_reads_are_not_converted() -> None:
    converter = Shouting()
    batch = Batch.of("t", pa.array(["x"]), headers=pa.array([[("h", b"one")]], type=headers_type()))
    [record] = batch.source_records(converter)
    [again] = Batch.from_source_records([record.replace(topic="u")], converter)
    assert (converter.read, converter.written) == (0, 0)
    assert there(again.headers).equals(batch.headers)
    header = record.headers.last_with_name("h")
    assert header is not None
    assert (header.value, header.schema) == ("ONE", STRING_SCHEMA)
    record.headers.add("n", "TWO")
    [changed] = Batch.from_source_records([record], converter)
    assert there(changed.headers).to_pylist() == [[{"key": "h", "value": b"one"}, {"key": "n", "value": b"two"}]]


def test_raw_headers() -> None:
    assert RAW_HEADERS.from_connect_header("t", "h", None, "é") == "é".encode()
    assert RAW_HEADERS.from_connect_header("t", "h", None, b"x") == b"x"
    assert RAW_HEADERS.from_connect_header("t", "h", None, None) is None
    assert RAW_HEADERS.to_connect_header("t", "h", None) == (None, None)
    assert RAW_HEADERS.to_connect_header("t", "h", b"x").value == b"x"
    assert Headers() == Headers()
    RAW_HEADERS.configure({})
    for call in (HeaderConverter().from_connect_header, HeaderConverter().to_connect_header):
        with pytest.raises(NotImplementedError):
            call("t", "h", None, None) if call.__name__.startswith("from") else call("t", "h", None)  # type: ignore[call-arg]
