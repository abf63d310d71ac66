"""Batches through converters, transformations and predicates: order and positions are kept."""

import itertools
import time
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.converters.plain import StringConverter
from airflow_provider_connect.data.records import SinkRecord, SourceRecord, TopicPartition
from airflow_provider_connect.data.schema import SchemaAndValue
from airflow_provider_connect.errors import DataException
from airflow_provider_connect.runtime.worker.delivery.raw_batch import RawBatch
from airflow_provider_connect.runtime.worker.errors.tolerance import STRICT, Tolerance
from airflow_provider_connect.runtime.worker.pipeline.sink_pipeline import SinkPipeline
from airflow_provider_connect.runtime.worker.pipeline.source_pipeline import SourcePipeline
from airflow_provider_connect.runtime.worker.pipeline.stages import Converters, Stage
from airflow_provider_connect.sdk import Batch, ColumnRun, ConnectException, Predicate, Schema, SchemaType, Struct, Transformation
from airflow_provider_connect.sdk.converter import RAW_HEADERS, Converter
from tests.columns import there


def converters(value: Converter | None = None) -> Converters:
    made = StringConverter()
    made.configure({}, is_key=False)
    return Converters(made, value or made, RAW_HEADERS)


class Shout(Transformation):
    def apply_batch(self, batch: Batch) -> Batch:
        return batch.replace(value=pc.utf8_upper(batch.value))


class Same(Transformation):
    def apply_batch(self, batch: Batch) -> Batch:
        return batch


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


class RefusesQuestions(LengthAsSchema):
    def to_connect_column(self, topic: str, column: pa.Array) -> list[ColumnRun]:
        if b"?" in column.to_pylist():
            raise DataException("a question")
        return super().to_connect_column(topic, column)


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


@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=40), st.lists(st.integers(1, 3), min_size=1, max_size=40), st.sets(st.integers(0, 39))
)
def test_runs_of_keys_and_values_are_cut_where_either_changes(keys: list[int], values: list[int], broken: set[int]) -> None:
    """Also where records between them cannot be read."""
    count = min(len(keys), len(values))
    broken = {index for index in broken if index < count}
    data = raw([b"?" if index in broken else b"v" * length for index, length in enumerate(values[:count])])
    data.key = pa.array([b"k" * length for length in keys[:count]], pa.binary())
    tolerance = Tolerance(replace(STRICT, tolerates_all=True))
    made = SinkPipeline(Converters(LengthAsSchema(), RefusesQuestions(), RAW_HEADERS), errors=tolerance)
    batches = list(made.batches(data))
    kept = [index for index in range(count) if index not in broken]
    records = records_of(batches)
    assert [record.kafka_offset - 10 for record in records] == kept
    for record, index in zip(records, kept, strict=True):
        assert (len(record.key), len(record.value)) == (keys[index], values[index])
        schemas = [schema and schema.name for schema in (record.key_schema, record.value_schema)]
        assert schemas == [f"length{keys[index]}", f"length{values[index]}"]
    assert not kept or (batches[0].first_offset, batches[-1].next_offset) == (10, 10 + count)


ROW = Schema.struct({"n": Schema(SchemaType.INT64)})
OTHER_ROW = Schema.struct({"n": Schema(SchemaType.INT64)}, name="other")
KINDS = {"r": ROW, "o": ROW.as_optional(), "x": OTHER_ROW, "0": None, "j": None}


class KindAsSchema(Converter):
    """``r`` a row, ``o`` an optional one, ``x`` another one, ``0`` no value, ``j`` a number without a schema."""

    def to_connect_data(self, topic: str, data: bytes | None) -> SchemaAndValue:
        kind, number = (data or b"0:0").decode().split(":")
        return SchemaAndValue(KINDS[kind], None if kind == "0" else int(number) if kind == "j" else {"n": int(number)})


@given(st.lists(st.sampled_from([*KINDS]), min_size=1, max_size=30))
def test_nulls_come_among_values_where_the_sink_takes_them(kinds: list[str]) -> None:
    data = raw([f"{kind}:{number}".encode() for number, kind in enumerate(kinds)])
    single, joined = (list(SinkPipeline(converters(KindAsSchema()), joins_nulls=joins).batches(data)) for joins in (False, True))
    assert [plain(record) for record in records_of(joined)] == [plain(record) for record in records_of(single)]
    rows = "".join(kinds).replace("0", "")
    assert len(joined) <= len(single)
    if "j" not in rows:
        assert len(joined) == max(1, len(list(itertools.groupby(rows.replace("o", "r")))))
    assert all(record.value_schema is None or record.value_schema.optional for record in records_of(joined) if record.value is None)


def records_of(batches: list[Batch]) -> list[SinkRecord]:
    return [record for batch in batches for record in batch.sink_records()]


def plain(record: SinkRecord) -> tuple[int, Any]:
    """Without the schema, by which two equal rows differ."""
    return record.kafka_offset, record.value.as_dict() if isinstance(record.value, Struct) else record.value


def test_transformations_get_records_without_a_value_by_themselves() -> None:
    data = raw([b"r:1", b"0:2", b"o:3"])
    pipeline = SinkPipeline(converters(KindAsSchema()), [Stage(Same())], joins_nulls=True)
    assert [batch.value_schema for batch in pipeline.batches(data)] == [ROW, None, ROW.as_optional()]


def test_many_short_runs_are_cut_in_linear_time() -> None:
    """Fifty thousand runs, each compared with all of them, were minutes."""
    data = raw([b"v" * (1 + index % 2) for index in range(50_000)])
    data.key = pa.array([b"k" * (1 + index % 3) for index in range(50_000)], pa.binary())
    made = SinkPipeline(Converters(LengthAsSchema(), LengthAsSchema(), RAW_HEADERS))
    began = time.process_time()
    assert len(list(made.batches(data))) == 50_000
    assert time.process_time() - began < 30


def test_keys_that_are_all_null_cost_nothing() -> None:
    [batch] = SinkPipeline(converters()).batches(raw([b"a"]))
    assert batch.key is None
    assert batch.key_schema is None
