"""Counts what a source task's run has polled, sent and committed, and checks its limit. Knows nothing of polls, deliveries or
transactions."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.model.batches import Stay
from airflow_provider_connect.runtime.stores.transactional_producer import ProducerRecord
from airflow_provider_connect.runtime.worker.delivery.encoded_batch import EncodedBatch
from airflow_provider_connect.runtime.worker.metrics import TaskMetrics
from airflow_provider_connect.runtime.worker.task.environment import ActiveTopics
from airflow_provider_connect.runtime.worker.task.progress import INTERVAL_SECONDS
from airflow_provider_connect.runtime.worker.task.written_topics import Ranges, WrittenTopics
from airflow_provider_connect.sdk.batch import Batch

QUIET_SECONDS = 1.0
"""How long after its last commit a task whose run stays writes what it has delivered to the batch log."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class RunProgress:
    """The counts of one run, which its loop updates, and the reports that depend on them.

    ``max_records`` is the number of polled records that ends the run. None: no limit. ``topics`` creates topics and notes their ends.
    ``active_topics`` reports the topics. Both are None in a preview, which writes to no topic. ``batch_log_entry`` returns the task's entry
    in the batch log, with the ranges if the run ``stays``. ``copy_offsets`` copies committed offsets to the worker's topic.
    ``tick`` is called in each turn, ``note_position`` with the position of the next work. ``now`` is a monotonic clock, in seconds.
    """

    metrics: TaskMetrics
    max_records: int | None = None
    topics: WrittenTopics | None = None
    active_topics: ActiveTopics | None = None
    stays: bool = False
    batch_log_entry: Callable[[Ranges, Stay | None], Sequence[ProducerRecord]] = lambda _ranges, _stay: ()
    copy_offsets: Callable[[], None] = lambda: None
    tick: Callable[[], None] = lambda: None
    note_position: Callable[[str], None] = lambda _: None
    now: Callable[[], float] = time.monotonic
    interval_seconds: float = INTERVAL_SECONDS
    has_offsets: bool = False  # the connector has offsets, or a polled record has one
    _uncommitted_topics: set[str] = field(default_factory=set)
    _last_entry: float = 0.0
    _last_commit: float = 0.0
    _is_uncommitted: bool = False
    _is_unreported: bool = False  # the last entry lacks committed records
    _ranges: Ranges = field(default_factory=dict)  # of the last entry of a run that stays

    def __post_init__(self) -> None:
        self._last_entry = self.now()

    @property
    def has_reached_limit(self) -> bool:
        """Whether the run has polled its maximum number of records."""
        return self.max_records is not None and self.metrics.records_in >= self.max_records

    def ranges(self) -> Ranges:
        """The written offsets, as ``WrittenTopics.ranges``."""
        return {} if self.topics is None else self.topics.ranges()

    def polled(self, batches: Sequence[Batch], encoded: Sequence[EncodedBatch]) -> None:
        """Count polled batches, and prepare the topics of their encoded records."""
        for batch in batches:
            self.metrics.records_in += batch.num_records
            self.has_offsets = self.has_offsets or batch.last_offset is not None
            self.metrics.batches.add(batch.num_records)
        if self.topics is not None:
            for part in encoded:
                self.topics.prepare(part.topic)

    def sent(self, encoded: Sequence[EncodedBatch]) -> None:
        """Count what is about to be delivered."""
        self._is_uncommitted = True
        for part in encoded:
            self.metrics.records_out += part.num_records
            self.metrics.bytes += part.num_bytes
            self._uncommitted_topics.add(part.topic)

    def dropped(self) -> None:
        """Note that what was sent since the last commit was discarded."""
        self._is_uncommitted = False
        self.metrics.drop()

    def nothing_uncommitted(self) -> None:
        """Note that the delivery has committed what it had. Called after each commit, also after one without records and offsets."""
        if self._is_uncommitted:
            self._is_uncommitted, self._is_unreported, self._last_commit = False, True, self.now()

    def committed(self) -> None:
        """Note that everything sent is committed. Steps: 1 report the topics of the records; 2 copy their offsets."""
        if self.active_topics is not None:
            self.active_topics.note(self._uncommitted_topics)
        self._uncommitted_topics.clear()
        self.copy_offsets()

    def batch_log_records(self, *, is_last: bool) -> Sequence[ProducerRecord]:
        """The records that a commit writes to the batch log. The last commit always has them; other commits have them once per
        ``interval_seconds``. A run without records has none."""
        is_due = is_last or self.now() - self._last_entry >= self.interval_seconds
        if not is_due or not self.metrics.records_in:
            return ()
        self._last_entry = self.now()
        if not self.stays:
            return self.batch_log_entry({}, None)
        self._read_ranges()
        return self.batch_log_entry(self._ranges, Stay.OPEN)

    def unreported_records(self, *, is_last: bool) -> Sequence[ProducerRecord]:
        """The entry of a run that stays, for a commit of its own: when ``QUIET_SECONDS`` have passed since the last commit, and at the end.
        Empty if there is nothing new."""
        now, known = self.now(), self._ranges
        if not self.stays or not self.metrics.records_in:
            return ()
        if is_last:
            self._last_entry, self._is_unreported = now, False
            return self.batch_log_entry(self._final_ranges(), Stay.OVER)
        if not self._is_unreported or self._is_uncommitted or now - max(self._last_commit, self._last_entry) < QUIET_SECONDS:
            return ()
        self._last_entry, self._is_unreported = now, not self._read_ranges()
        return () if self._ranges == known else self.batch_log_entry(self._ranges, Stay.OPEN)

    def _read_ranges(self) -> bool:
        """Read what readers of committed records see. False: they do not see all records yet, or it cannot be read now."""
        if self.topics is None:
            return True
        try:
            self._ranges, is_whole = self.topics.committed_ranges()
        except ConnectException as error:  # the next entry has them
            log.debug("Which offsets are written is not known: %s", error)
            return False
        return is_whole

    def _final_ranges(self) -> Ranges:
        try:
            return self.ranges()
        except ConnectException as error:  # everything is delivered and committed
            log.warning("Which offsets were written last is not known: %s", error)
            return self._ranges
