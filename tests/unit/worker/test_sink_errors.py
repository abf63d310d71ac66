"""What a sink keeps for its dead letters, and in which order they and its offsets are committed."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import pyarrow as pa
import pytest

from airflow_provider_connect.converters.plain import StringConverter
from airflow_provider_connect.data.records import Headers, TopicPartition
from airflow_provider_connect.data.schema import TIMESTAMP_SCHEMA, Schema
from airflow_provider_connect.errors import ConnectException, DataException, RetriableException
from airflow_provider_connect.runtime.worker.delivery.raw_batch import RawBatch, RetainedBatches
from airflow_provider_connect.runtime.worker.errors.dead_letters import DeadLetter, DeadLetterQueue
from airflow_provider_connect.runtime.worker.errors.tolerance import Tolerance
from airflow_provider_connect.runtime.worker.metrics import TaskMetrics
from airflow_provider_connect.runtime.worker.task.errant_records import ErrantRecords
from airflow_provider_connect.runtime.worker.task.sink_errors import KEPT_BYTES, SinkErrors
from airflow_provider_connect.sdk import SinkRecord
from airflow_provider_connect.sdk.batch import Batch, KafkaBatch
from airflow_provider_connect.sdk.record_columns import headers_type
from tests.columns import from_kafka
from tests.unit.worker.test_pipeline import converters
from tests.unit.worker.test_tolerance import tolerance

PARTITION = TopicPartition("t", 0)


def raw(first: int, count: int, offsets: list[int] | None = None) -> RawBatch:
    return RawBatch(
        PARTITION,
        first,
        first + count if offsets is None else offsets[-1] + 1,
        pa.array([b"v%d" % n for n in range(count)], pa.binary()),
        key=pa.array([b"k%d" % n for n in range(count)], pa.binary()),
        headers=pa.array([[{"key": "h", "value": b"%d" % n}] for n in range(count)], headers_type()),
        timestamp=pa.array(range(count), pa.int64()),
        offsets=None if offsets is None else pa.array(offsets, pa.int64()),
    )


def record(offset: int) -> SinkRecord:
    return SinkRecord("renamed", 5, offset, "key", "value", original_topic="t", original_kafka_partition=0)


class Journal:
    def __init__(self) -> None:
        self.events: list[str] = []

    def send(self, topic: str, dead_letters: Sequence[DeadLetter]) -> None:
        self.events.append("dead letters " + " ".join(str(dead_letter.record.offset) for dead_letter in dead_letters))


def test_originals_are_found_until_they_are_committed() -> None:
    originals = RetainedBatches()
    originals.keep(raw(10, 3))
    originals.keep(raw(13, 3, [13, 17, 20]))
    found = {offset: originals.find(PARTITION, offset) for offset in (9, 10, 12, 13, 14, 17, 20, 21)}
    assert {offset: None if kept is None else kept.value for offset, kept in found.items()} == {
        9: None,
        10: b"v0",
        12: b"v2",
        13: b"v0",
        14: None,
        17: b"v1",
        20: b"v2",
        21: None,
    }
    kept = found[17]
    assert kept is not None
    assert (kept.key, list(kept.headers), kept.timestamp, kept.offset) == (b"k1", [("h", b"1")], 1, 17)
    originals.release({PARTITION: 13})
    assert originals.find(PARTITION, 12) is None
    assert originals.find(PARTITION, 17) is not None
    originals.release({PARTITION: 21})
    assert originals.num_bytes == 0


def test_the_oldest_originals_go_when_a_task_vouches_for_none() -> None:
    originals = RetainedBatches(most_bytes=200)
    for first in range(0, 100, 10):
        originals.keep(raw(first, 10))
    assert originals.find(PARTITION, 5) is None
    assert originals.find(PARTITION, 99) is not None


def test_letters_come_before_the_commit_and_those_from_within_it_at_once() -> None:
    journal = Journal()
    queue = DeadLetterQueue("dlq", journal, headers=lambda _: [], metrics=TaskMetrics(is_source=False))
    made, _ = tolerance()
    errors = SinkErrors(Tolerance(made.settings, queue.add), queue, RetainedBatches())
    reporter = ErrantRecords(errors.tolerance, errors.originals, converters())
    errors.keep(raw(0, 10))
    for offset in (4, 2, 8):
        reporter.report(record(offset), DataException("no"))
    with errors.committing({PARTITION: 7}):
        reporter.report(record(6), DataException("no"))
        journal.events.append("commit")
    errors.committed({PARTITION: 7})
    with errors.committing({PARTITION: 10}):
        journal.events.append("commit")
    assert journal.events == ["dead letters 2 4", "dead letters 6", "commit", "dead letters 8", "commit"]


def test_reporter_takes_batches_and_makes_bytes_anew_of_what_it_does_not_know() -> None:
    made, reported = tolerance()
    originals = RetainedBatches()
    originals.keep(raw(0, 3))
    offsets = pa.array([1, 7], pa.int64())
    batch = from_kafka(Batch.of("t", ["x", "y"], kafka_partition=0), kafka_offset=offsets, first_offset=1, next_offset=8)
    ErrantRecords(made, originals, converters()).report(batch, DataException("no"))
    assert [(f.record.offset, f.record.value) for f in reported] == [(1, b"v1"), (7, b"y")]  # type: ignore[attr-defined]
    assert {str(f.operation.stage) for f in reported} == {"TASK_PUT"}


def test_a_record_of_the_sinks_own_is_converted_with_its_headers() -> None:
    made, reported = tolerance()
    own = SinkRecord("t", 0, 9, "key", "value", headers=Headers().add("source", b"shop"))
    ErrantRecords(made, RetainedBatches(), converters()).report(own, DataException("no"))
    (found,) = [f.record for f in reported]
    assert (found.offset, found.key, found.value, list(found.headers)) == (9, b"key", b"value", [("source", b"shop")])  # type: ignore[attr-defined]


def test_a_record_that_cannot_be_converted_back_fails_the_task() -> None:
    """A dead-letter record without contents would be a lost record."""

    class Refusing(StringConverter):
        def from_connect_data(self, topic: str, schema: Schema | None, value: object) -> bytes | None:
            raise DataException("no")

    made, reported = tolerance()
    with pytest.raises(ConnectException, match="The record at offset 9 of t-0 was reported and cannot be converted back: no") as raised:
        ErrantRecords(made, RetainedBatches(), converters(Refusing())).report(SinkRecord("t", 0, 9, "key", "value"), DataException("no"))
    assert not isinstance(raised.value, DataException)
    assert reported == []


def test_reporter_raises_where_nothing_is_tolerated() -> None:
    made, reported = tolerance(everything=False)
    for error, retriable in ((DataException("no"), False), (RetriableException("no"), True)):
        with pytest.raises(
            ConnectException, match=r"TASK_PUT by org\.apache\.kafka\.connect\.sink\.SinkTask failed for offset 4 of t-0: no"
        ) as raised:
            ErrantRecords(made, None, converters()).report(record(4), error)
        assert not isinstance(raised.value, DataException | RetriableException)  # the framework would put the same records again
        assert raised.value.retriable is retriable
    assert len(reported) == 2


@pytest.mark.parametrize("keeps_originals", [True, False])
def test_reporter_takes_values_that_python_cannot_hold(keeps_originals: bool) -> None:
    """A timestamp behind the year 9999: decoding it would raise DataException into the task's ``put``."""
    made, reported = tolerance()
    originals = RetainedBatches() if keeps_originals else None
    if originals is not None:
        originals.keep(raw(0, 3))
    infinity = pa.array([9223372036825200000] * 3, pa.int64()).cast(pa.timestamp("ms", "UTC"))
    batch = KafkaBatch("t", infinity, value_schema=TIMESTAMP_SCHEMA, kafka_partition=0, first_offset=0, next_offset=3, timestamp=infinity)
    ErrantRecords(made, originals, converters()).report_all([(batch, DataException("no"))])
    found = [(f.record.offset, f.record.value, f.record.timestamp) for f in reported]  # type: ignore[attr-defined]
    kept = [(0, b"v0", 0), (1, b"v1", 1), (2, b"v2", 2)]
    assert found == (kept if keeps_originals else [(offset, None, 9223372036825200000) for offset in range(3)])


def test_much_that_waits_asks_for_a_commit_but_not_again_and_again() -> None:
    errors = SinkErrors(originals=RetainedBatches())
    large = RawBatch(PARTITION, 0, 1, pa.array([bytes(KEPT_BYTES // 2 + 1)], pa.binary()))
    errors.keep(large)
    assert not errors.is_full
    errors.keep(large)
    assert errors.is_full
    errors.committed({})  # the task vouches for nothing yet
    assert not errors.is_full


def test_letters_reported_together_are_written_together() -> None:
    journal = Journal()
    queue = DeadLetterQueue("dlq", journal, headers=lambda _: [], metrics=TaskMetrics(is_source=False), writes_through=True)
    for everything in (True, False):
        made, _ = tolerance(everything=everything)
        reporter = ErrantRecords(Tolerance(made.settings, queue.add), None, converters(), queue)
        with contextlib.nullcontext() if everything else pytest.raises(ConnectException, match="Tolerance exceeded"):
            reporter.report_all((record(offset), DataException("no")) for offset in (3, 4))
            reporter.report(record(5), DataException("no"))
    assert journal.events == ["dead letters 3 4", "dead letters 5", "dead letters 3"]


def test_records_that_a_task_has_put_and_reported_do_not_count_as_delivered() -> None:
    made, _ = tolerance()
    made.metrics.records_out = 10
    ErrantRecords(made, None, converters()).report_all((record(offset), DataException("no")) for offset in (3, 4))
    assert made.metrics.records_delivered == 8
    assert made.metrics.by_name()["sink-record-send-total"] == 10
