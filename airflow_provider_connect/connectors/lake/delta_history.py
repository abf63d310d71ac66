"""What a Delta table's history has of a connector's offsets: each of its commits names them, so those of an older version are known.

A table that an admin has restored keeps the identifiers of all versions, the offsets among them, and loses the rows. Knows nothing of
deltalake.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import ConnectException

History = Sequence[Mapping[str, Any]]  # Any: entries are what a log's ``commitInfo`` has, with the version; newest first
Offsets = Mapping[TopicPartition, tuple[int | None, int]]
"""Of partitions: the next offset, None where none is known, and the number of the topic's id."""


def commit_info(connector: str, offsets: Offsets) -> dict[str, str]:
    """What a commit of these offsets is given for the history."""
    return {_name(connector): json.dumps({f"{topic}/{partition}": row for (topic, partition), row in sorted(offsets.items())})}


def was_restored(history: History, after: int) -> bool:
    """Whether a version behind ``after`` has restored an older one."""
    return any(_is_restore_entry(entry) and entry["version"] > after for entry in history)


def restored_offset(history: History, connector: str, partition: TopicPartition, topic: int, verified: int) -> int | None:
    """The offset of ``partition`` in a table whose whole history is given and which was restored behind version ``verified``; None: it
    holds none in the topic of that number. Raises ConnectException where the history does not tell."""
    last = next((entry["version"] for entry in history if _of(entry, connector, partition) is not None), verified)
    for entry in history:
        if _is_restore_entry(entry) and verified < entry["version"] < last:
            raise _unknown(entry, f"while records of {partition} were committed")
    for entry in _ancestors(history):
        found = _of(entry, connector, partition)
        if found is not None:
            return found[0] if found[1] == topic else None
    if history[-1]["version"] > 0:
        newest = next(entry for entry in history if _is_restore_entry(entry))
        raise _unknown(newest, f"and its log no longer has the offset of {partition} there")
    return None


def _ancestors(history: History) -> Iterator[Mapping[str, Any]]:
    """The entries whose changes the table has: behind a restored version comes the one that it restored."""
    version = history[0]["version"]
    for entry in history:
        if entry["version"] != version:
            continue
        version -= 1
        if _is_restore_entry(entry):
            version = _restored(entry)
        else:
            yield entry


def _restored(entry: Mapping[str, Any]) -> int:
    text = str(entry.get("operationParameters", {}).get("version"))
    if not text.isdecimal():
        raise _unknown(entry, "to the state of a time, whose version its log does not have")
    return int(text)


def _is_restore_entry(entry: Mapping[str, Any]) -> bool:
    return entry.get("operation") == "RESTORE"


def _of(entry: Mapping[str, Any], connector: str, partition: TopicPartition) -> tuple[int | None, int] | None:
    found = json.loads(entry.get(_name(connector), "{}")).get(f"{partition.topic}/{partition.partition}")
    return None if found is None else (found[0], found[1])


def _name(connector: str) -> str:
    return f"connect.offsets.{connector}"


def _unknown(entry: Mapping[str, Any], reason: str) -> ConnectException:
    return ConnectException(
        f"The Delta table was restored in its version {entry['version']}, {reason}. Set the offset to go on from "
        "(PATCH /connectors/«name»/offsets)"
    )
