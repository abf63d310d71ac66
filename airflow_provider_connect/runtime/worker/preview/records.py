"""The records of a batch as previews show them, including times outside Python's dates, such as PostgreSQL's infinity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from airflow_provider_connect.data.records import SinkRecord, SourceRecord
from airflow_provider_connect.data.schema import Schema
from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk.batch import Batch

Record = TypeVar("Record", SinkRecord, SourceRecord)


def readable_records(batch: Batch, records_of: Callable[[Batch], list[Record]]) -> list[Record]:
    """The records that ``records_of`` returns for the batch. If a date or timestamp is outside the years 1 to 9999, keys and values are
    plain: structs and maps are dicts, and that time is a text such as ``292278994-08-17T07:12:55.807Z``."""
    try:
        return records_of(batch)
    except DataException:
        nothing = pa.nulls(batch.num_records)
        records = records_of(batch.replace(key=nothing, value=nothing))  # raises errors of headers
    keys, values = readable_values(batch.key, batch.key_schema), readable_values(batch.value, batch.value_schema)
    for index, record in enumerate(records):
        record.key = keys[index] if keys else None
        record.value = values[index] if values else None
    return records


def readable_values(column: pa.Array | None, schema: Schema | None) -> list[Any]:
    """The plain values of a column. Empty without a column."""
    if column is None:
        return []
    return _plain(column) if schema is not None else column.to_pylist()


def _plain(column: pa.Array) -> list[Any]:
    kinds = pa.types
    if kinds.is_struct(column.type):
        names = [field.name for field in column.type]
        rows = zip(*map(_plain, column.flatten()), strict=True) if names else iter([()] * len(column))
        return [dict(zip(names, row, strict=True)) if is_there else None for row, is_there in zip(rows, _is_valid(column), strict=True)]
    if kinds.is_map(column.type):
        entries = ([] if entry.values is None else _plain(entry.values) for entry in column)
        return [{e["key"]: e["value"] for e in row} if is_there else None for row, is_there in zip(entries, _is_valid(column), strict=True)]
    if kinds.is_list(column.type) or kinds.is_large_list(column.type) or kinds.is_fixed_size_list(column.type):
        return [None if entry.values is None else _plain(entry.values) for entry in column]
    if kinds.is_timestamp(column.type) or kinds.is_date32(column.type):
        return _times(column)
    values: list[Any] = column.to_pylist()
    return values


def _is_valid(column: pa.Array) -> list[bool]:
    valid: list[bool] = column.is_valid().to_pylist()
    return valid


def _times(column: pa.Array) -> list[Any]:
    """The values of a timestamp('ms', 'UTC') or date32 column. These two types are the Arrow types of schemas for dates and timestamps."""

    def plain(time: pa.Scalar) -> Any:
        try:
            return time.as_py()
        except (OverflowError, ValueError):
            return str(np.datetime64(time.value, "D")) if pa.types.is_date32(column.type) else f"{np.datetime64(time.value, 'ms')}Z"

    return [plain(time) for time in column]
