"""The history of one connector, read from the mirror: lines of its config and offsets, and the time from which they are complete.

The history is for views, and for the values that a restore writes. A restore itself writes to the topics, because the mirror may lag.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from sqlalchemy import ColumnElement, Integer, func, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.runtime.model.cost import DAY_MS, DayUsage, RunUsage, Span, Usage
from airflow_provider_connect.runtime.model.history import Line, Page, by_partition, offsets_before, page_of
from airflow_provider_connect.runtime.model.offsets import OFFSET, sink_partition
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.model.views import OffsetView
from airflow_provider_connect.runtime.sql_mirror.changes import Kind
from airflow_provider_connect.runtime.sql_mirror.queries import OF_RUNS, runs_by_claim
from airflow_provider_connect.runtime.sql_mirror.rows import Database
from airflow_provider_connect.runtime.sql_mirror.tables import batch, history, position, sink_position, source_offset

Sessions = Callable[[], AbstractContextManager[Any]]
"""Opens a transaction. Any: a session of SQLAlchemy's ORM or a connection."""


class RecordedHistory:
    """See the module. May be used from several threads. Each call is a separate transaction."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def config_lines(self, connector: str, *, limit: int, before: int | None = None) -> Page:
        """The newest lines below line ``before``. In a line, ``old`` and ``new`` are complete configs as JSON, with secrets hidden."""
        with self._sessions() as database:
            return _page(database, _of(connector, Kind.CONFIG), limit, before)

    def config_line(self, connector: str, number: int) -> Line | None:
        """One line. None: the connector has no such line."""
        return self._line(connector, Kind.CONFIG, number)

    def offset_lines(self, connector: str, topic: str, *, limit: int, before: int | None = None) -> Page:
        """The newest lines below line ``before`` that came from ``topic``: an offsets topic, or for a sink the batch log."""
        with self._sessions() as database:
            return _page(database, (*_of(connector, Kind.OFFSET), history.c.topic == topic), limit, before)

    def offset_line(self, connector: str, number: int) -> Line | None:
        """One line. None: the connector has no such line."""
        return self._line(connector, Kind.OFFSET, number)

    def starts_ms(self, connector: str, claim: str) -> int | None:
        """The time of the first change of offsets under the claim. None: there was no change."""
        statement = select(func.min(history.c.at_ms)).where(*_of(connector, Kind.OFFSET), history.c.claim == claim)
        with self._sessions() as database:
            found: int | None = database.scalar(statement)
            return found

    def offsets_at(self, connector: str, topic: str, at_ms: int) -> dict[str, OffsetView]:
        """For each partition whose offset has changed since ``at_ms``: its offset at that time, by ``model.history.partition_key``. None:
        it had no offset."""
        where = (*_of(connector, Kind.OFFSET), history.c.topic == topic, history.c.at_ms > at_ms)
        firsts = select(func.min(history.c.id).label("id")).where(*where).group_by(history.c.subject).subquery()
        columns = (history.c.id, history.c.subject, history.c.at_ms, history.c.old)
        with self._sessions() as database:
            rows = database.execute(select(*columns).join(firsts, history.c.id == firsts.c.id).order_by(history.c.id))
            return offsets_before(Line(row.id, row.subject, row.at_ms, row.old, None) for row in rows)

    def offsets_now(self, connector: str, topics: list[str], *, is_sink: bool) -> dict[str, object]:
        """The mirror's current offsets, in the form of ``model.history.by_partition``. If they are on several topics, the last topic takes
        precedence."""
        with self._sessions() as database:
            return by_partition(_sink_offsets(database, connector) if is_sink else _source_offsets(database, connector, topics))

    def begins_ms(self, topic: str) -> int | None:
        """The time from which the history of a topic is complete. None: the mirror does not follow the topic."""
        with self._sessions() as database:
            found: int | None = database.scalar(select(func.max(position.c.since_ms)).where(position.c.topic == topic))
            return found

    def connectors_used(self, span: Span) -> list[str]:
        """The connectors that delivered something in the span, including deleted ones."""
        with self._sessions() as database:
            return connectors_used(database, span)

    def usage_by_day(self, connectors: Sequence[str], span: Span, *, most: int) -> list[DayUsage]:
        """One row per connector and day, unordered, at most ``most`` rows."""
        with self._sessions() as database:
            return usage_by_day(database, connectors, span, most=most)

    def usage_by_run(self, connector: str, span: Span, *, most: int) -> list[RunUsage]:
        """The connector's runs in the span, newest first, at most ``most``."""
        with self._sessions() as database:
            return usage_by_run(database, connector, span, most=most)

    def _line(self, connector: str, kind: Kind, number: int) -> Line | None:
        with self._sessions() as database:
            return next(iter(_lines(database, *_of(connector, kind), history.c.id == number)), None)


def _of(connector: str, kind: Kind) -> tuple[Any, ...]:
    return history.c.connector == connector, history.c.kind == str(kind)


def _page(database: Database, where: tuple[Any, ...], limit: int, before: int | None) -> Page:
    """The database computes the sizes, so that only texts of the page are read."""
    older = (*where, *(() if before is None else (history.c.id < before,)))
    size = _Bytes(history.c.subject) + func.coalesce(_Bytes(history.c.old), 0) + func.coalesce(_Bytes(history.c.new), 0)
    sizes = database.execute(select(history.c.id, size).where(*older).order_by(history.c.id.desc()).limit(limit + 1))
    numbers, next_before = page_of([(number, int(found)) for number, found in sizes], limit)
    lines = _lines(database, *older, history.c.id.between(numbers[-1], numbers[0])) if numbers else []
    return Page(lines, next_before)


class _Bytes(GenericFunction[int]):
    """The length of an ASCII text. PostgreSQL's ``octet_length`` reads it from the value's header, but its ``length`` would decompress the
    value."""

    type = Integer()
    inherit_cache = True


@compiles(_Bytes)
def _length(found: _Bytes, compiler: SQLCompiler, **options: Any) -> str:
    return f"length{compiler.function_argspec(found, **options)}"


@compiles(_Bytes, "postgresql")
@compiles(_Bytes, "mysql")
@compiles(_Bytes, "mariadb")
def _octet_length(found: _Bytes, compiler: SQLCompiler, **options: Any) -> str:
    return f"octet_length{compiler.function_argspec(found, **options)}"


def _lines(database: Database, *where: Any) -> list[Line]:
    """The lines, newest first."""
    runs = runs_by_claim()
    columns = [history.c[name] for name in ("id", "subject", "at_ms", "old", "new", "who", "claim", "note")]
    statement = (
        select(*columns, runs.c.run)
        .outerjoin(runs, (runs.c.connector == history.c.connector) & (runs.c.claim == history.c.claim))
        .where(*where)
        .order_by(history.c.id.desc())
    )
    return [Line(**row) for row in database.execute(statement).mappings()]


def _source_offsets(database: Database, connector: str, topics: list[str]) -> list[OffsetView]:
    rows = database.execute(select(source_offset).where(source_offset.c.connector == connector, source_offset.c.topic.in_(topics)))
    ordered = sorted(rows, key=lambda row: topics.index(row.topic))
    return [OffsetView(json.loads(row.source_partition), json.loads(row.source_offset)) for row in ordered]


def _sink_offsets(database: Database, connector: str) -> list[OffsetView]:
    newest: dict[TopicPartition, tuple[Claim, int]] = {}
    for row in database.execute(select(sink_position).where(sink_position.c.connector == connector)):
        at, known = TopicPartition(row.topic, row.kafka_partition), (Claim.parse(row.claim), row.position)
        newest[at] = max(newest.get(at, known), known)
    return [OffsetView(sink_partition(*at), {OFFSET: found}) for at, (_, found) in newest.items()]


# The usage of runs in a span of days, summed by the database: by connector and day, and by the runs of one connector. Each attempt of a
# run's task is counted on the day of its last entry in the batch log, so a run may be on two days.
CONNECTORS_AT_ONCE = 100
_SUMMED = ("records", "bytes", "seconds", "cpu_seconds")


def connectors_used(session: Database, span: Span) -> list[str]:
    """The connectors that delivered something in the span, including deleted ones."""
    return sorted(session.scalars(select(batch.c.connector).distinct().where(*_within(span))))


def usage_by_day(session: Database, connectors: Sequence[str], span: Span, *, most: int) -> list[DayUsage]:
    """A row for each of the connectors and each day, unordered, at most ``most`` rows.

    Queries some connectors at a time, so that query planners use the index of connector and time instead of reading the rows of every run.
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
    """The connector's runs in the span, newest first, at most ``most``."""
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
    """Conditions for entries in the span. Entries about offsets that users have altered are left out, because they belong to no run."""
    return batch.c.last_ms >= span.first_ms, batch.c.last_ms < span.end_ms, OF_RUNS


def _usage(runs: int, records: Any, size: Any, seconds: Any, cpu_seconds: Any) -> Usage:
    """Any: some databases return sums of integers as decimals."""
    return Usage(runs, int(records), int(size), float(seconds), float(cpu_seconds))
