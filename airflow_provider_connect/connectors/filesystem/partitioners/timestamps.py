"""Fields of record values as columns, and the time of each record: from the wall clock, Kafka or a field. Used by partitioners."""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final
from zoneinfo import ZoneInfo

from airflow_provider_connect.data.arrow import pa, pc, pl
from airflow_provider_connect.data.columns import cast_to_schema, is_json
from airflow_provider_connect.data.schema import TIMESTAMP_SCHEMA
from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk.batch import Batch

_DAY_MS: Final = 86_400_000  # margin for time zone offsets
_FIRST_MS: Final = -62_135_596_800_000 + _DAY_MS
_LAST_MS: Final = 253_402_300_799_999 - _DAY_MS


class Extractor(StrEnum):
    """The origin of a record's time, by its name in ``timestamp.extractor``."""

    WALL_CLOCK = "Wallclock"
    RECORD = "Record"
    RECORD_FIELD = "RecordField"


@dataclass(frozen=True, slots=True)
class Timestamps:
    """The times of records. ``field`` is the path of a field, with names separated by dots."""

    extractor: Extractor = Extractor.WALL_CLOCK
    field: str = ""

    @property
    def is_wall_clock(self) -> bool:
        return self.extractor is Extractor.WALL_CLOCK

    def of(self, batch: Batch) -> pa.Array | None:
        """Milliseconds since 1970 (int64, no nulls). None means the wall clock. Raises DataException for records without a valid time."""
        if self.is_wall_clock:
            return None
        if self.extractor is Extractor.RECORD:
            times = None if batch.timestamp is None else batch.timestamp.cast(pa.int64())
            what = "timestamp"
        else:
            times, what = _milliseconds(field_of(batch, self.field), self.field), f"time in the field {self.field}"
        if times is None or times.null_count:
            index = 0 if times is None else pc.index(times.is_null(), pa.scalar(value=True)).as_py()
            raise DataException(f"The record at offset {batch.kafka_offset_at(index)} of {batch.topic_partition} has no {what}")
        is_far = pc.or_(pc.less(times, _FIRST_MS), pc.greater(times, _LAST_MS))
        if pc.any(is_far).as_py():
            index = pc.index(is_far, pa.scalar(value=True)).as_py()
            where = f"The record at offset {batch.kafka_offset_at(index)} of {batch.topic_partition}"
            raise DataException(f"{where} has the {what} {times[index]}, which is outside the years 1 to 9999: times are milliseconds")
        return times


def local_ms(instant_ms: int, zone: ZoneInfo) -> int:
    """The local time in ``zone``, in milliseconds since 1970-01-01T00:00 there."""
    offset = datetime.datetime.fromtimestamp(instant_ms / 1000, zone).utcoffset()
    assert offset is not None
    return instant_ms + int(offset.total_seconds() * 1000)


def _milliseconds(values: pa.Array, field: str) -> pa.Array:
    types, kind = pa.types, values.type
    try:
        if types.is_integer(kind):
            return values.cast(pa.int64())
        if types.is_timestamp(kind) or types.is_date(kind):
            return _as_ms(values)
        if types.is_string(kind):
            return _as_ms(_parse_texts(values))
    except pa.ArrowException as error:
        raise DataException(f"The field {field} has values that are not times: {error}") from error
    raise DataException(f"The field {field} of type {kind} has no time: it must be a number of milliseconds, a timestamp or ISO 8601 text")


def _as_ms(values: pa.Array) -> Any:  # Any: pyarrow's casts
    return cast_to_schema(values, TIMESTAMP_SCHEMA).cast(pa.int64())


_DATE, _FINER = r"^(\d{4}-\d\d-\d\d)Z?$", r"(\.\d{3})\d+"
_ZONE: Final = r"(?:Z|[T ]\d\d(?::?\d\d)*(?:\.\d+)?[+-]\d\d(?::?\d\d)?)$"
_INTEGER, _FRACTION = r"^-?[0-9]{1,19}$", r"^(-?[0-9]{1,19})\.[0-9]+$"
_OTHER_FORMS: Final = ((r"(:\d\d),(\d)", r"\1.\2"), (r"z$", "Z"), (r" ([+-][\d:]+)$", r"\1"))
"""Parts of ISO 8601 that Arrow does not read, and what it reads instead."""


def _parse_texts(values: pa.Array) -> pa.Array:
    """Parse ISO 8601 texts, including dates, and texts of numbers, which are milliseconds. A time without a zone is UTC. Fractions of
    numbers are cut, as in Java."""
    if pc.all(pc.utf8_is_decimal(values), min_count=0).as_py():
        return values.cast(pa.int64()).cast(pa.timestamp("ms"))
    try:
        return _parse_times(values)
    except pa.ArrowInvalid:  # rarer forms
        whole = pc.replace_substring_regex(values, _FRACTION, r"\1")
        if pc.all(pc.match_substring_regex(whole, _INTEGER), min_count=0).as_py():
            return whole.cast(pa.int64()).cast(pa.timestamp("ms"))
        for pattern, replacement in _OTHER_FORMS:
            values = pc.replace_substring_regex(values, pattern, replacement)
        return _parse_times(values)


def _parse_times(values: pa.Array) -> pa.Array:
    texts = pc.replace_substring_regex(pc.replace_substring_regex(values, _DATE, r"\1T00:00"), _FINER, r"\1")
    zoned = pc.if_else(pc.match_substring_regex(texts, _ZONE), texts, pc.binary_join_element_wise(texts, "Z", ""))
    return zoned.cast(pa.timestamp("ms", "UTC"))


def field_of(batch: Batch, path: str) -> pa.Array:
    """The field ``path`` (names separated by dots) of structs, maps with string keys, or JSON. A field of JSON is text, or null if missing.
    Raises DataException if values have no such field."""
    assert batch.value is not None
    values, names = batch.value, path.split(".")
    if is_json(values.type):
        return _json_field(values, names)
    for name in names:
        kind = values.type
        if pa.types.is_struct(kind) and kind.get_field_index(name) >= 0:
            values = pc.struct_field(values, [kind.get_field_index(name)])
        elif pa.types.is_map(kind) and pa.types.is_string(kind.key_type):
            values = pc.map_lookup(values, pa.scalar(name), "first")
        else:
            raise DataException(f"Values of topic {batch.topic} have no field {path}: name an existing field")
    return values


def _json_field(values: pa.Array, names: list[str]) -> pa.Array:
    path = "$" + "".join(f"[{json.dumps(name, ensure_ascii=False)}]" for name in names)
    texts = pl.Series(values.storage).str.json_path_match(path)
    return texts.to_arrow().cast(pa.string())
