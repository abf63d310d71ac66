"""MirrorMaker 2's own records: offset syncs, checkpoints and heartbeats, in the exact bytes of Kafka's protocol structs.

A string is its length as int16, followed by UTF-8. Values of checkpoints and heartbeats start with a version (int16). Knows nothing of
clients.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, Self

from airflow_provider_connect.errors import DataException

_VERSION: Final = 0


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """A pair of next offsets. The mirrored records end before ``upstream`` in the source, and before ``downstream`` in the target."""

    topic: str
    partition: int
    upstream: int
    downstream: int

    def key(self) -> bytes:
        return _text(self.topic) + struct.pack(">i", self.partition)

    def value(self) -> bytes:
        return struct.pack(">qq", self.upstream, self.downstream)

    @classmethod
    def of(cls, key: bytes, value: bytes) -> Self:
        """Parse a sync. Raises DataException for other bytes."""
        try:
            topic, rest = _read_text(key)
            return cls(topic, *struct.unpack_from(">i", rest), *struct.unpack_from(">qq", value))
        except (struct.error, UnicodeDecodeError) as error:
            raise DataException(f"Not an offset sync of MirrorMaker: {error}") from None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The offset of a consumer group in a partition of the source cluster, and the translated offset in the target cluster's ``topic``."""

    group: str
    topic: str
    partition: int
    upstream: int
    downstream: int
    metadata: str = ""

    def key(self) -> bytes:
        return _text(self.group) + _text(self.topic) + struct.pack(">i", self.partition)

    def value(self) -> bytes:
        return struct.pack(">hqq", _VERSION, self.upstream, self.downstream) + _text(self.metadata)

    @classmethod
    def of(cls, key: bytes, value: bytes) -> Self:
        """Parse a checkpoint. Raises DataException for bytes that are not a checkpoint of a known version."""
        try:
            group, rest = _read_text(key)
            topic, rest = _read_text(rest)
            (partition,) = struct.unpack_from(">i", rest)
            version, upstream, downstream = struct.unpack_from(">hqq", value)
            metadata, _ = _read_text(value[struct.calcsize(">hqq") :])
        except (struct.error, UnicodeDecodeError) as error:
            raise DataException(f"Not a checkpoint of MirrorMaker: {error}") from None
        if version != _VERSION:
            raise DataException(f"A checkpoint of version {version}: only version {_VERSION} is known")
        return cls(group, topic, partition, upstream, downstream, metadata)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A record as a sign that mirroring works. ``timestamp`` is in milliseconds since 1970."""

    source: str
    target: str
    timestamp: int

    def key(self) -> bytes:
        return _text(self.source) + _text(self.target)

    def value(self) -> bytes:
        return struct.pack(">hq", _VERSION, self.timestamp)


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


def _read_text(data: bytes) -> tuple[str, bytes]:
    (length,) = struct.unpack_from(">h", data)
    if length < 0 or len(data) < 2 + length:
        raise struct.error(f"a text of {length} bytes in {len(data) - 2}")
    return data[2 : 2 + length].decode(), data[2 + length :]
