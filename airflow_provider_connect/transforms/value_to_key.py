"""ValueToKey: a key made of fields of the value."""

from __future__ import annotations

from typing import Any, Final

from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk.arrow import pa
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config, ConfigDef, ConfigKey, Importance, Type
from airflow_provider_connect.sdk.java_text import in_hash_order
from airflow_provider_connect.sdk.schema import Field, Schema, SchemaType
from airflow_provider_connect.transforms.name_lists import Names
from airflow_provider_connect.transforms.one_by_one import one_by_one
from airflow_provider_connect.transforms.one_side import PACKAGE, REPLACE_NULL, OneSide, require_map, schemaless_column
from airflow_provider_connect.transforms.struct_columns import child, require_struct, struct_column

FIELDS = "fields"

_PURPOSE: Final = "copying fields from value to key"


class ValueToKey(OneSide):
    """The key that was is lost; the value stays."""

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
    )

    def configure(self, config: Config) -> None:
        super().configure(config)
        self._fields: list[str] = config[FIELDS]

    def with_schema(self, batch: Batch, column: pa.Array, schema: Schema) -> Batch:
        if column.null_count:
            raise DataException(f"Only Struct objects supported for [{_PURPOSE}], found: null")
        require_struct(column, schema, _PURPOSE)
        chosen = [self._field_of(schema, name) for name in self._fields]
        key_schema = Schema.struct({field.name: field.schema for field in chosen})
        columns = [child(column, field, fill=self.fills_null) for field in chosen]
        return batch.replace(key=struct_column(key_schema, columns, column), key_schema=key_schema)

    def without_schema(self, batch: Batch, values: list[Any]) -> Batch:
        return batch.replace(key=schemaless_column(one_by_one(self._key_of, values)), key_schema=None)

    def _field_of(self, schema: Schema, name: str) -> Field:
        field = schema.field(name) if schema.type is SchemaType.STRUCT else None
        if field is None:
            raise DataException(f"Field does not exist: {name}")
        return field

    def _key_of(self, value: Any) -> dict[str, Any]:
        entries = require_map(value, _PURPOSE)
        return in_hash_order((name, entries.get(name)) for name in self._fields)
