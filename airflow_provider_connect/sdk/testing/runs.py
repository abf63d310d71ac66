"""Complete runs of connectors in memory, with several tasks. A fault may end a run. Knows nothing of pytest.

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
from airflow_provider_connect.sdk.connector import Connector, SinkConnector, SourceConnector, require_task_list, task_config_texts
from airflow_provider_connect.sdk.task import CommitStep, SourceTask
from airflow_provider_connect.sdk.testing.calls import Fault, Killed, SinkCalls, Steps, polls, start_task
from airflow_provider_connect.sdk.testing.contexts import (
    FakeReporter,
    MemoryConnectorContext,
    MemorySinkContext,
    MemorySourceContext,
    Offsets,
)

_ENDLESS_SECONDS: Final = 30.0  # a poll that takes longer, or is retried for longer, fails its run


@dataclass(slots=True)
class SourceRun:
    """The result of a source's run.

    ``records`` are the committed records. ``offsets`` are the committed offsets, including those that the run started with. ``skipped`` has
    each DataException of ``poll``; ``retries`` counts its RetriableExceptions. ``is_killed``: a fault ended the run.
    """

    task_configs: list[dict[str, str]]
    offsets: Offsets
    records: list[SourceRecord] = field(default_factory=list)
    skipped: list[DataException] = field(default_factory=list)
    retries: int = 0
    is_killed: bool = False


@dataclass(slots=True)
class SinkRun:
    """The result of a sink's run.

    ``offsets`` are the consumer group's offsets after the run. ``reporter`` has the refused records. ``is_killed``: a fault ended the run.
    """

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
    offsets: Any = None,  # a source's or a sink's
    claim_epoch: int = 1,
    exactly_once: bool = False,
    fault: Fault | None = None,
    allowed_paths: AllowedPaths = ALL_ALLOWED,
) -> SourceRun | SinkRun:
    """Run ``connector`` once, with at most ``tasks`` tasks, to the end of its data.

    ``offsets`` are the committed offsets, None for a first run. ``fault`` ends all tasks; the result has everything that was committed
    before.

    A source's tasks commit after each ``poll``. A sink's tasks get the ``batches`` of their partitions in order. Records before the
    destination's offsets are left out. If the destination has no offsets, records before ``offsets`` are left out. Tasks commit after every
    second batch and at the end. The config's ``errors.tolerance`` applies to refused records. Each later run of a sink needs a larger
    ``claim_epoch``.
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
            task = start_task(connector, task_config, context, allowed_paths)
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
    """The task configs of ``connector`` as the framework publishes them. Starts it with ``config``, and stops it."""
    connector.allowed_paths = allowed_paths
    connector.initialize(MemoryConnectorContext())
    try:
        connector.start(connector.config_def.parse({**config, "tasks.max": str(max_tasks)}))
        generated = require_task_list(connector, connector.task_configs(max_tasks))
        return [task_config_texts(connector, task, config) for task, config in enumerate(generated)]
    finally:
        connector.stop()


def _run_source(connector: SourceConnector, done: SourceRun, fault: Fault | None, allowed_paths: AllowedPaths) -> SourceRun:
    tasks: list[SourceTask] = []

    def retried() -> None:
        done.retries += 1

    try:
        for config in done.task_configs:
            tasks += [start_task(connector, config, MemorySourceContext(config, dict(done.offsets)), allowed_paths)]
        for task in tasks:
            _read(task, Steps(task, fault), done, retried)
    except Killed:
        done.is_killed = True
    finally:
        for task in tasks:
            task.stop()
    return done


def _read(task: SourceTask, steps: Steps, done: SourceRun, retried: Callable[[], None]) -> None:
    """(1) Write a poll's records. (2) Write their offsets. (3) Commit both. (4) Notify the task. A DataException of ``poll`` is skipped."""
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
    """The records of ``batch`` from ``offset`` on. None: all are before it."""
    if batch.next_offset is not None and batch.next_offset <= offset:
        return None
    return batch.slice(sum(known < offset for known in batch.kafka_offsets.to_pylist()))
