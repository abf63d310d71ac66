"""One connection of an IcebergSink's task. Routes batches to tables, and commits table by table.

With one table, its commit contains rows, offsets and claim. With several tables, each table keeps the offsets of its own rows, and the home
table is committed last. After a failure between these commits, redelivered records are not written again to tables that already have them.
Loaded only by tasks.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from pyiceberg.exceptions import (
    ForbiddenError,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from airflow_provider_connect.connectors.lake.iceberg_catalog import open_catalog
from airflow_provider_connect.connectors.lake.iceberg_settings import (
    AUTO_CREATE,
    DYNAMIC,
    ROUTE_FIELD,
    TABLES,
    IcebergSettings,
    TableSettings,
    check_name,
)
from airflow_provider_connect.connectors.lake.iceberg_table import TableWriter
from airflow_provider_connect.connectors.lake.rows import value_rows
from airflow_provider_connect.connectors.lake.table_offsets import StoredRow
from airflow_provider_connect.connectors.lake.unwritten_fields import UnwrittenFields
from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import ConfigException, DataException
from airflow_provider_connect.sdk.allowed_paths import AllowedPaths
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config
from airflow_provider_connect.sdk.offset_row import OffsetRow


class IcebergSession:
    """A session is discarded after an exception."""

    def __init__(self, config: Config, allowed: AllowedPaths, unwritten: UnwrittenFields) -> None:
        self._settings = IcebergSettings.of(config)
        self._catalog = open_catalog(config, allowed)
        self._connector = config.originals.get("name", "")
        self._unwritten = unwritten
        self._writers: dict[str, TableWriter] = {}
        self._rows: dict[TopicPartition, StoredRow | None] = {}
        self._lagging: dict[str, set[TopicPartition]] = {}  # rolled-back tables, except home, with the partitions whose rows they lack
        self.written: dict[str, Mapping[str, str]] = {}

    def begin(self) -> None:
        """Discard uncommitted rows and offsets."""
        self._writers.clear()
        self._rows.clear()

    def close(self) -> None:
        self._catalog.close()

    def reject_missing_tables(self) -> None:
        """Raise ConfigException for a missing table that must not be created."""
        for table in () if self._settings.auto_create else self._settings.tables:
            if not self._catalog.table_exists(table.name):
                raise _missing(table.name)

    def create_home_table(self) -> None:
        """Create the table that keeps offsets, unless it exists."""
        self._table(self._settings.home)

    def write(self, batch: Batch) -> None:
        """Add a batch to its tables."""
        for name, part in self._route(batch):
            fresh = self._new_records(name, part)
            if fresh:
                self._writer(name).write(fresh, self._unwritten)

    def flush(self) -> None:
        for writer in self._writers.values():
            writer.flush()

    def read_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetRow]:
        """The rows of the home table, if it exists. If another table was rolled back, that table's older offset is returned. Tables that
        were not rolled back already have the later rows."""
        try:
            stored = self._writer(self._settings.home, creates=False).stored
        except NoSuchTableError:
            return {}
        rows = {partition: stored[partition].row for partition in partitions if partition in stored}
        for table in self._settings.tables:
            if table.name != self._settings.home:
                rows |= self._rolled_back(table.name, {partition: (row, stored[partition].lineage) for partition, row in rows.items()})
        return rows

    def _rolled_back(self, name: str, rows: Mapping[TopicPartition, tuple[OffsetRow, int]]) -> dict[TopicPartition, OffsetRow]:
        """The rows whose offsets are beyond the offsets of a table that was rolled back. Each row has that table's offset, and keeps its
        lineage."""
        try:
            offsets = self._writer(name, creates=False).rolled_back_rows
        except (NoSuchTableError, NoSuchNamespaceError):
            return {}
        found = {}
        for partition, (row, lineage) in rows.items():
            there = offsets.get(partition)
            if there is not None and there.lineage == lineage and row.next_offset is not None:
                offset = there.row.next_offset or 0
                if offset <= row.next_offset:
                    self._lagging.setdefault(name, set()).add(partition)
                    found[partition] = replace(row, next_offset=offset)
        return found

    def write_offsets(self, rows: Mapping[TopicPartition, OffsetRow | None]) -> None:
        """Keep offset rows for the commit."""
        stored = self._writer(self._settings.home).stored if rows else {}
        for partition, row in rows.items():
            is_behind = any(partition in each for each in self._lagging.values())
            self._rows[partition] = None if row is None else _successor(stored.get(partition), row, goes_back=not is_behind)

    def holds_records(self) -> bool:
        """Whether a table has data. True if records name their tables, because the tables are then unknown."""
        return bool(self._settings.config[DYNAMIC]) or any(map(self._has_files, self._settings.tables))

    def _has_files(self, own: TableSettings) -> bool:
        try:
            metadata = self._catalog.load_table(own.name).metadata
        except (NoSuchTableError, NoSuchNamespaceError):
            return False
        ref = metadata.refs.get(own.branch)
        snapshot = metadata.current_snapshot() if ref is None else metadata.snapshot_by_id(ref.snapshot_id)
        return snapshot is not None and (snapshot.summary is None or snapshot.summary.additional_properties.get("total-data-files") != "0")

    def commit(self) -> None:
        """Steps: (1) commit each other table with rows; (2) commit the home table; (3) write the home table's offsets to rolled-back
        tables, which have caught up."""
        written = {writer.location: writer.columns for writer in self._writers.values() if writer.has_rows}
        home = self._writers.pop(self._settings.home, None)
        for name, writer in self._writers.items():  # 1
            if writer.has_rows:
                writer.commit(self._offsets_of_table(name) if self._rows else {})
        if home is not None:  # 2
            home.commit(self._rows)
        rows, behind = dict(self._rows), self._lagging
        self.written |= written
        self._lagging = {}
        self.begin()
        for name, partitions in behind.items():  # 3
            kept = {partition: row for partition, row in rows.items() if partition in partitions and row is not None}
            self._writer(name, creates=False).commit(kept)
        self._writers.clear()

    def _offsets_of_table(self, name: str) -> dict[TopicPartition, StoredRow | None]:
        """The offset rows for a table other than the home table. Raises FencedException if a row belongs to a newer claim."""
        stored = self._writers[name].stored
        for partition, row in self._rows.items():
            if row is not None and partition in stored:
                stored[partition].row.take_over(f"{partition} in table {name}", row.row)
        return {partition: row for partition, row in self._rows.items() if row is not None}

    # Tables

    def _route(self, batch: Batch) -> Iterator[tuple[str, Batch]]:
        """The tables of a batch's records, each with its own records."""
        settings = self._settings
        if settings.route_field is None:
            yield from ((table.name, batch) for table in settings.tables)
            return
        names = self._route_names(batch, settings.route_field)
        for text in pc.unique(names.drop_null()).to_pylist():
            chosen = pc.equal(names, text)
            if settings.config[DYNAMIC]:
                yield check_name(text.lower()), batch.filter(chosen)
                continue
            fitting = (table for table in settings.tables if table.route is not None and table.route.fullmatch(text))
            yield from ((table.name, batch.filter(chosen)) for table in fitting)

    def _route_names(self, batch: Batch, field: str) -> pa.Array:
        """The text of the route field in each record. Raises DataException for a null if records name their tables."""
        rows, names = value_rows(batch), pa.nulls(len(batch), pa.string())
        first, *inner = field.split(".")
        if first in rows.column_names:
            with contextlib.suppress(pa.ArrowException):
                column = rows[first].combine_chunks()
                names = (pc.struct_field(column, inner) if inner else column).cast(pa.string())
        if self._settings.config[DYNAMIC] and names.null_count:
            raise DataException(f"A record has no table: its field {field} ({ROUTE_FIELD}) is null or absent")
        return names

    def _new_records(self, name: str, batch: Batch) -> Batch:
        """The records that the table does not have yet: all records for the home table."""
        if name == self._settings.home:
            return batch
        partition = batch.topic_partition
        home = self._writer(self._settings.home, creates=False) if self._keeps_offsets() else None
        known = home.stored.get(partition) if home is not None else None
        there = self._writer(name).stored.get(partition)
        if known is None or there is None or there.lineage != known.lineage or there.row.next_offset is None:
            return batch
        return batch.filter(pc.greater_equal(batch.kafka_offsets, there.row.next_offset))

    def _keeps_offsets(self) -> bool:
        return self._settings.home in self._writers or self._catalog.table_exists(self._settings.home)

    def _writer(self, name: str, *, creates: bool = True) -> TableWriter:
        if name not in self._writers:
            table = self._table(name) if creates else self._catalog.load_table(name)
            settings = self._settings
            self._writers[name] = TableWriter(self._catalog, table, settings.table(name), settings, self._connector)
        return self._writers[name]

    def _table(self, name: str) -> Table:
        """The table. A missing table is created without columns, which its first records determine."""
        with contextlib.suppress(NoSuchTableError, NoSuchNamespaceError):
            return self._catalog.load_table(name)
        is_ours = name == self._settings.home and name not in {table.name for table in self._settings.tables}
        if not self._settings.auto_create and not is_ours:
            raise _missing(name)
        self._create_namespaces(name.split(".")[:-1])
        try:
            with contextlib.suppress(TableAlreadyExistsError):
                return self._catalog.create_table(name, Schema())
        except NoSuchNamespaceError as error:
            reason = "Its namespace does not exist, and the catalog's credentials may not create it. Create it, or grant that permission."
            raise ConfigException.of(TABLES, name, reason) from error
        return self._catalog.load_table(name)

    def _create_namespaces(self, levels: Sequence[str]) -> None:
        """Create each level, from the outermost. A missing permission is ignored, because creating a table in an existing namespace may be
        allowed."""
        for count in range(1, len(levels) + 1):
            with contextlib.suppress(NamespaceAlreadyExistsError, ForbiddenError):
                self._catalog.create_namespace(tuple(levels[:count]))


def _missing(table: str) -> ConfigException:
    return ConfigException.of(AUTO_CREATE, "false", f"There is no table {table}. Create it, or set {AUTO_CREATE} to true.")


def _successor(stored: StoredRow | None, row: OffsetRow, *, goes_back: bool) -> StoredRow:
    """The row that replaces ``stored``. If the offset goes back, or was set by an admin, a new lineage starts."""
    if stored is not None:
        before, after = stored.row.next_offset, row.next_offset
        if not row.is_altered and (not goes_back or before is None or (after is not None and after >= before)):
            return replace(stored, row=row)
    return StoredRow(row, time.time_ns(), 0)
