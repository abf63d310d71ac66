"""The offset that holds in a Delta table that was restored, by its history."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_connect.connectors.lake.delta_history import commit_info, restored_offset, was_restored
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import ConnectException

HERE, OTHER = TopicPartition("notes", 0), TopicPartition("notes", 1)
TOPIC = 7


def ours(offset: int | None, partition: TopicPartition = HERE, topic: int = TOPIC) -> dict[str, Any]:
    return {"operation": "WRITE", **commit_info("sink", {partition: (offset, topic)})}


def restore(version: object = None, **more: object) -> dict[str, Any]:
    return {"operation": "RESTORE", "operationParameters": more or {"version": version}}


FOREIGN: dict[str, Any] = {"operation": "OPTIMIZE"}


def history(*entries: dict[str, Any], first: int = 0) -> list[dict[str, Any]]:
    """Oldest entry first, as they are read: newest first, with versions."""
    return [entry | {"version": version} for version, entry in enumerate(entries, first)][::-1]


CASES = {
    "to an older commit": (history(FOREIGN, ours(5), ours(10), restore("1")), 1, 5),
    "to a foreign one behind it": (history(ours(5), FOREIGN, ours(10), restore("1")), 1, 5),
    "to a number": (history(ours(5), ours(10), restore(0)), 0, 5),
    "before the first": (history(FOREIGN, ours(5), restore("0")), 0, None),
    "twice": (history(ours(5), ours(10), ours(15), restore("1"), restore("0")), 1, 5),
    "there and back": (history(ours(5), ours(10), restore("0"), restore("1")), 0, 10),
    "into what a restore was": (history(ours(5), ours(10), restore("0"), FOREIGN, restore("2")), 0, 5),
    "where another partition committed": (history(ours(5), ours(3, OTHER), ours(10), ours(6, OTHER), restore("1")), 1, 5),
    "to another topic of the name": (history(ours(5, topic=6), ours(2), restore("0")), 0, None),
    "to a commit without an offset": (history(ours(None), ours(10), restore("0")), 0, None),
    "with a log that begins later": (history(ours(10), restore("3"), first=3), 2, 10),
}


@pytest.mark.parametrize(("entries", "verified", "offset"), CASES.values(), ids=CASES)
def test_the_offset_of_the_restored_version_holds(entries: list[dict[str, Any]], verified: int, offset: int | None) -> None:
    assert was_restored(entries, verified)
    assert restored_offset(entries, "sink", HERE, TOPIC, verified) == offset


def test_a_restore_that_was_seen_and_offsets_of_others_do_not_count() -> None:
    entries = history(ours(5), ours(10), restore("0"), ours(6), FOREIGN)
    assert not was_restored(entries, 2)
    assert restored_offset(history(ours(5), ours(9), restore("0")), "another", HERE, TOPIC, 1) is None


UNKNOWN = {
    "by time": (history(ours(5), ours(10), restore(datetime="1795737776494")), 0, "to a timestamp"),
    "by time, as Spark has it": (history(ours(5), restore(version=None, timestamp="2026-01-01 00:00:00")), 0, "to a timestamp"),
    "to what the log has forgotten": (history(ours(10), restore("1"), first=5), 4, "no longer has the offset of notes-0"),
    "while records were committed": (history(ours(5), ours(10), restore("0"), ours(15)), 1, "while records of notes-0 were committed"),
}


@pytest.mark.parametrize(("entries", "verified", "text"), UNKNOWN.values(), ids=UNKNOWN)
def test_what_the_history_does_not_tell_is_refused(entries: list[dict[str, Any]], verified: int, text: str) -> None:
    assert was_restored(entries, verified)
    with pytest.raises(ConnectException, match=text):
        restored_offset(entries, "sink", HERE, TOPIC, verified)
