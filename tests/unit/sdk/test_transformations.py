"""Each form of a transformation or predicate made of the other, and the positions of what is left."""

import itertools
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from airflow_provider_connect.data.records import Headers, SinkRecord, SourceRecord
from airflow_provider_connect.data.schema import STRING_SCHEMA
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config, ConfigDef, ConfigKey
from airflow_provider_connect.sdk.testing import TransformationSuite
from airflow_provider_connect.sdk.transformations import Predicate, Transformation, cover_positions
from tests.columns import from_kafka, there


class Upper(Transformation):
    """Record form: drops empty values, sends long ones to another topic."""

    config_def = ConfigDef(ConfigKey("topic"))

    def configure(self, config: Config) -> None:
        self.topic = config["topic"]

    def apply(self, record: Any) -> Any:
        if not record.value:
            return None
        changed = record.replace(value=record.value.upper())
        return changed.replace(topic=self.topic) if len(record.value) > 3 else changed


class UpperBatch(Transformation):
    """The same in the batch form."""

    def apply_batch(self, batch: Batch) -> list[Batch]:
        batch = batch.filter(pc.fill_null(pc.greater(pc.utf8_length(batch.value), 0), False))
        upper = batch.replace(value=pc.utf8_upper(batch.value))
        long = pc.greater(pc.utf8_length(upper.value), 3).to_pylist()
        pieces, start = [], 0
        for end in range(1, len(long) + 1):
            if end == len(long) or long[end] != long[start]:
                piece = upper.slice(start, end - start)
                pieces.append(piece.replace(topic="long") if long[start] else piece)
                start = end
        return cover_positions(batch, pieces)


VALUES = ["a", "bcde", "", None, "fghi", "jk", ""]


class TestUpper(TransformationSuite):
    def transformation(self) -> Transformation:
        transformation = Upper()
        transformation.configure(Upper.config_def.parse({"topic": "long"}))
        return transformation

    def records(self) -> list[SourceRecord]:
        optional = STRING_SCHEMA.as_optional()
        return [
            SourceRecord(None, None, "t", value, n, value_schema=optional, timestamp=n, headers=Headers().add("h", b"1"))
            for n, value in enumerate(VALUES)
        ]


class TestUpperBatch(TestUpper):
    def transformation(self) -> Transformation:
        return UpperBatch()


def sink_batch(values: list[str | None]) -> Batch:
    return from_kafka(Batch.of("t", pa.array(values, pa.string()), kafka_partition=0), first_offset=10, next_offset=10 + len(values) + 1)


@pytest.mark.parametrize("transformation", [TestUpper().transformation(), UpperBatch()])
def test_pieces_of_a_sinks_batch_cover_it_without_gap(transformation: Transformation) -> None:
    pieces = transformation.apply_batch(sink_batch(VALUES))
    assert isinstance(pieces, list)
    ranges = [(piece.first_offset, piece.next_offset) for piece in pieces]
    assert ranges[0][0] == 10
    assert ranges[-1][1] == 18
    assert all(left[1] == right[0] for left, right in itertools.pairwise(ranges))
    assert [piece.topic for piece in pieces] == ["t", "long", "t"]


def pieces_of(transformation: Transformation, batch: Batch) -> list[Batch]:
    pieces = transformation.apply_batch(batch)
    assert isinstance(pieces, list)
    return pieces


@pytest.mark.parametrize("transformation", [TestUpper().transformation(), UpperBatch()])
def test_batch_whose_records_are_all_dropped_keeps_its_position(transformation: Transformation) -> None:
    [sunk] = pieces_of(transformation, sink_batch(["", None]))
    assert (len(sunk), sunk.first_offset, sunk.next_offset) == (0, 10, 13)
    read = Batch.of("t", pa.array(["", None]), source_partition={"f": 1}, source_offset={"n": 2})
    [piece] = pieces_of(transformation, read)
    assert (len(piece), piece.source_partition, piece.source_offset) == (0, {"f": 1}, {"n": 2})


def test_last_piece_of_a_source_has_the_position_of_the_whole() -> None:
    batch = Batch.of("t", pa.array(["a", ""]), source_partition={"f": 1}, source_offset={"n": 2})
    [piece] = pieces_of(TestUpper().transformation(), batch)
    assert (there(piece.value).to_pylist(), piece.source_offset) == (["A"], {"n": 2})


def test_batch_form_of_one_record() -> None:
    record = SourceRecord({"f": 1}, {"n": 1}, "t", "abcd", value_schema=STRING_SCHEMA)
    after = UpperBatch().apply(record)
    assert after is not None
    assert (after.topic, after.value, after.source_offset) == ("long", "ABCD", {"n": 1})
    assert UpperBatch().apply(SinkRecord("t", 0, 5, None, "", value_schema=STRING_SCHEMA)) is None


class DropAll(Transformation):
    def apply_batch(self, batch: Batch) -> Batch | None:
        return None


class Same(Transformation):
    def apply_batch(self, batch: Batch) -> Batch:
        return batch


def test_batch_form_may_answer_none_or_one_batch() -> None:
    record = SourceRecord({"f": 1}, {"n": 1}, "t", "x", value_schema=STRING_SCHEMA)
    assert DropAll().apply(record) is None
    assert Same().apply(record) == record
    Same().close()


class IsShort(Predicate):
    def test(self, record: SourceRecord | SinkRecord) -> bool:
        return len(record.value) < 2


class IsShortBatch(Predicate):
    def test_batch(self, batch: Batch) -> pa.BooleanArray:
        return pc.less(pc.utf8_length(batch.value), 2)


@pytest.mark.parametrize("predicate", [IsShort(), IsShortBatch()])
def test_predicates_in_both_forms(predicate: Predicate) -> None:
    predicate.configure(Config({}, {}))
    batch = sink_batch(["a", "bc", "d"])
    assert predicate.test_batch(batch).to_pylist() == [True, False, True]
    assert [predicate.test(record) for record in batch.sink_records()] == [True, False, True]
    read = Batch.of("t", pa.array(["a", "bc"]))
    assert predicate.test_batch(read).to_pylist() == [True, False]
    assert [predicate.test(record) for record in read.source_records()] == [True, False]
    predicate.close()


def test_class_with_neither_form_reports_it() -> None:
    batch = sink_batch(["a"])
    [record] = batch.sink_records()
    with pytest.raises(NotImplementedError, match="Transformation must define apply or apply_batch"):
        Transformation().apply(record)
    with pytest.raises(NotImplementedError, match="must define apply or apply_batch"):
        Transformation().apply_batch(batch)
    with pytest.raises(NotImplementedError, match="Predicate must define test or test_batch"):
        Predicate().test(record)
    with pytest.raises(NotImplementedError, match="must define test or test_batch"):
        Predicate().test_batch(batch)
