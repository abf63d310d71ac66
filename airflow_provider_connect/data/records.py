"""Single records, which a source task may return from ``poll`` and a sink task receives in ``put_records`` (docs/contract.md §11.1)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Self

from airflow_provider_connect.data.schema import Schema, SchemaType, Struct, validate_value
from airflow_provider_connect.errors import ConnectException, DataException


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def describe_removed(partition: TopicPartition, first: int, end: int) -> str:
    """The text for offsets from ``first`` up to ``end``, exclusive, that the topic's retention removed."""
    return (
        f"{end - first} offsets of {partition}, {first} to {end - 1}, are gone, and were not delivered: the topic's retention removed them "
        "before they were read"
    )


def describe_outside(partition: TopicPartition, offset: int, beginning: int, high: int) -> str:
    """The text for an offset to start from that the log, from ``beginning`` to ``high``, does not hold."""
    if offset < beginning:
        return describe_removed(partition, offset, beginning)
    return f"Offset {offset} is {offset - high} after the end of {partition}, {high}"


NO_TOPIC_ID: Final = "A" * 22
"""The topic id of every topic of a broker without topic ids (KIP-516)."""
_URL_SAFE: Final = str.maketrans("+/", "-_")


def topic_id_text(given: object) -> str:
    """The client's topic id in the form that Kafka's own tools print."""
    return str(given).translate(_URL_SAFE).rstrip("=")


def may_be_same_topic(one: str, other: str) -> bool:
    """Whether two ids may belong to the same topic. An empty id is unknown and matches any."""
    return not one or not other or one == other


RECORDS: Final = "records"
BYTES: Final = "bytes"


class Distance(NamedTuple):
    """The amount of data between a source task's position and the last known end of the source.

    ``left`` is in ``unit``: ``RECORDS``, ``BYTES``, or the source's own unit.
    """

    left: int
    unit: str = RECORDS


@dataclass(frozen=True, slots=True)
class Header:
    """One header of a record. If ``schema`` is None, the value is schemaless. Immutable: use ``Headers.apply`` to change headers."""

    key: str
    value: Any = None
    schema: Schema | None = None


class Headers:
    """The headers of a record in order. A key may occur several times.

    Headers of a batch stay bytes until they are read. If they are not changed, the same bytes are written. Methods that change headers
    return ``self``.
    """

    __slots__ = ("_decode", "_headers", "_wire")

    def __init__(self, headers: Iterable[Header] = ()) -> None:
        self._headers: list[Header] | None = list(headers)
        self._wire: list[tuple[str, bytes | None]] | None = None
        self._decode: Callable[[str, bytes | None], Header] | None = None

    @classmethod
    def of_wire(cls, wire: list[tuple[str, bytes | None]], decode: Callable[[str, bytes | None], Header]) -> Headers:
        """Headers from their bytes on the topic. When the first header is read, all are decoded."""
        headers = cls()
        if wire:
            headers._headers, headers._wire, headers._decode = None, wire, decode
        return headers

    def wire(self) -> list[tuple[str, bytes | None]] | None:
        """The headers' bytes on the topic. None if the headers are not from a topic, or may have been changed."""
        return self._wire

    def add(self, key: str, value: object, schema: Schema | None = None) -> Headers:
        """Append a header. Without ``schema``, a Struct's own schema is used. Raises DataException for a value that does not fit."""
        if not isinstance(key, str):
            raise DataException(f"Header key must be text, got {key!r}")
        if schema is None:
            schema = value.schema if isinstance(value, Struct) else None
        else:
            if schema.type is SchemaType.STRUCT and isinstance(value, Mapping):
                value = Struct(schema, value)
            validate_value(schema, value, f'header: "{key}"')
        self._changeable().append(Header(key, value, schema))
        return self

    def remove(self, key: str) -> Headers:
        """Remove all headers of this key."""
        kept = [header for header in self._changeable() if header.key != key]
        self._headers = kept
        return self

    def clear(self) -> Headers:
        """Remove all headers."""
        self._changeable().clear()
        return self

    def retain_latest(self, key: str | None = None) -> Headers:
        """Keep only the last header of ``key``, or of every key."""
        kept: list[Header] = []
        seen: set[str] = set()
        for header in reversed(self._changeable()):
            if header.key in seen and key in (None, header.key):
                continue
            seen.add(header.key)
            kept.append(header)
        self._headers = kept[::-1]
        return self

    def last_with_name(self, key: str) -> Header | None:
        """The last header of ``key``, or None."""
        return next((header for header in reversed(self._read()) if header.key == key), None)

    def all_with_name(self, key: str) -> list[Header]:
        """All headers of ``key``, in order."""
        return [header for header in self._read() if header.key == key]

    def apply(self, change: Callable[[Header], Header | None], key: str | None = None) -> Headers:
        """Replace each header, or each header of ``key``, with the result of ``change``. A result of None removes the header."""
        changed = (change(header) if key in (None, header.key) else header for header in self._changeable())
        self._headers = [header for header in changed if header is not None]
        return self

    def duplicate(self) -> Headers:
        """A copy that can be changed independently."""
        copy = Headers()
        copy._headers = None if self._headers is None else list(self._headers)
        copy._wire, copy._decode = self._wire, self._decode
        return copy

    def _read(self) -> list[Header]:
        if self._headers is None:
            decode = self._decode
            self._headers = [decode(key, data) for key, data in self._wire or ()] if decode is not None else []
        return self._headers

    def _changeable(self) -> list[Header]:
        headers = self._read()
        self._wire = None
        return headers

    def __iter__(self) -> Iterator[Header]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._wire) if self._headers is None and self._wire is not None else len(self._read())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Headers):
            return NotImplemented
        if self._wire is not None and self._wire == other._wire:
            return True
        return self._read() == other._read()

    __hash__ = None  # type: ignore[assignment]  # headers can be changed

    def __repr__(self) -> str:
        return f"Headers({self._read()!r})"


def _checked_timestamp(timestamp: int | None) -> int | None:
    if timestamp is None or timestamp == -1:
        return None
    if timestamp < 0:
        raise DataException(f"Invalid record timestamp {timestamp}")
    return timestamp


@dataclass(slots=True)
class SourceRecord:
    """One record that a source task has read.

    ``source_offset`` is the position at which a run resumes after this record. If it is None, no run can resume here. ``timestamp`` is in
    ms since 1970. The producer sets ``timestamp`` and ``kafka_partition`` if they are None. If a schema is None, the data is schemaless.
    The constructor raises ConnectException for an offset without a partition, DataException for a negative timestamp.
    """

    source_partition: Mapping[str, object] | None
    source_offset: Mapping[str, object] | None
    topic: str
    value: Any = None  # any value of value_schema
    key: Any = None  # any value of key_schema
    kafka_partition: int | None = field(default=None, kw_only=True)
    key_schema: Schema | None = field(default=None, kw_only=True)
    value_schema: Schema | None = field(default=None, kw_only=True)
    timestamp: int | None = field(default=None, kw_only=True)
    headers: Headers = field(default_factory=Headers, kw_only=True)

    def __post_init__(self) -> None:
        self.timestamp = _checked_timestamp(self.timestamp)
        if self.source_partition is None and self.source_offset is not None:
            raise ConnectException("SourceRecord: source_offset needs a source_partition: an offset without a partition is never committed")

    def replace(self, **changes: Any) -> Self:  # Any: the record's own attributes
        """A copy with some attributes changed. Headers are duplicated unless ``changes`` has them."""
        return dataclasses.replace(self, **{"headers": self.headers.duplicate(), **changes} if "headers" not in changes else changes)


@dataclass(slots=True)
class SinkRecord:
    """One record for a sink task.

    ``original_topic`` and ``original_kafka_partition`` are the record's topic and partition before transformations. Offsets are committed
    for them. ``timestamp`` is in ms since 1970, or None if the record has no timestamp.
    """

    topic: str
    kafka_partition: int
    kafka_offset: int
    key: Any = None  # any value of key_schema
    value: Any = None  # any value of value_schema
    key_schema: Schema | None = None
    value_schema: Schema | None = None
    timestamp: int | None = None
    timestamp_type: str = "CreateTime"
    headers: Headers = field(default_factory=Headers)
    original_topic: str | None = field(default=None, kw_only=True)
    original_kafka_partition: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self.timestamp = _checked_timestamp(self.timestamp)
        self.original_topic = self.topic if self.original_topic is None else self.original_topic
        if self.original_kafka_partition is None:
            self.original_kafka_partition = self.kafka_partition

    @property
    def topic_partition(self) -> TopicPartition:
        """The record's Kafka partition before transformations."""
        return TopicPartition(str(self.original_topic), int(self.original_kafka_partition or 0))

    def replace(self, **changes: Any) -> Self:  # Any: the record's own attributes
        """A copy with some attributes changed. Headers are duplicated unless ``changes`` has them."""
        return dataclasses.replace(self, **{"headers": self.headers.duplicate(), **changes} if "headers" not in changes else changes)
