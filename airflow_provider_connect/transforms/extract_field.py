"""ExtractField: one field in place of all."""

from __future__ import annotations

from typing import Any, Final

from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk.arrow import pa
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config, ConfigDef, ConfigKey
from airflow_provider_connect.sdk.schema import Schema, SchemaType
from airflow_provider_connect.transforms.field_path import SYNTAX_VERSION, field_path
from airflow_provider_connect.transforms.one_by_one import one_by_one
from airflow_provider_connect.transforms.one_side import PACKAGE, REPLACE_NULL, OneSide, require_map
from airflow_provider_connect.transforms.struct_columns import child, require_struct

FIELD = "field"

_PURPOSE: Final = "field extraction"


class ExtractField(OneSide):
    """Null stays null. An unknown field is null in a map, and an error where there is a schema."""

    passes_null = False
    config_def = ConfigDef(ConfigKey(FIELD, doc="Field name to extract."), REPLACE_NULL, SYNTAX_VERSION)

    def configure(self, config: Config) -> None:
        super().configure(config)
        self._name: str = config[FIELD]
        self._path = field_path(self._name, config)

    def with_schema(self, batch: Batch, column: pa.Array, schema: Schema) -> Batch:
        require_struct(column, schema, _PURPOSE)
        for name in self._path:
            if schema.type is not SchemaType.STRUCT:
                raise DataException("Cannot look up fields on non-struct type")
            field = schema.field(name)
            if field is None:
                raise DataException(f"Unknown field: {self._name}")
            column, schema = child(column, field, fill=self.fills_null), field.schema
        return self.replaced(batch, column, schema)

    def without_schema(self, batch: Batch, values: list[Any]) -> Batch:
        return self.replaced_values(batch, one_by_one(self._extracted, values))

    def _extracted(self, value: Any) -> Any:
        purpose = _PURPOSE
        for name in self._path:
            if value is None:
                return None
            value, purpose = require_map(value, purpose).get(name), "nested field access"
        return value


class ExtractFieldKey(ExtractField):
    """From keys."""

    class_name = f"{PACKAGE}.ExtractField$Key"
    side = "key"


class ExtractFieldValue(ExtractField):
    """From values."""

    class_name = f"{PACKAGE}.ExtractField$Value"
    side = "value"
