"""A connector's offsets in the history of a Delta table. Each commit contains them, so the offsets of older versions are known.

A restored table loses rows, but keeps the transaction identifiers of all versions, including the newer offsets. Knows nothing of deltalake.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import ConnectException

History = Sequence[Mapping[str, Any]]  # Any: entries of ``commitInfo`` in the log, with their version; newest first
Offsets = Mapping[TopicPartition, tuple[int | None, int]]
"""The next offset by partition (None: unknown), and the number of the topic's id."""


def commit_info(connector: str, offsets: Offsets) -> dict[str, str]:
    """The metadata with which a commit stores these offsets in the history."""
    return {_name(connector): json.dumps({f"{topic}/{partition}": row for (topic, partition), row in sorted(offsets.items())})}


def was_restored(history: History, after: int) -> bool:
    """Whether a version after ``after`` has restored an older version."""
    return any(_is_restore_entry(entry) and entry["version"] > after for entry in history)


def restored_offset(history: History, connector: str, partition: TopicPartition, topic: int, verified: int) -> int | None:
    """The offset of ``partition`` in a table that was restored after version ``verified``, from the table's whole history. None if the
    partition has no offset in the topic with that number. Raises ConnectException if the history does not have the offset."""
    last = next((entry["version"] for entry in history if _entry_offset(entry, connector, partition) is not None), verified)
    for entry in history:
        if _is_restore_entry(entry) and verified < entry["version"] < last:
            raise _unknown(entry, f"while records of {partition} were committed")
    for entry in _ancestors(history):
        found = _entry_offset(entry, connector, partition)
        if found is not None:
            return found[0] if found[1] == topic else None
    if history[-1]["version"] > 0:
        newest = next(entry for entry in history if _is_restore_entry(entry))
        raise _unknown(newest, f"and its log no longer has the offset of {partition} there")
    return None


def _ancestors(history: History) -> Iterator[Mapping[str, Any]]:
    """The entries whose changes are in the table. A restore entry leads to the version that it restored."""
    version = history[0]["version"]
    for entry in history:
        if entry["version"] != version:
            continue
        version -= 1
        if _is_restore_entry(entry):
            version = _restored_version(entry)
        else:
            yield entry


def _restored_version(entry: Mapping[str, Any]) -> int:
    text = str(entry.get("operationParameters", {}).get("version"))
    if not text.isdecimal():
        raise _unknown(entry, "to a timestamp, whose version is not in its log")
    return int(text)


def _is_restore_entry(entry: Mapping[str, Any]) -> bool:
    return entry.get("operation") == "RESTORE"


def _entry_offset(entry: Mapping[str, Any], connector: str, partition: TopicPartition) -> tuple[int | None, int] | None:
    found = json.loads(entry.get(_name(connector), "{}")).get(f"{partition.topic}/{partition.partition}")
    return None if found is None else (found[0], found[1])


def _name(connector: str) -> str:
    return f"connect.offsets.{connector}"


def _unknown(entry: Mapping[str, Any], reason: str) -> ConnectException:
    return ConnectException(
        f"The Delta table was restored in its version {entry['version']}, {reason}. Stop the connector, and set the offset to continue "
        "from (PATCH /connectors/«name»/offsets)"
    )
