"""Records of one table brought into it; what the database refuses is found record by record. Knows nothing of offsets and commits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from airflow_provider_connect.connectors.jdbc.sink_columns import refuse_nulls
from airflow_provider_connect.connectors.jdbc.sink_layout import Layout
from airflow_provider_connect.connectors.jdbc.sink_records import Records, effect_of
from airflow_provider_connect.connectors.jdbc.sink_settings import DELETE_ENABLED, InsertMode, SinkSettings
from airflow_provider_connect.connectors.jdbc.sink_store import RefusedException, SinkStore
from airflow_provider_connect.connectors.jdbc.sink_target import TargetTable
from airflow_provider_connect.sdk.arrow import pa, pc
from airflow_provider_connect.sdk.batch import Batch

Refuse = Callable[[Batch, RefusedException], None]
_FEWEST: Final = 64


class TableWriter:
    """Writes the records of one layout into one table, some at a time, each time all of them or none.

    A bad record is told to ``refuse``, which raises where it is not to be left out. It is found by the place that the database names, or
    else by halving. Where there is one there are more: the next pieces are about as long as the last good run was.
    """

    def __init__(self, store: SinkStore, table: TargetTable, layout: Layout, settings: SinkSettings, refuse: Refuse) -> None:
        self._store = store
        self._table = table
        self.layout = layout
        self._settings = settings
        self._refuse = refuse
        self._most = settings.batch_size

    @property
    def is_trusting(self) -> bool:
        """Whether nothing was refused lately."""
        return self._most == self._settings.batch_size

    def attempt(self, records: Records) -> int:
        """Write records up to the first piece in which one is refused; how many. May be called from another thread, while nobody uses the
        store."""
        for start in range(0, len(records), self._most):
            if self._refusal(records, start, min(start + self._most, len(records))) is not None:
                return start
        return len(records)

    def write(self, records: Records) -> None:
        """Write the records but for those that are refused."""
        start = good = 0
        while start < len(records):
            stop = min(start + self._most, len(records))
            error = self._refusal(records, start, stop)
            if error is None:
                start, good = stop, good + stop - start
                self._most = min(self._most + self._most // 2, self._settings.batch_size)
                continue
            bad, error = self._until_bad(records, start, stop, error)
            if error is not None:
                self._refuse(records.record(bad), error)
                self._most = max(_FEWEST, min(self._most, good + bad - start))
                bad, good = bad + 1, 0
            start = bad

    def _until_bad(
        self, records: Records, start: int, stop: int, error: RefusedException
    ) -> tuple[int, RefusedException] | tuple[int, None]:
        """Write all before the first record that is refused; its place and why it is. None: piece by piece all went in, up to the place."""
        while True:
            is_known = error.row is not None or stop - start == 1
            middle = start + (error.row or 0) if is_known else (start + stop) // 2
            earlier = self._refusal(records, start, middle)
            if earlier is not None:
                stop, error = middle, earlier
            elif is_known:
                return middle, error
            else:
                left = self._refusal(records, middle, stop)
                if left is None:
                    return stop, None
                start, error = middle, left

    def _refusal(self, records: Records, start: int, stop: int) -> RefusedException | None:
        """Write some records, all or none of them; why they were refused."""
        if start < stop:
            try:
                self._write_whole(records.slice(start, stop))
            except RefusedException as error:
                return error
        return None

    def _write_whole(self, records: Records) -> None:
        """All or nothing. The place in a RefusedException is that among ``records``."""
        rows = records.table(self.layout)
        deletes = records.deletes() if self.layout.has_deletes else None
        if deletes is not None and not pc.any(deletes).as_py():
            deletes = None
        self._refuse_nulls(records, rows, deletes)
        keys = list(self.layout.keys)
        effect = effect_of(rows.select(keys), deletes, self._settings.insert_mode)
        self._store.save()
        try:
            if effect.deleted is not None:
                self._apply(rows.select(keys), effect.deleted, lambda some: self._store.delete(self._table, some))
            self._apply(rows, effect.written, self._put)
        except RefusedException:
            self._store.restore()
            raise
        self._store.release()

    def _apply(self, rows: pa.Table, places: pa.Array | None, write: Callable[[pa.Table], None]) -> None:
        """Write the rows at ``places``, or all."""
        some = rows if places is None else rows.take(places)
        if not some.num_rows:
            return
        try:
            write(some)
        except RefusedException as error:
            if places is None or error.row is None:
                raise
            raise RefusedException(error.message, places[error.row].as_py()) from error

    def _put(self, rows: pa.Table) -> None:
        store, keys = self._store, self.layout.keys
        match self._settings.insert_mode:
            case InsertMode.INSERT:
                store.insert(self._table, rows)
            case InsertMode.UPSERT:
                store.upsert(self._table, rows, keys)
            case InsertMode.UPDATE:
                store.update(self._table, rows, keys)

    def _refuse_nulls(self, records: Records, rows: pa.Table, deletes: pa.ChunkedArray | None) -> None:
        if not self.layout.has_deletes:
            empty = records.deletes()
            if pc.any(empty).as_py():
                row = pc.index(empty, True).as_py()
                raise RefusedException(f"A record without a value, and {DELETE_ENABLED} is false", row)
        if deletes is None:
            refuse_nulls(rows, self._table, self.layout.keys)
            return
        refuse_nulls(rows.select(list(self.layout.keys)), self._table, self.layout.keys)
        kept = pc.invert(deletes)
        try:
            refuse_nulls(rows.filter(kept), self._table, self.layout.keys)
        except RefusedException as error:
            places = pc.indices_nonzero(kept)
            raise RefusedException(error.message, places[error.row].as_py()) from error
