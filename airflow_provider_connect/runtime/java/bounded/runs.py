"""The rules by which the run of a Java task ends.

Connect does not report an empty poll, so a source task is paused. The task reports PAUSED only after its poll has returned and the records
are delivered and committed. If that poll was empty, the source has no more records. A poll that returns records is never interrupted. A
poll that waits for records is abandoned after ``poll_seconds``, if given. A source that reads in its own threads also has a goal. Before
the source has received the goal, an empty poll does not end the run.

A sink is done when its group has committed the end offsets that were read at the start. The sink commits every ``SINK_FLUSH_MS``. It is
never paused, because a pause wakes its consumer, which may then never commit the partitions that it was taking over. Knows nothing of
topics, claims or JVMs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Generic, Protocol, TypeVar

from airflow_provider_connect.errors import JavaException, JavaRecordException, RetriableException
from airflow_provider_connect.runtime.java.jvm.connect_worker import ConnectWorker, JavaTask
from airflow_provider_connect.sdk.connector import OffsetReader

Reason = TypeVar("Reason")
SINK_FLUSH_MS: Final = 500
IDLE_SECONDS: Final = 0.2
"""The time without a record after which the task is paused. A pause between two full polls would cost a commit."""
LONGEST_IDLE_SECONDS: Final = 2.0
CHECK_SECONDS: Final = 0.02
LONGEST_CHECK_SECONDS: Final = 0.1
"""The longest interval between checks. Each check makes several calls into the JVM, so the interval grows while nothing changes."""
STATUS_SECONDS: Final = 0.2
LONG_POLL_SECONDS: Final = 60.0
"""If a poll delays the end of the run for longer than this, a warning is logged."""
GOAL_SECONDS: Final = 0.1
"""The interval between checks of a goal, which queries the JVM and the source system."""
_HEARTBEATS: Final = "heartbeat.interval.ms"
_SHORTEST_HEARTBEAT_MS: Final = 5000
"""This is longer than ``LONGEST_IDLE_SECONDS`` (the longest time without records after which a run ends) plus the poll that follows."""


def slower_heartbeats(config: Mapping[str, str]) -> dict[str, str]:
    """Overrides for a task's ``config`` if its heartbeats are so frequent that no poll would ever be empty. A run does not wait for
    heartbeats, because they are not data."""
    given = config.get(_HEARTBEATS, "").strip()
    is_fast = given.isascii() and given.isdigit() and len(given) < 10 and 0 < int(given) < _SHORTEST_HEARTBEAT_MS
    return {_HEARTBEATS: str(_SHORTEST_HEARTBEAT_MS)} if is_fast else {}


class Progress(StrEnum):
    """The progress of a source. BEHIND: it has not received its goal. RECEIVED: the rest is in its task and waits to be polled. DELIVERED:
    the records and their offsets are delivered."""

    BEHIND = "behind"
    RECEIVED = "received"
    DELIVERED = "delivered"


class Goal(Protocol):
    """The end of a run whose source reads in its own threads. Created before the task starts, and closed after the run."""

    moves_offsets: bool
    """Whether ``offsets_after`` may return offsets."""

    def progress(self, worker: ConnectWorker, polled: int) -> Progress:
        """The current progress. ``polled`` is the number of records polled so far, which was read shortly before the call. Raises
        RetriableException if the source system has not answered for a long time."""

    def offsets_after(self, offsets: OffsetReader) -> list[tuple[dict[str, object], dict[str, object]]]:
        """Source partitions, with the offsets to which they may move after the run has reached its goal. Called after the task's end.
        Raises RetriableException if the source system does not answer."""

    def close(self) -> None:
        """Release its connections."""


@dataclass(slots=True)
class JavaRun(Generic[Reason]):
    """Runs a started task until there are no more records, ``max_records`` are reached, or ``stop_reason`` returns a reason.

    ``is_done`` is called after an idle time. For a source it returns True; for a sink it compares the offsets of the group. ``is_final``
    reports whether the reason forbids further commits. ``goal`` is the source's goal, if it has one. The run ends when the goal is
    DELIVERED, even if more records come. Before the goal is RECEIVED, no empty poll ends the run. ``is_at_goal`` is set after a run that
    has delivered everything up to the goal. ``has_left_poll``: the run has abandoned a poll, so the task cannot be stopped cleanly.
    ``tick`` is called in each iteration. An ``endless`` run ends for a reason alone, or after ``idle_seconds`` without a record.
    """

    worker: ConnectWorker
    task: JavaTask
    stop_reason: Callable[[], Reason | None]
    is_final: Callable[[], bool]
    is_done: Callable[[], bool]
    max_records: int | None
    now: Callable[[], float]
    sleep: Callable[[float], None]
    goal: Goal | None = None
    tick: Callable[[], None] = lambda: None
    poll_seconds: float | None = None
    note_long_poll: Callable[[float], None] = lambda _: None
    endless: bool = False
    idle_seconds: float | None = None
    has_left_poll: bool = False
    is_at_goal: bool = False
    records: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    _idle_seconds: float = IDLE_SECONDS
    _progress: Progress = Progress.BEHIND
    _next_progress: float = -math.inf

    def run(self) -> Reason | None:
        """Returns the reason why the run ended early. None: there are no more records. Raises JavaException with the trace of a task that
        FAILED."""
        if self.endless:
            return self._run_endless(self._counter())
        if not self.task.is_source:
            return self._run_sink(self._counter())
        count = self._counter()
        while True:
            before, reason = self._wait_until_idle(count)
            if reason is not None and self.is_final():
                return reason  # the owner kills the JVM
            was_received = self._progress is not Progress.BEHIND
            is_paused = self._pause(reason)
            self._read_metrics(count)
            reason = reason or self.stop_reason()
            is_delivered = self._is_delivered(self.records)
            is_at_limit = self.max_records is not None and self.records >= self.max_records
            is_empty = self.records == before and self.is_done()
            if self.has_left_poll and not is_empty:  # the abandoned poll has just returned
                self.has_left_poll = False
            if reason is not None or self.has_left_poll or (is_paused and (is_delivered or is_at_limit or is_empty)):
                self._stop(reason)
                is_whole = reason is None and not self.has_left_poll  # an abandoned poll may hold records
                self.is_at_goal = is_whole and (is_delivered or (was_received and not is_at_limit))
                return reason
            self._idle_seconds = min(LONGEST_IDLE_SECONDS, 1.5 * self._idle_seconds) if self.records == before else IDLE_SECONDS
            self.worker.pause(self.task.connector, paused=False)

    def _run_sink(self, count: Callable[[], int]) -> Reason | None:
        while True:
            _, reason = self._wait_until_idle(count)
            is_at_limit = self.max_records is not None and count() >= self.max_records
            if reason is None and not is_at_limit and not self.is_done():
                continue
            self._read_metrics(count)  # after the check, so that all records that the check saw are counted
            self._stop(reason)
            return reason

    def _run_endless(self, count: Callable[[], int]) -> Reason | None:
        """Returns None after ``idle_seconds`` without a record."""
        last, since = 0, self.now()
        while (reason := self.stop_reason()) is None:
            self._running_state()
            self.tick()
            self.sleep(STATUS_SECONDS)
            if self.idle_seconds is None:
                continue
            if (total := count()) != last:
                last, since = total, self.now()
            elif self.now() - since >= self.idle_seconds and self.is_done():
                break
        self._read_metrics(count)
        self._stop(reason)
        return reason

    def _counter(self) -> Callable[[], int]:
        return self.worker.counter(self.task, "source-record-poll-total" if self.task.is_source else "sink-record-read-total")

    def _read_metrics(self, count: Callable[[], int]) -> None:
        self.records, self.metrics, self.sizes = count(), self.worker.metrics(self.task), self.worker.sizes(self.task)

    def _stop(self, reason: Reason | None) -> None:
        """Have the task commit and stop, unless its owner kills the JVM."""
        if not self.has_left_poll and (reason is None or not self.is_final()):
            self.worker.stop_task(self.task)
            self._refuse_failed()

    def _wait_until_idle(self, count: Callable[[], int]) -> tuple[int, Reason | None]:
        """Wait for an idle time or a reason to end. The source is then in a poll that began before the pause. Returns the count of records
        from before that poll was noticed."""
        last, since, seconds = count(), self.now(), CHECK_SECONDS
        status_due = -math.inf
        while True:
            if (reason := self.stop_reason()) is not None:
                return last, reason
            if self.now() >= status_due:
                self._running_state()
                status_due = self.now() + STATUS_SECONDS
            self.tick()
            total = count()
            if self.max_records is not None and total >= self.max_records:
                return total, None
            if self._is_delivered(total):
                return total, None
            if total != last:
                last, since = total, self.now()
            elif self._may_pause(total, self.now() - since):
                return last, None
            self.sleep(seconds)
            seconds = _longer(seconds)

    def _may_pause(self, total: int, idle_seconds: float) -> bool:
        if self.goal is not None and self._progress is Progress.BEHIND:
            return False
        if self.task.is_source and not total:
            return self.worker.is_polling(self.task)
        return idle_seconds >= self._idle_seconds and (not self.task.is_source or self.worker.is_polling(self.task))

    def _is_delivered(self, polled: int) -> bool:
        """Whether the goal is delivered. Checks the goal every ``GOAL_SECONDS``. Progress never decreases."""
        if self.goal is not None and self._progress is not Progress.DELIVERED and self.now() >= self._next_progress:
            found = self.goal.progress(self.worker, polled)
            self._progress = self._progress if found is Progress.BEHIND else found
            self._next_progress = self.now() + GOAL_SECONDS
        return self._progress is Progress.DELIVERED

    def _pause(self, reason: Reason | None) -> bool:
        """Pause, and wait until the task has paused. Without a reason to end, this takes as long as the poll. With a reason, it does not
        wait for the poll, because stopping the task has its own timeout."""
        self.worker.pause(self.task.connector)
        since, seconds, is_reported = self.now(), CHECK_SECONDS, False
        while self._running_state() != "PAUSED":
            if reason is not None or self.stop_reason() is not None:
                return False
            waited = self.now() - since
            if self.poll_seconds is not None and waited >= self.poll_seconds and self.worker.is_polling(self.task):
                self.has_left_poll = True
                return False
            if self.poll_seconds is None and waited >= LONG_POLL_SECONDS and not is_reported:
                self.note_long_poll(waited)
                is_reported = True
            self.sleep(seconds)
            seconds = _longer(seconds)
        return True

    def _running_state(self) -> str:
        """The state of a task that was not stopped. Raises JavaException if it is FAILED. Raises RetriableException if it has ended, as
        Connect's tasks do when a plugin's poll is interrupted."""
        if (state := self._refuse_failed()) == "UNASSIGNED":
            raise RetriableException(f"Task {self.task.connector}-{self.task.number} was not stopped, but has ended: {_INTERRUPTED}")
        return state

    def _refuse_failed(self) -> str:
        """The task's state. Raises JavaException if it is FAILED."""
        status = self.worker.status(self.task)
        if status.state == "FAILED":
            raise task_failure(status.trace, is_source=self.task.is_source)
        return status.state


_INTERRUPTED: Final = "its thread was interrupted, for example by the plugin's code. A later try may succeed."
_TOO_LARGE: Final = "org.apache.kafka.common.errors.RecordTooLargeException"
_OF_PRODUCER: Final = ("max.request.size", "buffer.memory")
"""Producer settings that Java's message may name. If the message names no setting, the broker has refused the record."""


def task_failure(trace: str | None, *, is_source: bool) -> JavaException:
    """The exception for a task that Java reports as FAILED with this trace. If a source's record is too large, the trace ends with the
    settings to raise. Java's text names settings of a producer. These settings have other names in a connector's config."""
    if not trace:
        return JavaException("org.apache.kafka.connect.errors.ConnectException: the task has failed")
    refusal = next((line for line in trace.splitlines() if _TOO_LARGE in line), None)
    if refusal is None or not is_source:  # the connector of a sink defines its clients' settings
        return JavaException(trace)
    prefix = "schema.history.internal.producer." if "KafkaSchemaHistory" in trace else "producer.override."
    named = next((name for name in _OF_PRODUCER if name in refusal), None)
    topics = "max.message.bytes of the topic, whose default is the brokers' message.max.bytes"
    advice = f"raise {topics}" if named is None else f"raise {prefix}{named} of the connector, and {topics}"
    return JavaRecordException(f"{trace.rstrip()}\nA record is too large: {advice}")


def _longer(seconds: float) -> float:
    return min(LONGEST_CHECK_SECONDS, 1.5 * seconds)
