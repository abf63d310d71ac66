"""A transaction that will never end, as a broker leaves it that loses the marker of one."""

import socket
import struct
from pathlib import Path

from airflow_provider_connect.dev.kafka_server import KafkaServer

UNVERIFIED = {"transaction.partition.verification.enable": "false"}
"""The settings of a broker that takes such a transaction: it does not ask the coordinator whether the producer has begun it."""

_PRODUCE, _VERSION, _CORRELATION = 0, 3, 1
_ALL_REPLICAS, _TIMEOUT_MS = -1, 10_000
_CRC, _ATTRIBUTES, _SEQUENCE = 17, 21, 53  # where they stand in a batch
_CONTROL = 0x20
_CASTAGNOLI = 0x82F63B78


def leave_open(server: KafkaServer, topic: str, transactional_id: str) -> None:
    """The last batch of partition 0 of ``topic`` once more, in a transaction of its producer that no coordinator knows of."""
    batch = bytearray(_last_batch(server.directory / "data" / f"{topic}-0"))
    struct.pack_into(">q", batch, 0, 0)
    (sequence,) = struct.unpack_from(">i", batch, _SEQUENCE)
    struct.pack_into(">i", batch, _SEQUENCE, sequence + 1)
    struct.pack_into(">I", batch, _CRC, _crc32c(bytes(batch[_ATTRIBUTES:])))
    partition = struct.pack(">i", 0) + struct.pack(">i", len(batch)) + batch
    topics = struct.pack(">i", 1) + _text(topic) + struct.pack(">i", 1) + partition
    request = _text(transactional_id) + struct.pack(">hi", _ALL_REPLICAS, _TIMEOUT_MS) + topics
    answer = _ask(server.port, struct.pack(">hhi", _PRODUCE, _VERSION, _CORRELATION) + _text("test") + request)
    (error,) = struct.unpack_from(">h", answer, 4 + 4 + 2 + len(topic) + 4 + 4)
    assert error == 0, error


def _last_batch(folder: Path) -> bytes:
    data, at, found = (folder / "00000000000000000000.log").read_bytes(), 0, b""
    while at < len(data):
        (length,) = struct.unpack_from(">i", data, at + 8)
        (attributes,) = struct.unpack_from(">h", data, at + _ATTRIBUTES)
        if not attributes & _CONTROL:
            found = data[at : at + 12 + length]
        at += 12 + length
    return found


def _crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (_CASTAGNOLI if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def _ask(port: int, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), 10) as connection, connection.makefile("rb") as answers:
        connection.sendall(struct.pack(">i", len(request)) + request)
        (length,) = struct.unpack(">i", answers.read(4))
        return answers.read(length)
