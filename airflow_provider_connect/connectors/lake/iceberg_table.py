"""One Iceberg table within one transaction of a task: takes batches, writes data files, and commits them with offsets and claim.

A commit is one change of the table's metadata: data files, the offsets in a property, and a snapshot. It asserts that the branch's head is
the snapshot that was read, so two writers never commit on one state: the slower one reads the claims again before it repeats.
pyiceberg's own retry would not, so it is not used. Loaded by tasks alone.
"""

from __future__ import annotations

import bisect
import math
import uuid
from collections.abc import Mapping
from typing import Any, Final

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, GreaterThanOrEqual, In, LessThanOrEqual
from pyiceberg.expressions.literals import literal
from pyiceberg.expressions.visitors import IN_PREDICATE_LIMIT
from pyiceberg.io.pyarrow import ArrowScan, _ConvertToIcebergWithoutIDs, _dataframe_to_data_files, schema_to_pyarrow, visit_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import AssertTableUUID
from pyiceberg.table.update.schema import UpdateSchema
from pyiceberg.transforms import parse_transform
from pyiceberg.types import DoubleType, FloatType, IntegerType, ListType, LongType, MapType, NestedField, PrimitiveType, StructType

from airflow_provider_connect.connectors.lake.iceberg_errors import of_rows
from airflow_provider_connect.connectors.lake.iceberg_nulls import keep_nulls
from airflow_provider_connect.connectors.lake.iceberg_settings import PARTITION_BY, IcebergSettings, TableSettings
from airflow_provider_connect.connectors.lake.rows import (
    keyed_rows,
    lake_field,
    last_changes,
    projected,
    refuse_lost_fields,
    table_type,
    value_rows,
    without_keys,
)
from airflow_provider_connect.connectors.lake.table_offsets import StoredRow, StoredRows, property_name, stored_rows, to_text
from airflow_provider_connect.errors import ConfigException, DataException, FencedException, RetriableException
from airflow_provider_connect.sdk.arrow import pa, pc
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.records import TopicPartition

COMMIT_ATTEMPTS: Final = 20
"""How often a commit is repeated after another writer was faster, before it counts as a failure that is retried more slowly."""
_RUNS_CODE: Final = "write.py-location-provider.impl"
keep_nulls()
_NOT_WRITTEN: Final = (("bucket", "time"), ("truncate", "binary"))
"""Partitions of the specification that pyiceberg (0.12) fails to write."""
_PROMOTIONS: Final = ((IntegerType, LongType), (FloatType, DoubleType))


class TableWriter:
    """Takes batches for one table. After an exception it is of no use, but for CommitFailedException, which it deals with itself."""

    def __init__(self, catalog: Catalog, table: Table, own: TableSettings, settings: IcebergSettings, connector: str) -> None:
        _refuse_code(own.name, table.metadata)
        self._catalog, self._table = catalog, table
        self._own, self._settings, self._connector = own, settings, connector
        self._transaction: Transaction = table.transaction()
        self._rows: list[pa.Table] = []
        self._keys: list[pa.Table] = []
        self._count = 0
        self._files: list[DataFile] = []

    @property
    def stored(self) -> StoredRows:
        """The offset rows as the table has them, in the state that the next commit asserts."""
        return stored_rows(self._table.metadata, self._connector)

    @property
    def location(self) -> str:
        """The address of the table's folder."""
        return self._table.location()

    @property
    def columns(self) -> dict[str, str]:
        """The types of the columns, with those that the next commit adds."""
        return {field.name: str(field.field_type) for field in self._transaction.table_metadata.schema().fields}

    @property
    def has_rows(self) -> bool:
        """Whether a batch was written."""
        return bool(self._rows or self._keys)

    def write(self, batch: Batch) -> None:
        """Take a batch. Raises DataException for records that do not fit the table."""
        rows = value_rows(batch)
        self._evolve(rows)
        schema = self._arrow_schema()
        columns = [self._id_field(schema, name) for name in self._own.id_columns] if self._settings.is_upsert else None
        kept, keys = keyed_rows(batch, rows, columns, self._count)
        self._count += kept.num_rows
        if keys is not None:
            self._keys.append(keys)
        if kept.num_rows and not schema.names:
            raise DataException(f"Table {self._own.name} has no columns yet, and a record's value has no fields")
        if keys is not None or kept.num_rows:
            self._rows.append(projected(kept, schema, kept.num_rows))
            self._refuse_partitions(self._rows[-1])

    def _id_field(self, schema: pa.Schema, name: str) -> pa.Field:
        if name not in schema.names:
            raise DataException(f"Table {self._own.name} and the record have no field {name}, which is an id column")
        return schema.field(name)

    def _arrow_schema(self) -> pa.Schema:
        return schema_to_pyarrow(self._transaction.table_metadata.schema(), include_field_ids=False)

    # Columns

    def _evolve(self, rows: pa.Table) -> None:
        """Give the table the columns that the rows need: all of a new table, and otherwise as the settings allow."""
        schema = self._transaction.table_metadata.schema()
        is_new = not schema.fields
        if not rows.num_columns or not (is_new or self._settings.evolve):
            return
        wanted = StructType(*map(_iceberg_field, map(lake_field, rows.schema)))
        with self._transaction.update_schema(allow_incompatible_changes=is_new) as update:
            if is_new:
                for field in wanted.fields:
                    is_required = field.required and not self._settings.force_optional
                    update.add_column((field.name,), field.field_type, field.doc, required=is_required)
            else:
                self._add_fields(update, (), schema.as_struct(), wanted)
        if is_new:
            self._partition()
        refuse_lost_fields(rows.schema, self._arrow_schema())

    def _add_fields(self, update: UpdateSchema, path: tuple[str, ...], there: StructType, wanted: StructType) -> None:
        """Add to the struct below ``path`` the fields that it lacks, and widen those that it has."""
        for field in wanted.fields:
            found = there.field_by_name(field.name)
            if found is None:
                update.add_column((*path, field.name), field.field_type, field.doc)
            else:
                self._widen(update, (*path, field.name), found, field)

    def _widen(self, update: UpdateSchema, path: tuple[str, ...], there: NestedField, wanted: NestedField) -> None:
        """Let the field take the values of ``wanted``, those within structs, lists and maps too; a map's keys never change."""
        old, new = there.field_type, wanted.field_type
        if (type(old), type(new)) in _PROMOTIONS:
            update.update_column(path, field_type=new)
        if there.required and not wanted.required and path[0] not in self._own.id_columns:
            update.make_column_optional(path)
        if isinstance(old, StructType) and isinstance(new, StructType):
            self._add_fields(update, path, old, new)
        elif isinstance(old, ListType) and isinstance(new, ListType):
            self._widen(update, (*path, "element"), old.element_field, new.element_field)
        elif isinstance(old, MapType) and isinstance(new, MapType):
            self._widen(update, (*path, "value"), old.value_field, new.value_field)

    def _partition(self) -> None:
        """Give a new table its partition spec."""
        schema = self._transaction.table_metadata.schema()
        with self._transaction.update_spec() as update:
            for field in self._own.partition_by:
                if field.column not in schema.column_names:
                    raise DataException(f"The partition spec of {self._own.name} names {field.column}, and the record has no such field")
                number = "" if field.number is None else f"[{field.number}]"
                name = field.column if field.transform == "identity" else f"{field.column}_{field.transform}"
                transform, type = parse_transform(f"{field.transform}{number}"), schema.find_type(field.column)
                if not transform.can_transform(type) or (field.transform, str(type)) in _NOT_WRITTEN:
                    raise ConfigException.of(
                        PARTITION_BY, f"{field.transform}({field.column})", f"No such partition of {type} can be written."
                    )
                update.add_field(field.column, transform, name)

    def _refuse_partitions(self, rows: pa.Table) -> None:
        """Raise DataException for values that pyiceberg (0.12) writes into no partition, or into two: it compares them to tell partitions
        apart."""
        metadata = self._transaction.table_metadata
        for field in metadata.spec().fields:
            name = metadata.schema().find_column_name(field.source_id)
            if name not in rows.column_names or not pa.types.is_floating(rows.schema.field(name).type):
                continue
            is_negative_zero = pc.equal(pc.divide(1.0, rows[name]), -math.inf)
            if pc.any(pc.or_(pc.is_nan(rows[name]), is_negative_zero)).as_py():
                raise DataException(f"A partition of table {self._own.name} by its column {name} can have neither NaN nor -0.0")

    # The commit

    def flush(self) -> None:
        """Write the data files. They belong to the table once ``commit`` has returned."""
        schema = self._arrow_schema()
        rows = [projected(each, schema, each.num_rows) for each in self._rows]
        if not rows:
            return
        whole = pa.concat_tables(rows)
        if self._settings.is_upsert:
            self._deleted, last = last_changes(pa.concat_tables(self._keys))
            whole = whole.take(last)
        self._files = self._written(self._transaction, whole)

    def _written(self, transaction: Transaction, rows: pa.Table) -> list[DataFile]:
        if not rows.num_rows:
            return []
        try:
            return list(_dataframe_to_data_files(transaction.table_metadata, rows, self._table.io, write_uuid=uuid.uuid4()))
        except Exception as error:
            known = of_rows(self._own.name, error)
            if known is error:
                raise
            raise known from error

    def commit(self, rows: Mapping[TopicPartition, StoredRow | None]) -> None:
        """Commit what was flushed, and these offset rows; None removes one. Does nothing if there is neither. Raises FencedException where
        another process has changed one of the offset rows, RetriableException where the table's columns have changed."""
        if not rows and not self.has_rows:
            return
        before, shape = self.stored, self._shape()
        for _ in range(COMMIT_ATTEMPTS):
            self._stage(rows)
            requirements = (*self._transaction._requirements, AssertTableUUID(uuid=self._table.metadata.table_uuid))
            if isinstance(self._catalog, MetastoreCatalog):  # which checks requirements in this process
                requirements = (*requirements, _WithoutCode(self._own.name))  # type: ignore[arg-type]
            try:
                self._catalog.commit_table(self._table, requirements, self._transaction._updates)
                return
            except CommitFailedException:
                self._table = self._catalog.load_table(self._own.name)
            producers = self._transaction._snapshot_producers
            if any(self._table.metadata.snapshot_by_id(each.snapshot_id) is not None for each in producers):
                return  # the commit went through, and its answer was lost
            for producer in producers:  # not before: what went through needs these files
                producer._clean_all_uncommitted()
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
                raise FencedException(f"{partition} in table {self._own.name} was changed by another process, this one may no longer write")

    def _stage(self, rows: Mapping[TopicPartition, StoredRow | None]) -> None:
        """1 rows of the keys go 2 data files come, in a snapshot that is there without any, too 3 the offset rows."""
        transaction = self._transaction
        if self._settings.is_upsert and self._rows and self._table.current_snapshot() is not None and self._deleted.num_rows:
            self._delete(transaction)  # 1
        name, merged = property_name(self._connector), dict(self.stored)
        sequence = transaction.table_metadata.next_sequence_number()
        update = transaction.update_snapshot(snapshot_properties={})
        with update.fast_append() as append:  # 2
            stamped = {p: None if row is None else StoredRow(row.row, row.lineage, append.snapshot_id, sequence) for p, row in rows.items()}
            for file in self._files:
                append.append_data_file(file)
            append.snapshot_properties = {name: to_text({p: row for p, row in stamped.items() if row is not None})} if rows else {}
        if rows:  # 3
            merged = {p: row for p, row in (merged | stamped).items() if row is not None}
            transaction.set_properties({name: to_text(merged)})

    def _delete(self, transaction: Transaction) -> None:
        """Remove the rows of the keys: one after another the files that have some are written anew without them."""
        schema, keys = transaction.table_metadata.schema(), _Keys(transaction.table_metadata.schema(), self._deleted)
        replaced = []
        for task in transaction._scan(keys.row_filter).plan_files():
            if not keys.may_be_in(task.file) or not keys.are_among(self._read(transaction, task, schema.select(*keys.names))):
                continue
            rows = self._read(transaction, task, schema)
            replaced.append((task.file, self._written(transaction, keys.without(rows))))
        if not replaced:
            return
        with transaction.update_snapshot().overwrite() as overwrite:
            overwrite.delete_by_predicate(keys.row_filter)
            for file, files in replaced:
                overwrite.delete_data_file(file)
                for each in files:
                    overwrite.append_data_file(each)

    def _read(self, transaction: Transaction, task: FileScanTask, schema: Schema) -> pa.Table:
        return ArrowScan(transaction.table_metadata, self._table.io, schema, AlwaysTrue()).to_table([task])


class _Keys:
    """The keys whose rows are removed. Files that may have such rows pass ``row_filter``, by which pyiceberg leaves out files,
    and then ``may_be_in``: pyiceberg itself leaves out none for more than 200 keys."""

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
            self.row_filter = And(self.row_filter, _range_of(name, values))

    def may_be_in(self, file: DataFile) -> bool:
        """False: the bounds of a column leave no key out of which the file could have a row."""
        for id, type, values in self._sorted:
            lower, upper = (file.lower_bounds or {}).get(id), (file.upper_bounds or {}).get(id)
            if lower is None or upper is None:
                continue

            def plain(value: pa.Scalar, type: PrimitiveType = type) -> Any:  # as bounds are
                return literal(value.as_py()).to(type).value

            index = bisect.bisect_left(values, from_bytes(type, lower), key=plain)
            if index == len(values) or plain(values[index]) > from_bytes(type, upper):
                return False
        return True

    def are_among(self, rows: pa.Table) -> bool:
        """Whether a row has one of the keys."""
        return bool(self.without(rows).num_rows < rows.num_rows)

    def without(self, rows: pa.Table) -> pa.Table:
        """The rows that stay."""
        return without_keys(rows, self._keys)


def _range_of(name: str, values: pa.Array) -> BooleanExpression:
    """A filter that sorted values pass, others too where they are many."""
    if len(values) <= IN_PREDICATE_LIMIT:
        return In(name, values.to_pylist())  # type: ignore[call-arg, arg-type]
    return And(GreaterThanOrEqual(name, values[0].as_py()), LessThanOrEqual(name, values[-1].as_py()))  # type: ignore[call-arg, arg-type]


class _WithoutCode:
    """A requirement of a commit: the table has not got a property that loads code since it was read."""

    def __init__(self, name: str) -> None:
        self._name = name

    def validate(self, metadata: TableMetadata | None) -> None:
        if metadata is not None:
            _refuse_code(self._name, metadata)


def _refuse_code(name: str, metadata: TableMetadata) -> None:
    if _RUNS_CODE in metadata.properties:
        raise ConfigException(f"Table {name} has the property {_RUNS_CODE}, which loads code: remove it from the table")


def _iceberg_field(field: pa.Field) -> NestedField:
    return table_type("Iceberg", field, _converted)


def _converted(field: pa.Field) -> NestedField:
    schema = visit_pyarrow(pa.schema([field]), _ConvertToIcebergWithoutIDs())
    assert isinstance(schema, Schema)
    return schema.fields[0]
