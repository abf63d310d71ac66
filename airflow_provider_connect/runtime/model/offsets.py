"""Checks offsets of sources and sinks from users and connectors, and converts them to the stored form.

A source's offsets are maps that the source defines, on the offsets topic. A sink's offsets are Kafka's offsets, in the sink's consumer
group. Knows nothing of how either are stored.
"""

import base64
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from airflow_provider_connect.data.java_text import in_hash_order, parse_integer, text_of, wrapped
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import BadRequestException, DataException
from airflow_provider_connect.runtime.model.config_limits import cut
from airflow_provider_connect.runtime.model.ids import refusal_of_topic

TOPIC, PARTITION, OFFSET = "kafka_topic", "kafka_partition", "kafka_offset"
CLAIM_MARK, ALTERED_MARK = "claim=", "altered="
"""The first characters of the metadata of a group's offset: one mark for offsets that our tasks commit, and one for offsets that were
altered over our REST API. Other metadata comes from another writer: a real Connect, or an admin tool."""


@dataclass(frozen=True, slots=True)
class OffsetRecord:
    """A source partition's offset, as read. ``offset`` None means that it was removed. A lookup finds the offset by ``key``, the record's
    key."""

    connector: str
    partition: Mapping[str, object]
    offset: Mapping[str, object] | None
    key: bytes
    topic_offset: int = field(default=-1, compare=False)


def requested_offsets(body: object) -> list[tuple[object, object]]:
    """The pairs of partition and offset in the body of a PATCH of offsets, in order. None for a missing partition or offset.

    Raises BadRequestException for a body without pairs, or of another form.
    """
    entries = body.get("offsets") if isinstance(body, Mapping) else None
    if not entries:
        raise BadRequestException(NONE_GIVEN)
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        raise BadRequestException("'offsets' must be a list of objects with 'partition' and 'offset'")
    return [(entry.get("partition"), entry.get("offset")) for entry in entries]


# --- sources --------------------------------------------------------------------------------------------------------------------------


def checked_source_offset(value: object) -> Mapping[str, object]:
    """Returns ``value`` if it is a valid source partition or offset: a map of text to null, booleans, 64-bit integers, floats, text and
    bytes. Raises DataException in Connect's words, which name the field."""
    if not isinstance(value, Mapping):
        raise DataException("Offsets must be specified as a Map")
    for name, member in value.items():
        if not isinstance(name, str):
            raise DataException("Offsets may only use String keys")
        if not isinstance(member, None | bool | int | float | str | bytes):
            raise DataException(f"Offsets may only contain primitive types as values, but field {name} contains {_schema_type(member)}")
        if isinstance(member, int) and wrapped(member, 64) != member:
            raise DataException(f"Offsets may only contain numbers of 64 bits, but field {name} contains one of {member.bit_length() + 1}")
    return value


def _schema_type(value: object) -> str:
    return "MAP" if isinstance(value, Mapping) else "ARRAY" if isinstance(value, list | tuple) else type(value).__name__


def normalised(value: Mapping[str, object]) -> dict[str, object]:
    """A checked partition or offset in the form that it would have after a round trip through the offsets topic in a real worker. Bytes are
    base64 text, NaN and the infinities are their names, and entries have the order of a Java HashMap (contract §2.2). Offsets that users
    alter are converted to this form, so that every reader finds them by the bytes of their key."""
    return in_hash_order((name, _read_back(member)) for name, member in value.items())


def _read_back(value: object) -> object:
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case float() if not math.isfinite(value):
            return text_of(value)
        case _:
            return value


# --- sinks ----------------------------------------------------------------------------------------------------------------------------


def sink_offsets(pairs: Iterable[tuple[object, object]]) -> dict[tuple[str, int], int | None]:
    """Maps topic and partition to the offset. None: the offset is to be removed. If two pairs have the same partition, the later pair is
    used.

    Numbers may be text. Raises BadRequestException in Connect's words for the first wrong pair.
    """
    return {_topic_partition(partition): _offset(offset) for partition, offset in pairs}


def sink_partition(topic: str, partition: int) -> dict[str, object]:
    """A topic's partition in the form of GET offsets."""
    return in_hash_order([(TOPIC, topic), (PARTITION, partition)])


def _topic_partition(partition: object) -> tuple[str, int]:
    if partition is None:
        raise BadRequestException("The partition for a sink connector offset cannot be null or missing")
    if not isinstance(partition, Mapping) or TOPIC not in partition or PARTITION not in partition:
        raise BadRequestException(f"The partition for a sink connector offset must contain the keys '{TOPIC}' and '{PARTITION}'")
    topic, number = partition[TOPIC], partition[PARTITION]
    if topic is None:
        raise BadRequestException("Kafka topic names must be valid strings and may not be null")
    if number is None:
        raise BadRequestException("Kafka partitions must be valid numbers and may not be null")
    named = text_of(topic)
    if reason := refusal_of_topic(named):
        raise BadRequestException(f"The '{TOPIC}' of a sink connector offset cannot be {cut(named)!r}: {reason}")
    parsed = _integer(number, 32)
    if parsed is None:
        raise BadRequestException(
            f"Failed to parse the following Kafka partition value in the provided offsets: '{cut(text_of(number))}'. "
            "Partition values for sink connectors need to be integers."
        )
    if parsed < 0:
        raise BadRequestException(f"Kafka partitions must not be negative, but the partition of topic {named} is {parsed}")
    return named, parsed


def _offset(offset: object) -> int | None:
    if offset is None:
        return None
    if not isinstance(offset, Mapping) or OFFSET not in offset:
        raise BadRequestException(f"The offset for a sink connector should either be null or contain the key '{OFFSET}'")
    parsed = _integer(offset[OFFSET], 64)
    if parsed is None:
        raise BadRequestException(
            f"Failed to parse the following Kafka offset value in the provided offsets: '{cut(text_of(offset[OFFSET]))}'. "
            "Offset values for sink connectors need to be integers."
        )
    if parsed < 0:
        raise BadRequestException(f"Kafka offsets must not be negative, but '{OFFSET}' is {parsed}")
    return parsed


def _integer(value: object, bits: int) -> int | None:
    text = text_of(value)
    return parse_integer(text, bits) if text.isascii() else None


# --- texts of KIP-875 and Kafka Connect (contract §7.3) ----------------------------------------------------------------------------

NONE_GIVEN = "Partitions / offsets need to be provided for an alter offsets request"
NOT_STOPPED = (
    "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the specified connector by "
    "issuing a 'PUT' request to the '/connectors/{}/stop' endpoint"
)
_INSIDE = (
    "The framework-managed offsets for this connector have been {0} successfully. However, if this connector manages offsets externally, "
    "they will need to be manually {0} in the system that the connector uses."
)
ALTERED = "The offsets for this connector have been altered successfully"
RESET = "The offsets for this connector have been reset successfully"
ALTERED_INSIDE, RESET_INSIDE = _INSIDE.format("altered"), _INSIDE.format("reset")
_ZOMBIES = (
    "Failed to {0} consumer group offsets for connector {{0}} either because its tasks haven't stopped completely yet or the connector was "
    "resumed before the request to {0} its offsets could be successfully completed. If the connector is in a stopped state, this operation "
    "can be safely retried. If it doesn't eventually succeed, the Connect cluster may need to be restarted to get rid of the zombie sink "
    "tasks."
)
ALTER_BUSY, RESET_BUSY = _ZOMBIES.format("alter"), _ZOMBIES.format("reset")
ALTER_FAILED = "Failed to alter consumer group offsets for connector {}"
RESET_FAILED = "Failed to reset consumer group offsets for sink connector {}"
LIST_FAILED = "Failed to list offsets prior to resetting offsets for sink connector {}"
SINK_GET_FAILED = "Failed to retrieve consumer group offsets for sink connector {}"
SOURCE_GET_FAILED = "Failed to retrieve offsets for source connector {}"
SOURCE_READ_TIMEOUT = "Timed out while trying to read to the end of the offsets topic prior to modifying offsets for source connector {}"
SOURCE_WRITE_TIMEOUT = "Timed out while attempting to modify offsets for source connector {}"


def beyond_end(offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> str | None:
    """A note about a sink's offsets that are beyond the ends of their partitions. Kafka accepts such offsets. None: there are no such
    offsets."""
    found = sorted(at for at, offset in offsets.items() if at in ends and offset > ends[at])
    if not found:
        return None
    text = ", ".join(f"{offsets[at]} of {at.topic}-{at.partition} (its end is {ends[at]})" for at in found[:_MOST_BEYOND])
    more = f" and {len(found) - _MOST_BEYOND} others" if len(found) > _MOST_BEYOND else ""
    return f"Offsets beyond the end: {text}{more}. The next run begins where auto.offset.reset points, by default at the first record"


_MOST_BEYOND: Final = 3
