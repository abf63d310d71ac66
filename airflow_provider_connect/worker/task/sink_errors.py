"""What a sink task does about records that fail: its tolerance, its dead letters and its reporter, tied to the commits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk.records import TopicPartition
from airflow_provider_connect.worker.delivery.consumed_records import Originals
from airflow_provider_connect.worker.delivery.raw_batch import RawBatch
from airflow_provider_connect.worker.errors.dead_letters import DeadLetterQueue
from airflow_provider_connect.worker.errors.failures import FailedRecord
from airflow_provider_connect.worker.errors.tolerance import Tolerance
from airflow_provider_connect.worker.task.errant_records import PUT

KEPT_BYTES = 128 * 1024 * 1024  # of originals and letters; a commit lets go of them


@dataclass(slots=True)
class SinkErrors:
    """``queue`` None: there is no dead letter queue, and no ``originals`` are kept for it."""

    tolerance: Tolerance = field(default_factory=Tolerance)
    queue: DeadLetterQueue | None = None
    originals: Originals | None = None
    _held_bytes: int = 0  # what the last commit left, because the task would not vouch for it

    @property
    def tolerates_all(self) -> bool:
        return self.tolerance.settings.tolerates_all

    def put_in_parts(self, count: int, put: Callable[[int, int], None], record: Callable[[int], FailedRecord]) -> None:
        """Put ``count`` records by ``put(start, length)``, without those for which that raises DataException alone."""
        self.tolerance.parts(PUT, count, put, record, tolerable=DataException)

    def keep(self, raw: RawBatch) -> None:
        """A batch was read."""
        if self.originals is not None:
            self.originals.keep(raw)

    @property
    def is_full(self) -> bool:
        """Whether so much waits for the next commit that it had better come now."""
        return self._kept_bytes() - self._held_bytes > KEPT_BYTES

    @contextmanager
    def committing(self, positions: Mapping[TopicPartition, int]) -> Iterator[None]:
        """Around a commit of ``positions``: 1 the letters about what lies before them 2 the commit, in which each further letter is
        written at once, since the destination may take note of its offset right after."""
        if self.queue is None:
            yield
            return
        self.queue.settle(positions)  # 1
        before, self.queue.writes_through = self.queue.writes_through, True
        try:
            yield  # 2
        finally:
            self.queue.writes_through = before

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """These offsets are committed."""
        if self.originals is not None:
            self.originals.release(offsets)
        self._held_bytes = self._kept_bytes()

    def _kept_bytes(self) -> int:
        waiting = self.queue.waiting_bytes if self.queue is not None else 0
        return waiting + (self.originals.num_bytes if self.originals is not None else 0)
