"""Records of one table brought into it; what the database refuses is found record by record. Knows nothing of offsets and commits."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

from airflow_provider_connect.connectors.jdbc.database.database_errors import RefusedException
from airflow_provider_connect.connectors.jdbc.sink.columns import FEWEST_ROWS, misfits, refuse_nulls, rest_of
from airflow_provider_connect.connectors.jdbc.sink.keys import Effect, behind_others, effect_of
from airflow_provider_connect.connectors.jdbc.sink.layout import Layout
from airflow_provider_connect.connectors.jdbc.sink.records import Records
from airflow_provider_connect.connectors.jdbc.sink.settings import DELETE_ENABLED, InsertMode, SinkSettings
from airflow_provider_connect.connectors.jdbc.sink.store import SiftingStore, SinkStore
from airflow_provider_connect.connectors.jdbc.sink.target import TargetTable
from airflow_provider_connect.sdk.arrow import pa, pc
from airflow_provider_connect.sdk.columns import row_numbers

Refusal = tuple[int, RefusedException]  # which record, and why


class TableWriter:
    """Writes the records of one layout into one table, some at a time, each time all of them or none.

    Where one is refused the database finds the bad ones, if it can; else the place that it names, or halving, finds them one by one. Where
    there is one there are more: the next records go through the sieve at once, or in pieces about as long as the last good run was.
    """

    def __init__(self, store: SinkStore, table: TargetTable, layout: Layout, settings: SinkSettings) -> None:
        self._store = store
        self._table = table
        self.layout = layout
        self._settings = settings
        self._most = settings.batch_size
        self._is_wary = False

    def write(self, records: Records) -> Iterator[Refusal]:
        """Write the records but for those that are refused, which come out in their order. Some are written each time the next is asked
        for, from any thread, while nobody else uses the store."""
        start = 0
        while start < len(records):
            stop = min(start + self._most, len(records))
            error = None
            if not self._is_wary:
                error = self._refusal(records, start, stop)
                if error is None:
                    start = stop
                    self._most = min(self._most + self._most // 2, self._settings.batch_size)
                    continue
            count, refused = self._sifted(records.slice(start, stop))
            for place, reason in sorted(refused.items()):
                yield start + place, RefusedException(reason)
            self._is_wary = bool(refused)
            if not count:
                count = yield from self._searched(records, start, stop, error)
            start += count

    def _sifted(self, records: Records) -> tuple[int, dict[int, str]]:
        """Write some records from the front, as the database sifts them: how many are dealt with, and why some of these are refused. None
        are where the database cannot do that, or refuses a delete.

        Where the last change of a key is refused the one before it counts: then those before the refused one are written first.
        """
        store, layout, mode = self._store, self.layout, self._settings.insert_mode
        if not isinstance(store, SiftingStore):
            return 0, {}
        rows, deletes = self._rows(records)
        refused = misfits(len(records), lambda *piece: self._refuse_nulls(*_piece_of(piece, records, rows, deletes)))
        places = rest_of(len(records), refused)
        if refused:
            rows, deletes = rows.take(places), None if deletes is None else deletes.take(places)
        keys = rows.select(list(layout.keys))
        store.save()
        try:
            equal = self._equal_keys(keys, deletes)
            if equal is None:
                raise RefusedException("The database tells only row by row which keys are equal")
            effect = self._effect(keys, equal, deletes)
            written = effect.written if effect.written is not None else row_numbers(rows.num_rows)
            if effect.deleted is not None:
                self._apply(keys, effect.deleted, lambda some: store.delete(self._table, some))
            found = store.sift(self._table, self._with_first_keys(rows.take(written), keys, effect), layout.keys, mode)
        except RefusedException:
            store.restore()
            return 0, {}
        bad = [written[place].as_py() for place in found]
        hidden = [] if mode is InsertMode.INSERT else behind_others(equal, bad)
        if hidden:
            store.restore()
            return self._sifted(records.slice(0, places[min(hidden)].as_py()))
        store.release()
        return len(records), refused | {places[row].as_py(): reason for row, reason in zip(bad, found.values(), strict=True)}

    def _searched(self, records: Records, start: int, stop: int, error: RefusedException | None) -> Generator[Refusal, None, int]:
        """Write records up to and without the first that is refused, which comes out; how many were dealt with."""
        error = error or self._refusal(records, start, stop)
        if error is None:
            return stop - start
        bad, error = self._until_bad(records, start, stop, error)
        if error is None:
            return bad - start
        yield bad, error
        self._most = max(FEWEST_ROWS, min(self._most, bad - start))
        return bad + 1 - start

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
        rows, deletes = self._rows(records)
        self._refuse_nulls(records, rows, deletes)
        keys = rows.select(list(self.layout.keys))
        self._store.save()
        try:
            equal = self._equal_keys(keys, deletes)
            if equal is None:
                self._write_in_order(rows, keys, deletes)
            else:
                effect = self._effect(keys, equal, deletes)
                if effect.deleted is not None:
                    self._apply(keys, effect.deleted, lambda some: self._store.delete(self._table, some))
                self._apply(rows, effect.written, lambda some: self._put(self._with_first_keys(some, keys, effect)))
        except RefusedException:
            self._store.restore()
            raise
        self._store.release()

    def _equal_keys(self, keys: pa.Table, deletes: pa.ChunkedArray | None) -> pa.Table | None:
        """As ``SinkStore.equal_keys``, which is not asked where every record is a row of its own."""
        is_every_row = deletes is None and self._settings.insert_mode is InsertMode.INSERT
        return keys if is_every_row or keys.num_rows < 2 else self._store.equal_keys(self._table, keys)

    def _effect(self, keys: pa.Table, equal: pa.Table, deletes: pa.ChunkedArray | None) -> Effect:
        has_variants = equal.column_names != keys.column_names
        return effect_of(equal, deletes, self._settings.insert_mode, has_variants=has_variants)

    def _with_first_keys(self, rows: pa.Table, keys: pa.Table, effect: Effect) -> pa.Table:
        """The rows of ``effect.written`` with the keys that they would have if each record were written by itself."""
        if effect.keyed is None:
            return rows
        first = keys.take(effect.keyed)
        for name in keys.column_names:
            rows = rows.set_column(rows.column_names.index(name), rows.schema.field(name), first[name])
        return rows

    def _write_in_order(self, rows: pa.Table, keys: pa.Table, deletes: pa.ChunkedArray | None) -> None:
        """Deletes and what stands between them by turns: any record may be about the same row as the one before it."""
        if deletes is None:
            self._put(rows)
            return
        places = row_numbers(rows.num_rows)
        ends = [*(pc.indices_nonzero(pc.not_equal(deletes.slice(1), deletes.slice(0, len(deletes) - 1))).to_pylist()), rows.num_rows - 1]
        start = 0
        for end in ends:
            some = places.slice(start, end + 1 - start)
            if deletes[start].as_py():
                self._apply(keys, some, lambda found: self._store.delete(self._table, found))
            else:
                self._apply(rows, some, self._put)
            start = end + 1

    def _rows(self, records: Records) -> tuple[pa.Table, pa.ChunkedArray | None]:
        """The records' rows, and which of them are deletes; None: not one."""
        deletes = records.deletes() if self.layout.has_deletes else None
        return records.table(self.layout), None if deletes is None or not pc.any(deletes).as_py() else deletes

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


def _piece_of(
    piece: tuple[int, int], records: Records, rows: pa.Table, deletes: pa.ChunkedArray | None
) -> tuple[Records, pa.Table, pa.ChunkedArray | None]:
    start, length = piece
    return records.slice(start, start + length), rows.slice(start, length), None if deletes is None else deletes.slice(start, length)
