"""MaskField: fields that may not be seen replaced by nothing, or by a text or number of one's own."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk.arrow import pa
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.columns import column_of
from airflow_provider_connect.sdk.config_def import Config, ConfigDef, ConfigKey, Importance, NonEmptyString, Type
from airflow_provider_connect.sdk.java_numbers import as_single, wrapped
from airflow_provider_connect.sdk.java_text import in_hash_order
from airflow_provider_connect.sdk.schema import DATE, DECIMAL, INTEGER_BITS, TIME, TIMESTAMP, Field, Schema, SchemaType
from airflow_provider_connect.transforms.cast_values import FLOATS
from airflow_provider_connect.transforms.java_class import class_of_schema, class_of_value
from airflow_provider_connect.transforms.name_lists import Names
from airflow_provider_connect.transforms.one_by_one import one_by_one
from airflow_provider_connect.transforms.one_side import PACKAGE, REPLACE_NULL, OneSide, require_map
from airflow_provider_connect.transforms.struct_columns import child, constant, require_struct, struct_column

FIELDS, REPLACEMENT = "fields", "replacement"

_PURPOSE: Final = "mask fields"
_NUMBER: Final = re.compile(r"[+-]?(\d+(?:\.\d*)?|\.\d+)([eE][+-]?\d+)?")
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
    """Null stays null. A replacement is for texts and numbers only."""

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
        if column.null_count:
            raise DataException(f"Only Struct objects supported for [{_PURPOSE}], found: null")
        require_struct(column, schema, _PURPOSE)
        columns = [self._field_column(column, field) for field in schema.fields]
        return self.replaced(batch, struct_column(schema, columns, column), schema)

    def without_schema(self, batch: Batch, values: list[Any]) -> Batch:
        return self.replaced_values(batch, one_by_one(self._masked_map, values))

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
        entries = require_map(value, _PURPOSE)
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
    """``text`` as a value of a schema type or logical type."""
    if kind == SchemaType.STRING:
        return text
    if kind not in INTEGER_BITS and kind not in FLOATS and kind != DECIMAL:
        raise DataException(f"Cannot mask value of type class {java_class} with custom replacement.")
    if not _NUMBER.fullmatch(text):
        raise DataException(f"Unable to convert {text} (class java.lang.String) to {'number' if kind == DECIMAL else 'a number'}")
    number = Decimal(text)
    if kind == DECIMAL:
        return number
    if kind in FLOATS:
        return float(number) if kind == SchemaType.FLOAT64 else as_single(float(number))
    return wrapped(int(number), INTEGER_BITS[SchemaType(kind)])


class MaskFieldKey(MaskField):
    """Of keys."""

    class_name = f"{PACKAGE}.MaskField$Key"
    side = "key"


class MaskFieldValue(MaskField):
    """Of values."""

    class_name = f"{PACKAGE}.MaskField$Value"
    side = "value"
