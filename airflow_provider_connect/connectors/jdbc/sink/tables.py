"""The tables that a sink writes, as one connection knows them."""

from __future__ import annotations

from collections.abc import Callable

from airflow_provider_connect.connectors.jdbc.database.database_errors import RefusedException, StatementException
from airflow_provider_connect.connectors.jdbc.sink.layout import Layout
from airflow_provider_connect.connectors.jdbc.sink.settings import SinkSettings
from airflow_provider_connect.connectors.jdbc.sink.store import SinkStore, table_name
from airflow_provider_connect.connectors.jdbc.sink.target import TargetTable, changes
from airflow_provider_connect.connectors.jdbc.sink.writer import TableWriter
from airflow_provider_connect.errors import ConnectException


class TableChange(Exception):
    """A table must be changed before anything else is written."""

    def __init__(self, name: str, layout: Layout, statements: list[str]) -> None:
        super().__init__(name)
        self.name = name
        self.layout = layout
        self.statements = statements


class SinkTables:
    """Reads each table once, and again where somebody has changed it. For one thread at a time, as the store."""

    def __init__(self, store: SinkStore, settings: SinkSettings) -> None:
        self._store = store
        self._settings = settings
        self._tables: dict[str, TargetTable] = {}
        self._writers: dict[str, TableWriter] = {}
        self._held: set[str] = set()  # tables that keep their columns until the transaction ends

    def begun(self) -> None:
        """A transaction has begun."""
        self._held.clear()

    def writer(self, name: str, layout: Layout) -> TableWriter | None:
        """What writes records of ``layout``. None: they are deletes of a table that there is not yet. Raises TableChange."""
        writer = self._writers.get(name)
        if writer is not None and writer.layout == layout:
            return writer
        table, statements = self._needed(name, layout)
        if statements:
            raise TableChange(name, layout, statements)
        if table is None:
            return None
        writer = self._writers[name] = TableWriter(self._store, table, layout, self._settings)
        return writer

    def held_writer(self, name: str, layout: Layout, writer: TableWriter) -> TableWriter | None:
        """What writes these records in this transaction: another than ``writer`` where somebody has changed the table meanwhile."""
        if name in self._held:
            return writer
        self._held.add(name)
        if self._store.lock_to_write(self._tables[name]):
            return writer
        self._forget(name)
        return self.writer(name, layout)

    def change(self, change: TableChange, done: set[str], check_claim: Callable[[], None]) -> None:
        """1 lock, refused to an older claim 2 look again: another task may have changed the table 3 change what is still to be changed.
        A table that is made cannot be locked: there another task may be faster yet. ``done``: what was executed before, and has to help."""
        store, table = self._store, self._tables.get(change.name)
        self._forget(change.name)
        statements = change.statements
        store.begin()
        try:
            check_claim()
            if table is not None:
                store.lock_to_change(table)  # 1
                statements = self._needed(change.name, change.layout)[1]  # 2
            if statements and done.issuperset(statements):
                raise ConnectException(f"Table {change.name} is not as it should be after {'; '.join(statements)}")
            done.update(statements)
            for statement in statements:  # 3
                store.execute(statement)
            store.commit()
        except (StatementException, RefusedException) as error:
            store.rollback()
            self._forget(change.name)
            if self._needed(change.name, change.layout)[1] == statements:
                raise ConnectException(
                    f"Table {change.name} cannot be changed for new records by {'; '.join(statements)}: {error}. Make the change yourself, "
                    "or give the user the right to"
                ) from error
        self._forget(change.name)

    def _needed(self, name: str, layout: Layout) -> tuple[TargetTable | None, list[str]]:
        """The table, and what has to be changed in it for these records."""
        place = table_name(name, self._store.dialect)
        table = self._tables.get(name) or self._store.read_table(place)
        if table is not None:
            self._tables[name] = table
        return table, changes(layout, table, place, self._settings, self._store.dialect)

    def _forget(self, name: str) -> None:
        self._tables.pop(name, None)
        self._writers.pop(name, None)
