"""Batches of records as no producer's library writes them: brokers check little more than their checksums and offsets.

A batch that is small when it is compressed may have a value of any size.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable

import pyarrow as pa

_CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
_PRODUCE, _VERSION, _ALL_REPLICAS = 0, 7, -1
_NULL = -1
_AT_ONCE = 1 << 20


def record(value_bytes: int) -> Iterable[bytes]:
    """A record with a value of so many zeros, in pieces."""
    begin = b"\0" + varint(0) + varint(0) + varint(_NULL) + varint(value_bytes)
    end = varint(0)  # headers
    yield varint(len(begin) + value_bytes + len(end))
    yield begin
    yield from _repeated(b"\0", value_bytes)
    yield end


def _repeated(unit: bytes, count: int) -> Iterable[bytes]:
    piece = unit * _AT_ONCE
    yield from (piece for _ in range(count // _AT_ONCE))
    yield unit * (count % _AT_ONCE)


def batch(codec: str, record: Iterable[bytes]) -> bytes:
    """A batch of one record, whose bytes are ``record`` before they are compressed."""
    packed = _packed(codec, record)
    rest = struct.pack(">hiqqqhii", _CODECS[codec], 0, 1000, 1000, -1, -1, -1, 1) + packed
    checked = struct.pack(">ibI", -1, 2, crc32c(rest)) + rest
    return struct.pack(">qi", 0, len(checked)) + checked


def send(bootstrap: str, topic: str, records: bytes, transactional_id: str | None = None) -> int:
    """Writes a batch to partition 0 of a topic; the broker's error code, 0 for none."""
    host, _, port = bootstrap.rpartition(":")
    body = (
        _text(transactional_id) + struct.pack(">hi", _ALL_REPLICAS, 30_000) + struct.pack(">i", 1) + _text(topic) + struct.pack(">ii", 1, 0)
    )
    body += struct.pack(">i", len(records)) + records
    request = struct.pack(">hhi", _PRODUCE, _VERSION, 1) + _text("raw") + body
    with socket.create_connection((host, int(port)), 60) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        answer = _received(connection, struct.unpack(">i", _received(connection, 4))[0])
    at = 4 + 4 + 2 + len(topic.encode()) + 4 + 4
    return int(struct.unpack(">h", answer[at : at + 2])[0])


def _received(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        piece = connection.recv(size - len(found))
        assert piece, "the broker has closed the connection"
        found += piece
    return found


def _packed(codec: str, pieces: Iterable[bytes]) -> bytes:
    if codec == "none":
        return b"".join(pieces)
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        for piece in pieces:
            stream.write(piece)
    return bytes(sink.getvalue().to_pybytes())


def _text(text: str | None) -> bytes:
    return struct.pack(">h", -1) if text is None else struct.pack(">h", len(text.encode())) + text.encode()


def varint(number: int) -> bytes:
    """A number of 64 bits, also a negative one, as records and Avro have it."""
    number = number << 1 if number >= 0 else (-number << 1) - 1
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*found, number))


def crc32c(data: bytes) -> int:
    """The checksum of a batch."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def _entry(number: int) -> int:
    for _ in range(8):
        number = number >> 1 ^ (0x82F63B78 if number & 1 else 0)
    return number


_TABLE = [_entry(number) for number in range(256)]
