"""When a Java task's run is over.

Nothing in Connect reports a poll that returned nothing, so a source task is paused: it reports PAUSED only when its poll has returned, and
what it returned is delivered and committed. If that was nothing, there is no more. No poll that returns records is cut off; one that waits
for records is left after ``poll_seconds`` where these are given. A source that
reads in threads of its own has a goal besides: its empty poll means nothing before that is received. A sink has no
more once its group has committed the offsets that were there at the start, which it does by itself every ``SINK_FLUSH_MS``. It is never
paused: that wakes its consumer, and one that is woken while it takes its partitions over may commit nothing of them any more.
Knows nothing of topics, claims or JVMs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Generic, Protocol, TypeVar

from airflow_provider_connect.errors import JavaException, JavaRecordException
from airflow_provider_connect.runtime.java.jvm.connect_worker import ConnectWorker, JavaTask
from airflow_provider_connect.sdk.connector import OffsetReader

Reason = TypeVar("Reason")
SINK_FLUSH_MS: Final = 500
STILL_SECONDS: Final = 0.2
"""How long no record may have come before the task is paused: a pause between two full polls would cost a commit."""
LONGEST_STILL_SECONDS: Final = 2.0
LOOK_SECONDS: Final = 0.02
LONGEST_LOOK_SECONDS: Final = 0.1
"""Each look is some calls into the JVM, so looks get rarer while nothing changes."""
STATUS_SECONDS: Final = 0.2
LONG_POLL_SECONDS: Final = 60.0
"""After which a poll that the end of the run waits for is worth a warning."""
GOAL_SECONDS: Final = 0.1
"""How often a goal is asked for: it asks JVM and source system."""


_HEARTBEATS: Final = "heartbeat.interval.ms"
_SHORTEST_HEARTBEAT_MS: Final = 5000
"""More than any pause between two records that ends a run (``LONGEST_STILL_SECONDS``) and the poll behind it."""


def slower_heartbeats(config: Mapping[str, str]) -> dict[str, str]:
    """What a task's ``config`` gets in place of heartbeats that come so often that no poll would ever return nothing: they are no data, and
    a run does not wait for them."""
    given = config.get(_HEARTBEATS, "").strip()
    is_fast = given.isascii() and given.isdigit() and len(given) < 10 and 0 < int(given) < _SHORTEST_HEARTBEAT_MS
    return {_HEARTBEATS: str(_SHORTEST_HEARTBEAT_MS)} if is_fast else {}


class Progress(StrEnum):
    """How far a source is: BEHIND its goal; RECEIVED, where the rest waits within its task to be polled; DELIVERED with its offsets."""

    BEHIND = "behind"
    RECEIVED = "received"
    DELIVERED = "delivered"


class Goal(Protocol):
    """Until where a run of a source goes that reads in threads of its own. Made before its task starts, and closed after the run."""

    moves_offsets: bool
    """Whether ``offsets_behind`` may have any."""

    def progress(self, worker: ConnectWorker, polled: int) -> Progress:
        """Now, with so many records ``polled`` shortly before. Raises RetriableException where the source system has not answered for
        long."""

    def offsets_behind(self, offsets: OffsetReader) -> list[tuple[dict[str, object], dict[str, object]]]:
        """The partitions whose offsets may be moved now that the run has reached the goal, with those; called after the task's end. Raises
        RetriableException where the source system does not answer."""

    def close(self) -> None:
        """Let go of what it holds."""


@dataclass(slots=True)
class JavaRun(Generic[Reason]):
    """Runs a task that was started to the end of what there is, to ``max_records``, or until ``stop_reason`` returns one.

    ``is_done`` is called where no record has come for a while: for a source nothing more is needed, a sink compares the offsets of its
    group. ``is_final`` reports a reason after which nothing may be committed any more. ``goal`` is that of a source that has one: the run
    ends where it is DELIVERED though more records come, and with no empty poll before it is RECEIVED. ``is_at_goal`` after a run that has
    delivered all up to there. ``tick`` is called in each turn while the task is at work.
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
    is_left: bool = False
    is_at_goal: bool = False
    records: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    _still_seconds: float = STILL_SECONDS
    _progress: Progress = Progress.BEHIND
    _next_progress: float = -math.inf

    def run(self) -> Reason | None:
        """Why the run ended early; None: there is no more. Raises JavaException with the trace of a task that FAILED."""
        if self.endless:
            return self._run_endless(self._counter())
        if not self.task.is_source:
            return self._run_sink(self._counter())
        count = self._counter()
        while True:
            before, reason = self._until_still(count)
            if reason is not None and self.is_final():
                return reason  # the owner kills the JVM
            was_received = self._progress is not Progress.BEHIND
            is_paused = self._pause(reason)
            self._take_numbers(count)
            reason = reason or self.stop_reason()
            is_delivered = self._is_delivered(self.records)
            is_at_limit = self.max_records is not None and self.records >= self.max_records
            is_empty = self.records == before and self.is_done()
            if self.is_left and not is_empty:  # it has returned just now
                self.is_left = False
            if reason is not None or self.is_left or (is_paused and (is_delivered or is_at_limit or is_empty)):
                self._stop(reason)
                is_whole = reason is None and not self.is_left  # a poll that was left may have had records in its hand
                self.is_at_goal = is_whole and (is_delivered or (was_received and not is_at_limit))
                return reason
            self._still_seconds = min(LONGEST_STILL_SECONDS, 1.5 * self._still_seconds) if self.records == before else STILL_SECONDS
            self.worker.pause(self.task.connector, paused=False)

    def _run_sink(self, count: Callable[[], int]) -> Reason | None:
        while True:
            _, reason = self._until_still(count)
            is_at_limit = self.max_records is not None and count() >= self.max_records
            if reason is None and not is_at_limit and not self.is_done():
                continue
            self._take_numbers(count)  # after the check: what it has seen is counted
            self._stop(reason)
            return reason

    def _run_endless(self, count: Callable[[], int]) -> Reason:
        while (reason := self.stop_reason()) is None:
            self._refuse_failed()
            self.tick()
            self.sleep(STATUS_SECONDS)
        self._take_numbers(count)
        self._stop(reason)
        return reason

    def _counter(self) -> Callable[[], int]:
        return self.worker.counter(self.task, "source-record-poll-total" if self.task.is_source else "sink-record-read-total")

    def _take_numbers(self, count: Callable[[], int]) -> None:
        self.records, self.metrics, self.sizes = count(), self.worker.metrics(self.task), self.worker.sizes(self.task)

    def _stop(self, reason: Reason | None) -> None:
        """Have the task commit what it has, and stop; unless its owner kills the JVM."""
        if not self.is_left and (reason is None or not self.is_final()):
            self.worker.stop_task(self.task)
            self._refuse_failed()

    def _until_still(self, count: Callable[[], int]) -> tuple[int, Reason | None]:
        """Wait until no record has come for a while, or there is a reason to end; a source is within a poll then, which began before the
        pause. Returns the count as it was before that poll was seen."""
        last, since, seconds = count(), self.now(), LOOK_SECONDS
        status_due = -math.inf
        while True:
            if (reason := self.stop_reason()) is not None:
                return last, reason
            if self.now() >= status_due:
                self._refuse_failed()
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

    def _may_pause(self, total: int, still_seconds: float) -> bool:
        if self.goal is not None and self._progress is Progress.BEHIND:
            return False
        if self.task.is_source and not total:
            return self.worker.is_polling(self.task)
        return still_seconds >= self._still_seconds and (not self.task.is_source or self.worker.is_polling(self.task))

    def _is_delivered(self, polled: int) -> bool:
        """Whether the goal is. Asks for it now and then, and never goes back."""
        if self.goal is not None and self._progress is not Progress.DELIVERED and self.now() >= self._next_progress:
            found = self.goal.progress(self.worker, polled)
            self._progress = self._progress if found is Progress.BEHIND else found
            self._next_progress = self.now() + GOAL_SECONDS
        return self._progress is Progress.DELIVERED

    def _pause(self, reason: Reason | None) -> bool:
        """Pause and wait for it: as long as the poll may take, unless there is a reason to end; then the task's stop has its own time."""
        self.worker.pause(self.task.connector)
        since, seconds, is_reported = self.now(), LOOK_SECONDS, False
        while self._refuse_failed() != "PAUSED":
            if reason is not None or self.stop_reason() is not None:
                return False
            waited = self.now() - since
            if self.poll_seconds is not None and waited >= self.poll_seconds and self.worker.is_polling(self.task):
                self.is_left = True
                return False
            if self.poll_seconds is None and waited >= LONG_POLL_SECONDS and not is_reported:
                self.note_long_poll(waited)
                is_reported = True
            self.sleep(seconds)
            seconds = _longer(seconds)
        return True

    def _refuse_failed(self) -> str:
        """The task's state, which is not FAILED."""
        status = self.worker.status(self.task)
        if status.state == "FAILED":
            raise failure_of(status.trace, is_source=self.task.is_source)
        return status.state


_TOO_LARGE: Final = "org.apache.kafka.common.errors.RecordTooLargeException"
_OF_PRODUCER: Final = ("max.request.size", "buffer.memory")
"""Settings of a producer that Java's message names; without one the broker has refused the record."""


def failure_of(trace: str | None, *, is_source: bool) -> JavaException:
    """The exception for a task that Java reports as FAILED with this trace. Where a source's record is too large, the trace ends with the
    settings to raise: Java's own text names those of a producer, which a connector's config has by another name."""
    if not trace:
        return JavaException("org.apache.kafka.connect.errors.ConnectException: the task has failed")
    refusal = next((line for line in trace.splitlines() if _TOO_LARGE in line), None)
    if refusal is None or not is_source:  # a sink's own clients have settings of its connector
        return JavaException(trace)
    prefix = "schema.history.internal.producer." if "KafkaSchemaHistory" in trace else "producer.override."
    named = next((name for name in _OF_PRODUCER if name in refusal), None)
    topics = "max.message.bytes of the topic, whose default is the brokers' message.max.bytes"
    advice = f"raise {topics}" if named is None else f"raise {prefix}{named} of the connector, and {topics}"
    return JavaRecordException(f"{trace.rstrip()}\nA record is too large: {advice}")


def _longer(seconds: float) -> float:
    return min(LONGEST_LOOK_SECONDS, 1.5 * seconds)
