"""Whole runs of connectors in memory, with several tasks; a fault may end them. Knows nothing of pytest.

::

    first = run(FeedSource(), {"feed": path, "topic": "t"}, tasks=3)
    assert len(first.records) == 25
    assert run(FeedSource(), {"feed": path, "topic": "t"}, tasks=2, offsets=first.offsets).records == []

    killed = run(TableSink(), config, batches=batches, fault=Fault(CommitStep.PRE_COMMIT, line=3), exactly_once=True)
    run(TableSink(), config, batches=batches, offsets=killed.offsets, claim_epoch=2, exactly_once=True)
    assert rows_of_the_table() == expected
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final, overload

from airflow_provider_connect.data.records import SourceRecord, TopicPartition
from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk.allowed_paths import ALL_ALLOWED, AllowedPaths
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.connector import Connector, SinkConnector, SourceConnector, listed_tasks, task_texts
from airflow_provider_connect.sdk.task import CommitStep, SourceTask
from airflow_provider_connect.sdk.testing.calls import Fault, Killed, SinkCalls, Steps, polls, started
from airflow_provider_connect.sdk.testing.contexts import (
    FakeReporter,
    MemoryConnectorContext,
    MemorySinkContext,
    MemorySourceContext,
    Offsets,
)

_ENDLESS_SECONDS: Final = 30.0  # a poll that takes so long, or is retried for so long, fails its run


@dataclass(slots=True)
class SourceRun:
    """``records`` and ``offsets`` are committed: ``offsets`` holds those that the run was started with too. ``skipped`` is what ``poll``
    raised as DataException, ``retries`` how often it raised RetriableException."""

    task_configs: list[dict[str, str]]
    offsets: Offsets
    records: list[SourceRecord] = field(default_factory=list)
    skipped: list[DataException] = field(default_factory=list)
    retries: int = 0
    is_killed: bool = False


@dataclass(slots=True)
class SinkRun:
    """``offsets`` are the consumer group's after the run. ``reporter`` has the records that were refused."""

    task_configs: list[dict[str, str]]
    offsets: dict[TopicPartition, int]
    reporter: FakeReporter
    is_killed: bool = False


@overload
def run(
    connector: SourceConnector,
    config: Mapping[str, str],
    *,
    tasks: int = 1,
    offsets: Offsets | None = None,
    fault: Fault | None = None,
    allowed_paths: AllowedPaths = ALL_ALLOWED,
) -> SourceRun: ...


@overload
def run(
    connector: SinkConnector,
    config: Mapping[str, str],
    *,
    batches: Iterable[Batch],
    tasks: int = 1,
    offsets: Mapping[TopicPartition, int] | None = None,
    claim_epoch: int = 1,
    exactly_once: bool = False,
    fault: Fault | None = None,
    allowed_paths: AllowedPaths = ALL_ALLOWED,
) -> SinkRun: ...


def run(
    connector: SourceConnector | SinkConnector,
    config: Mapping[str, str],
    *,
    tasks: int = 1,
    batches: Iterable[Batch] = (),
    offsets: Any = None,  # of a source's or a sink's form
    claim_epoch: int = 1,
    exactly_once: bool = False,
    fault: Fault | None = None,
    allowed_paths: AllowedPaths = ALL_ALLOWED,
) -> SourceRun | SinkRun:
    """Run ``connector`` once, with at most ``tasks`` tasks, to the end of its data.

    Each later run of a sink needs a larger ``claim_epoch``.
    A source's task commits after each ``poll``. ``offsets`` are the committed ones; None: there are none. A sink's task gets the
    ``batches`` of its partitions in their order. It commits after every second one and at the end. What lies before the offsets of the
    destination, or else before ``offsets``, is left out. The config's ``errors.tolerance`` decides about refused records. A ``fault`` ends
    all tasks.
    """
    task_configs = plan(connector, config, tasks, allowed_paths)
    if isinstance(connector, SourceConnector):
        return _run_source(connector, SourceRun(task_configs, dict(offsets or {})), fault, allowed_paths)
    reporter = FakeReporter(tolerates_all=config.get("errors.tolerance") == "all")
    done = SinkRun(task_configs, dict(offsets or {}), reporter)
    batches = list(batches)
    partitions = list(dict.fromkeys(batch.topic_partition for batch in batches))
    with ExitStack() as stack:
        opened = []
        for number, task_config in enumerate(task_configs):
            own = partitions[number :: len(task_configs)]
            context = MemorySinkContext(
                task_config, own, claim_epoch=claim_epoch, exactly_once=exactly_once, errant_record_reporter=reporter
            )
            task = started(connector, task_config, context, allowed_paths)
            stack.callback(task.stop)
            stack.callback(task.close, own)
            opened.append((SinkCalls(task, own, reporter=reporter, fault=fault), [b for b in batches if b.topic_partition in own]))
        try:
            for calls, _ in opened:
                done.offsets.update(calls.open())
            for calls, own_batches in opened:
                _write(calls, own_batches, done)
        except Killed:
            done.is_killed = True
    return done


def plan(
    connector: Connector, config: Mapping[str, str], max_tasks: int = 1, allowed_paths: AllowedPaths = ALL_ALLOWED
) -> list[dict[str, str]]:
    """The task configs of ``connector``, as they are published. It is started with ``config`` and stopped."""
    connector.allowed_paths = allowed_paths
    connector.initialize(MemoryConnectorContext())
    try:
        connector.start(connector.config_def.parse({**config, "tasks.max": str(max_tasks)}))
        generated = listed_tasks(connector, connector.task_configs(max_tasks))
        return [task_texts(connector, task, config) for task, config in enumerate(generated)]
    finally:
        connector.stop()


def _run_source(connector: SourceConnector, done: SourceRun, fault: Fault | None, allowed_paths: AllowedPaths) -> SourceRun:
    tasks: list[SourceTask] = []

    def retried() -> None:
        done.retries += 1

    try:
        for config in done.task_configs:
            tasks += [started(connector, config, MemorySourceContext(config, dict(done.offsets)), allowed_paths)]
        for task in tasks:
            _read(task, Steps(task, fault), done, retried)
    except Killed:
        done.is_killed = True
    finally:
        for task in tasks:
            task.stop()
    return done


def _read(task: SourceTask, steps: Steps, done: SourceRun, retried: Callable[[], None]) -> None:
    """1 write the records of a poll 2 write their offsets 3 commit both 4 notify the task. After a DataException ``poll`` goes on."""
    while True:
        try:
            for records in polls(task, _ENDLESS_SECONDS, retried):
                with steps.around(CommitStep.WRITE_RECORDS):  # 1
                    pass
                with steps.around(CommitStep.WRITE_OFFSETS):  # 2
                    offsets = {**done.offsets, **records.offsets}
                with steps.around(CommitStep.COMMIT_TRANSACTION):  # 3
                    done.records += records
                    done.offsets = {partition: offset for partition, offset in offsets.items() if offset}
                with steps.around(CommitStep.NOTIFY_TASK):  # 4
                    task.commit()
        except DataException as error:
            done.skipped.append(error)
        else:
            return


def _write(calls: SinkCalls, batches: Sequence[Batch], done: SinkRun) -> None:
    try:
        for number, batch in enumerate(batches):
            rest = _behind(batch, done.offsets.get(batch.topic_partition, 0))
            if rest is not None:
                calls.put(rest)
            if number % 2:
                calls.commit()
        calls.commit()
    finally:
        done.offsets.update(calls.committed)


def _behind(batch: Batch, offset: int) -> Batch | None:
    """The records of ``batch`` from ``offset`` on; None: they all lie before it."""
    if batch.next_offset is not None and batch.next_offset <= offset:
        return None
    return batch.slice(sum(known < offset for known in batch.kafka_offsets.to_pylist()))
