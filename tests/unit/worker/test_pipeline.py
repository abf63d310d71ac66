"""Batches through converters, transformations and predicates: order and positions are kept."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from airflow_provider_connect.converters.plain import StringConverter
from airflow_provider_connect.sdk import Batch, ColumnRun, ConnectException, Predicate, Schema, SchemaType, Transformation
from airflow_provider_connect.sdk.converter import RAW_HEADERS, Converter
from airflow_provider_connect.sdk.records import SourceRecord, TopicPartition
from airflow_provider_connect.worker.delivery.raw_batch import RawBatch
from airflow_provider_connect.worker.pipeline.sink_pipeline import SinkPipeline
from airflow_provider_connect.worker.pipeline.source_pipeline import SourcePipeline
from airflow_provider_connect.worker.pipeline.stages import Converters, Stage
from tests.columns import there


def converters(value: Converter | None = None) -> Converters:
    made = StringConverter()
    made.configure({}, is_key=False)
    return Converters(made, value or made, RAW_HEADERS)


class Shout(Transformation):
    def apply_batch(self, batch: Batch) -> Batch:
        return batch.replace(value=pc.utf8_upper(batch.value))


class DropAll(Transformation):
    def apply_batch(self, batch: Batch) -> None:
        return None


class StartsWithA(Predicate):
    def test_batch(self, batch: Batch) -> pa.BooleanArray:
        return pc.starts_with(batch.value, "a")


class LengthAsSchema(Converter):
    """Values of one letter have another schema than longer ones: runs of schemas within one raw batch."""

    def to_connect_column(self, topic: str, column: pa.Array) -> list[ColumnRun]:
        runs: list[ColumnRun] = []
        for text in column.cast(pa.string()).to_pylist():
            schema = Schema(SchemaType.STRING, name=f"length{len(text)}")
            if runs and runs[-1].schema == schema:
                last = runs.pop()
                runs.append(ColumnRun(last.length + 1, schema, pa.concat_arrays([last.column, pa.array([text])])))
            else:
                runs.append(ColumnRun(1, schema, pa.array([text])))
        return runs


def raw(values: list[bytes], first: int = 10) -> RawBatch:
    return RawBatch(TopicPartition("t", 0), first, first + len(values), pa.array(values, pa.binary()))


@pytest.mark.parametrize("polled", [{"a": 1}, "text", 5, [{"a": 1}], [Batch("t"), None], pa.table({"a": [1]}), (b for b in [Batch("t")])])
def test_what_is_neither_batch_nor_record_is_refused_by_its_type(polled: Any) -> None:
    with pytest.raises(ConnectException, match=r"^poll must return a Batch, .* it returned a \w+$"):
        SourcePipeline(converters(), []).batches(polled)


def test_records_of_bytes_and_of_text_go_out_as_they_are() -> None:
    values: list[Any] = [b"\x00", "b", b"c", None, {"d": 1}, "e"] * 20
    polled = [SourceRecord({"p": 1}, {"o": number}, "t", value) for number, value in enumerate(values)]
    batches = SourcePipeline(converters(), []).batches(polled)
    records = [record for batch in batches for record in batch.source_records()]
    assert [record.value for record in records] == values
    assert [batch.last_offset for batch in batches][-1] == {"o": 119}


def test_a_predicate_cuts_the_batch_and_keeps_the_order() -> None:
    pipeline = SourcePipeline(converters(), [Stage(Shout(), StartsWithA())])
    parts = list(pipeline.encode(Batch.of("t", pa.array(["ab", "ba", "bb", "ac"]))))
    assert [value for part in parts for value in there(part.value).to_pylist()] == [b"AB", b"ba", b"bb", b"AC"]


class DropWhatIsGiven(DropAll):
    drops_all = True


def test_what_is_dropped_behind_a_predicate_leaves_one_batch_that_covers_all() -> None:
    pipeline = SinkPipeline(converters(), [Stage(DropWhatIsGiven(), StartsWithA())])
    [batch] = pipeline.batches(raw([b"a1", b"b1", b"a2", b"b2", b"a3"]))
    assert batch.value is not None
    assert (batch.value.to_pylist(), batch.kafka_offsets.to_pylist()) == (["b1", "b2"], [11, 13])
    assert (batch.first_offset, batch.next_offset) == (10, 15)
    assert list(pipeline.batches(raw([b"a"]))) == []


def test_what_a_predicate_has_cut_is_one_batch_again() -> None:
    pipeline = SinkPipeline(converters(), [Stage(Shout(), StartsWithA())])
    [batch] = pipeline.batches(raw([b"ab", b"ba", b"ac"]))
    assert batch.value is not None
    assert (batch.value.to_pylist(), batch.first_offset, batch.next_offset) == (["AB", "ba", "AC"], 10, 13)


def test_negate_turns_it_round() -> None:
    pipeline = SourcePipeline(converters(), [Stage(Shout(), StartsWithA(), negate=True)])
    parts = list(pipeline.encode(Batch.of("t", pa.array(["ab", "ba"]))))
    assert [value for part in parts for value in there(part.value).to_pylist()] == [b"ab", b"BA"]


def test_what_is_dropped_is_not_encoded() -> None:
    assert list(SourcePipeline(converters(), [Stage(DropAll())]).encode(Batch.of("t", pa.array(["a"])))) == []


def test_records_become_batches() -> None:
    records = [SourceRecord({"p": 1}, {"n": n}, "t", f"v{n}") for n in range(3)]
    [batch] = SourcePipeline(converters()).batches(records)
    assert batch.num_records == 3
    assert batch.source_offset == {"n": 2}


def test_a_poll_may_mix_batches_and_records_whose_order_is_kept() -> None:
    def record(n: int) -> SourceRecord:
        return SourceRecord({"p": 1}, {"n": n}, "t", f"v{n}")

    polled = [record(1), Batch.of("t", pa.array(["v2", "v3"])), record(4), record(5), Batch.of("t", pa.array(["v6"]))]
    batches = SourcePipeline(converters()).batches(polled)  # type: ignore[arg-type]
    assert [value for batch in batches for value in batch.value.to_pylist()] == ["v1", "v2", "v3", "v4", "v5", "v6"]  # type: ignore[union-attr]
    assert [batch.source_offset for batch in batches] == [{"n": 1}, None, {"n": 5}, None]


def test_runs_of_schemas_become_batches_that_cover_all_offsets() -> None:
    batches = list(SinkPipeline(converters(LengthAsSchema())).batches(raw([b"a", b"b", b"cc", b"d"])))
    assert [(b.value_schema.name, b.first_offset, b.next_offset) for b in batches if b.value_schema] == [
        ("length1", 10, 12),
        ("length2", 12, 13),
        ("length1", 13, 14),
    ]
    assert [value for b in batches for value in there(b.value).to_pylist()] == ["a", "b", "cc", "d"]


def test_keys_that_are_all_null_cost_nothing() -> None:
    [batch] = SinkPipeline(converters()).batches(raw([b"a"]))
    assert batch.key is None
    assert batch.key_schema is None
