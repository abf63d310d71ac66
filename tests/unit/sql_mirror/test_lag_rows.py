"""Distances become rows minute by minute, and rows the points of a plot."""

from typing import Any

import pytest
from sqlalchemy import Connection, func, insert, select

from airflow_provider_connect.data.records import BYTES, RECORDS, Distance, TopicPartition
from airflow_provider_connect.runtime.model.page import LAG_SPANS, LagHistory
from airflow_provider_connect.runtime.sql_mirror import lag_rows
from airflow_provider_connect.runtime.sql_mirror.changes import Entry, Kind
from airflow_provider_connect.runtime.sql_mirror.lag_rows import (
    KEPT_MS,
    LARGEST,
    forget_deleted,
    forget_distances,
    lag_history,
    largest_by_point,
    write_distances,
)
from airflow_provider_connect.runtime.sql_mirror.tables import connector_config, lag

MINUTE, HOUR = 60_000, 3_600_000
NOW = 500_000 * HOUR
"""The beginning of an hour."""


@pytest.fixture(autouse=True)
def connectors(database: Connection) -> None:
    """Connectors that the mirror knows."""
    rows = [{"connector": name, "config": "{}", "changed_ms": 0} for name in ("orders", "Orders", "shop")]
    database.execute(insert(connector_config), rows)


def write(database: Connection, minute: int, **left: int) -> None:
    write_distances(database, {name: Distance(number) for name, number in left.items()}, now_ms=NOW + minute * MINUTE + 1234)


def rows(database: Connection, connector: str = "orders") -> list[tuple[Any, ...]]:
    """First and last minute, and the distance."""
    found = database.execute(select(lag).where(lag.c.connector == connector).order_by(lag.c.since_ms))
    return [((row.since_ms - NOW) // MINUTE, (row.until_ms - NOW) // MINUTE, row.distance) for row in found]


def measured(history: LagHistory) -> dict[int, int]:
    """The points that are known, by their number counted from the end: 0 is the last one."""
    last = len(history.distances) - 1
    return {at - last: distance for at, distance in enumerate(history.distances) if distance is not None}


def test_a_distance_that_stays_is_one_row(database: Connection) -> None:
    for minute, left in enumerate([5, 5, 5, 7, 5, 5]):
        write(database, minute, orders=left)
    assert rows(database) == [(0, 2, 5), (3, 3, 7), (4, 5, 5)]


def test_a_minute_is_written_once(database: Connection) -> None:
    write(database, 0, orders=5)
    write(database, 0, orders=9, shop=1)
    assert rows(database) == [(0, 0, 5)]
    assert rows(database, "shop") == [(0, 0, 1)]
    write(database, -1, orders=9)  # by a clock that is behind
    assert rows(database) == [(0, 0, 5)]


def test_a_clock_that_was_far_ahead_stops_nothing(database: Connection) -> None:
    for minute in (10**6, 0, 1):
        write(database, minute, orders=5)
    assert rows(database) == [(0, 1, 5), (10**6, 10**6, 5)]
    assert measured(lag_history(database, "orders", hours=1, now_ms=NOW + MINUTE)) == {-1: 5, 0: 5}


def test_two_processes_at_the_same_time(database: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    write(database, 0, orders=5)
    monkeypatch.setattr(lag_rows, "_last_rows", lambda *_: {})  # the first one's row came after this one had read
    write(database, 0, orders=5)
    assert rows(database) == [(0, 0, 5)]


def test_a_row_grows_over_a_short_pause_and_not_over_a_long_one(database: Connection) -> None:
    for minute in (0, 3, 7):
        write(database, minute, orders=5)
    assert rows(database) == [(0, 3, 5), (7, 7, 5)]


def test_connectors_differ_by_case_and_those_that_the_mirror_does_not_know_are_left_out(database: Connection) -> None:
    write(database, 0, orders=1, Orders=2, unknown=3)
    assert database.execute(select(lag.c.connector, lag.c.distance).order_by(lag.c.distance)).all() == [("orders", 1), ("Orders", 2)]


@pytest.mark.parametrize(
    ("distance", "kept"),
    [
        (Distance(2**80), (LARGEST, RECORDS)),
        (Distance(-1), (0, RECORDS)),
        (Distance(1, "x" * 500), (1, "x" * 100)),
        (Distance(1, "\0" * 90), (1, "\\x00" * 25)),
        (Distance(1, "\ud800"), (1, "\\ud800")),
    ],
)
def test_whatever_a_plugin_reports_can_be_kept(database: Connection, distance: Distance, kept: tuple[int, str]) -> None:
    write_distances(database, {"orders": distance}, now_ms=NOW)
    assert database.execute(select(lag.c.distance, lag.c.unit)).all() == [kept]


@pytest.mark.parametrize("hours", LAG_SPANS)
def test_a_span_has_at_most_300_points_of_which_the_last_is_of_now(database: Connection, hours: int) -> None:
    history = lag_history(database, "orders", hours=hours, now_ms=NOW + 59_999)
    assert history.distances == [None] * len(history.distances)
    assert history.unit is None
    assert 60 <= len(history.distances) <= 300
    assert len(history.distances) * history.step_ms == hours * HOUR
    assert history.from_ms + len(history.distances) * history.step_ms > NOW + 59_999 >= history.from_ms + hours * HOUR - history.step_ms


def test_a_point_is_the_largest_distance_and_minutes_without_any_are_empty(database: Connection) -> None:
    for minute, left in {-60: 1, -9: 3, -8: 8, -7: 8, -6: 2, -5: 4, 0: 6}.items():
        write(database, minute, orders=left, shop=100)
    assert measured(lag_history(database, "orders", hours=1, now_ms=NOW)) == {-9: 3, -8: 8, -7: 8, -6: 2, -5: 4, 0: 6}
    of_a_day = lag_history(database, "orders", hours=24, now_ms=NOW)
    assert measured(of_a_day) == {-12: 1, -2: 8, -1: 4, 0: 6}
    assert of_a_day.unit == RECORDS


def test_a_row_counts_in_all_points_that_it_touches(database: Connection) -> None:
    for minute in range(-75, -55):
        write(database, minute, orders=7)
    assert rows(database) == [(-75, -56, 7)]
    assert measured(lag_history(database, "orders", hours=1, now_ms=NOW)) == dict.fromkeys(range(-59, -55), 7)
    assert measured(lag_history(database, "orders", hours=24, now_ms=NOW)) == dict.fromkeys(range(-15, -11), 7)


def test_distances_in_the_newest_unit_are_shown(database: Connection) -> None:
    for minute, distance in enumerate([Distance(900, BYTES), Distance(3, "numbers of id"), Distance(2, "numbers of id")]):
        write_distances(database, {"orders": distance}, now_ms=NOW + minute * MINUTE)
    history = lag_history(database, "orders", hours=1, now_ms=NOW + 2 * MINUTE)
    assert (history.unit, measured(history)) == ("numbers of id", {-1: 3, 0: 2})


def test_spans_over_the_edges_count_within_them() -> None:
    assert largest_by_point([(-5, 0, 2), (2, 9, 3), (2, 2, 1), (9, 9, 9), (-3, -2, 9)], 4) == [2, None, 3, 3]


def test_rows_are_deleted_after_seven_days_the_oldest_first(database: Connection) -> None:
    for minute in range(4):
        write(database, minute, orders=minute)
    forget_distances(database, now_ms=NOW + KEPT_MS)
    assert len(rows(database)) == 4
    forget_distances(database, now_ms=NOW + KEPT_MS + 3 * MINUTE, most=2)
    assert rows(database) == [(2, 2, 2), (3, 3, 3)]
    forget_distances(database, now_ms=NOW + KEPT_MS + 3 * MINUTE)
    assert rows(database) == [(3, 3, 3)]


def test_a_deleted_connectors_rows_go_and_no_others(database: Connection) -> None:
    write(database, 0, orders=1, shop=2)
    cause = (TopicPartition("configs", 0), 0)
    changed = Entry(Kind.CONFIG, "shop", 0, cause, old="{}", new="{}")
    stopped = Entry(Kind.TARGET_STATE, "shop", 0, cause, old="STARTED")
    forget_deleted(database, [Entry(Kind.CONFIG, "orders", 0, cause, old="{}"), changed, stopped])
    assert (rows(database), rows(database, "shop")) == ([], [(0, 0, 2)])
    forget_deleted(database, [])
    assert database.scalar(select(func.count()).select_from(lag)) == 1
