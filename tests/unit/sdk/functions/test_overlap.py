"""Rows that come late, with a cursor up to the committed one, arrive once; and no row twice."""

from __future__ import annotations

import datetime
import logging
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.sdk import source
from airflow_provider_connect.sdk.functions import overlap as module
from airflow_provider_connect.sdk.functions.source import FunctionSource
from airflow_provider_connect.sdk.testing import run

TABLE: list[dict[str, Any]] = []
ASKED: list[Any] = []


@pytest.fixture(autouse=True)
def empty() -> None:
    TABLE.clear()
    ASKED.clear()


def read(cursor: Any, pages: int = 3) -> Iterator[list[dict[str, Any]]]:
    ASKED.append(cursor)
    rows = sorted((row for row in TABLE if cursor is None or row["at"] >= cursor), key=lambda row: row["at"])
    for first in range(0, len(rows), pages):
        yield rows[first : first + pages]


@source(cursor="at", key="id", overlap=10)
def numbers(cursor: int | None = None) -> Iterator[Any]:
    yield from read(cursor)


@source(cursor="at", overlap=datetime.timedelta(seconds=10))
def times(cursor: datetime.datetime | None = None) -> Iterator[Any]:
    yield from read(cursor)


@source(cursor="at", overlap=datetime.timedelta(seconds=10))
def mismatched(cursor: int | None = None) -> Iterator[Any]:
    yield from read(cursor)


def ids(connector: type[FunctionSource], offsets: Any) -> tuple[list[int], Any]:
    done = run(connector(), {"topic": "t"}, offsets=offsets)
    return [record.value["id"] for record in done.records], done.offsets


def row(number: int, at: Any) -> dict[str, Any]:
    return {"id": number, "at": at}


def test_late_rows_within_the_overlap_arrive_once_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    TABLE.extend(row(n, n) for n in range(100, 120))
    found, offsets = ids(numbers, None)
    assert found == list(range(100, 120))
    TABLE.extend([row(1, 119), row(2, 112), row(3, 105)])  # the last value itself, within the overlap, before it
    with caplog.at_level(logging.WARNING):
        found, offsets = ids(numbers, offsets)
    assert found == [2, 1]
    assert sum(map(int, re.findall(r"(\d+) late rows, with a cursor up to the committed 119", caplog.text))) == 2
    assert ASKED == [None, 109]
    assert ids(numbers, offsets)[0] == []
    TABLE.append(row(4, 130))
    found, offsets = ids(numbers, offsets)
    assert found == [4]
    assert ids(numbers, offsets)[0] == []


def test_a_row_that_was_changed_comes_again() -> None:
    TABLE.append(row(1, 100))
    _, offsets = ids(numbers, None)
    TABLE[0]["at"] = 101
    assert ids(numbers, offsets)[0] == [1]


def test_times_have_an_overlap_of_time() -> None:
    noon = datetime.datetime(2020, 1, 1, 12, tzinfo=datetime.UTC)
    TABLE.extend(row(n, noon + datetime.timedelta(seconds=n)) for n in range(30))
    _, offsets = ids(times, None)
    TABLE.extend([row(100, noon + datetime.timedelta(seconds=25)), row(101, noon + datetime.timedelta(seconds=3))])
    found, offsets = ids(times, offsets)
    assert found == [100]
    assert ASKED[1] == noon + datetime.timedelta(seconds=19)
    assert ids(times, offsets)[0] == []


def test_rows_that_come_in_any_order_within_the_overlap_arrive_once_each() -> None:
    draw = random.Random(4)
    waiting = sorted(range(300), key=lambda n: n + draw.uniform(0, 9))
    found: list[int] = []
    offsets: Any = None
    while waiting:
        count = draw.randrange(1, 12)
        TABLE.extend(row(n, n) for n in waiting[:count])
        del waiting[:count]
        more, offsets = ids(numbers, offsets)
        found += more
    assert sorted(found) == list(range(300))


def test_more_rows_than_are_remembered_shorten_the_overlap_and_none_comes_twice(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 4)
    TABLE.extend(row(n, n) for n in range(100, 120))
    with caplog.at_level(logging.WARNING):
        _, offsets = ids(numbers, None)
    assert "more than 4 rows are within the overlap of 10: only rows above 1" in caplog.text
    TABLE.extend([row(1, 117), row(2, 114)])
    found, offsets = ids(numbers, offsets)
    assert found == [1]
    assert ids(numbers, offsets)[0] == []


def test_an_offset_from_before_the_overlap_goes_on_from_its_cursor() -> None:
    TABLE.extend(row(n, n) for n in range(100, 120))
    offsets = ids(numbers, None)[1]
    [partition] = [partition for partition, offset in offsets.items() if "cursor" in offset]
    assert ids(numbers, {**offsets, partition: {"cursor": 119}})[0] == []


def test_an_overlap_of_another_type_than_the_cursor_is_refused_by_name() -> None:
    TABLE.append(row(1, 100))
    text = r"the overlap datetime.timedelta.* cannot be subtracted from the cursor 'at' 100 of type int64"
    with pytest.raises(ConnectException, match=text):
        ids(mismatched, None)
