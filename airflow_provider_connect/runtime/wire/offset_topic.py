"""The offsets topic: a source partition's offset ↔ the bytes that Kafka Connect writes and reads (contract §2.6).

Connect finds an offset by the exact bytes of its key. Only ``key_bytes`` writes keys.
"""

from collections.abc import Mapping

from airflow_provider_connect.errors import DataException
from airflow_provider_connect.runtime.model.offsets import OffsetRecord
from airflow_provider_connect.runtime.model.records import Unreadable
from airflow_provider_connect.runtime.wire.compact_json import dumps, loads
from airflow_provider_connect.runtime.wire.record import Headers, WireRecord, key_in_message, map_of


def key_bytes(connector: str, partition: Mapping[str, object]) -> bytes:
    """The key of a source partition, with its entries in the mapping's order."""
    return dumps([connector, partition])


def encode(connector: str, partition: Mapping[str, object], offset: Mapping[str, object] | None) -> WireRecord:
    """The bytes of an offset. ``offset`` None: the partition's offset is removed. Raises DataException for values that are not mappings."""
    if not isinstance(partition, Mapping) or not isinstance(offset, Mapping | None):
        raise DataException(f"Source partitions and offsets must be mappings, got {partition!r} and {offset!r}")
    return WireRecord(key_bytes(connector, partition), None if offset is None else dumps(offset), [])


def decode(key: bytes | None, value: bytes | None, headers: Headers | None = (), *, offset: int = -1) -> OffsetRecord | Unreadable:
    """The record's content, or the reason why it cannot be read. Never raises. Headers are ignored."""
    try:
        if key is None:
            raise DataException("record has no key")
        match loads(key):
            case [str(connector), dict(partition)]:
                return OffsetRecord(connector, partition, _offset(value), key, offset)
            case _:
                raise DataException('key must be ["«connector»",{…}]')
    except DataException as error:
        return Unreadable(f"{key_in_message(key)}: {error}", key, offset)


def _offset(value: bytes | None) -> dict[str, object] | None:
    offset = None if value is None else loads(value)
    return None if offset is None else dict(map_of(offset, "value"))
