"""Transformations of whole structs and maps.

ExtractField keeps one field. HoistField wraps the whole key or value in a field. Flatten moves inner fields to the top level. ValueToKey
creates a key from fields of the value. SetSchemaMetadata changes the name or version of the schema.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.data.arrow_schema import arrow_type
from airflow_provider_connect.data.columns import cast_to_schema
from airflow_provider_connect.data.java_text import in_hash_order
from airflow_provider_connect.data.schema import Schema, SchemaType, Struct
from airflow_provider_connect.errors import ConfigException, DataException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config, ConfigDef, ConfigKey, Importance, OneOf, Type
from airflow_provider_connect.transforms.one_side import PACKAGE, REPLACE_NULL, OneSide, create_key_and_value, one_by_one, schemaless_column
from airflow_provider_connect.transforms.requirements import Names, require_map, require_struct
from airflow_provider_connect.transforms.struct_columns import child, children, schema_like, struct_column

FIELD = "field"

_EXTRACTING: Final = "field extraction"


SYNTAX_VERSION: Final = ConfigKey(
    "field.syntax.version",
    default="V1",
    validator=OneOf("V1", "V2", case_sensitive=False),
    importance=Importance.HIGH,
    doc="Defines the version of the syntax to access fields. If set to <code>V1</code>, then the field paths are limited to access the "
    "elements at the root level of the struct or map. If set to <code>V2</code>, the syntax will support accessing nested elements. To "
    "access nested elements, dotted notation is used. If dots are already included in the field name, then backtick pairs can be used "
    'to wrap field names containing dots. E.g. to access the subfield <code>baz</code> from a field named "foo.bar" in a struct/map the '
    'following format can be used to access its elements: "<code>foo.bar</code>.baz".',
)


class ExtractField(OneSide):
    """Replaces the key or value with one of its fields. Null stays null. An unknown field is null in a map, and an error in a struct."""

    passes_null = False
    config_def = ConfigDef(ConfigKey(FIELD, doc="Field name to extract."), REPLACE_NULL, SYNTAX_VERSION)

    def configure(self, config: Config) -> None:
        super().configure(config)
        self._name: str = config[FIELD]
        self._path = field_path(self._name, config)

    def with_schema(self, batch: Batch, column: pa.Array, schema: Schema) -> Batch:
        require_struct(column, schema, _EXTRACTING)
        return self.replace_column(batch, *_found(column, schema, self._path, fill=self.fills_null, missing=f"Unknown field: {self._name}"))

    def without_schema(self, batch: Batch, values: list[Any]) -> Batch:
        return self.replace_values(batch, one_by_one(partial(_value_at, path=self._path, purpose=_EXTRACTING), values))


ExtractFieldKey, ExtractFieldValue = create_key_and_value(ExtractField)


def _found(column: pa.Array, schema: Schema, path: tuple[str, ...], *, fill: bool, missing: str) -> tuple[pa.Array, Schema]:
    """Column and schema of the field at ``path``. With ``fill``, the field's nulls become its default. Null structs around the field always
    become their default, as in Connect.

    Raises DataException with the message ``missing`` if the field does not exist.
    """
    for step, name in enumerate(path, 1):
        if schema.type is not SchemaType.STRUCT:
            raise DataException("Cannot look up fields on non-struct type")
        field = schema.field(name)
        if field is None:
            raise DataException(missing)
        column, schema = child(column, field, fill=fill or step < len(path)), field.schema
    return column, schema


def _value_at(value: Any, path: tuple[str, ...], purpose: str) -> Any:
    """The value at ``path`` in nested maps; None if a map on the way is null or has no such entry."""
    for name in path:
        if value is None:
            return None
        value, purpose = require_map(value, purpose).get(name), "nested field access"
    return value


def field_path(text: str, config: Config) -> tuple[str, ...]:
    """The field names of a path, from the outermost. Raises ConfigException for an unpaired backtick.

    ``text`` is a single name (V1), or names joined by dots, with backticks around names that contain dots (V2, KIP-821).
    """
    return (text,) if config[SYNTAX_VERSION.name].upper() == "V1" else tuple(_steps(text))


def _steps(text: str) -> list[str]:
    steps = []
    at = 0
    while at < len(text):
        if text[at] == "`":
            step, at = _quoted(text, at)
        else:
            end = text.find(".", at)
            end = len(text) if end < 0 else end
            step, at = text[at:end], end + 1
        steps.append(step)
    return [*steps, ""] if text.endswith(".") or not text else steps


def _quoted(text: str, opening: int) -> tuple[str, int]:
    """The name between backticks, and where the next name starts.

    The name ends at a backtick before a dot or at the end of the text, unless a backslash precedes the backtick.
    """
    name, start = "", opening + 1
    at = text.find("`", start)
    while at >= 0:
        is_escaped, is_last = text[at - 1] == "\\", at == len(text) - 1
        if is_last and not is_escaped:
            return name + text[start:at], at + 1
        if not is_last and text[at + 1] == ".":
            if not is_escaped:
                return name + text[start:at], at + 2
            name, start = f"{name}{text[start : at - 1]}`", at + 1
        at = -1 if is_last else text.find("`", at + 1)
    raise ConfigException(
        f"Incomplete backtick pair in path: [{text}], consider adding a backslash before backtick at position {opening} to escape it"
    )


class HoistField(OneSide):
    """Wraps the key or value in a struct or map with a single field. Null becomes a null field."""

    passes_null = False
    config_def = ConfigDef(
        ConfigKey(FIELD, doc="Field name for the single field that will be created in the resulting Struct or Map."),
    )

    def configure(self, config: Config) -> None:
        super().configure(config)
        self._field: str = config[FIELD]

    def with_schema(self, batch: Batch, column: pa.Array, schema: Schema) -> Batch:
        if column.null_count and not schema.optional:
            raise DataException(f'Invalid value: null used for required field: "{self._field}", schema type: {schema.type.name}')
        after = Schema.struct({self._field: schema})
        hoisted = pa.StructArray.from_arrays([cast_to_schema(column, schema)], fields=list(arrow_type(after)))
        return self.replace_column(batch, hoisted, after)

    def without_schema(self, batch: Batch, values: list[Any]) -> Batch:
        return self.replace_values(batch, [{self._field: value} for value in values])


HoistFieldKey, HoistFieldValue = create_key_and_value(HoistField)


DELIMITER = "delimiter"

_FLATTENING: Final = "flattening"


class Flatten(OneSide):
    """Moves the fields of inner structs and maps to the top level, with names joined by a delimiter.

    Lists are unchanged. A field in an optional struct is optional. If the field has no default, its default is taken from that struct's
    default.
    """

    config_def = ConfigDef(
        ConfigKey(
            DELIMITER,
            default=".",
            doc="Delimiter to insert between field names from the input record when generating field names for the output record",
        )
    )

    def configure(self, config: Config) -> None:
        super().configure(config)
        self._delimiter: str = config[DELIMITER]

    def with_schema(self, batch: Batch, column: pa.Array, schema: Schema) -> Batch:
        require_struct(column, schema, _FLATTENING)
        fields = list(self._schemas(schema, "", is_optional=schema.optional, default=schema.default))
        after = schema_like(schema, fields)
        return self.replace_column(batch, struct_column(after, list(self._columns(column, schema)), column), after)

    def without_schema(self, batch: Batch, values: list[Any]) -> Batch:
        return self.replace_values(batch, one_by_one(self._flat, values))

    def _schemas(self, schema: Schema, prefix: str, *, is_optional: bool, default: Struct | None) -> Iterator[tuple[str, Schema]]:
        for field in schema.fields:
            name = self._name(prefix, field.name)
            of_field, optional = field.schema, is_optional or field.schema.optional
            given = None if default is None else default.get(field.name)
            field_default = given if of_field.default is None else of_field.default
            if of_field.type is SchemaType.STRUCT:
                yield from self._schemas(of_field, name, is_optional=optional, default=field_default)
            elif of_field.type is SchemaType.MAP:
                raise DataException(f"Flatten transformation does not support MAP for record with schemas (for field {name}).")
            else:
                yield name, dataclasses.replace(of_field, optional=optional, default=field_default)

    def _columns(self, column: pa.Array, schema: Schema) -> Iterator[pa.Array]:
        for field in schema.fields:
            if field.schema.type is SchemaType.STRUCT:
                yield from self._columns(child(column, field, fill=False), field.schema)
            else:
                yield child(column, field, fill=True)

    def _flat(self, value: Any) -> dict[str, Any]:
        return dict(self._entries(require_map(value, _FLATTENING), ""))

    def _entries(self, value: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
        for key, entry in value.items():
            name = self._name(prefix, key)
            if isinstance(entry, Mapping):
                yield from self._entries(entry, name)
            else:
                yield name, entry

    def _name(self, prefix: str, name: str) -> str:
        return f"{prefix}{self._delimiter}{name}" if prefix else name


FlattenKey, FlattenValue = create_key_and_value(Flatten)


FIELDS = "fields"

_COPYING: Final = "copying fields from value to key"


class ValueToKey(OneSide):
    """Replaces the key with fields of the value, which stays unchanged. The name of a nested field is its whole path, as in Kafka 4.4."""

    class_name = f"{PACKAGE}.ValueToKey"
    side = "value"
    passes_null = False
    config_def = ConfigDef(
        ConfigKey(
            FIELDS,
            Type.LIST,
            validator=Names(),
            importance=Importance.HIGH,
            doc="Field names on the record value to extract as the record key.",
        ),
        REPLACE_NULL,
        SYNTAX_VERSION,
    )

    def configure(self, config: Config) -> None:
        super().configure(config)
        self._paths = {name: field_path(name, config) for name in config[FIELDS]}

    def with_schema(self, batch: Batch, column: pa.Array, schema: Schema) -> Batch:
        require_struct(column, schema, _COPYING, allows_null=False)
        found = {
            name: _found(column, schema, path, fill=self.fills_null, missing=f"Field does not exist: {name}")
            for name, path in self._paths.items()
        }
        key_schema = Schema.struct({name: of_field for name, (_, of_field) in found.items()})
        return batch.replace(key=struct_column(key_schema, [values for values, _ in found.values()], column), key_schema=key_schema)

    def without_schema(self, batch: Batch, values: list[Any]) -> Batch:
        return batch.replace(key=schemaless_column(one_by_one(self._key_of, values)), key_schema=None)

    def _key_of(self, value: Any) -> dict[str, Any]:
        entries = require_map(value, _COPYING)
        return in_hash_order((name, _value_at(entries, path, _COPYING)) for name, path in self._paths.items())


NAME, VERSION = "schema.name", "schema.version"


class SetSchemaMetadata(OneSide):
    """Changes the name or version of the schema. Values must have a schema, unless they are null."""

    passes_null = False
    config_def = ConfigDef(
        ConfigKey(NAME, default=None, importance=Importance.HIGH, doc="Schema name to set."),
        ConfigKey(VERSION, Type.INT, None, importance=Importance.HIGH, doc="Schema version to set."),
        REPLACE_NULL,
    )

    def configure(self, config: Config) -> None:
        super().configure(config)
        given = {"name": config[NAME], "version": config[VERSION]}
        self._changes = {attribute: value for attribute, value in given.items() if value is not None}
        if not self._changes:
            raise ConfigException("Neither schema name nor version configured")

    def with_schema(self, batch: Batch, column: pa.Array, schema: Schema) -> Batch:
        after = _renamed(schema, self._changes)
        if schema.type is SchemaType.STRUCT:
            column = struct_column(after, children(column, schema, fill=self.fills_null), column)
        return self.replace_column(batch, cast_to_schema(column, after), after)

    def without_schema(self, batch: Batch, values: list[Any]) -> Batch:
        if any(value is not None for value in values):
            raise DataException("Schema required for [updating schema metadata]")
        return batch


def _renamed(schema: Schema, changes: Mapping[str, Any]) -> Schema:
    """The schema with ``changes``. If the schema's default is a struct, the default also gets the new schema."""
    default = schema.default
    if not isinstance(default, Struct):
        return dataclasses.replace(schema, **changes)
    after = dataclasses.replace(schema, default=None, **changes)
    values = [default.get_without_default(field.name) for field in schema.fields]
    return after.with_default(Struct.of_values(after, values))


SetSchemaMetadataKey, SetSchemaMetadataValue = create_key_and_value(SetSchemaMetadata)
