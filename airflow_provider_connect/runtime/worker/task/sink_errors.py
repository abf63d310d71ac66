"""A sink task's failing records: its tolerance and its dead-letter records, synchronized with its commits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import DataException
from airflow_provider_connect.runtime.worker.delivery.raw_batch import RawBatch, RetainedBatches
from airflow_provider_connect.runtime.worker.errors.dead_letters import DeadLetterQueue
from airflow_provider_connect.runtime.worker.errors.failures import PUT, FailedRecord, Failure
from airflow_provider_connect.runtime.worker.errors.tolerance import Tolerance
from airflow_provider_connect.sdk.task import Refusal

KEPT_BYTES = 128 * 1024 * 1024  # maximum size of originals and dead-letter records, which a commit releases


@dataclass(slots=True)
class SinkErrors:
    """``queue`` None: no dead letter queue, and no ``originals`` are kept."""

    tolerance: Tolerance = field(default_factory=Tolerance)
    queue: DeadLetterQueue | None = None
    originals: RetainedBatches | None = None
    _held_bytes: int = 0  # the bytes that remained after the last commit, because the task had not confirmed their records

    @property
    def tolerates_all(self) -> bool:
        return self.tolerance.settings.tolerates_all

    def put_in_parts(
        self,
        count: int,
        put: Callable[[int, int], None],
        record: Callable[[int], FailedRecord],
        refused: Callable[[], Sequence[Refusal] | None] | None = None,
    ) -> int:
        """Put the ``count`` records of a batch by ``put(start, length)``, without those that the task refuses. After ``put`` has raised
        DataException, ``refused`` returns the refused records. If it returns None, they are searched for. Returns how many records the task
        accepted without a further ``put``."""
        if refused is not None:
            try:
                put(0, count)
            except DataException:
                found = refused()
            else:
                return 0
            if found is not None:
                for refusal in found:
                    self.tolerance.failed(Failure(PUT, refusal.error, record(refusal.row)))
                put(count, 0)  # notes the progress
                return count - len(found)
        self.tolerance.parts(PUT, count, put, record, tolerable=DataException)
        return 0

    def keep(self, raw: RawBatch) -> None:
        """Keep a batch until its commit."""
        if self.originals is not None:
            self.originals.keep(raw)

    @property
    def is_full(self) -> bool:
        """Whether a commit is due now, because so much waits for it."""
        return self._kept_bytes() - self._held_bytes > KEPT_BYTES

    @contextmanager
    def committing(self, positions: Mapping[TopicPartition, int]) -> Iterator[None]:
        """Surrounds a commit of ``positions``. Steps: 1 write the dead-letter records before ``positions``; 2 commit. During the commit,
        each further dead-letter record is written immediately, because the destination may store its offset right afterwards."""
        if self.queue is None:
            yield
            return
        self.queue.write_due(positions)  # 1
        before, self.queue.writes_through = self.queue.writes_through, True
        try:
            yield  # 2
        finally:
            self.queue.writes_through = before

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Release the originals before the committed ``offsets``."""
        if self.originals is not None:
            self.originals.release(offsets)
        self._held_bytes = self._kept_bytes()

    def _kept_bytes(self) -> int:
        waiting = self.queue.waiting_bytes if self.queue is not None else 0
        return waiting + (self.originals.num_bytes if self.originals is not None else 0)
