"""Calls one task in memory as the framework does, including its reactions to exceptions. A fault may end the task.

Knows nothing of pytest or ``task_configs``.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final, Literal

from airflow_provider_connect.data.records import SourceRecord, TopicPartition
from airflow_provider_connect.errors import DataException, RetriableException
from airflow_provider_connect.sdk.allowed_paths import AllowedPaths
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.connector import Connector
from airflow_provider_connect.sdk.task import CommitStep, RollbackReason, RolledBackException, SinkTask, SourceTask, Task
from airflow_provider_connect.sdk.testing.contexts import FakeReporter, MemorySinkContext, MemorySourceContext, Offsets, partition_key

_MOST_ATTEMPTS: Final = 5  # of a call that raises RetriableException, or of a transaction that rolls back
_IDLE_POLLS: Final = 10  # a run ends after this many polls without records
_IDLE_SECONDS: Final = 0.02


class Killed(BaseException):
    """Simulates the end of a process, for a ``Fault``. It is a BaseException, so a plugin's ``except Exception`` does not catch it."""


@dataclass(frozen=True, slots=True)
class Fault:
    """The point at which a task is killed: ``before`` or ``after`` the ``nth`` execution of ``step``.

    With ``line``, the task is killed within the step. The plugin's executed lines, in files of the directory of the task's class, are
    counted from 0; repeated lines do not count. If the step executes fewer lines, nothing happens.
    """

    step: CommitStep
    side: Literal["before", "after"] = "after"
    nth: int = 1
    line: int | None = None


class Steps:
    """Counts the steps of one task and raises its fault."""

    def __init__(self, task: Task, fault: Fault | None = None) -> None:
        self._fault = fault
        self._taken = 0
        self._folder = os.path.dirname(inspect.getfile(type(task)))

    @contextmanager
    def around(self, step: CommitStep) -> Iterator[None]:
        """Execute ``step`` in the block. Raises Killed at the fault."""
        fault = self._fault
        if fault is None or step is not fault.step:
            yield
            return
        self._taken += 1
        if self._taken != fault.nth:
            yield
        elif fault.line is not None:
            with _killed_at(fault.line, self._folder):
                yield
        elif fault.side == "before":
            raise Killed(f"before {step}")
        else:
            yield
            raise Killed(f"after {step}")


@contextmanager
def _killed_at(line: int, folder: str) -> Iterator[None]:
    """Raise Killed before this thread executes the ``line``-th new line of a file in ``folder``."""
    lines: set[tuple[str, int]] = set()

    def each_line(frame: FrameType, event: str, argument: object) -> Any:  # Any: a trace function returns one
        if event == "line":
            lines.add((frame.f_code.co_filename, frame.f_lineno))
            if len(lines) > line:
                raise Killed(f"before line {frame.f_lineno} of {frame.f_code.co_filename}")
        return each_line

    def each_call(frame: FrameType, event: str, argument: object) -> Any:
        file = frame.f_code.co_filename
        return each_line if os.path.dirname(file) == folder and file != __file__ else None  # lines of this module are not killed

    before = sys.gettrace()
    sys.settrace(each_call)
    try:
        yield
    finally:
        sys.settrace(before)


def start_task(
    connector: Connector, config: Mapping[str, str], context: MemorySourceContext | MemorySinkContext, allowed_paths: AllowedPaths
) -> Any:  # the connector's SourceTask or SinkTask
    """Create a task of ``connector`` and start it with the task config ``config``."""
    task: Any = connector.task_class()
    task.allowed_paths = allowed_paths
    task.initialize(context)
    task.start(connector.task_config(config))
    return task


def records_of(polled: Batch | Sequence[Batch] | Sequence[SourceRecord]) -> Iterator[SourceRecord]:
    """The records that a ``poll`` returned, one by one."""
    for piece in [polled] if isinstance(polled, Batch) else polled:
        if isinstance(piece, Batch):
            yield from piece.source_records()
        else:
            yield piece


def offsets_after(records: Iterable[SourceRecord]) -> Offsets:
    """The last offset of each source partition, encoded to JSON and back."""
    return {partition_key(r.source_partition): json.loads(json.dumps(r.source_offset)) for r in records if r.source_offset is not None}


class Polled(list[SourceRecord]):
    """The records of one ``poll``.

    ``offsets`` has the last offset of each source partition, including offsets of batches without records. An empty offset deletes the
    partition's offset.
    """

    def __init__(self, polled: Batch | Sequence[Batch] | Sequence[SourceRecord]) -> None:
        pieces = [polled] if isinstance(polled, Batch) else polled
        super().__init__(records_of(pieces))
        positions = [(p.source_partition, p.last_offset if isinstance(p, Batch) else p.source_offset) for p in pieces]
        self.offsets = {partition_key(of): json.loads(json.dumps(offset)) for of, offset in positions if offset is not None}


def polls(task: SourceTask, limit_seconds: float, retried: Callable[[], None] = lambda: None) -> Iterator[Polled]:
    """The records of each ``poll`` until it returns None, or returns no records several times.

    Repeats a poll that raises RetriableException, after calling ``retried``. Raises AssertionError if a poll takes longer than
    ``limit_seconds``, or raises RetriableException for longer.
    """
    idle, waiting_since = 0, None
    while idle < _IDLE_POLLS:
        before = time.monotonic()
        try:
            polled = task.poll()
        except RetriableException as error:
            retried()
            if waiting_since is None:
                waiting_since = before
                continue  # retry immediately: most errors are transient
            if time.monotonic() - waiting_since >= limit_seconds:
                raise AssertionError(f"poll raises endlessly: {error!r}. Return None to end a run.") from error
            time.sleep(_IDLE_SECONDS if error.retry_after_ms is None else min(_IDLE_SECONDS, error.retry_after_ms / 1000))
            continue
        waiting_since = None
        assert time.monotonic() - before < limit_seconds, "poll took too long"
        if polled is None:
            return
        records = Polled(polled)
        yield records
        idle = 0 if records else idle + 1
        time.sleep(0 if records else _IDLE_SECONDS)


class SinkCalls:
    """Calls one sink task as the framework does, and reacts to its exceptions as the framework does.

    After a RetriableException from ``put``, the batch is put again. After a RolledBackException, all batches since the last commit are put
    again; if the reason is ``LOST``, ``open`` is called first. With a ``reporter``, ``put_accepted`` or bisection finds the refused records
    after a DataException from ``put``. ``fault`` kills the task: the call raises ``Killed``.
    """

    def __init__(
        self,
        task: SinkTask,
        partitions: Collection[TopicPartition],
        *,
        reporter: FakeReporter | None = None,
        fault: Fault | None = None,
    ) -> None:
        self.task = task
        self.partitions = partitions
        self.start: dict[TopicPartition, int] = {}
        self._reporter = reporter
        self._steps = Steps(task, fault)
        self._kept: list[Batch] = []  # since the last commit
        self._positions: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}

    def open(self) -> dict[TopicPartition, int]:
        """Open the partitions. Returns the offsets that the destination has, and keeps them as ``start``."""
        self.start = dict(self.task.open(self.partitions) or {})
        return self.start

    def put(self, batch: Batch) -> None:
        """Put a batch."""
        self._kept.append(batch)
        with self._steps.around(CommitStep.PUT):
            self._until_done([batch], None)
        if batch.next_offset is not None:
            self._positions[batch.topic_partition] = batch.next_offset

    def commit(self) -> dict[TopicPartition, int]:
        """Commit all batches put so far. Returns the offsets from ``pre_commit``."""
        positions = dict(self._positions)
        if not positions:
            return {}
        with self._steps.around(CommitStep.PRE_COMMIT):
            agreed = self._until_done([], positions)
        self._kept.clear()
        with self._steps.around(CommitStep.COMMIT_GROUP):
            self._committed.update({p: n for p, n in agreed.items() if p in positions and n <= positions[p]})
        return dict(agreed)

    @property
    def committed(self) -> dict[TopicPartition, int]:
        """The consumer group's offsets, never beyond the records that were put."""
        return dict(self._committed)

    def _until_done(self, batches: list[Batch], positions: dict[TopicPartition, int] | None) -> Mapping[TopicPartition, int]:
        for attempt in range(_MOST_ATTEMPTS):
            try:
                for batch in batches:
                    self._put(batch)
                return {} if positions is None else self.task.pre_commit(dict(positions))
            except RolledBackException as error:
                if attempt + 1 == _MOST_ATTEMPTS:
                    raise
                if error.reason is RollbackReason.LOST:
                    found = self.open()
                    if positions and positions.items() <= found.items():
                        return positions  # the commit succeeded
                batches = list(self._kept)
        raise AssertionError

    def _put(self, batch: Batch) -> None:
        for attempt in range(_MOST_ATTEMPTS):
            try:
                self._put_or_report(batch)
            except RetriableException:
                if attempt + 1 == _MOST_ATTEMPTS:
                    raise
            else:
                return

    def _put_or_report(self, batch: Batch) -> None:
        try:
            self.task.put(batch)
        except DataException as error:
            if self._reporter is None:
                raise
            refused = self.task.put_accepted(batch)
            if refused is not None:
                self._reporter.report_all((batch.slice(refusal.row, 1), refusal.error) for refusal in refused)
            elif batch.num_records <= 1:
                self._reporter.report(batch, error)
            else:
                self._put(batch.slice(0, batch.num_records // 2))
                self._put(batch.slice(batch.num_records // 2))
