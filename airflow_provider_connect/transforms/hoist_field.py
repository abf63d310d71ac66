"""HoistField: the whole key or value as the one field of a struct or map."""

from __future__ import annotations

from typing import Any

from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk.arrow import pa
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.columns import conform
from airflow_provider_connect.sdk.config_def import Config, ConfigDef, ConfigKey
from airflow_provider_connect.sdk.schema import Schema, arrow_type
from airflow_provider_connect.transforms.one_side import PACKAGE, OneSide

FIELD = "field"


class HoistField(OneSide):
    """Null becomes a field that is null."""

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
        hoisted = pa.StructArray.from_arrays([conform(column, schema)], fields=list(arrow_type(after)))
        return self.replaced(batch, hoisted, after)

    def without_schema(self, batch: Batch, values: list[Any]) -> Batch:
        return self.replaced_values(batch, [{self._field: value} for value in values])


class HoistFieldKey(HoistField):
    """Of keys."""

    class_name = f"{PACKAGE}.HoistField$Key"
    side = "key"


class HoistFieldValue(HoistField):
    """Of values."""

    class_name = f"{PACKAGE}.HoistField$Value"
    side = "value"
