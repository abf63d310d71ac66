"""What runs have used in a span of days, summed by the database: by connector and day, and by the runs of one connector.

The task of a run counts, for each attempt, on the day of its last entry in the batch log: so a run may be on two days.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, func, select

from airflow_provider_connect.runtime.model.batches import ALTERED
from airflow_provider_connect.runtime.model.cost import DAY_MS, DayUsage, RunUsage, Span, Usage
from airflow_provider_connect.runtime.sql_mirror.rows import Database
from airflow_provider_connect.runtime.sql_mirror.tables import batch

CONNECTORS_AT_ONCE = 100
_SUMMED = ("records", "bytes", "seconds", "cpu_seconds")


def connectors_used(session: Database, span: Span) -> list[str]:
    """The connectors that delivered something in the span, deleted ones too."""
    return sorted(session.scalars(select(batch.c.connector).distinct().where(*_within(span))))


def usage_by_day(session: Database, connectors: Sequence[str], span: Span, *, most: int) -> list[DayUsage]:
    """A row for each of the connectors and day, in no order, at most ``most``.

    By connectors, some at a time, so that planners take the index of connector and time, and not the rows of every run.
    """
    found: list[DayUsage] = []
    for at in range(0, len(connectors), CONNECTORS_AT_ONCE):
        some = batch.c.connector.in_(connectors[at : at + CONNECTORS_AT_ONCE])
        day = (batch.c.last_ms // DAY_MS).label("day")
        columns = (batch.c.connector, day, batch.c.run, *(batch.c[name] for name in _SUMMED))
        rows = select(*columns).where(some, *_within(span)).subquery()
        sums = select(rows.c.connector, rows.c.day, func.count(rows.c.run.distinct()), *(func.sum(rows.c[name]) for name in _SUMMED))
        sums = sums.group_by(rows.c.connector, rows.c.day).limit(most - len(found))
        found += [DayUsage(connector, int(number), _usage(*used)) for connector, number, *used in session.execute(sums)]
        if len(found) == most:
            break
    return found


def usage_by_run(session: Database, connector: str, span: Span, *, most: int) -> list[RunUsage]:
    """The connector's runs in the span, the newest first, at most ``most``."""
    last = func.max(batch.c.last_ms)
    statement = (
        select(batch.c.run, last, *(func.sum(batch.c[name]) for name in _SUMMED))
        .where(batch.c.connector == connector, *_within(span))
        .group_by(batch.c.run)
        .order_by(last.desc(), batch.c.run)
        .limit(most)
    )
    return [RunUsage(run, last_ms, _usage(1, *used)) for run, last_ms, *used in session.execute(statement)]


def _within(span: Span) -> tuple[ColumnElement[bool], ...]:
    """Without entries about offsets that users have altered, which are of no run."""
    return batch.c.last_ms >= span.first_ms, batch.c.last_ms < span.end_ms, batch.c.run != ALTERED


def _usage(runs: int, records: Any, size: Any, seconds: Any, cpu_seconds: Any) -> Usage:
    """Any: some databases sum whole numbers up as decimals."""
    return Usage(runs, int(records), int(size), float(seconds), float(cpu_seconds))
