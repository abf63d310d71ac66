"""Source partitions and offsets in MirrorMaker 2's format, so that this package and MirrorMaker can continue from each other's offsets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from airflow_provider_connect.data.records import TopicPartition, may_be_same_topic
from airflow_provider_connect.errors import ConnectException

TOPIC_ID: Final = "topicId"
ONLY_OFFSET: Final = {"offset": 0}
"""The source offset of checkpoints and heartbeats, which have no position."""


def source_partition(alias: str, partition: TopicPartition) -> dict[str, object]:
    return {"cluster": alias, "partition": partition.partition, "topic": partition.topic}


def next_offset(offset: Mapping[str, object] | None) -> int | None:
    """The next offset to read. MirrorMaker stores the last record's offset, or -1 for a partition without records. None if there is no
    stored offset."""
    last = None if offset is None else offset.get("offset")
    return int(last) + 1 if isinstance(last, int | float) else None


def source_offset(last: int, topic_id: str | None) -> dict[str, object]:
    """The source offset: the last record's offset, and the topic's id, which MirrorMaker ignores."""
    return {"offset": last} | ({} if topic_id is None else {TOPIC_ID: topic_id})


def is_from_other_topic(offset: Mapping[str, object] | None, topic_id: str | None) -> bool:
    """Whether the topic was recreated after the offset was written. An offset without an id, as MirrorMaker writes it, fits any topic."""
    return not may_be_same_topic(str((offset or {}).get(TOPIC_ID) or ""), topic_id or "")


def check_offset(partition: Mapping[str, object], offset: Mapping[str, object] | None) -> None:
    """Raise ConnectException, with MirrorMaker's message, for an invalid source partition or offset of a mirrored partition."""
    if partition is None:
        raise ConnectException("Source partitions may not be null")
    for key, kind, named in (("cluster", str, "a string"), ("topic", str, "a string"), ("partition", int, "an integer")):
        check_present(partition, key)
        if not isinstance(partition[key], kind) or isinstance(partition[key], bool):
            raise ConnectException(
                f"Source partition {partition} has an invalid value {partition[key]} for the '{key}' key, which must be {named}"
            )
    if int(str(partition["partition"])) < 0:
        raise ConnectException(
            f"Source partition {partition} has an invalid value {partition['partition']} for the 'partition' key, which cannot be negative"
        )
    _check_offset_value(partition, offset, least=0)


def check_present(partition: Mapping[str, object], key: str) -> None:
    if partition is None or partition.get(key) is None:
        raise ConnectException(f"Source partition {partition} is missing the '{key}' key, which is required")


def check_constant_offset(partition: Mapping[str, object], offset: Mapping[str, object] | None, keys: tuple[str, ...]) -> None:
    """Like ``check_offset``, for checkpoints and heartbeats. All ``keys`` are required, and the offset must be 0."""
    for key in keys:
        check_present(partition, key)
    _check_offset_value(partition, offset, only=0)


def _check_offset_value(
    partition: object, offset: Mapping[str, object] | None, *, least: int | None = None, only: int | None = None
) -> None:
    if offset is None:
        return
    about = f"Source offset {offset} for source partition {partition}"
    if "offset" not in offset:
        raise ConnectException(f"{about} is missing the 'offset' key, which is required")
    value = offset["offset"]
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConnectException(f"{about} has an invalid value {value} for the 'offset' key, which must be an integer")
    if only is not None and value != only:
        raise ConnectException(f"{about} has an invalid value {value} for the 'offset' key; the only accepted value is {only}")
    if least is not None and value < least:
        raise ConnectException(f"{about} has an invalid value {value} for the 'offset' key, which cannot be negative")
