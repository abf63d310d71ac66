"""A frozen worker that wakes up after a newer run did its work changes nothing; nor do two runs at once, nor a stranger in the group."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings as Settings
from airflow_provider_connect.runtime.model.ids import consumer_group
from airflow_provider_connect.runtime.model.run import Claim, RunResult, RunState
from airflow_provider_connect.runtime.stores.config_store import ConfigStore
from airflow_provider_connect.runtime.stores.group_offsets import GroupOffsets
from airflow_provider_connect.runtime.stores.offset_store import OffsetStore
from airflow_provider_connect.runtime.stores.status_store import StatusStore
from airflow_provider_connect.runtime.worker.delivery.commit_steps import CommitStep
from tests.conftest import WorkerSettings
from tests.e2e.faults.environments import SinkEnvironment, SourceEnvironment
from tests.e2e.faults.oracle import file_records, topic_records
from tests.e2e.faults.runs import Fault, frozen
from tests.waiting import wait_until

TAKE_OVER = "airflow_provider_connect.runtime.worker.delivery.{}_delivery:TransactionalProducer.take_over"
SIDECARS = "airflow_provider_connect.connectors.transactional_file:CommitFiles.write"
MANY = 40_000  # records that take a run longer than the start of another differs
RunEnvironment = SourceEnvironment | SinkEnvironment


def create_environment(kind: str, folder: Path, settings: WorkerSettings, guarantee: str) -> RunEnvironment:
    make: Callable[..., RunEnvironment] = SourceEnvironment.make if kind == "source" else SinkEnvironment.make
    return make(folder, settings(), guarantee)


@dataclass(frozen=True)
class Traces:
    """All that runs of a connector leave behind."""

    records: list[bytes]
    source_offsets: object
    aborted_offsets: object
    group_offsets: object
    connector_status: object
    task_status: object
    claim: Claim

    @classmethod
    def of(cls, environment: RunEnvironment) -> Traces:
        name, settings = environment.runs.connector, Settings.of(environment.runs.settings)
        records = (
            topic_records(environment.bootstrap, environment.topic)
            if isinstance(environment, SourceEnvironment)
            else file_records(environment.file)
        )
        with OffsetStore(settings) as offsets, StatusStore(settings) as statuses, ConfigStore(settings) as configs:
            state = statuses.read()
            return cls(
                records=records,
                source_offsets=offsets.read(name).pairs(),
                aborted_offsets=offsets.repair(name),  # records of the offsets topic that only a reader of uncommitted ones believes
                group_offsets=GroupOffsets(settings).committed(consumer_group(name)),
                connector_status=state.connector(name),
                task_status=state.tasks_of(name),
                claim=configs.read().claims[name],
            )


FROZEN = [
    ("source", "exactly_once", Fault(CommitStep.COMMIT_TRANSACTION, "before", 2, "SIGSTOP")),
    ("source", "exactly_once", Fault(CommitStep.COMMIT_TRANSACTION, "after", 2, "SIGSTOP")),
    ("source", "at_least_once", Fault(CommitStep.COMMIT_OFFSETS, "before", 2, "SIGSTOP")),
    ("source", "at_least_once", Fault(CommitStep.COMMIT_OFFSETS, "after", 2, "SIGSTOP")),
    ("sink", "exactly_once", Fault(SIDECARS, "before", 2, "SIGSTOP")),
    ("sink", "exactly_once", Fault(SIDECARS, "after", 2, "SIGSTOP")),
    ("sink", "at_least_once", Fault(CommitStep.COMMIT_GROUP, "before", 1, "SIGSTOP")),
    ("sink", "at_least_once", Fault(CommitStep.COMMIT_GROUP, "after", 1, "SIGSTOP")),
]
IN_EVERY_RUN = (FROZEN[0], FROZEN[4], FROZEN[6])  # each direction, and a commit that no transaction protects


@pytest.mark.parametrize(
    ("kind", "guarantee", "fault"),
    [pytest.param(*case, id="{}, {}: {}".format(*case), marks=[] if case in IN_EVERY_RUN else pytest.mark.soak) for case in FROZEN],
)
def test_zombie_changes_nothing(kind: str, guarantee: str, fault: Fault, tmp_path: Path, worker_settings: WorkerSettings) -> None:
    environment = create_environment(kind, tmp_path, worker_settings, guarantee)
    if kind == "sink":
        environment.add(MANY)  # more than one read takes: the zombie has work left
    with frozen(environment.runs, fault) as (zombie, wake):
        newer = environment.runs.until_done()
        before = Traces.of(environment)
        wake()
        result = zombie.wait()
    assert result is not None, zombie.output()[-4000:]
    after = Traces.of(environment)
    if guarantee == "at_least_once" and kind == "source":  # its records lie in no transaction: what the zombie still sends may be doubled
        before, after = replace(before, records=[]), replace(after, records=[])
    assert after == before
    assert after.aborted_offsets == []
    assert after.claim == newer.claim
    assert result.state is RunState.STOPPED, result
    verdict = environment.verdict()
    print(f"{guarantee}: {fault}: {verdict}")
    verdict.expect(guarantee)


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["source", "sink"])
def test_of_two_runs_at_once_the_newer_claim_wins(kind: str, tmp_path: Path, worker_settings: WorkerSettings) -> None:
    environment = create_environment(kind, tmp_path, worker_settings, "exactly_once")
    environment.add(MANY)
    pair = [environment.runs.submit(), environment.runs.submit()]
    results = [submission.wait() for submission in pair]
    claims = [claim_of(result) for result in results]
    older, newer = sorted(results, key=claim_of)
    assert claims[0] != claims[1]
    assert newer is not None
    assert newer.state is RunState.DONE, [submission.output()[-3000:] for submission in pair]
    assert older is not None
    assert older.state in {RunState.STOPPED, RunState.SKIPPED}, older
    assert Traces.of(environment).claim == newer.claim
    environment.verdict().expect("exactly_once")


def claim_of(result: RunResult | None) -> int:
    """-1: it never claimed."""
    return -1 if result is None or result.claim is None else result.claim.offset


@pytest.mark.parametrize("kind", [pytest.param("source", marks=pytest.mark.soak), "sink"])
def test_an_older_run_that_takes_over_late_does_not_end_the_newer_one(kind: str, tmp_path: Path, worker_settings: WorkerSettings) -> None:
    """It fences the newer one before it can see that it is the older; the newer one takes over again and does the work."""
    environment = create_environment(kind, tmp_path, worker_settings, "exactly_once")
    step = CommitStep.WRITE_OFFSETS if kind == "source" else CommitStep.PUT
    with (
        frozen(environment.runs, Fault(TAKE_OVER.format(kind), signal="SIGSTOP")) as (late, wake_late),
        frozen(environment.runs, Fault(step, nth=2, signal="SIGSTOP")) as (newest, wake_newest),
    ):
        wake_late()
        old = late.wait()
        wake_newest()
        result = newest.wait()
    assert old is not None
    assert old.state is RunState.STOPPED, late.output()[-4000:]
    assert result is not None
    assert result.state is RunState.DONE, newest.output()[-4000:]
    environment.verdict().expect("exactly_once")


@pytest.mark.soak
@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_a_stranger_in_the_group_fails_the_task(guarantee: str, tmp_path: Path, worker_settings: WorkerSettings) -> None:
    environment = create_environment("sink", tmp_path, worker_settings, guarantee)
    assert isinstance(environment, SinkEnvironment)
    with stranger(environment):
        refuse(environment.runs.submit().wait())
    assert file_records(environment.file) == []
    with frozen(environment.runs, Fault(CommitStep.COMMIT_GROUP, signal="SIGSTOP")) as (submission, wake), stranger(environment):
        wake()
        refuse(submission.wait())
    environment.runs.until_done()
    environment.verdict().expect(guarantee)


@contextmanager
def stranger(environment: SinkEnvironment) -> Iterator[None]:
    """Another application's consumer, a member of the sink's group that has its partitions."""
    group = consumer_group(environment.runs.connector)
    consumer = Consumer({"bootstrap.servers": environment.bootstrap, "group.id": group, "enable.auto.commit": False})
    consumer.subscribe([environment.topic])
    try:
        wait_until(lambda: consumer.poll(0.05) is not None or consumer.assignment() != [])
        yield
    finally:
        consumer.close()


def refuse(result: RunResult | None) -> None:
    """The run FAILED because of the stranger, and reports it."""
    assert result is not None
    assert result.state is RunState.FAILED, result
    (task,) = result.tasks
    assert "another consumer is active in group" in (task.trace or ""), task
    assert "another consumer is active in group" in (result.error or ""), result
