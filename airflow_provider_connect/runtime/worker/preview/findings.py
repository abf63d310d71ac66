"""The findings of a preview about its records: counts, bytes, types, digests, and the first records, shortened."""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_connect.data.records import SinkRecord, SourceRecord
from airflow_provider_connect.data.schema import Schema, Struct
from airflow_provider_connect.runtime.config.masking import Mask
from airflow_provider_connect.runtime.model.previews import PreviewedRecord, PreviewedTopic
from airflow_provider_connect.runtime.worker.errors.failures import Failure
from airflow_provider_connect.runtime.worker.preview.fields import merge_types, schema_fields, value_fields
from airflow_provider_connect.sdk.converter import HeaderConverter

MAX_VALUE_LENGTH = 4_000
"""The number of characters of a key, a value or a header that are shown."""
MAX_RECORDS_LENGTH = 1 << 20
"""Characters of all records together."""
MAX_TYPES_LENGTH = 1 << 18
"""Characters of all paths and types together, since a record's JSON may have any fields."""
MAX_NAME_LENGTH = 200
"""Characters of a header's name."""
MAX_HEADERS = 20
MAX_FAILURES = 10


@dataclass(slots=True)
class _Seen:
    records: int = 0
    bytes: int = 0
    key: dict[str, str] = field(default_factory=dict)
    value: dict[str, str] = field(default_factory=dict)
    digests: list[str] = field(default_factory=list)


class Findings:
    """Collects the findings. ``header_converter`` reads headers. ``mask`` hides secrets in shown texts."""

    def __init__(self, header_converter: HeaderConverter, mask: Mask) -> None:
        self.header_converter = header_converter
        self.shown: list[PreviewedRecord] = []
        self.skipped = 0
        self.failures: list[str] = []
        self._mask = mask
        self._room = MAX_RECORDS_LENGTH
        self._room_of_types = MAX_TYPES_LENGTH
        self._topics: dict[str, _Seen] = {}

    def skip(self, failure: Failure) -> None:
        """Count a failed record that ``errors.tolerance`` skips. The first few are shown with their error."""
        self.skipped += 1
        if len(self.failures) < MAX_FAILURES:
            where = f"{failure.operation.stage} {failure.operation.class_name}"
            self.failures.append(self._mask(f"{where}: {type(failure.error).__name__}: {failure.error}")[:MAX_VALUE_LENGTH])

    def topics(self) -> list[PreviewedTopic]:
        return [
            PreviewedTopic(name, seen.records, seen.bytes, seen.key, seen.value, seen.digests)
            for name, seen in sorted(self._topics.items())
        ]

    def add(
        self, task: int, records: Sequence[SourceRecord] | Sequence[SinkRecord], encoded: Iterable[tuple[bytes | None, bytes | None]] = ()
    ) -> None:
        """Add records of one topic and one schema. For a source, ``encoded`` has their keys and values as bytes."""
        if not records:
            return
        first = records[0]
        seen = self._topics.setdefault(first.topic, _Seen())
        seen.records += len(records)
        seen.key = self._with_types(seen.key, _fields(first.key_schema, [record.key for record in records]))
        seen.value = self._with_types(seen.value, _fields(first.value_schema, [record.value for record in records]))
        pairs = list(encoded) or [(_text(record.key).encode(), _text(record.value).encode()) for record in records]
        for key, value in pairs:
            seen.bytes += len(key or b"") + len(value or b"")
            seen.digests.append(_digest(key, value))
        for record in records:
            self._show(task, record)

    def _with_types(self, known: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
        """Merge both. Leave out new paths that would exceed ``MAX_TYPES_LENGTH``."""
        kept: dict[str, str] = {}
        for path, kind in merge_types(known, more).items():
            length = 0 if path in known else len(path) + len(kind)
            if length <= self._room_of_types:
                self._room_of_types -= length
                kept[path] = kind
        return kept

    def _show(self, task: int, record: SourceRecord | SinkRecord) -> None:
        if self._room <= 0:
            return
        shown, length = previewed_record(task, record, self._mask)
        self._room -= length
        self.shown.append(shown)


def previewed_record(task: int, record: SourceRecord | SinkRecord, mask: Mask) -> tuple[PreviewedRecord, int]:
    """A record as it is shown, without the secrets of ``mask``, and its number of characters."""
    shorten = _Shortener(mask)
    headers = [{"key": shorten.name(header.key), "value": shorten(header.value)} for header in list(record.headers)[:MAX_HEADERS]]
    offset = record.kafka_offset if isinstance(record, SinkRecord) else None
    source_offset = shorten(record.source_offset) if isinstance(record, SourceRecord) else None
    key, value = shorten(record.key), shorten(record.value)
    topic = shorten.name(record.topic)
    is_cut = shorten.is_shortened or len(record.headers) > MAX_HEADERS
    shown = PreviewedRecord(task, topic, record.kafka_partition, offset, record.timestamp, key, value, headers, is_cut, source_offset)
    return shown, shorten.length


class _Shortener:
    """Converts values to JSON's types, shortened and without secrets. A key, value or header that consists of bytes is shown as text if it
    is UTF-8, as in dead-letter records. Bytes within a value are base64, as in Connect's JSON."""

    def __init__(self, mask: Mask) -> None:
        self.length = 0
        self.is_shortened = False
        self._mask = mask

    def __call__(self, value: Any) -> Any:
        is_bytes = isinstance(value, bytes | bytearray | memoryview)
        plain = self._mask.text(bytes(value), MAX_VALUE_LENGTH) if is_bytes else plain_value(value, self._mask.in_bytes)
        text = json.dumps(plain, ensure_ascii=False)
        self.length += min(len(text), MAX_VALUE_LENGTH)
        if len(text) > MAX_VALUE_LENGTH:
            self.is_shortened = True
            return self._mask(plain if isinstance(plain, str) else text)[:MAX_VALUE_LENGTH]
        return _masked(plain, self._mask)

    def name(self, text: str) -> str:
        """A shortened name. Secrets are masked before it is shortened, since a part of a secret is not recognised."""
        self.length += min(len(text), MAX_NAME_LENGTH)
        self.is_shortened |= len(text) > MAX_NAME_LENGTH
        return self._mask(text)[:MAX_NAME_LENGTH]


def plain_value(value: Any, of_bytes: Callable[[bytes], bytes] = bytes) -> Any:
    """A Connect value in JSON's types: structs and maps are objects, bytes are base64 of the result of ``of_bytes``, times and decimals are
    text."""
    if isinstance(value, Struct):
        value = value.as_dict()
    if isinstance(value, Mapping):
        return {name if isinstance(name, str) else _text(name, of_bytes): plain_value(inner, of_bytes) for name, inner in value.items()}
    return [plain_value(inner, of_bytes) for inner in value] if isinstance(value, list | tuple) else _plain_scalar(value, of_bytes)


def _plain_scalar(value: Any, of_bytes: Callable[[bytes], bytes]) -> Any:
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(of_bytes(bytes(value))).decode()
    return value.isoformat() if isinstance(value, datetime.date | datetime.time) else str(value)


def _masked(value: Any, mask: Mask) -> Any:
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return {name: _masked(inner, mask) for name, inner in value.items()}
    return [_masked(inner, mask) for inner in value] if isinstance(value, list) else value


def _fields(schema: Schema | None, values: Sequence[Any]) -> dict[str, str]:
    if schema is not None:
        return schema_fields(schema)
    return {} if all(value is None for value in values) else value_fields(values)


def _text(value: Any, of_bytes: Callable[[bytes], bytes] = bytes) -> str:
    return json.dumps(plain_value(value, of_bytes), ensure_ascii=False, sort_keys=True)


def _digest(key: bytes | None, value: bytes | None) -> str:
    hashed = hashlib.blake2b(digest_size=8)
    for part in (key, value):
        hashed.update(b"\x00" if part is None else b"\x01" + len(part).to_bytes(8) + part)
    return hashed.hexdigest()
