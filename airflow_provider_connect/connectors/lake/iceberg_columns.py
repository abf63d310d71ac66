"""The columns and partitions of an Iceberg table: its names for fields of records, and the columns that records add.

Loaded only by tasks.
"""

from __future__ import annotations

import math
from typing import Final

from pyiceberg.io.pyarrow import _ConvertToIcebergWithoutIDs, schema_to_pyarrow, visit_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.name_mapping import MappedField
from pyiceberg.table.update.schema import UpdateSchema
from pyiceberg.transforms import parse_transform
from pyiceberg.types import (
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
)

from airflow_provider_connect.connectors.lake.iceberg_partitions import PartitionField
from airflow_provider_connect.connectors.lake.iceberg_settings import PARTITION_BY, IcebergSettings, TableSettings
from airflow_provider_connect.connectors.lake.names import Names
from airflow_provider_connect.connectors.lake.rows import column_at, lake_field, reject_lost_fields, table_type
from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.errors import ConfigException, DataException

_NOT_WRITTEN: Final = (("bucket", "time"), ("truncate", "binary"), ("identity", "uuid"))
"""Partitions of the specification that pyiceberg (0.12) fails to write."""
_PROMOTIONS: Final = ((IntegerType, LongType), (FloatType, DoubleType))


def arrow_schema(metadata: TableMetadata) -> pa.Schema:
    """The table's columns as an Arrow schema."""
    return schema_to_pyarrow(metadata.schema(), include_field_ids=False)


def names_in(metadata: TableMetadata, *, ignores_case: bool) -> Names:
    """The table's names for the fields of records: its own names, or names from its name mapping (``schema.name-mapping.default``)."""
    mapping = metadata.name_mapping()
    return _names(metadata.schema().as_struct(), [] if mapping is None else list(mapping), ignores_case)


def _names(type: IcebergType, mapped: list[MappedField], ignores_case: bool) -> Names:
    if isinstance(type, ListType | MapType):
        inner = type.element_field if isinstance(type, ListType) else type.value_field
        below = next((list(each.fields) for each in mapped if each.field_id == inner.field_id), [])
        return _names(inner.field_type, below, ignores_case)
    if not isinstance(type, StructType):
        return Names(ignores_case)
    by_id = {each.field_id: each for each in mapped}
    own, within = {}, {}
    for field in type.fields:
        found = by_id.get(field.field_id, MappedField(names=[]))
        for name in found.names or [field.name]:
            own[name.lower() if ignores_case else name] = field.name
        within[field.name] = _names(field.field_type, list(found.fields), ignores_case)
    return Names(ignores_case, own, within)


class Columns:
    """Adds the columns that records need to a table. With ``force_optional``, new columns and fields are optional at any depth."""

    def __init__(self, own: TableSettings, settings: IcebergSettings) -> None:
        self._own, self._settings = own, settings

    def evolve(self, transaction: Transaction, rows: pa.Table, names: Names) -> None:
        """Add the columns that the rows need: all columns to a new table, otherwise as the settings allow."""
        schema = transaction.table_metadata.schema()
        is_new = not schema.fields
        if not rows.num_columns or not (is_new or self._settings.evolve):
            return
        wanted = StructType(*(_iceberg_field(lake_field(field, knows_uuid=True)) for field in rows.schema))
        with transaction.update_schema(allow_incompatible_changes=is_new) as update:
            if is_new:
                for field in wanted.fields:
                    self._add(update, (), field, is_required=field.required and not self._settings.force_optional)
            else:
                kept = {names.of_path(name) for name in self._own.id_columns} | schema.identifier_field_names()
                self._add_fields(update, (), schema.as_struct(), wanted, kept)
        if is_new:
            self._identify(transaction)
            self._partition(transaction)
        reject_lost_fields(rows.schema, arrow_schema(transaction.table_metadata))

    def _add(self, update: UpdateSchema, path: tuple[str, ...], field: NestedField, *, is_required: bool = False) -> None:
        type = _optional(field.field_type) if self._settings.force_optional else field.field_type
        update.add_column((*path, field.name), type, field.doc, required=is_required)

    def _add_fields(self, update: UpdateSchema, path: tuple[str, ...], there: StructType, wanted: StructType, kept: set[str]) -> None:
        """Add missing fields to the struct at ``path``, and widen existing ones."""
        for field in wanted.fields:
            found = there.field_by_name(field.name)
            if found is None:
                self._add(update, path, field)
            else:
                self._widen(update, (*path, field.name), found, field, kept)

    def _widen(self, update: UpdateSchema, path: tuple[str, ...], there: NestedField, wanted: NestedField, kept: set[str]) -> None:
        """Make the field accept values of ``wanted``, also inside structs, lists and maps. A map's keys never change. The id columns
        (``kept``) never become optional."""
        old, new = there.field_type, wanted.field_type
        if (type(old), type(new)) in _PROMOTIONS:
            update.update_column(path, field_type=new)
        name = ".".join(path)
        if there.required and not wanted.required and not any(each == name or each.startswith(f"{name}.") for each in kept):
            update.make_column_optional(path)
        if isinstance(old, StructType) and isinstance(new, StructType):
            self._add_fields(update, path, old, new, kept)
        elif isinstance(old, ListType) and isinstance(new, ListType):
            self._widen(update, (*path, "element"), old.element_field, new.element_field, kept)
        elif isinstance(old, MapType) and isinstance(new, MapType):
            self._widen(update, (*path, "value"), old.value_field, new.value_field, kept)

    def _identify(self, transaction: Transaction) -> None:
        """Set the id columns of a new table as identifier fields, for other engines, if the specification allows them."""
        names = names_in(transaction.table_metadata, ignores_case=self._settings.ignores_case)
        columns = [names.of_path(name) for name in self._own.id_columns]
        if columns and all(_may_identify(transaction.table_metadata.schema(), column) for column in columns):
            with transaction.update_schema() as update:
                update.set_identifier_fields(*columns)

    def _partition(self, transaction: Transaction) -> None:
        """Give a new table its partition spec."""
        schema = transaction.table_metadata.schema()
        with transaction.update_spec() as update:
            for field in self._own.partition_by:
                try:
                    column = schema.find_field(field.column, case_sensitive=not self._settings.ignores_case)
                except ValueError as error:
                    text = f"The partition spec of {self._own.name} has the column {field.column}, and the record has no such field"
                    raise DataException(text) from error
                number = "" if field.number is None else f"[{field.number}]"
                path = schema.find_column_name(column.field_id)
                assert path is not None
                name = path if field.transform == "identity" else f"{path}_{field.transform}"
                transform = parse_transform(f"{field.transform}{number}")
                if not transform.can_transform(column.field_type) or (field.transform, str(column.field_type)) in _NOT_WRITTEN:
                    raise _no_partition(field, f"of {column.field_type}")
                if not _is_in_structs_alone(schema, column):
                    raise _no_partition(field, "within a list or a map")
                update.add_field(path, transform, name)

    def reject_partition_values(self, metadata: TableMetadata, rows: pa.Table) -> None:
        """Raise DataException for NaN and -0.0 in partition columns. pyiceberg (0.12) compares values, and would write such rows to no
        partition or to two."""
        for field in metadata.spec().fields:
            name = metadata.schema().find_column_name(field.source_id)
            values = None if name is None else column_at(rows, name)
            if values is None or not pa.types.is_floating(values.type):
                continue
            is_negative_zero = pc.equal(pc.divide(1.0, values), -math.inf)
            if pc.any(pc.or_(pc.is_nan(values), is_negative_zero)).as_py():
                raise DataException(f"The partition column {name} of table {self._own.name} cannot hold NaN or -0.0")


def _no_partition(field: PartitionField, reason: str) -> ConfigException:
    return ConfigException.of(PARTITION_BY, f"{field.transform}({field.column})", f"A partition {reason} cannot be written.")


def _may_identify(schema: Schema, path: str) -> bool:
    """Whether the column exists, has a primitive type with exact values, and is required, including the structs around it."""
    parts = path.split(".")
    try:
        line = [schema.find_field(".".join(parts[: count + 1])) for count in range(len(parts))]
    except ValueError:
        return False
    type = line[-1].field_type
    return (
        all(field.required for field in line)
        and all(isinstance(field.field_type, StructType) for field in line[:-1])
        and isinstance(type, PrimitiveType)
        and not isinstance(type, FloatType | DoubleType)
    )


def _is_in_structs_alone(schema: Schema, field: NestedField) -> bool:
    try:
        schema.accessor_for_field(field.field_id)
    except ValueError:
        return False
    return True


def _optional(type: IcebergType) -> IcebergType:
    """The type, with all inner types optional except keys of maps."""
    match type:
        case StructType():
            fields = (
                NestedField(each.field_id, each.name, _optional(each.field_type), required=False, doc=each.doc) for each in type.fields
            )
            return StructType(*fields)
        case ListType():
            return ListType(type.element_id, _optional(type.element_type), element_required=False)
        case MapType():
            key, value = _optional(type.key_type), _optional(type.value_type)
            return MapType(type.key_id, key, type.value_id, value, value_required=False)
    return type


def _iceberg_field(field: pa.Field) -> NestedField:
    return table_type("Iceberg", field, _convert_field)


def _convert_field(field: pa.Field) -> NestedField:
    schema = visit_pyarrow(pa.schema([field]), _ConvertToIcebergWithoutIDs())
    assert isinstance(schema, Schema)
    return schema.fields[0]
