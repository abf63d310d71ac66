"""One connection of a DeltaSink's task. Commits batches as rows of one table, together with offsets and claim.

Offsets and claims are transaction identifiers of the table (``DeltaOffsets``). Every commit sets the identifier of the offset. Delta
rejects a commit if another commit has set that identifier after the state that was read. So if two processes have read the same state, only
one commits. The other reads the claims again. Loaded only by tasks.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Collection, Mapping, Sequence
from typing import Final
from urllib.parse import unquote, urlsplit

from deltalake import CommitProperties, DeltaTable, Field, Schema, write_deltalake
from deltalake.schema import PrimitiveType

from airflow_provider_connect.connectors.bucket_access import hide_environment
from airflow_provider_connect.connectors.lake.delta_history import History
from airflow_provider_connect.connectors.lake.delta_offsets import DeltaOffsets
from airflow_provider_connect.connectors.lake.delta_settings import AUTO_CREATE, EVOLVE, PARTITION_BY, PATH, DeltaSettings
from airflow_provider_connect.connectors.lake.names import Names, names_of, rename_fields
from airflow_provider_connect.connectors.lake.rows import (
    KeyColumns,
    as_optional,
    lake_field,
    last_changes,
    project,
    reject_lost_fields,
    split_keys,
    table_type,
    value_rows,
    with_added_fields,
    without_keys,
)
from airflow_provider_connect.connectors.lake.unwritten_fields import UnwrittenFields
from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import ConfigException, DataException, RetriableException
from airflow_provider_connect.sdk.allowed_paths import AllowedPaths
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.offset_row import OffsetRow

PLACEHOLDER: Final = "connect_no_records_yet"
"""The only column of a table that was created for claims, because a Delta table needs a column."""
_DELETES: Final = "connect_deletes"
_EXPIRY: Final = "delta.setTransactionRetentionDuration"
_MAPPING: Final = "delta.columnMapping.mode"
_CONSTRAINT: Final = "delta.constraints."


class DeltaSession:
    """The session is discarded after an exception. ``checks_rows``: a commit was rejected because of its rows. ``sets_offsets``: an admin
    sets offsets, so the offsets of a restored table are ignored."""

    def __init__(
        self,
        settings: DeltaSettings,
        allowed: AllowedPaths,
        offsets: DeltaOffsets,
        unwritten: UnwrittenFields,
        *,
        checks_rows: bool = False,
        sets_offsets: bool = False,
    ) -> None:
        self._settings, self._allowed, self._offsets, self._unwritten = settings, allowed, offsets, unwritten
        self._checks_rows, self._sets_offsets = checks_rows, sets_offsets
        self.written: dict[str, Mapping[str, str]] = {}
        self.begin()

    def begin(self) -> None:
        """Read the table, and discard uncommitted rows and offsets."""
        is_there = self._table_exists()
        self._table = self._open_table() if is_there else None
        self._offset_rows: dict[TopicPartition, OffsetRow | None] = {}
        self._rows: list[pa.Table] = []
        self._keys: list[pa.Table] = []
        self._count = 0
        self._table_schema = pa.schema([]) if self._table is None else pa.schema(self._table.schema().to_arrow())
        self._is_new = self._table_schema.names in ([], [PLACEHOLDER])
        self._schema = pa.schema([]) if self._is_new else self._table_schema

    def _open_table(self) -> DeltaTable:
        with hide_environment():
            return DeltaTable(self._settings.address, storage_options=self._settings.store_options)

    def reject_missing_tables(self) -> None:
        """Raise ConfigException if the table is missing, and is not allowed to be created or cannot be created."""
        if self._table is not None:
            return
        if not self._settings.auto_create:
            reason = f"There is no Delta table. Create it, or set {AUTO_CREATE} to true."
            raise ConfigException.of(PATH, self._settings.address, reason)
        above = os.path.dirname(self._settings.address)
        if self._settings.is_folder and not os.path.isdir(above):  # the folder may be a mount, so it is not created
            raise ConfigException.of(PATH, self._settings.address, f"There is no folder {above}. Create it, or set another path.")

    def create_home_table(self) -> None:
        """Create the table with a placeholder column, unless it exists. The first records determine the columns. Their commit overwrites
        the state that was read here. So the first commits of two tasks conflict, and cannot replace each other."""
        if self._table is not None:
            if _EXPIRY in self._table.metadata().configuration:
                reason = f"The table has the property {_EXPIRY}, which makes it lose offsets. Remove the property."
                raise ConfigException.of(PATH, self._settings.address, reason)
            return
        self.reject_missing_tables()
        schema = Schema([Field(PLACEHOLDER, PrimitiveType("string"))])
        with hide_environment():
            DeltaTable.create(self._settings.address, schema, mode="ignore", storage_options=self._settings.store_options)
        self.begin()

    def write(self, batch: Batch) -> None:
        """Add a batch. Raises DataException for records that do not fit the table."""
        if self._table is None:
            self.create_home_table()
        rows = rename_fields(value_rows(batch), self._names)
        self._evolve(rows)
        kept, keys = split_keys(batch, rows, self._key_columns() if self._settings.is_upsert else None, self._count)
        if kept.num_rows and not self._schema.names:
            raise DataException("The table has no columns yet, and the value of a record has no fields")
        self._unwritten.add(self._settings.address, kept, self._schema)
        self._rows.append(project(kept, self._schema, kept.num_rows))
        self._reject_partition_values(self._rows[-1])
        self._count += kept.num_rows
        if keys is not None:
            self._keys.append(keys)

    @property
    def _names(self) -> Names:
        """The table's names for fields, ignoring case, because names of Delta columns differ in more than case."""
        return names_of(self._schema, ignores_case=True)

    def _key_columns(self) -> KeyColumns:
        names = self._names
        columns = [self._schema.field(name) for name in map(names.of, self._settings.id_columns) if name in self._schema.names]
        if len(columns) < len(self._settings.id_columns):
            raise DataException(f"The table and the record lack a column of {', '.join(self._settings.id_columns)}, which identify a row")
        return KeyColumns(columns, names)

    def _evolve(self, rows: pa.Table) -> None:
        """Add missing columns, and missing fields in columns, to the schema."""
        if not (self._is_new or self._settings.evolve):
            return
        for field in map(lake_field, rows.schema):
            if field.name not in self._schema.names:
                _require_type(field)
                self._schema = self._schema.append(as_optional(field))
                continue
            there = self._schema.field(field.name)
            wider = there.with_type(with_added_fields(there.type, field.type))
            if not wider.equals(there):
                _require_type(wider)
                self._schema = self._schema.set(self._schema.get_field_index(field.name), wider)
        reject_lost_fields(rows.schema, self._schema)
        if (
            not self._is_new
            and self._table is not None
            and not self._schema.equals(self._table_schema)
            and _has_column_mapping(self._table)
        ):
            reason = (
                f"The table maps column names ({_MAPPING}), and deltalake cannot add columns then. Add the column with another program."
            )
            raise ConfigException.of(EVOLVE, "true", reason)

    def _partition_columns(self) -> Sequence[str]:
        if self._is_new or self._table is None:
            return [self._names.of(name) for name in self._settings.partition_by]
        return self._table.metadata().partition_columns

    def _reject_partition_values(self, rows: pa.Table) -> None:
        """Raise DataException for values that a partition column cannot have. Partition values are texts in the table's log, where an empty
        text is null. deltalake (1.6) writes bytes and negative decimals in a form that it cannot read."""
        for name in self._partition_columns():
            if name not in rows.column_names:
                raise DataException(f"The table is partitioned by {name} ({PARTITION_BY}), and the record has no such field")
            column, types = rows[name], pa.types
            if types.is_nested(column.type):
                raise ConfigException.of(PARTITION_BY, name, f"Delta cannot partition by {column.type}. Name another column.")
            if types.is_string(column.type) and pc.any(pc.equal(column, "")).as_py():
                raise DataException(f"The partition column {name} cannot hold an empty text, which is null in Delta")
            if types.is_binary(column.type) and column.null_count < len(column):
                raise DataException(f"The partition column {name} cannot hold bytes: convert them to text")
            if types.is_decimal(column.type) and column.type.scale and pc.any(pc.less(column, pa.scalar(0, column.type))).as_py():
                raise DataException(f"The partition column {name} cannot hold a negative decimal with a fraction: convert it to text")

    def read_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetRow]:
        """The rows of these partitions in the table."""
        return {} if self._table is None else self._offsets.rows(self._table, partitions, self._history)

    def _history(self, after: int | None) -> History:
        """All entries up to the state that was read, or only entries after a version. The library counts back from its own state, but also
        lists newer entries. So the call is repeated until no entry was added meanwhile."""
        assert self._table is not None
        if self._sets_offsets:
            return []
        newest = self._open_table()
        while True:
            version = newest.version()
            entries = newest.history(None if after is None else version - after)
            newest.update_incremental()
            if newest.version() == version:
                return [entry for entry in entries if entry["version"] <= self._table.version()]

    def write_offsets(self, rows: Mapping[TopicPartition, OffsetRow | None]) -> None:
        """Keep offset rows for the commit."""
        self._offset_rows |= rows

    def holds_records(self) -> bool:
        return self._table is not None and self._table.get_add_actions().num_rows > 0

    def flush(self) -> None:
        """Writes no data files, because the commit writes them. If a commit was rejected because of its rows, the rows are first written to
        a temporary table, to find the invalid record. That table has the same columns, partitions and constraints."""
        if not self._checks_rows or not any(rows.num_rows for rows in self._rows):
            return
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # after an error, the library's threads may still write
            trial = DeltaTable.create(folder, Schema.from_arrow(self._schema), partition_by=list(self._partition_columns()))
            properties = {} if self._table is None else self._table.metadata().configuration
            constraints = {key.removeprefix(_CONSTRAINT): text for key, text in properties.items() if key.startswith(_CONSTRAINT)}
            if constraints:
                trial.alter.add_constraint(constraints)
            write_deltalake(trial, self._all_rows(), mode="append")

    def _all_rows(self) -> pa.Table:
        return pa.concat_tables([project(each, self._schema, each.num_rows) for each in self._rows])

    def close(self) -> None:
        """Does nothing, because a table has no connection."""

    def commit(self) -> None:
        """Commit rows and offsets together. Does nothing without rows and offsets."""
        self._check_same_table()
        whole = self._all_rows() if self._rows else None
        properties = self._offsets.written(self._table, self._offset_rows)
        if whole is not None and (whole.num_columns or self._keys):
            self._commit_rows(whole, properties)
            self.written[self._settings.address] = {field.name: str(field.type) for field in self._schema}
        elif self._offset_rows and self._table is not None:
            partitions = self._table.metadata().partition_columns
            self._table.create_write_transaction([], "append", self._table.schema(), partitions, commit_properties=properties)
        self.begin()

    def _check_same_table(self) -> None:
        """Raise ConfigException if the table has disappeared since it was read, and RetriableException if it was replaced. The library
        would create a table, or add a commit to the log of the wrong table."""
        if self._table is None:
            return
        if not self._table_exists():
            raise ConfigException.of(PATH, self._settings.address, "The table no longer exists. Restore it, or set another path.")
        now = self._open_table()
        if now.metadata().id != self._table.metadata().id or now.version() < self._table.version():
            raise RetriableException(f"The table at {self._settings.address} was replaced ({PATH})")

    def _table_exists(self) -> bool:
        with hide_environment():
            return DeltaTable.is_deltatable(self._settings.address, self._settings.store_options)

    def _commit_rows(self, rows: pa.Table, properties: CommitProperties) -> None:
        if self._keys:
            keys, last = last_changes(pa.concat_tables(self._keys))
            rows = rows.take(last)
            if not self._is_new:
                self._merge(rows, keys, properties)
                return
        table = self._table
        assert table is not None  # since ``write``
        if self._is_new:
            partitions = list(self._partition_columns()) or None
            write_deltalake(table, rows, mode="overwrite", schema_mode="overwrite", partition_by=partitions, commit_properties=properties)
        else:
            evolved = None if self._schema.equals(self._table_schema) else "merge"
            write_deltalake(table, rows, mode="append", schema_mode=evolved, commit_properties=properties)  # type: ignore[call-overload]

    def _merge(self, rows: pa.Table, keys: pa.Table, properties: CommitProperties) -> None:
        """Update, insert and delete rows by their unique keys."""
        assert self._table is not None
        self._reject_outside_files(self._table)
        schema = pa.schema([field.with_nullable(True) for field in self._schema])
        deleted = project(without_keys(keys, rows.select(keys.column_names)), schema, keys.num_rows - rows.num_rows)
        marks = pa.array([False] * rows.num_rows + [True] * deleted.num_rows)
        source = pa.concat_tables([rows.cast(schema), deleted]).append_column(_DELETES, marks)
        same = " AND ".join(f"old.{_quote(name)} = new.{_quote(name)}" for name in keys.column_names)
        merge = self._table.merge(
            source, same, "new", "old", merge_schema=not self._schema.equals(self._table_schema), commit_properties=properties
        )
        stays = f"NOT new.{_DELETES}"
        merge = merge.when_matched_delete(f"new.{_DELETES}").when_matched_update_all(stays, except_cols=[_DELETES])
        merge.when_not_matched_insert_all(stays, except_cols=[_DELETES]).execute()

    def _reject_outside_files(self, table: DeltaTable) -> None:
        """Raise ConfigException for files outside the table, because a merge reads the files in the table's log, which the config's author
        may have written."""
        for path in table.get_add_actions(flatten=True).column("path").to_pylist():
            for each in {path, unquote(path)}:
                if self._settings.is_folder:
                    self._allowed.resolve(PATH, os.path.join(self._settings.address, urlsplit(each).path if ":" in each else each))
                elif _LEADS_AWAY.search(each):
                    raise ConfigException.of(PATH, self._settings.address, f"The table's log names a file outside of the table: {each}")


_LEADS_AWAY: Final = re.compile(r"^/|^[a-zA-Z][a-zA-Z0-9+.-]*+:|(?:^|/)\.\.(?:/|$)")


def _has_column_mapping(table: DeltaTable) -> bool:
    return (table.metadata().configuration or {}).get(_MAPPING, "none") != "none"


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _require_type(field: pa.Field) -> None:
    table_type("Delta", field, lambda each: Schema.from_arrow(pa.schema([each])))
