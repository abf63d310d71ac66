"""A thread that reads a little ahead."""

import threading
import time
from collections.abc import Iterator

import pytest

from airflow_provider_connect.connectors.jdbc.source.read_ahead import NotYet, ReadAhead
from tests.waiting import HANG_SECONDS, wait_until


def test_items_come_in_order_and_then_none() -> None:
    ahead = ReadAhead(iter(range(10)), lambda: None)
    assert [ahead.next(HANG_SECONDS) for _ in range(11)] == [*range(10), None]
    assert ahead.close()


def test_what_the_source_raises_comes_behind_what_it_gave() -> None:
    def source() -> Iterator[int]:
        yield 1
        raise ValueError("no more")

    ahead = ReadAhead(source(), lambda: None)
    assert ahead.next(HANG_SECONDS) == 1
    with pytest.raises(ValueError, match="no more"):
        ahead.next(HANG_SECONDS)


def test_slow_source_delays_no_other_and_ends_when_interrupted() -> None:
    interrupted, ended = threading.Event(), []

    def source() -> Iterator[int]:
        try:
            interrupted.wait(HANG_SECONDS)
            yield 1
        finally:
            ended.append(threading.current_thread().name)

    ahead = ReadAhead(source(), interrupted.set)
    with pytest.raises(NotYet):
        ahead.next(0.01)
    assert ahead.close()
    assert ended == ["jdbc-read-ahead"]


def test_source_that_nothing_reads_ends_when_closed() -> None:
    ahead = ReadAhead(iter(range(1_000_000)), lambda: None)
    assert ahead.next(HANG_SECONDS) == 0
    assert ahead.close()


def test_large_items_wait_one_at_a_time() -> None:
    taken: list[int] = []

    def source() -> Iterator[int]:
        for number in range(4):
            taken.append(number)
            yield number

    for megabytes, expected in ((5, 3), (20, 2)):  # those that wait, and the one that has no room yet
        taken.clear()
        ahead = ReadAhead(source(), lambda: None, size=lambda _, size=megabytes: size << 20)  # type: ignore[misc]
        wait_until(lambda: len(taken) >= expected)  # noqa: B023
        time.sleep(0.05)
        assert len(taken) == expected
        assert [ahead.next(HANG_SECONDS) for _ in range(5)] == [0, 1, 2, 3, None]
        assert ahead.close()
