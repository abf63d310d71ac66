"""Counts what a source task's run has polled, sent and committed, and checks its limit. Knows nothing of polls, deliveries or
transactions."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from airflow_provider_connect.runtime.stores.transactional_producer import ProducerRecord
from airflow_provider_connect.runtime.worker.delivery.encoded_batch import EncodedBatch
from airflow_provider_connect.runtime.worker.metrics import TaskMetrics
from airflow_provider_connect.runtime.worker.task.environment import ActiveTopics
from airflow_provider_connect.runtime.worker.task.progress import INTERVAL_SECONDS
from airflow_provider_connect.runtime.worker.task.written_topics import WrittenTopics
from airflow_provider_connect.sdk.batch import Batch


@dataclass(slots=True)
class RunProgress:
    """The counts of one run, which its loop updates, and the reports that depend on them.

    ``max_records`` is the number of polled records that ends the run. None: no limit. ``topics`` creates topics and notes their ends.
    ``active_topics`` reports the topics. Both are None in a preview, which writes to no topic. ``batch_log_entry`` returns the task's entry
    in the batch log. ``copy_offsets`` copies committed offsets to the worker's topic. ``log_progress`` is called in each turn,
    ``note_position`` with the position of the next work. ``now`` is a monotonic clock, in seconds.
    """

    metrics: TaskMetrics
    max_records: int | None = None
    topics: WrittenTopics | None = None
    active_topics: ActiveTopics | None = None
    batch_log_entry: Callable[[], Sequence[ProducerRecord]] = tuple
    copy_offsets: Callable[[], None] = lambda: None
    log_progress: Callable[[], None] = lambda: None
    note_position: Callable[[str], None] = lambda _: None
    now: Callable[[], float] = time.monotonic
    interval_seconds: float = INTERVAL_SECONDS
    _uncommitted_topics: set[str] = field(default_factory=set)
    _last_entry: float = 0.0

    def __post_init__(self) -> None:
        self._last_entry = self.now()

    @property
    def has_reached_limit(self) -> bool:
        """Whether the run has polled its maximum number of records."""
        return self.max_records is not None and self.metrics.records_in >= self.max_records

    def ranges(self) -> dict[str, dict[str, list[int]]]:
        """The written offsets, as ``WrittenTopics.ranges``."""
        return {} if self.topics is None else self.topics.ranges()

    def polled(self, batches: Sequence[Batch], encoded: Sequence[EncodedBatch]) -> None:
        """Count polled batches, and prepare the topics of their encoded records."""
        for batch in batches:
            self.metrics.records_in += batch.num_records
            self.metrics.batches.add(batch.num_records)
        if self.topics is not None:
            for part in encoded:
                self.topics.prepare(part.topic)

    def sent(self, encoded: Sequence[EncodedBatch]) -> None:
        """Count what is about to be delivered."""
        for part in encoded:
            self.metrics.records_out += part.num_records
            self.metrics.bytes += part.num_bytes
            self._uncommitted_topics.add(part.topic)

    def dropped(self) -> None:
        """Note that what was sent since the last commit was discarded."""
        self.metrics.drop()

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
        return self.batch_log_entry()
