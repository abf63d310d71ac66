"""Offsets as ranges, what context headers report, and the position of a replay."""

import random

import pytest

from airflow_provider_connect.codecs.dead_letters import (
    FailureContext,
    OffsetRanges,
    ReplayPosition,
    by_partition,
    parse_range,
    strip_context,
)
from airflow_provider_connect.errors import ConnectException


def test_ranges_hold_what_a_set_of_their_offsets_holds() -> None:
    chance = random.Random(7)
    for _ in range(300):
        ranges, offsets = OffsetRanges(), set[int]()
        for _ in range(chance.randrange(12)):
            first = chance.randrange(40)
            last = first + chance.randrange(-1, 6)
            ranges.add(first, last)
            offsets |= set(range(first, last + 1))
        assert {offset for offset in range(50) if offset in ranges} == offsets
        assert str(OffsetRanges.parse(str(ranges))) == str(ranges)
        assert len(ranges) == sum(1 for offset in offsets if offset - 1 not in offsets)  # neighbours are one range
        assert ranges.first == min(offsets, default=None)


@pytest.mark.parametrize("text", ["a", "5-", "-5", "9-3", "1 2", "٣", "9" * 30, "1-2-3"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(ConnectException, match="is not a range of offsets"):
        parse_range(text)


def test_ranges_are_grouped_by_partition() -> None:
    found = by_partition(["0:5-20", "1:7", "0:21"])
    assert {partition: str(ranges) for partition, ranges in found.items()} == {0: "5-21", 1: "7"}
    for wrong in ("5-20", "x:1", ":1", "0:"):
        with pytest.raises(ConnectException):
            by_partition([wrong])


def test_the_last_failure_of_a_record_counts() -> None:
    headers = [
        ("__connect.errors.connector.name", b"other"),
        ("trace", b"1"),
        ("__connect.errors.topic", b"orders"),
        ("__connect.errors.partition", b"2"),
        ("__connect.errors.offset", b"77"),
        ("__connect.errors.connector.name", b"sink"),
        ("__connect.errors.exception.class.name", b"org.apache.kafka.connect.errors.DataException"),
    ]
    found = FailureContext.of(headers)
    assert found == FailureContext("sink", "orders", 2, 77, "org.apache.kafka.connect.errors.DataException")
    assert strip_context(headers) == [("trace", b"1")]


@pytest.mark.parametrize("number", [b"", b"-1", b"1e3", b"\xd9\xa3", b"9" * 40, b"2147483648", None])
def test_hostile_numbers_of_headers_are_none(number: bytes | None) -> None:
    assert FailureContext.of([("__connect.errors.partition", number)]).partition is None


def test_a_position_survives_its_offset_and_another_topic_begins_anew() -> None:
    position = ReplayPosition(OffsetRanges([(0, 4), (9, 9)]), "id-1", "replay-1", 12, 6)
    again = ReplayPosition.of(position.to_offset(), "id-1")
    assert (str(again.replayed), again.replay, again.read, again.records) == ("0-4,9", "replay-1", 12, 6)
    assert str(ReplayPosition.of(position.to_offset(), "id-2").replayed) == ""
    for wrong in ({"replayed": 5}, {"replayed": "x"}, {"read": "7"}, {"records": True}):
        with pytest.raises(ConnectException):
            ReplayPosition.of({**wrong, "topic.id": ""}, "")
