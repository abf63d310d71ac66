"""One Iceberg table in one transaction of a task. Collects batches, writes data files, and commits them with offsets and claim.

A commit is one change of the table's metadata: data files, the offsets in a property, and a snapshot. The commit asserts that the branch's
head is the snapshot that was read, so two writers never commit on the same state. The slower writer reads the claims again before it
retries. pyiceberg's own retry does not read them, so it is not used. Loaded only by tasks.
"""

from __future__ import annotations

import bisect
import uuid
from collections.abc import Mapping
from typing import Any, Final

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, GreaterThanOrEqual, In, LessThanOrEqual
from pyiceberg.expressions.literals import literal
from pyiceberg.expressions.visitors import IN_PREDICATE_LIMIT
from pyiceberg.io.pyarrow import ArrowProjectionVisitor, ArrowScan, _dataframe_to_data_files
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import AssertTableUUID
from pyiceberg.table.update.snapshot import ManageSnapshots
from pyiceberg.types import DoubleType, FloatType, ListType, MapType, PrimitiveType

from airflow_provider_connect.connectors.lake.iceberg_columns import Columns, arrow_schema, names_in
from airflow_provider_connect.connectors.lake.iceberg_errors import row_error
from airflow_provider_connect.connectors.lake.iceberg_settings import BRANCH, IcebergSettings, TableSettings
from airflow_provider_connect.connectors.lake.names import Names, rename_fields
from airflow_provider_connect.connectors.lake.rows import (
    KeyColumns,
    field_at,
    last_changes,
    project,
    split_keys,
    value_rows,
    without_keys,
)
from airflow_provider_connect.connectors.lake.table_offsets import (
    MAIN,
    StoredRow,
    StoredRows,
    from_text,
    property_name,
    stored_rows,
    to_text,
)
from airflow_provider_connect.connectors.lake.unwritten_fields import UnwrittenFields
from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.data.columns import with_children
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import ConfigException, DataException, FencedException, RetriableException
from airflow_provider_connect.sdk.batch import Batch


# Null lists and maps in pyiceberg's projection, which applies to all rows that pyiceberg writes and reads. pyiceberg (0.12) rebuilds lists
# and maps of structs without their nulls. The nulls become empty, also in files. `keep_nulls` replaces the two methods in the whole
# process.
def keep_nulls() -> None:
    """Make pyiceberg write and read null lists and maps as null. Called once, before the first table."""
    ArrowProjectionVisitor.list = _list  # type: ignore[assignment, method-assign]
    ArrowProjectionVisitor.map = _map  # type: ignore[assignment, method-assign]


def _list(visitor: ArrowProjectionVisitor, type: ListType, array: pa.Array | None, values: pa.Array | None) -> pa.Array | None:
    if array is None or values is None:
        return None
    values = visitor._cast_if_needed(type.element_field, values)
    element = visitor._construct_field(type.element_field, values.type)
    if isinstance(array, pa.FixedSizeListArray):
        return array.cast(pa.list_(element))
    return with_children(array, pa.large_list(element) if isinstance(array, pa.LargeListArray) else pa.list_(element), values)


def _map(
    visitor: ArrowProjectionVisitor, type: MapType, array: pa.Array | None, keys: pa.Array | None, values: pa.Array | None
) -> pa.Array | None:
    if array is None or keys is None or values is None:
        return None
    keys, values = visitor._cast_if_needed(type.key_field, keys), visitor._cast_if_needed(type.value_field, values)
    fields = [visitor._construct_field(type.key_field, keys.type), visitor._construct_field(type.value_field, values.type)]
    return with_children(array, pa.map_(*fields), pa.StructArray.from_arrays([keys, values], fields=fields))


COMMIT_ATTEMPTS: Final = 20
"""The number of times that a commit is repeated because another writer was faster. After that, the commit fails, and is retried more
slowly."""
_RUNS_CODE: Final = "write.py-location-provider.impl"
_STALE_NUMBER: Final = "older than last sequence number"
keep_nulls()


class TableWriter:
    """Writes batches to one table. Handles CommitFailedException itself, but must be discarded after other exceptions."""

    def __init__(self, catalog: Catalog, table: Table, own: TableSettings, settings: IcebergSettings, connector: str) -> None:
        _reject_code(own.name, table.metadata)
        _reject_tag(own, table.metadata)
        self._catalog, self._table = catalog, table
        self._own, self._settings, self._connector = own, settings, connector
        self._columns = Columns(own, settings)
        self._transaction: Transaction = table.transaction()
        self._rows: list[pa.Table] = []
        self._keys: list[pa.Table] = []
        self._count = 0
        self._files: list[DataFile] = []

    @property
    def stored(self) -> StoredRows:
        """The offset rows of the table, in the state that the next commit asserts."""
        return stored_rows(self._table.metadata, self._connector, self._own.branch)

    @property
    def rolled_back_rows(self) -> StoredRows:
        """The offset rows whose offset differs from the last committed one, because the table was rolled back."""
        last = from_text(self._table.metadata.properties.get(property_name(self._connector, self._own.branch)))
        return {at: each for at, each in self.stored.items() if at in last and each.row.next_offset != last[at].row.next_offset}

    @property
    def location(self) -> str:
        """The address of the table's folder."""
        return self._table.location()

    @property
    def columns(self) -> dict[str, str]:
        """The types of the columns, including those that the next commit adds."""
        return {field.name: str(field.field_type) for field in self._transaction.table_metadata.schema().fields}

    @property
    def has_rows(self) -> bool:
        """Whether a batch was written."""
        return bool(self._rows or self._keys)

    def write(self, batch: Batch, unwritten: UnwrittenFields) -> None:
        """Add a batch, and its fields without a column to ``unwritten``. Raises DataException for records that do not fit the table."""
        rows = rename_fields(value_rows(batch), self._names())
        self._columns.evolve(self._transaction, rows, self._names())
        schema = arrow_schema(self._transaction.table_metadata)
        columns = self._key_columns(schema) if self._settings.is_upsert else None
        kept, keys = split_keys(batch, rows, columns, self._count)
        self._count += kept.num_rows
        if keys is not None:
            self._keys.append(keys)
        if kept.num_rows and not schema.names:
            raise DataException(f"Table {self._own.name} has no columns yet, and the value of a record has no fields")
        unwritten.add(self._own.name, kept, schema)
        if keys is not None or kept.num_rows:
            self._rows.append(project(kept, schema, kept.num_rows, decodes_base64=True))
            self._columns.reject_partition_values(self._transaction.table_metadata, self._rows[-1])

    def _names(self) -> Names:
        return names_in(self._transaction.table_metadata, ignores_case=self._settings.ignores_case)

    def _key_columns(self, schema: pa.Schema) -> KeyColumns:
        names, fields = self._names(), []
        for name in self._own.id_columns:
            field = field_at(schema, names.of_path(name))
            if field is None:
                raise DataException(f"Table {self._own.name} and the record have no field {name}, which is an id column")
            fields.append(field)
        return KeyColumns(fields, names, decodes_base64=True)

    # The commit

    def flush(self) -> None:
        """Write the data files. They become part of the table in ``commit``."""
        schema = arrow_schema(self._transaction.table_metadata)
        rows = [project(each, schema, each.num_rows) for each in self._rows]
        if not rows:
            return
        whole = pa.concat_tables(rows)
        if self._settings.is_upsert:
            self._deleted, last = last_changes(pa.concat_tables(self._keys))
            whole = whole.take(last)
        self._files = self._write_files(self._transaction, whole)

    def _write_files(self, transaction: Transaction, rows: pa.Table) -> list[DataFile]:
        if not rows.num_rows:
            return []
        try:
            return list(_dataframe_to_data_files(transaction.table_metadata, rows, self._table.io, write_uuid=uuid.uuid4()))
        except Exception as error:
            known = row_error(self._own.name, error)
            if known is error:
                raise
            raise known from error

    def commit(self, rows: Mapping[TopicPartition, StoredRow | None]) -> None:
        """Commit the flushed files and these offset rows. None removes a row. Does nothing if there are neither files nor rows. Raises
        FencedException if another process has changed one of the offset rows, RetriableException if the table's columns have changed."""
        if not rows and not self.has_rows:
            return
        before, shape = self.stored, self._shape()
        for _ in range(COMMIT_ATTEMPTS):
            self._stage_changes(rows)
            requirements = (*self._transaction._requirements, AssertTableUUID(uuid=self._table.metadata.table_uuid))
            if isinstance(self._catalog, MetastoreCatalog):  # this catalog checks requirements in this process
                requirements = (*requirements, _WithoutCode(self._own.name))  # type: ignore[arg-type]
            try:
                self._catalog.commit_table(self._table, requirements, self._transaction._updates)
                return
            except Exception as error:
                if not _is_conflict(error):
                    raise
                before_uuid, self._table = self._table.metadata.table_uuid, self._catalog.load_table(self._own.name)
            producers = self._transaction._snapshot_producers
            if any(self._table.metadata.snapshot_by_id(each.snapshot_id) is not None for each in producers):
                return  # the commit succeeded, but its response was lost
            for producer in producers:  # not removed earlier, because a successful commit needs these files
                producer._clean_all_uncommitted()
            if self._table.metadata.table_uuid != before_uuid:  # its columns have other ids than the files
                raise RetriableException(f"Table {self._own.name} was replaced")
            self._check_rows(rows, before)
            if self._shape() != shape or shape != self._staged_shape():
                raise RetriableException(f"Another writer has changed the columns of table {self._own.name}")
            self._transaction = self._table.transaction()
        raise RetriableException(f"Other writers of table {self._own.name} were faster {COMMIT_ATTEMPTS} times")

    def _shape(self) -> tuple[int, int]:
        return self._table.metadata.current_schema_id, self._table.metadata.default_spec_id

    def _staged_shape(self) -> tuple[int, int]:
        metadata = self._transaction.table_metadata
        return metadata.current_schema_id, metadata.default_spec_id

    def _check_rows(self, rows: Mapping[TopicPartition, StoredRow | None], before: StoredRows) -> None:
        """Raise FencedException if another process has changed one of these rows since ``before``."""
        now = self.stored
        for partition in rows:
            if now.get(partition) != before.get(partition):
                raise FencedException(f"{partition} in table {self._own.name} was changed by another process; this one may no longer write")

    def _stage_changes(self, rows: Mapping[TopicPartition, StoredRow | None]) -> None:
        """Steps: (1) create a missing branch at the head of main; (2) delete the rows of the keys; (3) append data files in a snapshot,
        which is created even without files; (4) write the offset rows."""
        transaction, branch = self._transaction, self._own.branch
        if branch not in (MAIN, *self._table.metadata.refs):
            _create_branch(transaction, branch)  # 1
        if self._settings.is_upsert and self._rows and branch in transaction.table_metadata.refs and self._deleted.num_rows:
            self._delete(transaction)  # 2
        name, merged = property_name(self._connector, branch), dict(self.stored)
        sequence = transaction.table_metadata.next_sequence_number()
        update = transaction.update_snapshot(snapshot_properties={}, branch=branch)
        with update.fast_append() as append:  # 3
            stamped = {p: None if row is None else StoredRow(row.row, row.lineage, append.snapshot_id, sequence) for p, row in rows.items()}
            for file in self._files:
                append.append_data_file(file)
            append.snapshot_properties = {name: to_text({p: row for p, row in stamped.items() if row is not None})} if rows else {}
        if rows:  # 4
            merged = {p: row for p, row in (merged | stamped).items() if row is not None}
            transaction.set_properties({name: to_text(merged)})

    def _delete(self, transaction: Transaction) -> None:
        """Delete the rows of the keys. Each file with such rows is rewritten without them."""
        schema, keys = transaction.table_metadata.schema(), Keys(transaction.table_metadata.schema(), self._deleted)
        replaced = []
        for task in transaction._scan(keys.row_filter).use_ref(self._own.branch).plan_files():
            if not keys.may_occur_in(task.file) or not keys.occur_in(self._read(transaction, task, schema.select(*keys.names))):
                continue
            rows = self._read(transaction, task, schema)
            replaced.append((task.file, self._write_files(transaction, keys.without(rows))))
        if not replaced:
            return
        with transaction.update_snapshot(branch=self._own.branch).overwrite() as overwrite:
            overwrite.delete_by_predicate(keys.row_filter)
            for file, files in replaced:
                overwrite.delete_data_file(file)
                for each in files:
                    overwrite.append_data_file(each)

    def _read(self, transaction: Transaction, task: FileScanTask, schema: Schema) -> pa.Table:
        return ArrowScan(transaction.table_metadata, self._table.io, schema, AlwaysTrue()).to_table([task])


def _create_branch(transaction: Transaction, branch: str) -> None:
    """Create a branch at the head of main. The library cannot commit to other branches without a snapshot, so main gets an empty snapshot
    if it has none."""
    if transaction.table_metadata.current_snapshot_id is None:
        with transaction.update_snapshot().fast_append():
            pass
    main = transaction.table_metadata.current_snapshot_id
    assert main is not None
    with ManageSnapshots(transaction) as refs:
        refs.create_branch(main, branch)


def _is_conflict(error: Exception) -> bool:
    """Whether another writer was faster. If that writer wrote to another branch, catalogs raise different errors: pyiceberg's catalogs
    raise ValueError, and REST catalogs may return status 400."""
    return isinstance(error, CommitFailedException) or _STALE_NUMBER in str(error)


class _WithoutCode:
    """A commit requirement: the table still has no property that loads code."""

    def __init__(self, name: str) -> None:
        self._name = name

    def validate(self, metadata: TableMetadata | None) -> None:
        if metadata is not None:
            _reject_code(self._name, metadata)


def _reject_code(name: str, metadata: TableMetadata) -> None:
    if _RUNS_CODE in metadata.properties:
        raise ConfigException(f"Table {name} has the property {_RUNS_CODE}, which loads code: remove it from the table")


def _reject_tag(own: TableSettings, metadata: TableMetadata) -> None:
    ref = metadata.refs.get(own.branch)
    if ref is not None and ref.snapshot_ref_type is not SnapshotRefType.BRANCH:
        raise ConfigException.of(BRANCH, own.branch, f"It is a tag of table {own.name}. Name a branch.")


# The keys whose rows an upsert deletes from an Iceberg table, and the files that may contain such rows.
class Keys:
    """The keys whose rows are deleted. Files that may contain such rows pass two checks: ``row_filter``, with which pyiceberg excludes
    files, and ``may_occur_in``. The second check is needed because pyiceberg does not exclude files for more than 200 keys."""

    def __init__(self, schema: Schema, keys: pa.Table) -> None:
        self.names: list[str] = keys.column_names
        self._keys = keys
        self._sorted: list[tuple[int, PrimitiveType, pa.Array]] = []
        self.row_filter: BooleanExpression = AlwaysTrue()
        for name in self.names:
            field = schema.find_field(name)
            if not isinstance(field.field_type, PrimitiveType) or isinstance(field.field_type, FloatType | DoubleType):
                continue  # NaN has no order
            values = pc.unique(keys[name])
            values = values.take(pc.array_sort_indices(values))
            self._sorted.append((field.field_id, field.field_type, values))
            self.row_filter = And(self.row_filter, _range_filter(name, values))

    def may_occur_in(self, file: DataFile) -> bool:
        """Whether the file may have rows of the keys, by the bounds of its columns."""
        for id, type, values in self._sorted:
            lower, upper = (file.lower_bounds or {}).get(id), (file.upper_bounds or {}).get(id)
            if lower is None or upper is None:
                continue

            def plain(value: pa.Scalar, type: PrimitiveType = type) -> Any:  # in the form of bounds
                return literal(value.as_py()).to(type).value

            index = bisect.bisect_left(values, from_bytes(type, lower), key=plain)
            if index == len(values) or plain(values[index]) > from_bytes(type, upper):
                return False
        return True

    def occur_in(self, rows: pa.Table) -> bool:
        """Whether a row has one of the keys."""
        return bool(self.without(rows).num_rows < rows.num_rows)

    def without(self, rows: pa.Table) -> pa.Table:
        """The rows without the rows of the keys."""
        return without_keys(rows, self._keys)


def _range_filter(name: str, values: pa.Array) -> BooleanExpression:
    """A filter for sorted values. For many values, the filter is a range, which also matches other values."""
    if len(values) <= IN_PREDICATE_LIMIT:
        return In(name, values.to_pylist())  # type: ignore[call-arg, arg-type]
    return And(GreaterThanOrEqual(name, values[0].as_py()), LessThanOrEqual(name, values[-1].as_py()))  # type: ignore[call-arg, arg-type]
