"""Finds the newest dead-letter records of a topic that meet a condition, among records of other writers and transaction markers.

Those records and markers also have offsets, so it is not known how far back to read. Each partition is read over a span of offsets. If it
yields too few records, the span is doubled.
"""

import heapq
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import NotFoundException, StoreTimeoutException
from airflow_provider_connect.runtime.config.client_settings import ClientKind, internal_client_config
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.stores.log_consumer import LogConsumer, LogRecord
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin

MOST_OFFSETS: Final = 100_000
"""How far back a partition is read."""
TIMEOUT_SECONDS: Final = 30.0

_Kept = TypeVar("_Kept")


@dataclass(frozen=True, slots=True)
class LastRecords(Generic[_Kept]):
    """``kept`` is ordered by timestamp. Not ``is_whole``: the search timed out before everything was read."""

    kept: list[_Kept]
    is_whole: bool


class RecordSearch(Generic[_Kept]):
    """One search, in all partitions, for the newest ``count`` records that ``meets`` accepts. ``keep`` converts each record.

    Holds no more than ``count`` converted records in memory. ``now`` is a clock in seconds.
    """

    def __init__(
        self,
        count: int,
        meets: Callable[[LogRecord], bool],
        keep: Callable[[LogRecord], _Kept],
        *,
        most_offsets: int = MOST_OFFSETS,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._count, self._meets, self._keep = count, meets, keep
        self._most_offsets, self._now = most_offsets, now
        self._newest: list[tuple[tuple[int, int, int], _Kept]] = []  # a heap whose first entry is the oldest
        self._found: Counter[int] = Counter()
        self._read_from: dict[int, int] = {}

    def run(self, settings: WorkerSettings, topic: str, timeout_seconds: float = TIMEOUT_SECONDS) -> LastRecords[_Kept]:
        """Reads each partition of ``topic`` back until it has yielded ``count`` records, to its beginning, or over ``most_offsets``.

        Raises NotFoundException if the topic does not exist, StoreTimeoutException if no record was found in time.
        """
        deadline = self._now() + timeout_seconds
        with closing(TopicAdmin(settings)) as admin:
            partitions = [TopicPartition(topic, number) for number in range(admin.partitions([topic]).get(topic, 0))]
            if not partitions:
                raise missing_queue(topic)
            begins, ends = admin.beginning_offsets(partitions), admin.end_offsets(partitions)
        span, is_whole = min(self._count, self._most_offsets), True
        with LogConsumer(internal_client_config(settings, ClientKind.CONSUMER, "dead-letters")) as consumer:
            while partitions:
                starts = {partition: max(begins[partition], ends[partition] - span) for partition in partitions}
                try:
                    consumer.read(starts, max(deadline - self._now(), 0.0), self._take)
                except StoreTimeoutException:
                    if not self._newest:
                        raise
                    is_whole = False
                    break
                self._read_from.update({partition.partition: start for partition, start in starts.items()})
                partitions = [at for at, start in starts.items() if self._found[at.partition] < self._count and start > begins[at]]
                if span == self._most_offsets:
                    break
                span = min(span * 2, self._most_offsets)
        return LastRecords([kept for _, kept in sorted(self._newest, key=lambda each: each[0])], is_whole)

    def _take(self, record: LogRecord) -> None:
        """Keeps a record that meets the condition. Ignores offsets of the previous span, and records written since then."""
        read_from = self._read_from.get(record.partition)
        if (read_from is not None and record.offset >= read_from) or not self._meets(record):
            return
        self._found[record.partition] += 1
        at = (record.timestamp, record.partition, record.offset)
        if len(self._newest) < self._count:
            heapq.heappush(self._newest, (at, self._keep(record)))
        elif at > self._newest[0][0]:
            heapq.heapreplace(self._newest, (at, self._keep(record)))


def missing_queue(topic: str) -> NotFoundException:
    """The error for a dead letter queue whose topic does not exist."""
    return NotFoundException(f"Topic {topic} does not exist yet: no record has failed, or the sink could not create it (see its trace)")
