"""InsertField: fields for what is known of a record besides key and value, or with a fixed text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from airflow_provider_connect.errors import ConfigException, DataException
from airflow_provider_connect.sdk.arrow import pa
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config, ConfigDef, ConfigKey
from airflow_provider_connect.sdk.java_text import in_hash_order
from airflow_provider_connect.sdk.schema import INT32_SCHEMA, INT64_SCHEMA, STRING_SCHEMA, TIMESTAMP_SCHEMA, Schema
from airflow_provider_connect.transforms.one_by_one import one_by_one
from airflow_provider_connect.transforms.one_side import PACKAGE, REPLACE_NULL, OneSide, require_map
from airflow_provider_connect.transforms.struct_columns import children, require_struct, schema_like, struct_column

TOPIC, PARTITION, OFFSET, TIMESTAMP, STATIC = "topic.field", "partition.field", "offset.field", "timestamp.field", "static.field"
STATIC_VALUE = "static.value"

_PURPOSE: Final = "field insertion"
_SCHEMAS: Final = {TOPIC: STRING_SCHEMA, PARTITION: INT32_SCHEMA, OFFSET: INT64_SCHEMA, TIMESTAMP: TIMESTAMP_SCHEMA, STATIC: STRING_SCHEMA}
_SUFFIX: Final = "Suffix with <code>!</code> to make this a required field, or <code>?</code> to keep it optional (the default)."


@dataclass(frozen=True, slots=True)
class _Insertion:
    """One field to insert: what goes in, under which name, with which schema."""

    source: str
    name: str
    schema: Schema

    @classmethod
    def parse(cls, source: str, text: str) -> _Insertion:
        name = text[:-1] if text[-1:] in ("?", "!") else text
        schema = _SCHEMAS[source]
        return cls(source, name, schema if text.endswith("!") else schema.as_optional())


class InsertField(OneSide):
    """The fields come last, in the order topic, partition, offset, timestamp, static."""

    config_def = ConfigDef(
        ConfigKey(TOPIC, default=None, doc=f"Field name for Kafka topic. {_SUFFIX}"),
        ConfigKey(PARTITION, default=None, doc=f"Field name for Kafka partition. {_SUFFIX}"),
        ConfigKey(OFFSET, default=None, doc=f"Field name for Kafka offset - only applicable to sink connectors.<br/>{_SUFFIX}"),
        ConfigKey(TIMESTAMP, default=None, doc=f"Field name for record timestamp. {_SUFFIX}"),
        ConfigKey(STATIC, default=None, doc=f"Field name for static data field. {_SUFFIX}"),
        ConfigKey(STATIC_VALUE, default=None, doc="Static field value, if field name configured."),
        REPLACE_NULL,
    )

    def configure(self, config: Config) -> None:
        super().configure(config)
        self._insertions = [_Insertion.parse(source, config[source]) for source in _SCHEMAS if config[source] is not None]
        self._static_value: str | None = config[STATIC_VALUE]
        if not self._insertions:
            raise ConfigException("No field insertion configured")
        if config[STATIC] is not None and self._static_value is None:
            raise ConfigException.of(STATIC_VALUE, "null", f"No value specified for static field: {config[STATIC]}")

    def with_schema(self, batch: Batch, column: pa.Array, schema: Schema) -> Batch:
        require_struct(column, schema, _PURPOSE)
        inserted = [(insertion.name, insertion.schema) for insertion in self._insertions]
        after = schema_like(schema, [*((field.name, field.schema) for field in schema.fields), *inserted])
        columns = children(column, schema, fill=self.fills_null)
        columns += [self._inserted(insertion.source, batch) for insertion in self._insertions]
        return self.replaced(batch, struct_column(after, columns, column), after)

    def without_schema(self, batch: Batch, values: list[Any]) -> Batch:
        maps = one_by_one(partial(require_map, purpose=_PURPOSE), values)
        columns = [(insertion.name, self._inserted(insertion.source, batch)) for insertion in self._insertions]
        numbers = [(name, column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column) for name, column in columns]
        rows: list[list[tuple[str, Any]]] = [[] for _ in maps]
        for name, column in numbers:
            for row, value in zip(rows, column.to_pylist(), strict=True):
                if value is not None:
                    row.append((name, value))
        return self.replaced_values(batch, [_with(value, row) for value, row in zip(maps, rows, strict=True)])

    def _inserted(self, source: str, batch: Batch) -> pa.Array:
        count = batch.num_records
        if source == OFFSET:
            if not batch.is_from_kafka:
                raise DataException(f"Only SinkRecord supported for [{_PURPOSE}], found: org.apache.kafka.connect.source.SourceRecord")
            return batch.kafka_offsets
        if source == TIMESTAMP:
            moments = pa.nulls(count, pa.int64()) if batch.timestamp is None else batch.timestamp.cast(pa.int64())
            return moments.cast(pa.timestamp("ms", "UTC"))
        if source == PARTITION:
            return pa.repeat(pa.scalar(batch.kafka_partition, pa.int32()), count)
        return pa.repeat(pa.scalar(batch.topic if source == TOPIC else self._static_value, pa.string()), count)


def _with(value: Mapping[str, Any], inserted: list[tuple[str, Any]]) -> dict[str, Any]:
    return in_hash_order([*value.items(), *inserted])


class InsertFieldKey(InsertField):
    """Into keys."""

    class_name = f"{PACKAGE}.InsertField$Key"
    side = "key"


class InsertFieldValue(InsertField):
    """Into values."""

    class_name = f"{PACKAGE}.InsertField$Value"
    side = "value"
