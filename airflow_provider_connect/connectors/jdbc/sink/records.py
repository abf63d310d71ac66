"""Consecutive records of one table. Knows nothing of databases."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence

from airflow_provider_connect.connectors.jdbc.sink.layout import Layout, deletes_of, offsets_of
from airflow_provider_connect.sdk.arrow import pa
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.records import TopicPartition


class Records:
    """The records of some batches, one after the other."""

    __slots__ = ("_ends", "batches")

    def __init__(self, batches: Sequence[Batch]) -> None:
        self.batches = [batch for batch in batches if batch.num_records]
        self._ends = list(itertools.accumulate(batch.num_records for batch in self.batches))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def slice(self, start: int, stop: int) -> Records:
        """The records from ``start`` up to and without ``stop``, without a copy."""
        if start == 0 and stop >= len(self):
            return self
        pieces, begin = [], 0
        for batch, end in zip(self.batches, self._ends, strict=True):
            if begin < stop and start < end:
                first = max(start - begin, 0)
                pieces.append(batch.slice(first, min(stop, end) - begin - first))
            begin = end
        return Records(pieces)

    def record(self, index: int) -> Batch:
        """One record, as a batch of its own."""
        number = bisect.bisect_right(self._ends, index)
        batch = self.batches[number]
        return batch.slice(index - (self._ends[number] - batch.num_records), 1)

    def table(self, layout: Layout) -> pa.Table:
        """The records' columns. Those that only deletes lack are null there."""
        tables = [layout.table(batch) for batch in self.batches]
        return tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="default")

    def deletes(self) -> pa.ChunkedArray:
        """True where a record has no value."""
        return pa.chunked_array([deletes_of(batch) for batch in self.batches], pa.bool_())


def place_of(record: Batch) -> tuple[TopicPartition, int]:
    """Where one record lies in Kafka."""
    return record.topic_partition, int(offsets_of(record)[0].as_py())
