"""Transformations of headers: DropHeaders removes them, HeaderFrom creates them from fields, InsertHeader adds a constant header.

The headers of a whole batch are changed together, as lists of keys and bytes in ``Batch.headers``.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

from airflow_provider_connect.codecs.values import parse_string
from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.data.columns import row_numbers
from airflow_provider_connect.data.java_text import in_hash_order
from airflow_provider_connect.data.schema import Schema
from airflow_provider_connect.errors import ConfigException, DataException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config, ConfigDef, ConfigKey, Importance, OneOf, Type
from airflow_provider_connect.sdk.record_columns import headers_type
from airflow_provider_connect.sdk.transformations import Transformation
from airflow_provider_connect.transforms.one_side import REPLACE_NULL, OneSide, create_key_and_value, one_by_one
from airflow_provider_connect.transforms.requirements import Names, check_not_empty, require_map, require_struct
from airflow_provider_connect.transforms.struct_columns import child, schema_like, struct_column

FIELDS, HEADERS, OPERATION = "fields", "headers", "operation"
MOVE, COPY = "move", "copy"
HEADER, VALUE = "header", "value.literal"


class DropHeaders(Transformation):
    """Removes all headers with the given keys."""

    class_name = "org.apache.kafka.connect.transforms.DropHeaders"
    config_def = ConfigDef(
        ConfigKey(HEADERS, Type.LIST, validator=Names(), importance=Importance.HIGH, doc="The name of the headers to be removed."),
    )

    def configure(self, config: Config) -> None:
        self._keys: list[str] = config[HEADERS]

    def apply_batch(self, batch: Batch) -> Batch:
        if batch.headers is None or not batch.num_records:
            return batch
        return batch.replace(headers=without_headers(batch.headers, self._keys))


class HeaderFrom(OneSide):
    """Moves or copies fields to headers. The first field becomes the first header, and so on."""

    passes_null = False
    config_def = ConfigDef(
        ConfigKey(
            FIELDS,
            Type.LIST,
            validator=check_not_empty,
            importance=Importance.HIGH,
            doc="Field names in the record whose values are to be copied or moved to headers.",
        ),
        ConfigKey(
            HEADERS,
            Type.LIST,
            validator=check_not_empty,
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
        require_struct(column, schema, self._purpose, allows_null=False)
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
        return self.replace_column(batch, struct_column(after, columns, column), after, headers=headers)

    def without_schema(self, batch: Batch, values: list[Any]) -> Batch:
        maps = one_by_one(partial(require_map, purpose=self._purpose), values)
        headers, convert = batch.headers, self.header_converter.from_connect_header
        for name, header in zip(self._fields, self._headers, strict=True):
            data = [convert(batch.topic, header, None, entries.get(name)) for entries in maps]
            headers = with_header(headers, header, pa.array(data, pa.binary()))
        gone = set(self._fields) if self._moves else set()
        kept = [in_hash_order((name, value) for name, value in entries.items() if name not in gone) for entries in maps]
        return self.replace_values(batch, kept, headers=headers)


HeaderFromKey, HeaderFromValue = create_key_and_value(HeaderFrom)


def _check_given(name: str, value: Any) -> None:
    if value is None:
        raise ConfigException.of(name, "null", "entry must be non null")


class InsertHeader(Transformation):
    """Adds the same header to every record.

    The header's type is inferred from the text, as when headers are read: ``5`` is a number, ``true`` a boolean.
    """

    class_name = "org.apache.kafka.connect.transforms.InsertHeader"
    config_def = ConfigDef(
        ConfigKey(HEADER, validator=_check_given, importance=Importance.HIGH, doc="The name of the header."),
        ConfigKey(
            VALUE,
            validator=_check_given,
            importance=Importance.HIGH,
            doc="The literal value that is to be set as the header value on all records.",
        ),
    )

    def configure(self, config: Config) -> None:
        self._key: str = config[HEADER]
        self._schema, self._value = parse_string(config[VALUE])

    def apply_batch(self, batch: Batch) -> Batch:
        if not batch.num_records:
            return batch
        data = self.header_converter.from_connect_header(batch.topic, self._key, self._schema, self._value)
        values = pa.repeat(pa.scalar(data, pa.binary()), batch.num_records)
        return batch.replace(headers=with_header(batch.headers, self._key, values))


def with_header(headers: pa.Array | None, key: str, values: pa.Array) -> pa.Array:
    """``headers`` with one more header at the end of each record. ``values`` (binary) has the header's value for each record."""
    type = headers_type()
    keys = pa.repeat(pa.scalar(key, pa.string()), len(values))
    added = pa.StructArray.from_arrays([keys, values], fields=list(type.value_type))
    rows = row_numbers(len(values) + 1).cast(pa.int32())
    if headers is None:
        return pa.ListArray.from_arrays(rows, added, type=type)
    offsets, entries = _dense(headers)
    parents = pc.list_parent_indices(pa.ListArray.from_arrays(offsets, entries))
    order = pc.array_sort_indices(pa.concat_arrays([parents, rows[:-1].cast(parents.type)]))  # stable, so the added header is last
    return pa.ListArray.from_arrays(pc.add(offsets, rows), pa.concat_arrays([entries, added]).take(order), type=type)


def without_headers(headers: pa.Array, keys: Collection[str]) -> pa.Array:
    """``headers`` without the headers with ``keys``."""
    offsets, entries = _dense(headers)
    kept = pc.invert(pc.is_in(pc.struct_field(entries, "key"), value_set=pa.array(list(keys), pa.string())))
    counts = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(kept.cast(pa.int32()))])
    return pa.ListArray.from_arrays(counts.take(offsets), entries.filter(kept), type=headers_type())


def have_header(headers: pa.Array, key: str) -> pa.BooleanArray:
    """A mask of the records that have a header with this key."""
    offsets, entries = _dense(headers)
    wanted = pc.equal(pc.struct_field(entries, "key"), key).cast(pa.int32())
    counts = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(wanted)]).take(offsets)
    return pc.greater(pc.subtract(counts[1:], counts[:-1]), 0)


def _dense(headers: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The offsets of the lists (from 0, one more than there are records), and the entries to which the offsets refer."""
    lengths = pc.list_value_length(headers).fill_null(0).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])
    return offsets, pc.list_flatten(headers).cast(headers_type().value_type)
