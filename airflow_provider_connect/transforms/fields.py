"""Transformations of single fields: InsertField adds, ReplaceField removes, selects and renames, MaskField masks fields."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, Final

from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.data.columns import column_of
from airflow_provider_connect.data.java_text import as_single, in_hash_order, parse_decimal, text_of, wrapped
from airflow_provider_connect.data.schema import (
    DATE,
    DECIMAL,
    INT32_SCHEMA,
    INT64_SCHEMA,
    INTEGER_BITS,
    STRING_SCHEMA,
    TIME,
    TIMESTAMP,
    TIMESTAMP_SCHEMA,
    Field,
    Schema,
    SchemaType,
)
from airflow_provider_connect.errors import ConfigException, DataException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config, ConfigDef, ConfigKey, Importance, NonEmptyString, Type
from airflow_provider_connect.transforms.cast_values import FLOATS
from airflow_provider_connect.transforms.one_side import REPLACE_NULL, OneSide, create_key_and_value, one_by_one
from airflow_provider_connect.transforms.requirements import Names, class_of_schema, class_of_value, require_map, require_struct
from airflow_provider_connect.transforms.struct_columns import child, children, constant, schema_like, struct_column

TOPIC_FIELD: Final = "topic.field"
PARTITION_FIELD: Final = "partition.field"
OFFSET_FIELD: Final = "offset.field"
TIMESTAMP_FIELD: Final = "timestamp.field"
STATIC_FIELD: Final = "static.field"
STATIC_VALUE = "static.value"

_INSERTING: Final = "field insertion"
_INSERTED_SCHEMAS: Final = {
    TOPIC_FIELD: STRING_SCHEMA,
    PARTITION_FIELD: INT32_SCHEMA,
    OFFSET_FIELD: INT64_SCHEMA,
    TIMESTAMP_FIELD: TIMESTAMP_SCHEMA,
    STATIC_FIELD: STRING_SCHEMA,
}
_SUFFIX: Final = "Suffix with <code>!</code> to make this a required field, or <code>?</code> to keep it optional (the default)."


@dataclass(frozen=True, slots=True)
class _Insertion:
    """A field to insert: its source, name and schema."""

    source: str
    name: str
    schema: Schema

    @classmethod
    def parse(cls, source: str, text: str) -> _Insertion:
        name = text[:-1] if text[-1:] in ("?", "!") else text
        schema = _INSERTED_SCHEMAS[source]
        return cls(source, name, schema if text.endswith("!") else schema.as_optional())


class InsertField(OneSide):
    """Adds fields with a record's topic, partition, offset or timestamp, or with a fixed string.

    New fields are at the end, in the order topic, partition, offset, timestamp, static.
    """

    config_def = ConfigDef(
        ConfigKey(TOPIC_FIELD, default=None, doc=f"Field name for Kafka topic. {_SUFFIX}"),
        ConfigKey(PARTITION_FIELD, default=None, doc=f"Field name for Kafka partition. {_SUFFIX}"),
        ConfigKey(OFFSET_FIELD, default=None, doc=f"Field name for Kafka offset - only applicable to sink connectors.<br/>{_SUFFIX}"),
        ConfigKey(TIMESTAMP_FIELD, default=None, doc=f"Field name for record timestamp. {_SUFFIX}"),
        ConfigKey(STATIC_FIELD, default=None, doc=f"Field name for static data field. {_SUFFIX}"),
        ConfigKey(STATIC_VALUE, default=None, doc="Static field value, if field name configured."),
        REPLACE_NULL,
    )

    def configure(self, config: Config) -> None:
        super().configure(config)
        self._insertions = [_Insertion.parse(source, config[source]) for source in _INSERTED_SCHEMAS if config[source] is not None]
        self._static_value: str | None = config[STATIC_VALUE]
        if not self._insertions:
            raise ConfigException("No field insertion configured")
        if config[STATIC_FIELD] is not None and self._static_value is None:
            raise ConfigException.of(STATIC_VALUE, "null", f"No value specified for static field: {config[STATIC_FIELD]}")

    def with_schema(self, batch: Batch, column: pa.Array, schema: Schema) -> Batch:
        require_struct(column, schema, _INSERTING)
        inserted = [(insertion.name, insertion.schema) for insertion in self._insertions]
        after = schema_like(schema, [*((field.name, field.schema) for field in schema.fields), *inserted])
        columns = children(column, schema, fill=self.fills_null)
        columns += [self._inserted(insertion.source, batch) for insertion in self._insertions]
        return self.replace_column(batch, struct_column(after, columns, column), after)

    def without_schema(self, batch: Batch, values: list[Any]) -> Batch:
        maps = one_by_one(partial(require_map, purpose=_INSERTING), values)
        columns = [(insertion.name, self._inserted(insertion.source, batch)) for insertion in self._insertions]
        numbers = [(name, column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column) for name, column in columns]
        rows: list[list[tuple[str, Any]]] = [[] for _ in maps]
        for name, column in numbers:
            for row, value in zip(rows, column.to_pylist(), strict=True):
                if value is not None:
                    row.append((name, value))
        return self.replace_values(batch, [_with(value, row) for value, row in zip(maps, rows, strict=True)])

    def _inserted(self, source: str, batch: Batch) -> pa.Array:
        count = batch.num_records
        if source == OFFSET_FIELD:
            if not batch.is_from_kafka:
                raise DataException(f"Only SinkRecord supported for [{_INSERTING}], found: org.apache.kafka.connect.source.SourceRecord")
            return batch.kafka_offsets
        if source == TIMESTAMP_FIELD:
            instants = pa.nulls(count, pa.int64()) if batch.timestamp is None else batch.timestamp.cast(pa.int64())
            return instants.cast(pa.timestamp("ms", "UTC"))
        if source == PARTITION_FIELD:
            return pa.repeat(pa.scalar(batch.kafka_partition, pa.int32()), count)
        return pa.repeat(pa.scalar(batch.topic if source == TOPIC_FIELD else self._static_value, pa.string()), count)


def _with(value: Mapping[str, Any], inserted: list[tuple[str, Any]]) -> dict[str, Any]:
    return in_hash_order([*value.items(), *inserted])


InsertFieldKey, InsertFieldValue = create_key_and_value(InsertField)


EXCLUDE, INCLUDE, RENAMES = "exclude", "include", "renames"

_REPLACING: Final = "field replacement"


def _parse_renames(mappings: list[str]) -> dict[str, str]:
    renames = {}
    for mapping in mappings:
        parts = mapping.split(":")
        while parts and not parts[-1]:  # Java's split drops trailing empty parts
            parts.pop()
        if len(parts) != 2:
            raise ConfigException.of(RENAMES, text_of(mappings), f"Invalid rename mapping: {mapping}")
        renames[parts[0]] = parts[1]
    return renames


def _check_renames(_name: str, value: Any) -> None:
    _parse_renames(value or [])


class ReplaceField(OneSide):
    """Removes, selects and renames fields. The setting ``exclude`` has precedence over ``include``; both use the names before renaming."""

    config_def = ConfigDef(
        ConfigKey(
            EXCLUDE,
            Type.LIST,
            [],
            validator=Names(may_be_empty=True),
            doc="Fields to exclude. This takes precedence over the fields to include.",
        ),
        ConfigKey(
            INCLUDE,
            Type.LIST,
            [],
            validator=Names(may_be_empty=True),
            doc="Fields to include. If specified, only these fields will be used.",
        ),
        ConfigKey(
            RENAMES,
            Type.LIST,
            [],
            validator=_check_renames,
            doc="Field rename mappings.",
        ),
        REPLACE_NULL,
    )

    def configure(self, config: Config) -> None:
        super().configure(config)
        self._exclude, self._include = set(config[EXCLUDE]), set(config[INCLUDE])
        self._renames = _parse_renames(config[RENAMES])
        self._names_before = {after: before for before, after in self._renames.items()}

    def with_schema(self, batch: Batch, column: pa.Array, schema: Schema) -> Batch:
        require_struct(column, schema, _REPLACING)
        kept = [(self._renames.get(field.name, field.name), field.schema) for field in schema.fields if self._keeps(field.name)]
        after = schema_like(schema, kept)
        columns = [self._column_before(column, schema, field.name) for field in after.fields]
        return self.replace_column(batch, struct_column(after, columns, column), after)

    def without_schema(self, batch: Batch, values: list[Any]) -> Batch:
        return self.replace_values(batch, one_by_one(self._replaced, values))

    def _replaced(self, value: Any) -> dict[str, Any]:
        entries = require_map(value, _REPLACING).items()
        return in_hash_order((self._renames.get(name, name), entry) for name, entry in entries if self._keeps(name))

    def _keeps(self, name: str) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)

    def _column_before(self, column: pa.Array, schema: Schema, name: str) -> pa.Array:
        before = self._names_before.get(name, name)
        field = schema.field(before)
        if field is None:  # another field already has the new name
            raise DataException(f"{before} is not a valid field name")
        return child(column, field, fill=self.fills_null)


ReplaceFieldKey, ReplaceFieldValue = create_key_and_value(ReplaceField)


FIELDS, REPLACEMENT = "fields", "replacement"

_MASKING: Final = "mask fields"
_NOTHING: Final[Mapping[str, Any]] = {
    **dict.fromkeys(INTEGER_BITS, 0),
    **dict.fromkeys(FLOATS, 0.0),
    SchemaType.BOOLEAN: False,
    SchemaType.STRING: "",
    SchemaType.ARRAY: [],
    SchemaType.MAP: {},
    DECIMAL: Decimal(0),
    DATE: datetime.date(1970, 1, 1),
    TIME: datetime.time(),
    TIMESTAMP: datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC),
}
_NOTHING_SCHEMALESS: Final[tuple[tuple[type, Any], ...]] = ((bool, False), (int, 0), (float, 0.0), (str, ""), (list, []), (dict, {}))


class MaskField(OneSide):
    """Replaces fields with their type's empty value, or with a given string or number.

    Null stays null. Only strings and numbers can have a replacement.
    """

    passes_null = False
    config_def = ConfigDef(
        ConfigKey(FIELDS, Type.LIST, validator=Names(), importance=Importance.HIGH, doc="Names of fields to mask."),
        ConfigKey(
            REPLACEMENT,
            default=None,
            validator=NonEmptyString(),
            importance=Importance.LOW,
            doc="Custom value replacement, that will be applied to all 'fields' values (numeric or non-empty string values only).",
        ),
        REPLACE_NULL,
    )

    def configure(self, config: Config) -> None:
        super().configure(config)
        self._fields: frozenset[str] = frozenset(config[FIELDS])
        self._replacement: str | None = config[REPLACEMENT]

    def with_schema(self, batch: Batch, column: pa.Array, schema: Schema) -> Batch:
        require_struct(column, schema, _MASKING, allows_null=False)
        columns = [self._field_column(column, field) for field in schema.fields]
        return self.replace_column(batch, struct_column(schema, columns, column), schema)

    def without_schema(self, batch: Batch, values: list[Any]) -> Batch:
        return self.replace_values(batch, one_by_one(self._masked_map, values))

    def _field_column(self, column: pa.Array, field: Field) -> pa.Array:
        values = child(column, field, fill=self.fills_null)
        if field.name not in self._fields or values.null_count == len(values):
            return values
        return constant(column_of([self._mask(field.schema)], field.schema), values)

    def _mask(self, schema: Schema) -> Any:
        if self._replacement is not None:
            return _replacement(self._replacement, schema.logical_name or schema.type, class_of_schema(schema))
        kind = schema.logical_name or schema.type
        if kind not in _NOTHING:
            raise DataException(f"Cannot mask value of type: class {class_of_schema(schema)}")
        return _NOTHING[kind]

    def _masked_map(self, value: Any) -> dict[str, Any]:
        entries = require_map(value, _MASKING)
        return in_hash_order([*entries.items(), *((name, self._masked(entries.get(name))) for name in self._fields)])

    def _masked(self, value: Any) -> Any:
        if value is None:
            return None
        if self._replacement is not None:
            kinds = {int: SchemaType.INT64, float: SchemaType.FLOAT64, str: SchemaType.STRING}
            return _replacement(self._replacement, kinds.get(type(value), SchemaType.MAP), class_of_value(value))
        for kind, nothing in _NOTHING_SCHEMALESS:
            if isinstance(value, kind):
                return nothing
        raise DataException(f"Cannot mask value of type: class {class_of_value(value)}")


def _replacement(text: str, kind: str, java_class: str) -> Any:
    """``text`` converted to the schema type or logical type ``kind``. Raises DataException if that is not possible."""
    if kind == SchemaType.STRING:
        return text
    if kind not in INTEGER_BITS and kind not in FLOATS and kind != DECIMAL:
        raise DataException(f"Cannot mask value of type class {java_class} with custom replacement.")
    number = parse_decimal(text)
    if number is None:
        raise DataException(f"Unable to convert {text} (class java.lang.String) to {'number' if kind == DECIMAL else 'a number'}")
    if kind == DECIMAL:
        return number
    if kind in FLOATS:
        return float(number) if kind == SchemaType.FLOAT64 else as_single(float(number))
    return wrapped(int(number), INTEGER_BITS[SchemaType(kind)])


MaskFieldKey, MaskFieldValue = create_key_and_value(MaskField)
