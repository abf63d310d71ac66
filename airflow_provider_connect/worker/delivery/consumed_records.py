"""Records that were read and whose offsets are not committed yet: a task may refuse one long after it was put."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_connect.sdk.records import TopicPartition
from airflow_provider_connect.worker.delivery.raw_batch import RawBatch
from airflow_provider_connect.worker.errors.failures import ConsumedRecord


class Originals:
    """Raw batches until their commit. Beyond ``most_bytes`` it forgets the oldest for which the task does not vouch."""

    def __init__(self, most_bytes: int = 512 * 1024 * 1024) -> None:
        self._raws: dict[TopicPartition, list[RawBatch]] = {}
        self._most = most_bytes
        self.num_bytes = 0

    def keep(self, raw: RawBatch) -> None:
        kept = self._raws.setdefault(raw.partition, [])
        kept.append(raw)
        self.num_bytes += raw.num_bytes
        while self.num_bytes > self._most and len(kept) > 1:
            self.num_bytes -= kept.pop(0).num_bytes

    def release(self, committed: Mapping[TopicPartition, int]) -> None:
        """Forget what is committed: ``committed`` is the next record to read of each partition."""
        for partition, offset in committed.items():
            kept = self._raws.get(partition, [])
            gone = [raw for raw in kept if raw.next_offset <= offset]
            self.num_bytes -= sum(raw.num_bytes for raw in gone)
            self._raws[partition] = kept[len(gone) :]

    def find(self, partition: TopicPartition, offset: int) -> ConsumedRecord | None:
        """The record at ``offset``; None where it is not kept."""
        for raw in reversed(self._raws.get(partition, [])):
            index = raw.index_of(offset)
            if index is not None:
                return raw.record(index)
        return None
