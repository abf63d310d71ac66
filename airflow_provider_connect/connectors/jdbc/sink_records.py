"""Consecutive records of one table, and which of them count when the last change of a key wins. Knows nothing of databases."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider_connect.connectors.jdbc.sink_layout import Layout, deletes_of, offsets_of
from airflow_provider_connect.connectors.jdbc.sink_settings import InsertMode
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


@dataclass(frozen=True, slots=True)
class Effect:
    """What records of a table come to: first the rows of ``deleted`` go, then those of ``written`` come. Both are rising places among the
    records; ``written`` None: all of them."""

    deleted: pa.Array | None
    written: pa.Array | None


def behind_others(keys: pa.Table, rows: Sequence[int]) -> list[int]:
    """Which of these rows have a key that an earlier row has, too."""
    if not rows:
        return []
    import polars as pl

    is_first = _frame(keys).select(pl.struct(pl.all()).is_first_distinct()).to_series()
    return [row for row in rows if not is_first[row]]


EVERYTHING: Final = Effect(None, None)


def effect_of(keys: pa.Table, deletes: pa.ChunkedArray | None, mode: InsertMode) -> Effect:
    """What the records come to when they are applied at once.

    Of several changes of one key the last counts, but for inserts: two of one key are a mistake that the database finds. A delete takes
    everything before it away.
    """
    import polars as pl

    if deletes is None and mode is InsertMode.INSERT:
        return EVERYTHING
    frame = _frame(keys).with_row_index("row")
    names = frame.columns[1:]
    is_last = pl.col(names[0]).is_last_distinct() if len(names) == 1 else pl.struct(*names).is_last_distinct()
    if deletes is None:
        last = frame.filter(is_last)
        return EVERYTHING if len(last) == len(frame) else Effect(None, last["row"].to_arrow())
    marked = frame.with_columns(pl.Series("is delete", deletes.to_numpy()))
    last_delete = pl.when("is delete").then(pl.col("row").cast(pl.Int64)).max().over(names).fill_null(-1)
    left = marked.with_columns(last_delete.alias("last delete")).filter(pl.col("row") >= pl.col("last delete"))
    written = left.filter(~pl.col("is delete"))
    if mode is not InsertMode.INSERT:
        written = written.filter(is_last)
    return Effect(left.filter("is delete")["row"].to_arrow(), written["row"].to_arrow())


def _frame(keys: pa.Table) -> Any:  # a polars DataFrame
    """The keys under names that no other column has."""
    import polars as pl

    return pl.DataFrame(pl.from_arrow(keys.rename_columns([f"key {number}" for number in range(keys.num_columns)])))
