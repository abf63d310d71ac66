"""A transaction that will never end, as a broker leaves it that loses the marker of one."""

import struct
from pathlib import Path

from airflow_provider_connect.dev.kafka_server import KafkaServer
from tests import raw_batches

UNVERIFIED = {"transaction.partition.verification.enable": "false"}
"""The settings of a broker that takes such a transaction: it does not ask the coordinator whether the producer has begun it."""

_CRC, _ATTRIBUTES, _SEQUENCE = 17, 21, 53  # where they stand in a batch
_CONTROL = 0x20


def leave_open(server: KafkaServer, topic: str, transactional_id: str) -> None:
    """The last batch of partition 0 of ``topic`` once more, in a transaction of its producer that no coordinator knows of."""
    batch = bytearray(_last_batch(server.directory / "data" / f"{topic}-0"))
    struct.pack_into(">q", batch, 0, 0)
    (sequence,) = struct.unpack_from(">i", batch, _SEQUENCE)
    struct.pack_into(">i", batch, _SEQUENCE, sequence + 1)
    struct.pack_into(">I", batch, _CRC, raw_batches.crc32c(bytes(batch[_ATTRIBUTES:])))
    error = raw_batches.send(server.bootstrap_servers, topic, bytes(batch), transactional_id)
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
