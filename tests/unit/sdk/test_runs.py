"""``run`` of the sdk: whole runs in memory, with several tasks, refused records, exceptions and faults."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import pytest

from airflow_provider_connect.data.schema import STRING_SCHEMA
from airflow_provider_connect.errors import ConnectException, DataException, RetriableException
from airflow_provider_connect.sdk import Batch, SinkRecord, SourceRecord, TopicPartition
from airflow_provider_connect.sdk.task import RollbackReason, RolledBackException
from airflow_provider_connect.sdk.testing import CommitStep, FakeReporter, Fault, SinkCalls, SinkRun, run
from tests.unit.sdk.planted_sinks import REFUSED, OffsetsApartFromRows, Refuses, Store, StoreSink, StoreTask, TakesHalfAndFails, sink
from tests.unit.sdk.planted_sources import PAGE, FailsNowAndThen, RowsSource, RowsTask, source

P, Q = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def rows(tmp_path: Path) -> dict[str, str]:
    for name in ("a", "b", "d"):
        (tmp_path / name).write_text("".join(f"{name}{number}\n" for number in range(5)))
    return {"folder": str(tmp_path)}


@pytest.fixture
def stored(tmp_path: Path) -> dict[str, str]:
    return {"file": str(tmp_path / "out.json")}


def batch(*values: str, partition: TopicPartition = P, first: int = 0) -> Batch:
    records = [
        SinkRecord(partition.topic, partition.partition, first + n, value=value, value_schema=STRING_SCHEMA)
        for n, value in enumerate(values)
    ]
    return Batch.from_sink_records(records)[0]


BATCHES = (batch("a", "b"), batch("c", first=2), batch("x", "y", "z", partition=Q, first=7))


def stored_rows(config: dict[str, str]) -> list[str]:
    return sorted(Store(config["file"]).read()["rows"])


# Sources


def test_tasks_share_a_source_and_a_later_run_goes_on(rows: dict[str, str]) -> None:
    first = run(RowsSource(), rows, tasks=3)
    assert len(first.task_configs) == 3
    assert sorted(record.value for record in first.records) == sorted(f"{name}{n}" for name in "abd" for n in range(5))
    assert run(RowsSource(), rows, tasks=2, offsets=first.offsets).records == []


def test_a_poll_that_fails_for_now_is_repeated(rows: dict[str, str]) -> None:
    done = run(source(FailsNowAndThen)(), rows)
    assert (len(done.records), done.retries) == (15, 7)


class SkipsALine(RowsTask):
    def record(self, name: str, line: str) -> SourceRecord:
        record = super().record(name, line)
        if line == "b1":
            raise DataException("b1 cannot be read")
        return record


def test_a_record_that_cannot_be_read_is_skipped(rows: dict[str, str]) -> None:
    done = run(source(SkipsALine)(), rows)
    assert [str(error) for error in done.skipped] == ["b1 cannot be read"]


@pytest.mark.parametrize(
    "step", [CommitStep.WRITE_RECORDS, CommitStep.WRITE_OFFSETS, CommitStep.COMMIT_TRANSACTION, CommitStep.NOTIFY_TASK]
)
@pytest.mark.parametrize("side", ["before", "after"])
def test_records_and_offsets_of_a_killed_source_agree(step: CommitStep, side: str, rows: dict[str, str]) -> None:
    killed = run(RowsSource(), rows, fault=Fault(step, "before" if side == "before" else "after", nth=2))
    assert killed.is_killed
    assert len(killed.records) == (
        5 if step is CommitStep.NOTIFY_TASK or (step, side) == (CommitStep.COMMIT_TRANSACTION, "after") else PAGE
    )
    rest = run(RowsSource(), rows, offsets=killed.offsets)
    assert sorted(record.value for record in killed.records + rest.records) == sorted(f"{name}{n}" for name in "abd" for n in range(5))


# Sinks


@pytest.mark.parametrize("tasks", [1, 2, 3])
def test_tasks_share_the_partitions_of_a_sink(tasks: int, stored: dict[str, str]) -> None:
    done = run(StoreSink(), stored, batches=BATCHES, tasks=tasks, exactly_once=True)
    assert (done.offsets, stored_rows(stored)) == ({P: 3, Q: 10}, list("abcxyz"))
    run(StoreSink(), stored, batches=[*BATCHES, batch("c", "d", first=2)], claim_epoch=2, exactly_once=True)
    assert stored_rows(stored) == list("abcdxyz"), "what lies before the offsets of the destination is left out"


def killed_at_each_line(task: type[StoreTask], folder: Path, step: CommitStep) -> list[SinkRun]:
    """Runs that were killed, each followed by one that was not."""
    killed: list[SinkRun] = []
    for line in itertools.count():
        config = {"file": str(folder / f"{line}.json")}
        done = run(sink(task)(), config, batches=BATCHES, exactly_once=True, fault=Fault(step, line=line))
        if not done.is_killed:
            return killed
        killed.append(done)
        run(sink(task)(), config, batches=BATCHES, exactly_once=True, claim_epoch=2)
        assert stored_rows(config) == list("abcxyz"), line
    raise AssertionError


@pytest.mark.parametrize("step", [CommitStep.PUT, CommitStep.PRE_COMMIT])
def test_a_right_sink_may_be_killed_at_any_line(step: CommitStep, tmp_path: Path) -> None:
    tracing = sys.gettrace()
    assert len(killed_at_each_line(StoreTask, tmp_path, step)) >= 1
    assert sys.gettrace() is tracing


def test_a_kill_between_rows_and_offsets_doubles_rows(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        killed_at_each_line(OffsetsApartFromRows, tmp_path, CommitStep.PRE_COMMIT)


def test_a_kill_before_the_group_commits_leaves_its_offsets(stored: dict[str, str]) -> None:
    killed = run(StoreSink(), stored, batches=BATCHES, exactly_once=True, fault=Fault(CommitStep.COMMIT_GROUP, "before"))
    assert (killed.is_killed, killed.offsets) == (True, {})
    assert Store(stored["file"]).read()["next"] == {"t-0": 3}
    done = run(StoreSink(), stored, batches=BATCHES, exactly_once=True, claim_epoch=2, offsets=killed.offsets)
    assert (done.offsets, stored_rows(stored)) == ({P: 3, Q: 10}, list("abcxyz"))


def test_refused_records_are_reported_under_tolerance(stored: dict[str, str]) -> None:
    batches = [batch("a", REFUSED, "b", REFUSED)]
    done = run(sink(Refuses)(), {**stored, "errors.tolerance": "all"}, batches=batches)
    assert (done.reporter.offsets, stored_rows(stored), done.offsets) == ([1, 3], ["a", "b"], {P: 4})
    with pytest.raises(ConnectException, match=r"errors.tolerance is none"):
        run(sink(Refuses)(), {"file": f"{stored['file']}.2"}, batches=batches)


def test_a_reporter_keeps_records_with_their_errors() -> None:
    reporter, error = FakeReporter(), DataException("no")
    reporter.report(batch("a", "b", first=4), error)
    reporter.report_all([(batch("c").sink_records()[0], error)])
    assert [(record.value, record.kafka_offset) for record, _ in reporter.reported] == [("a", 4), ("b", 5), ("c", 0)]
    assert {id(reason) for _, reason in reporter.reported} == {id(error)}


def test_a_batch_comes_again_after_a_retriable_exception(stored: dict[str, str]) -> None:
    run(sink(TakesHalfAndFails)(), stored, batches=[batch("a", "b")])
    assert stored_rows(stored) == ["a", "a", "b"]


class FailsAlways(StoreTask):
    def put(self, batch: Batch) -> None:
        raise RetriableException("503")


def test_a_batch_that_fails_always_fails_the_run(stored: dict[str, str]) -> None:
    with pytest.raises(RetriableException):
        run(sink(FailsAlways)(), stored, batches=BATCHES)


class GoesBack(StoreTask):
    """A transactional sink that loses its transaction once, at its first commit: before or after it is written."""

    is_transactional = True
    commits_first = False

    def start(self, config: object) -> None:
        super().start(config)  # type: ignore[arg-type]
        self.calls: list[str] = []

    def pre_commit(self, offsets: dict[TopicPartition, int]) -> dict[TopicPartition, int]:  # type: ignore[override]
        self.calls.append("commit")
        if self.calls.count("commit") == 1:
            if self.commits_first:
                super().pre_commit(offsets)
            self.rows = []
            raise RolledBackException("the connection was lost", RollbackReason.LOST)
        super().pre_commit(offsets)
        return offsets


class GoesBackBehindItsCommit(GoesBack):
    commits_first = True


@pytest.mark.parametrize("task", [GoesBack, GoesBackBehindItsCommit])
def test_a_transaction_that_was_lost_comes_again_unless_it_was_committed(task: type[StoreTask], stored: dict[str, str]) -> None:
    done = run(sink(task)(), stored, batches=[BATCHES[0], BATCHES[1]], exactly_once=True)
    assert (done.offsets, stored_rows(stored)) == ({P: 3}, ["a", "b", "c"])


def test_calls_commit_nothing_before_a_put() -> None:
    assert SinkCalls(StoreTask(), [P]).commit() == {}
