"""HeaderFrom: fields moved or copied into headers."""

from __future__ import annotations

from functools import partial
from typing import Any

from airflow_provider_connect.errors import ConfigException, DataException
from airflow_provider_connect.sdk.arrow import pa
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config, ConfigDef, ConfigKey, Importance, Lambda, OneOf, Type
from airflow_provider_connect.sdk.java_text import in_hash_order
from airflow_provider_connect.sdk.schema import Schema
from airflow_provider_connect.transforms.header_columns import with_header
from airflow_provider_connect.transforms.name_lists import check_not_empty
from airflow_provider_connect.transforms.one_by_one import one_by_one
from airflow_provider_connect.transforms.one_side import PACKAGE, REPLACE_NULL, OneSide, require_map
from airflow_provider_connect.transforms.struct_columns import child, require_struct, schema_like, struct_column

FIELDS, HEADERS, OPERATION = "fields", "headers", "operation"
MOVE, COPY = "move", "copy"


class HeaderFrom(OneSide):
    """The first field goes into the first header, and so on."""

    passes_null = False
    config_def = ConfigDef(
        ConfigKey(
            FIELDS,
            Type.LIST,
            validator=Lambda(check_not_empty, "non-empty list"),
            importance=Importance.HIGH,
            doc="Field names in the record whose values are to be copied or moved to headers.",
        ),
        ConfigKey(
            HEADERS,
            Type.LIST,
            validator=Lambda(check_not_empty, "non-empty list"),
            importance=Importance.HIGH,
            doc="Header names, in the same order as the field names listed in the fields configuration property.",
        ),
        ConfigKey(
            OPERATION,
            validator=OneOf(MOVE, COPY),
            importance=Importance.HIGH,
            doc="Either <code>move</code> if the fields are to be moved to the headers (removed from the key/value), or "
            "<code>copy</code> if the fields are to be copied to the headers (retained in the key/value).",
        ),
        REPLACE_NULL,
    )

    def configure(self, config: Config) -> None:
        super().configure(config)
        self._fields: list[str] = config[FIELDS]
        self._headers: list[str] = config[HEADERS]
        if len(self._fields) != len(self._headers):
            raise ConfigException(f"'{FIELDS}' config must have the same number of elements as '{HEADERS}' config.")
        self._moves = config[OPERATION] == MOVE
        self._purpose = f"header {config[OPERATION]}"

    def with_schema(self, batch: Batch, column: pa.Array, schema: Schema) -> Batch:
        if column.null_count:
            raise DataException(f"Only Struct objects supported for [{self._purpose}], found: null")
        require_struct(column, schema, self._purpose)
        headers = batch.headers
        for name, header in zip(self._fields, self._headers, strict=True):
            field = schema.field(name)
            if field is None:
                raise DataException(f"Field does not exist: {name}")
            values = child(column, field, fill=self.fills_null)
            data = self.header_converter.from_connect_header_column(batch.topic, header, field.schema, values)
            headers = with_header(headers, header, data)
        if not self._moves:
            return batch.replace(headers=headers)
        kept = [field for field in schema.fields if field.name not in self._fields]
        after = schema_like(schema, [(field.name, field.schema) for field in kept])
        columns = [child(column, field, fill=self.fills_null) for field in kept]
        return self.replaced(batch, struct_column(after, columns, column), after, headers=headers)

    def without_schema(self, batch: Batch, values: list[Any]) -> Batch:
        maps = one_by_one(partial(require_map, purpose=self._purpose), values)
        headers, convert = batch.headers, self.header_converter.from_connect_header
        for name, header in zip(self._fields, self._headers, strict=True):
            data = [convert(batch.topic, header, None, entries.get(name)) for entries in maps]
            headers = with_header(headers, header, pa.array(data, pa.binary()))
        gone = set(self._fields) if self._moves else set()
        kept = [in_hash_order((name, value) for name, value in entries.items() if name not in gone) for entries in maps]
        return self.replaced_values(batch, kept, headers=headers)


class HeaderFromKey(HeaderFrom):
    """From keys."""

    class_name = f"{PACKAGE}.HeaderFrom$Key"
    side = "key"


class HeaderFromValue(HeaderFrom):
    """From values."""

    class_name = f"{PACKAGE}.HeaderFrom$Value"
    side = "value"
