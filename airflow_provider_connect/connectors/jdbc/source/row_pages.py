"""Batches of a driver cut into pages, each with the offset behind it. Where several rows may have the same key, they stay together.

Whoever goes on from a page's offset asks for keys that are greater: rows left over with an equal key would never be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from airflow_provider_connect.sdk.arrow import pa, pc


@dataclass(frozen=True, slots=True)
class Pages:
    """``key_index`` is the place of the column whose equal values stay together; None: any place will do. At most ``rows`` in a page, but
    for such rows."""

    rows: int
    key_index: int | None = None

    def of(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of ``batches``, which are in the order of the key."""
        held: list[pa.RecordBatch] = []  # all of one key, which may go on in the next batch
        for batch in batches:
            if not batch.num_rows:
                continue
            if self.key_index is None:
                yield from self._slices(batch)
                continue
            if held and not self._is_same_key(held[-1], batch):
                yield from self._slices(_joined(held))
                held = []
            last_key = self._last_key_start(batch)
            if last_key > 0:
                yield from self._slices(_joined([*held, batch.slice(0, last_key)]) if held else batch.slice(0, last_key))
                held = []
            held.append(batch.slice(last_key))
        if held:
            yield from self._slices(_joined(held))

    def _slices(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        start = 0
        while start < batch.num_rows:
            end = min(start + self.rows, batch.num_rows)
            if self.key_index is not None and end < batch.num_rows:
                keys = batch.column(self.key_index)
                other = pc.index(pc.equal(keys.slice(end), keys[end - 1]), False).as_py()
                end = batch.num_rows if other < 0 else end + other
            yield batch.slice(start, end - start)
            start = end

    def _is_same_key(self, before: pa.RecordBatch, batch: pa.RecordBatch) -> bool:
        assert self.key_index is not None
        return bool(before.column(self.key_index)[-1] == batch.column(self.key_index)[0])

    def _last_key_start(self, batch: pa.RecordBatch) -> int:
        assert self.key_index is not None
        keys = batch.column(self.key_index)
        return int(pc.index(keys, keys[-1]).as_py())


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """As one. Some drivers show no types: a column may be of nulls alone in one batch, and of more digits in the next."""
    if len(batches) == 1:
        return batches[0]
    table = pa.concat_tables([pa.Table.from_batches([batch]) for batch in batches], promote_options="permissive")
    [joined] = table.combine_chunks().to_batches()
    return joined
