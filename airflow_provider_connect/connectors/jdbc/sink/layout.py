"""The table columns of records with one schema, the values of a batch in these columns, and consecutive batches of one table. Knows nothing
of databases."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from airflow_provider_connect.connectors.jdbc.sink.settings import DELETE_ENABLED, KAFKA_FIELDS, PK_FIELDS, PK_MODE, PkMode, SinkSettings
from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.data.schema import INT32_SCHEMA, INT64_SCHEMA, STRING_SCHEMA, Schema, SchemaType
from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk.batch import Batch


class Origin(StrEnum):
    """The part of a record from which a column's values are read."""

    TOPIC = "topic"
    PARTITION = "partition"
    OFFSET = "offset"
    KEY = "key"
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class RecordColumn:
    """One column of the records. ``field`` is the index in the struct, or None if the key is a single value."""

    name: str
    schema: Schema
    origin: Origin
    field: int | None = None
    is_key: bool = False

    @property
    def left_out(self) -> str:
        """The advice that removes the column."""
        return f"name other fields in {PK_FIELDS}" if self.is_key else "leave the field out (fields.whitelist)"

    @property
    def without_type(self) -> str:
        """The advice for a column that has no type in the database."""
        if self.schema.type is SchemaType.STRUCT:
            return f"Flatten the value (transformation Flatten), or {self.left_out}"
        return f"Make the field text (transformation SqlTransform, CAST(… AS VARCHAR)), or {self.left_out}"


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of records with one key schema and one optional value schema. Without a value schema, all records are deletes."""

    columns: tuple[RecordColumn, ...]
    key_schema: Schema | None
    value_schema: Schema | None
    has_deletes: bool

    def named_as(self, names: Iterable[str]) -> Layout:
        """The layout with the column names that the table has, for a database that ignores case. Raises DataException for two fields with
        the same column."""
        known = {name.lower(): name for name in names}
        renamed = tuple(replace(column, name=known.get(column.name.lower(), column.name)) for column in self.columns)
        by_name: dict[str, str] = {}
        for column, own in zip(renamed, self.columns, strict=True):
            other = by_name.setdefault(column.name.lower(), own.name)
            if other != own.name:
                raise DataException(f"Fields {other} and {own.name} are one column: this database ignores case. Rename one (ReplaceField)")
        return self if renamed == self.columns else replace(self, columns=renamed)

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns if column.is_key)

    def fits(self, batch: Batch) -> bool:
        """Whether the batch's records have these columns. A batch with only deletes fits a layout with the same key."""
        if is_all_deletes(batch):
            return self.has_deletes and batch.key_schema == self.key_schema
        is_same = self.value_schema is not None and self.value_schema.equals_but_for_null(batch.value_schema)
        return is_same and (not self.reads_key or batch.key_schema == self.key_schema)

    @property
    def reads_key(self) -> bool:
        return any(column.origin is Origin.KEY for column in self.columns)

    def table(self, batch: Batch) -> pa.Table:
        """The columns of ``batch`` by name. Columns of the record's value are null where that value is null."""
        count = batch.num_records
        parts = {Origin.KEY: _fields(batch.key), Origin.VALUE: _fields(batch.value)}
        arrays = [_array(column, batch, parts, count) for column in self.columns]
        return pa.Table.from_arrays(arrays, names=[column.name for column in self.columns])


def is_all_deletes(batch: Batch) -> bool:
    """Whether no record has a value."""
    return batch.value is None or (batch.value_schema is None and batch.value.null_count == batch.num_records)


def deletes_of(batch: Batch) -> pa.BooleanArray:
    """True where a record has no value."""
    return pa.repeat(True, batch.num_records) if batch.value is None else batch.value.is_null()


def build_layout(settings: SinkSettings, batch: Batch, name_of: Callable[[str], str]) -> Layout:
    """The layout of the batch's records. ``name_of`` returns the name of a field's column. Raises a DataException that names missing
    parts."""
    has_deletes = settings.delete_enabled
    value = batch.value_schema
    if is_all_deletes(batch) and has_deletes:
        value = None
    elif is_all_deletes(batch) and value is None:
        raise DataException(
            f"Records of topic {batch.topic} cannot be rows: their value is null. Set {DELETE_ENABLED} to true to delete the rows of their "
            "keys, or leave them out (transformation Filter with the predicate RecordIsTombstone)."
        )
    elif value is None or value.type is not SchemaType.STRUCT:
        kind = "has no schema" if value is None else f"is {value.type.name}"
        raise DataException(
            f"Records of topic {batch.topic} cannot be rows: their value {kind}, not a struct with a schema. "
            "Use a converter that gives schemas: JsonConverter with schemas.enable=true, or Avro."
        )
    columns = [replace(column, name=name_of(column.name)) for column in _key_columns(settings, batch, value)]
    keys = {column.name for column in columns}
    columns.extend(
        RecordColumn(name_of(field.name), field.schema, Origin.VALUE, field.index)
        for field in (value.fields if value is not None else ())
        if name_of(field.name) not in keys and (not settings.fields or field.name in settings.fields)
    )
    if not columns:
        raise DataException(f"Records of topic {batch.topic} have no field to write: see fields.whitelist")
    return Layout(tuple(columns), batch.key_schema, None if value is None else value.as_optional(), has_deletes)


def _key_columns(settings: SinkSettings, batch: Batch, value: Schema | None) -> Iterator[RecordColumn]:
    match settings.pk_mode:
        case PkMode.KAFKA:
            names = settings.pk_fields or KAFKA_FIELDS
            schemas = (STRING_SCHEMA, INT32_SCHEMA, INT64_SCHEMA)
            for name, schema, origin in zip(names, schemas, (Origin.TOPIC, Origin.PARTITION, Origin.OFFSET), strict=True):
                yield RecordColumn(name, schema, origin, is_key=True)
        case PkMode.RECORD_KEY:
            yield from _record_key_columns(settings, batch)
        case PkMode.RECORD_VALUE:
            assert value is not None  # deletes need the record's key
            yield from _struct_columns(settings, value, Origin.VALUE, batch.topic)


def _record_key_columns(settings: SinkSettings, batch: Batch) -> Iterator[RecordColumn]:
    schema, topic = batch.key_schema, batch.topic
    if schema is None:
        raise DataException(f"Records of topic {topic} have no key with a schema, but {PK_MODE} is record_key")
    if schema.type is SchemaType.STRUCT:
        yield from _struct_columns(settings, schema, Origin.KEY, topic)
    elif len(settings.pk_fields) != 1:
        raise DataException(f"The key of topic {topic} is a single value, {schema.type.name}: {PK_FIELDS} must be one name, of its column")
    else:
        yield RecordColumn(settings.pk_fields[0], schema, Origin.KEY, is_key=True)


def _struct_columns(settings: SinkSettings, schema: Schema, origin: Origin, topic: str) -> Iterator[RecordColumn]:
    names = settings.pk_fields or tuple(field.name for field in schema.fields)
    for name in names:
        field = schema.field(name)
        if field is None:
            fields = ", ".join(each.name for each in schema.fields)
            raise DataException(f"{PK_FIELDS} names {name}, but the {origin} of topic {topic} has no such field. It has: {fields}")
        yield RecordColumn(name, field.schema, origin, field.index, is_key=True)


def _fields(column: pa.Array | None) -> list[pa.Array]:
    return column.flatten() if column is not None and pa.types.is_struct(column.type) else []


def _array(column: RecordColumn, batch: Batch, parts: Mapping[Origin, list[pa.Array]], count: int) -> pa.Array:
    match column.origin:
        case Origin.TOPIC:
            return pa.repeat(batch.topic_partition.topic, count)
        case Origin.PARTITION:
            return pa.repeat(pa.scalar(batch.topic_partition.partition, pa.int32()), count)
        case Origin.OFFSET:
            return batch.kafka_offsets
    found = parts[column.origin]
    if column.field is None:
        return pa.nulls(count) if batch.key is None else batch.key
    return found[column.field] if found else pa.nulls(count)


class Records:
    """The records of consecutive batches."""

    __slots__ = ("_ends", "batches")

    def __init__(self, batches: Sequence[Batch]) -> None:
        self.batches = [batch for batch in batches if batch.num_records]
        self._ends = list(itertools.accumulate(batch.num_records for batch in self.batches))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def slice(self, start: int, stop: int) -> Records:
        """The records from ``start`` to ``stop`` (exclusive), without a copy."""
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
        """One record, as a separate batch."""
        number = bisect.bisect_right(self._ends, index)
        batch = self.batches[number]
        return batch.slice(index - (self._ends[number] - batch.num_records), 1)

    def table(self, layout: Layout) -> pa.Table:
        """The records' columns. Deletes have null in columns that they lack."""
        tables = [layout.table(batch) for batch in self.batches]
        return tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="default")

    def deletes(self) -> pa.ChunkedArray:
        """True where a record has no value."""
        return pa.chunked_array([deletes_of(batch) for batch in self.batches], pa.bool_())


def location_of(record: Batch) -> tuple[TopicPartition, int]:
    """The position of one record in Kafka."""
    return record.topic_partition, int(record.kafka_offsets[0].as_py())
