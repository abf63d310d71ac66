"""Offsets of sources and sinks as users and connectors give them: checked, and brought into the form in which they are kept.

A source's are maps of its own making, on the offsets topic; a sink's are Kafka's own, in its consumer group. Knows nothing of either store.
"""

import base64
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from airflow_provider_connect.errors import BadRequestException, DataException
from airflow_provider_connect.model.config_limits import cut
from airflow_provider_connect.model.ids import refusal_of_topic
from airflow_provider_connect.sdk.java_text import in_hash_order, parse_integer, text_of, wrapped

TOPIC, PARTITION, OFFSET = "kafka_topic", "kafka_partition", "kafka_offset"
CLAIM_MARK, ALTERED_MARK = "claim=", "altered="
"""How the metadata of a group's offset begins that a task of ours has committed, and of one that was altered over our REST API. Anything
else is somebody else's: a real Connect's, an admin tool's."""


@dataclass(frozen=True, slots=True)
class OffsetRecord:
    """A source partition's offset, as read; ``offset`` None: it has none any more. ``key`` is the record's, by which it is found."""

    connector: str
    partition: Mapping[str, object]
    offset: Mapping[str, object] | None
    key: bytes
    topic_offset: int = field(default=-1, compare=False)


def requested_offsets(body: object) -> list[tuple[object, object]]:
    """The pairs of partition and offset in the body of a PATCH of offsets, in its order; a missing one of the two is None.

    Raises BadRequestException for a body that holds none, or is not of this form.
    """
    entries = body.get("offsets") if isinstance(body, Mapping) else None
    if not entries:
        raise BadRequestException("Partitions / offsets need to be provided for an alter offsets request")
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        raise BadRequestException("'offsets' must be a list of objects with 'partition' and 'offset'")
    return [(entry.get("partition"), entry.get("offset")) for entry in entries]


# --- sources --------------------------------------------------------------------------------------------------------------------------


def checked_source_offset(value: object) -> Mapping[str, object]:
    """``value``, if it can be a source partition or a source offset: a map of text to null, booleans, 64-bit integers, floats, text and
    bytes. Raises DataException in Connect's words, naming the field."""
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
    """A checked partition or offset as it is after a round trip through the offsets topic in a real worker: bytes are base64 text, floats
    beyond numbers are their names, and the entries stand in the order of a Java HashMap (contract §2.2). Offsets that users alter are
    brought into this form, so that every reader finds them by the bytes of their key."""
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
    """Topic and partition → offset, or None where the offset is to be removed; of two pairs for one partition the later counts.

    Numbers may be given as text. Raises BadRequestException in Connect's words for the first pair that is wrong.
    """
    return {_topic_partition(partition): _offset(offset) for partition, offset in pairs}


def sink_partition(topic: str, partition: int) -> dict[str, object]:
    """How GET offsets shows a topic's partition."""
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
