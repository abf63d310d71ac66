"""Values as text, as Connect's ``Values`` class writes them for headers (contract §11.3). ``value_parser`` is the way back."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk.java_numbers import double_text
from airflow_provider_connect.sdk.java_text import single_text
from airflow_provider_connect.sdk.schema import Schema, SchemaType, Struct

_EPOCH = datetime.date(1970, 1, 1)
_MIDNIGHT = datetime.time()


def values_text(schema: Schema | None, value: Any, *, is_inner: bool = False) -> str:  # Any: a value of any schema
    """The text of a value: strings and bytes (base64) are quoted inside others only, dates and times are ISO 8601."""
    if value is None:
        return "null"
    if isinstance(value, Struct | Mapping | list | tuple):
        return _collection_text(schema, value)
    if isinstance(value, datetime.date | datetime.time):
        return _date_text(value)
    if isinstance(value, str | bytes | bytearray | memoryview):
        text = _escaped(value, is_inner=is_inner) if isinstance(value, str) else base64.b64encode(value).decode()
        return f'"{text}"' if is_inner else text
    if isinstance(value, float):
        return single_text(value) if schema is not None and schema.type is SchemaType.FLOAT32 else double_text(value)
    if not isinstance(value, int | Decimal):
        raise DataException(f"Failed to serialize unexpected value type {type(value).__name__}: {value}")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _collection_text(schema: Schema | None, value: Any) -> str:
    keys, values = (None, None) if schema is None else (schema.key_schema, schema.value_schema)
    if isinstance(value, Struct):
        fields = (
            f"{values_text(None, field.name, is_inner=True)}:{values_text(field.schema, value.get(field.name), is_inner=True)}"
            for field in value.schema.fields
        )
        return f"{{{','.join(fields)}}}"
    if isinstance(value, Mapping):
        return f"{{{','.join(f'{values_text(keys, k, is_inner=True)}:{values_text(values, v, is_inner=True)}' for k, v in value.items())}}}"
    return f"[{','.join(values_text(values, entry, is_inner=True) for entry in value)}]"


def _escaped(text: str, *, is_inner: bool) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"') if is_inner else text


def _date_text(value: datetime.date | datetime.time) -> str:
    """A time for the first day of 1970 and all before it, a date at midnight, else both: Connect looks at the moment alone."""
    if isinstance(value, datetime.datetime):
        day, time = value.astimezone(datetime.UTC).date(), value.astimezone(datetime.UTC).time()
    elif isinstance(value, datetime.date):
        day, time = value, _MIDNIGHT
    else:
        day, time = _EPOCH, value
    of_day = f"{time.strftime('%H:%M:%S')}.{time.microsecond // 1000:03d}Z"
    if day <= _EPOCH:
        return of_day
    return day.isoformat() if time == _MIDNIGHT else f"{day.isoformat()}T{of_day}"
