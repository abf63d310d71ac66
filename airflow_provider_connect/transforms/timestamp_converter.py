"""TimestampConverter: converts timestamps between text, Unix time, Date, Time and Timestamp."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any, Final

from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.data.arrow_schema import arrow_type
from airflow_provider_connect.data.columns import column_of, values_of
from airflow_provider_connect.data.java_text import in_hash_order
from airflow_provider_connect.data.schema import (
    DATE,
    DATE_SCHEMA,
    INT64_SCHEMA,
    STRING_SCHEMA,
    TIME,
    TIME_SCHEMA,
    TIMESTAMP,
    TIMESTAMP_SCHEMA,
    Field,
    Schema,
    SchemaType,
    Struct,
)
from airflow_provider_connect.errors import ConfigException, DataException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config, ConfigDef, ConfigKey, Importance, OneOf
from airflow_provider_connect.transforms.one_side import REPLACE_NULL, OneSide, create_key_and_value, one_by_one
from airflow_provider_connect.transforms.requirements import class_of_value, require_map, require_struct
from airflow_provider_connect.transforms.simple_date_format import SimpleDateFormat, SimpleDateParser
from airflow_provider_connect.transforms.struct_columns import child, schema_like, struct_column
from airflow_provider_connect.transforms.timestamps import (
    PRECISIONS,
    dates_of_instants,
    instants_of_column,
    instants_of_unix,
    times_of_instants,
    timestamps_of_instants,
    unix_of_instants,
)

FIELD, TARGET_TYPE, FORMAT, UNIX_PRECISION = "field", "target.type", "format", "unix.precision"

_PURPOSE: Final = "converting timestamp formats"
_SCHEMAS: Final = {
    "string": STRING_SCHEMA,
    "unix": INT64_SCHEMA,
    "Date": DATE_SCHEMA,
    "Time": TIME_SCHEMA,
    "Timestamp": TIMESTAMP_SCHEMA,
}


_MILLISECOND, _MILLISECOND_DIGITS = "S", 3


def _fraction_warning(pattern: str) -> str | None:
    """A warning about a fraction of a second with more than three digits. Kafka's TimestampConverter reads it in the same way."""
    try:
        elements = SimpleDateFormat(pattern).elements
    except ValueError:
        return None
    if not any(element.letter == _MILLISECOND and element.count > _MILLISECOND_DIGITS for element in elements):
        return None
    return (
        "S is a number of milliseconds, as in Java, however often it is repeated: .123456 is 123456 milliseconds. Use SSS with texts of "
        f"three digits, or Unix times with {UNIX_PRECISION}"
    )


class TimestampConverter(OneSide):
    """Converts a timestamp to another form, in UTC. Without a schema, a number is Unix time, and a string is parsed by ``format``."""

    passes_null = False
    config_def = ConfigDef(
        ConfigKey(
            FIELD,
            default="",
            importance=Importance.HIGH,
            doc="The field containing the timestamp, or empty if the entire value is a timestamp",
        ),
        ConfigKey(
            TARGET_TYPE,
            validator=OneOf(*_SCHEMAS),
            importance=Importance.HIGH,
            doc="The desired timestamp representation: string, unix, Date, Time, or Timestamp",
        ),
        ConfigKey(
            FORMAT,
            default="",
            doc="A SimpleDateFormat-compatible format for the timestamp. Used to generate the output when type=string or used to parse the "
            "input if the input is a string.",
            warning=_fraction_warning,
        ),
        ConfigKey(
            UNIX_PRECISION,
            default="milliseconds",
            validator=OneOf(*PRECISIONS),
            importance=Importance.LOW,
            doc="The desired Unix precision for the timestamp: seconds, milliseconds, microseconds, or nanoseconds. Used to generate the "
            "output when type=unix or used to parse the input if the input is a Long.Note: This SMT will cause precision loss during "
            "conversions from, and to, values with sub-millisecond components.",
        ),
        REPLACE_NULL,
    )

    def configure(self, config: Config) -> None:
        super().configure(config)
        self._field: str = config[FIELD]
        self._target: str = config[TARGET_TYPE]
        self._precision: str = config[UNIX_PRECISION]
        pattern: str = config[FORMAT]
        self._format: SimpleDateFormat | None = None
        if pattern.strip():
            self._format = _parsed_format(pattern)
            self._parser = SimpleDateParser(self._format, datetime.datetime.now(datetime.UTC).date())
        elif self._target == "string":
            raise ConfigException("TimestampConverter requires format option to be specified when using string timestamps")

    def with_schema(self, batch: Batch, column: pa.Array, schema: Schema) -> Batch:
        if not self._field:
            converted, after = self._converted(column, schema), self._schema_after(schema)
            return self.replace_column(batch, converted, after)
        require_struct(column, schema, _PURPOSE)
        if schema.type is not SchemaType.STRUCT:
            raise DataException("Cannot list fields on non-struct type")
        fields = [(field.name, self._field_schema(field)) for field in schema.fields]
        after = dataclasses.replace(schema_like(schema, fields), optional=schema.optional)
        if isinstance(schema.default, Struct):
            after = after.with_default(self._default_after(schema.default, after))
        if column.null_count == len(column):
            return self.replace_column(batch, pa.nulls(len(column), arrow_type(after)), after)
        columns = [self._field_column(column, field) for field in schema.fields]
        return self.replace_column(batch, struct_column(after, columns, column), after)

    def without_schema(self, batch: Batch, values: list[Any]) -> Batch:
        if not self._field:
            return self.replace_values(batch, one_by_one(self._converted_value, values))
        return self.replace_values(batch, one_by_one(self._converted_map, values))

    def _field_schema(self, field: Field) -> Schema:
        return self._schema_after(field.schema) if field.name == self._field else field.schema

    def _field_column(self, column: pa.Array, field: Field) -> pa.Array:
        values = child(column, field, fill=self.fills_null)
        return self._converted(values, field.schema) if field.name == self._field else values

    def _schema_after(self, schema: Schema) -> Schema:
        return dataclasses.replace(_SCHEMAS[self._target], optional=schema.optional)

    def _default_after(self, default: Struct, after: Schema) -> Struct:
        """The default of the whole struct, converted like the structs. Null fields in it always become their own defaults."""
        column = column_of([default], default.schema)
        columns = [self._field_column(column, field) for field in default.schema.fields]
        values: list[Struct] = values_of(struct_column(after, columns, column), after)
        return values[0]

    def _converted(self, column: pa.Array, schema: Schema) -> pa.Array:
        """The timestamps of ``column`` in the target form. Raises DataException if ``schema`` is not a timestamp's schema."""
        return self._written(self._instants(column, schema))

    def _instants(self, column: pa.Array, schema: Schema) -> pa.Array:
        if schema.logical_name in (DATE, TIME, TIMESTAMP):
            return instants_of_column(column, schema)
        if schema.type is SchemaType.STRING:
            return self._parsed(column)
        if schema.type is SchemaType.INT64:
            return instants_of_unix(column, self._precision)
        name = schema.type.name if schema.name is None else f"{schema.name}:{schema.type.name}"
        raise DataException(f"Schema Schema{{{name}}} does not correspond to a known timestamp type format")

    def _parsed(self, texts: pa.Array) -> pa.Array:
        if texts.null_count == len(texts):
            return texts.cast(pa.int64())
        if self._format is None:
            raise DataException(f"The timestamp ({pc.drop_null(texts)[0]}) is text, which needs the setting {FORMAT}")
        plain = self._parser.parse_plain(texts)
        return pa.array(one_by_one(self._parsed_text, texts.to_pylist()), pa.int64()) if plain is None else plain

    def _parsed_text(self, text: str | None) -> int | None:
        try:
            return None if text is None else self._parser.parse(text)
        except ValueError as error:
            raise DataException(
                f"Could not parse timestamp: value ({text}) does not match pattern ({self._parser.pattern})",
            ) from error

    def _written(self, instants: pa.Array) -> pa.Array:
        if self._target == "string" and self._format is not None:
            return self._format.format_column(instants)
        if self._target == "unix":
            return unix_of_instants(instants, self._precision)
        write = {"Date": dates_of_instants, "Time": times_of_instants}.get(self._target, timestamps_of_instants)
        return write(instants)

    def _converted_map(self, value: Any) -> dict[str, Any] | None:
        if value is None:
            return None
        entries = require_map(value, _PURPOSE)
        return in_hash_order([*entries.items(), (self._field, self._converted_value(entries.get(self._field)))])

    def _converted_value(self, value: Any) -> Any:
        if value is None:
            return None
        schema = {int: INT64_SCHEMA, str: STRING_SCHEMA}.get(type(value))
        if schema is None:
            raise DataException(f"TimestampConverter does not support class {class_of_value(value)} objects as timestamps")
        if self._target not in ("string", "unix"):
            raise DataException(f"A {self._target} needs a schema: without one data is made of maps, lists, text, numbers and booleans")
        return self._converted(column_of([value], schema), schema)[0].as_py()


def _parsed_format(pattern: str) -> SimpleDateFormat:
    try:
        return SimpleDateFormat(pattern)
    except ValueError as error:
        raise ConfigException(
            f"TimestampConverter requires a SimpleDateFormat-compatible pattern for string timestamps: {pattern}: {error}"
        ) from error


TimestampConverterKey, TimestampConverterValue = create_key_and_value(TimestampConverter)
