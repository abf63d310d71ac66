"""Pipelines over records of which some cannot be converted or transformed: the others arrive whole, in order and in columns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_connect.converters.json.converter import JsonConverter
from airflow_provider_connect.converters.plain import StringConverter
from airflow_provider_connect.data.columns import values_of
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.data.schema import INT64_SCHEMA, SchemaAndValue
from airflow_provider_connect.errors import ConnectException, DataException
from airflow_provider_connect.runtime.worker.delivery.encoded_batch import EncodedBatch
from airflow_provider_connect.runtime.worker.delivery.raw_batch import RawBatch
from airflow_provider_connect.runtime.worker.errors.failures import ConsumedRecord, Failure
from airflow_provider_connect.runtime.worker.errors.tolerance import STRICT, Tolerance
from airflow_provider_connect.runtime.worker.pipeline.sink_pipeline import SinkPipeline
from airflow_provider_connect.runtime.worker.pipeline.source_pipeline import SourcePipeline
from airflow_provider_connect.runtime.worker.pipeline.stages import Converters, Stage
from airflow_provider_connect.sdk import Batch, SourceRecord, Transformation
from airflow_provider_connect.sdk.converter import RAW_HEADERS
from airflow_provider_connect.sdk.record_columns import headers_type
from airflow_provider_connect.sdk.transformations import Record
from tests.columns import there


class WatchedJson(JsonConverter):
    """Notes every value that becomes a Python object."""

    def __init__(self) -> None:
        self.single: list[bytes | None] = []

    def to_connect_data(self, topic: str, data: bytes | None) -> SchemaAndValue:
        self.single.append(data)
        return super().to_connect_data(topic, data)


class RefuseOddTens(Transformation):
    """Fails for the values 10, 30, 50 …, and drops 20, 40, 60 …; whole batches at a time."""

    def apply_batch(self, batch: Batch) -> Batch:
        values = [json.loads(text)["n"] for text in there(batch.value).storage.to_pylist()]
        if any(value % 20 == 10 for value in values):
            raise DataException("an odd ten")
        return batch.filter(pa.array([value % 20 != 0 for value in values]))


class RefuseOddTensSingly(Transformation):
    """The same, a record at a time."""

    def apply(self, record: Record) -> Record | None:
        if record.value["n"] % 20 == 10:
            raise KeyError(record.value["n"])
        return record if record.value["n"] % 20 else None


def converters(value: JsonConverter | None = None) -> Converters:
    key, value = JsonConverter(), value or JsonConverter()
    for converter, is_key in ((key, True), (value, False)):
        converter.configure({"schemas.enable": "false"}, is_key=is_key)
    return Converters(key, value, RAW_HEADERS)


def tolerant() -> tuple[Tolerance, list[Failure]]:
    reported: list[Failure] = []
    return Tolerance(replace(STRICT, tolerates_all=True), reported.append), reported


def raw(count: int, bad: Mapping[int, str], first: int = 100) -> RawBatch:
    """``{"n":i}`` under the key ``i``; ``bad`` names whether key or value of a record is broken."""
    values = [b"{" if bad.get(i) == "value" else b'{"n":%d}' % i for i in range(count)]
    keys = [b"}" if bad.get(i) == "key" else b'{"k":%d}' % i for i in range(count)]
    headers = [[{"key": "h", "value": str(i).encode()}] for i in range(count)]
    return RawBatch(
        TopicPartition("t", 0),
        first,
        first + count + 3,  # transaction markers behind the last
        pa.array(values, pa.binary()),
        key=pa.array(keys, pa.binary()),
        headers=pa.array(headers, headers_type()),
        timestamp=pa.array(range(count), pa.int64()),
    )


def numbers(batch: Batch) -> list[int]:
    """The number that each record holds in value, key, headers, timestamp and offset, which must all be the same."""
    values = [value["n"] for value in values_of(batch.value, batch.value_schema)]
    keys = [key["k"] for key in values_of(batch.key, batch.key_schema)]
    headers = [int(row[0]["value"]) for row in there(batch.headers).to_pylist()]
    offsets = [record.kafka_offset - 100 for record in batch.sink_records()]
    assert values == keys == headers == there(batch.timestamp).to_pylist() == offsets
    return values


@settings(deadline=None)
@given(st.integers(1, 60), st.dictionaries(st.integers(0, 59), st.sampled_from(["key", "value"]), max_size=20), st.booleans())
def test_sink_gets_all_but_the_broken_records_with_all_that_belongs_to_them(count: int, bad: dict[int, str], is_warned: bool) -> None:
    errors, reported = tolerant()
    pipeline = SinkPipeline(converters(), (), errors)
    list(pipeline.batches(raw(1, dict.fromkeys([0] if is_warned else [], "value"))))  # after one that is broken others are searched for
    reported.clear()
    batches = list(pipeline.batches(raw(count, bad)))
    bad = {index: role for index, role in bad.items() if index < count}
    assert [number for batch in batches for number in numbers(batch)] == [i for i in range(count) if i not in bad]
    assert len(batches) <= 1
    assert all((batch.first_offset, batch.next_offset) == (100, 100 + count + 3) for batch in batches)
    by_index = {failure.record.offset - 100: failure for failure in reported if isinstance(failure.record, ConsumedRecord)}
    assert {index: str(failure.operation.stage) for index, failure in by_index.items()} == {
        index: f"{role.upper()}_CONVERTER" for index, role in bad.items()
    }
    for index, failure in by_index.items():
        record = failure.record
        assert isinstance(record, ConsumedRecord)
        assert record.value == (b"{" if bad[index] == "value" else b'{"n":%d}' % index)
        assert record.key == (b"}" if bad[index] == "key" else b'{"k":%d}' % index)
        assert (list(record.headers), record.timestamp) == ([("h", str(index).encode())], index)


def test_clean_records_of_a_poisoned_batch_never_become_objects() -> None:
    errors, _ = tolerant()
    watched = WatchedJson()
    [batch] = SinkPipeline(converters(watched), (), errors).batches(raw(10_000, dict.fromkeys(range(500, 10_000, 1000), "value")))
    assert batch.num_records == 9_990
    assert set(watched.single) <= {b"{"}


@pytest.mark.parametrize("transformation", [RefuseOddTens(), RefuseOddTensSingly()])
def test_sink_gets_what_can_be_transformed(transformation: Transformation) -> None:
    errors, reported = tolerant()
    batches = list(SinkPipeline(converters(), [Stage(transformation)], errors).batches(raw(100, {3: "value"})))
    assert [n for batch in batches for n in numbers(batch)] == [n for n in range(100) if n % 10 and n != 3]
    failed = [failure.record.offset - 100 for failure in reported if isinstance(failure.record, ConsumedRecord)]
    assert failed == [3, 10, 30, 50, 70, 90]
    assert {failure.operation.class_name.rpartition(".")[2] for failure in reported[1:]} == {type(transformation).__name__}
    assert len(batches) == 1


def test_without_tolerance_the_task_learns_which_record_it_is() -> None:
    with pytest.raises(
        ConnectException,
        match=r"VALUE_CONVERTER by org\.apache\.kafka\.connect\.json\.JsonConverter failed for offset 142 of t-0: .*value\.converter\)",
    ):
        list(SinkPipeline(converters()).batches(raw(100, {42: "value"})))


class Brittle(StringConverter):
    """Cannot write values that begin with ``x``."""

    def from_connect_column(self, topic: str, schema: Any, column: pa.Array) -> pa.Array:
        if any(str(value).startswith("x") for value in column.to_pylist()):
            raise DataException("begins with x")
        return super().from_connect_column(topic, schema, column)


def brittle() -> Converters:
    key, value = Brittle(), Brittle()
    key.configure({}, is_key=True)
    value.configure({}, is_key=False)
    return Converters(key, value, RAW_HEADERS)


def text(part: EncodedBatch) -> list[tuple[str, str, int]]:
    assert part.key is not None
    assert part.timestamp is not None
    rows = zip(there(part.key).to_pylist(), there(part.value).to_pylist(), there(part.timestamp).to_pylist(), strict=True)
    return [(key.decode(), value.decode(), timestamp) for key, value, timestamp in rows]


def test_source_writes_what_can_be_written_and_reports_what_not() -> None:
    errors, reported = tolerant()
    keys = ["a", "xb", "c", "d", "e"]
    values = ["1", "x2", "3", "x4", "5"]
    batch = Batch.of(
        "t", pa.array(values), pa.array(keys), timestamp=pa.array(range(5)), source_partition={"f": "a"}, source_offset={"p": 5}
    )
    [part] = SourcePipeline(brittle(), (), errors).encode(batch)
    assert text(part) == [("a", "1", 0), ("c", "3", 2), ("e", "5", 4)]
    assert [str(failure.operation.stage) for failure in reported] == ["KEY_CONVERTER", "VALUE_CONVERTER"]
    assert "value=x4, valueSchema=Schema{STRING}, timestamp=3" in str(reported[1].record)
    assert [list(SourcePipeline(brittle(), (), errors).encode(batch.slice(1, 1)))] == [[]]


def test_source_records_that_do_not_fit_their_schema_are_dropped_and_their_offsets_go_on() -> None:
    errors, reported = tolerant()
    records = [SourceRecord({"f": "a"}, {"p": i}, "t", "no number" if i in {1, 4} else i, value_schema=INT64_SCHEMA) for i in range(5)]
    batches = SourcePipeline(brittle(), (), errors).batches(records)
    assert [(batch.num_records, batch.source_offset) for batch in batches] == [(1, {"p": 0}), (0, {"p": 1}), (2, {"p": 3}), (0, {"p": 4})]
    assert len(reported) == 2
