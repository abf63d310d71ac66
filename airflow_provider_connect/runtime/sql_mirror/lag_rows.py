"""The distances of connectors from the ends of the data that they read, as rows. Each row covers the time in which the distance did not
change.

Knows nothing of Kafka: the caller passes the distances, once a minute.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from sqlalchemy import Row as Found
from sqlalchemy import bindparam, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from airflow_provider_connect.data.records import Distance
from airflow_provider_connect.runtime.model.page import LAG_SPANS, LagHistory
from airflow_provider_connect.runtime.sql_mirror.changes import Entry, Kind
from airflow_provider_connect.runtime.sql_mirror.queries import oldest
from airflow_provider_connect.runtime.sql_mirror.rows import Database, Row, remove_rows, storable
from airflow_provider_connect.runtime.sql_mirror.tables import LONGEST_WORD, connector_config, lag

LARGEST: Final = 2**53 - 1
"""The largest distance that is stored. The web page would round a larger distance."""
KEPT_MS: Final = 7 * 86_400_000
_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000
_MOST_MISSED_MS: Final = 3 * _MINUTE_MS
_NAMES_AT_ONCE: Final = 500
_MOST_ROWS: Final = 5000


def write_distances(database: Database, distances: Mapping[str, Distance], *, now_ms: int) -> None:
    """Add the distances of this minute. A connector's last row is extended while its distance stays the same, across up to two missed
    minutes.

    A row that another process has written for this minute stays. Connectors that are not in the mirror are left out: connectors that are
    just being created, deleted connectors, and names that a database cannot store.
    """
    minute = now_ms // _MINUTE_MS * _MINUTE_MS
    known = set(database.scalars(select(connector_config.c.connector)))
    last = _last_rows(database, minute)
    grown, added = list[Row](), list[Row]()
    for name in sorted(distances.keys() & known):
        before, (distance, unit) = last.get(name), _storable(distances[name])
        if before is None or (before.until_ms < minute and (before.distance, before.unit) != (distance, unit)):
            added.append({"connector": name, "since_ms": minute, "until_ms": minute, "distance": distance, "unit": unit})
        elif before.until_ms < minute:
            grown.append({"name": name, "since": before.since_ms})
    if grown:
        of_it = (lag.c.connector == bindparam("name"), lag.c.since_ms == bindparam("since"))
        database.execute(update(lag).where(*of_it).values(until_ms=minute), grown)
    if added:
        try:
            with database.begin_nested():
                database.execute(insert(lag), added)
        except IntegrityError:  # another process has already written this minute
            return


def _last_rows(database: Database, minute: int) -> dict[str, Found[Any]]:
    """By connector, the last rows that were measured a short time ago. Rows from a clock that was far ahead are ignored."""
    recent = lag.c.until_ms.between(minute - _MOST_MISSED_MS, minute + _MOST_MISSED_MS)
    statement = select(lag).where(recent).order_by(lag.c.until_ms)
    return {row.connector: row for row in database.execute(statement)}


def _storable(distance: Distance) -> tuple[int, str]:
    """The distance in a form that can be stored, because a plugin may report anything."""
    return min(max(int(distance.left), 0), LARGEST), storable(distance.unit[:LONGEST_WORD])[:LONGEST_WORD]


def lag_history(database: Database, connector: str, *, hours: int, now_ms: int) -> LagHistory:
    """The connector's distances in the last ``hours``, a key of ``LAG_SPANS``. The last point is the current one."""
    step = LAG_SPANS[hours] * 1000
    points = hours * _HOUR_MS // step
    first = now_ms // step - points + 1
    in_span = (lag.c.connector == connector, lag.c.until_ms >= first * step, lag.c.since_ms < (first + points) * step)
    unit = database.scalar(select(lag.c.unit).where(*in_span).order_by(lag.c.since_ms.desc()).limit(1))
    begin, end = (lag.c.since_ms // step).label("begin"), (lag.c.until_ms // step).label("end")
    rows = select(begin, end, lag.c.distance).where(*in_span, lag.c.unit == unit).subquery()
    groups = select(rows.c.begin, rows.c.end, func.max(rows.c.distance)).group_by(rows.c.begin, rows.c.end)
    found = [(int(begin) - first, int(end) - first, int(most)) for begin, end, most in database.execute(groups)]
    return LagHistory(first * step, step, unit, largest_by_point(found, points))


def largest_by_point(spans: Iterable[tuple[int, int, int]], points: int) -> list[int | None]:
    """For each of ``points``, the largest distance of the ``spans`` that cover the point. None: no span covers it. A span is a first point,
    a last point, and a distance."""
    largest: list[int | None] = [None] * points
    for begin, end, distance in spans:
        for at in range(max(begin, 0), min(end, points - 1) + 1):
            known = largest[at]
            largest[at] = distance if known is None else max(known, distance)
    return largest


def forget_distances(database: Database, *, now_ms: int, most: int = _MOST_ROWS) -> None:
    """Delete rows that ended more than ``KEPT_MS`` ago, at most ``most``, so that a transaction stays short."""
    remove_rows(database, lag, oldest(database, lag, lag.c.until_ms, now_ms - KEPT_MS, most))


def forget_deleted(database: Database, entries: Iterable[Entry]) -> None:
    """Delete the rows of each connector whose deletion is one of the ``entries``. A later connector of the same name has a history of its
    own."""
    names = sorted({entry.connector for entry in entries if entry.kind is Kind.CONFIG and entry.new is None})
    for at in range(0, len(names), _NAMES_AT_ONCE):
        database.execute(delete(lag).where(lag.c.connector.in_(names[at : at + _NAMES_AT_ONCE])))
