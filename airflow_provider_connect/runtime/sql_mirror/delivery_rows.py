"""What runs that stay have delivered, and what of it is in asset events, in the tables of the mirror.

The mirror marks the rows of such runs as pending. ``take_deliveries`` removes the marks in the transaction that writes the events, so a
crash neither loses nor repeats a range.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import func, insert, select, true, update

from airflow_provider_connect.runtime.model.batches import ConnectorType, Stay
from airflow_provider_connect.runtime.model.delivered import Spans, added, connected, merged, without
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.sql_mirror.rows import Database, Row, json_text
from airflow_provider_connect.runtime.sql_mirror.tables import asset_event, batch

_EARLIER = 100  # rows of earlier claims that are searched for the last one


@dataclass(frozen=True, slots=True)
class Deliveries:
    """The deliveries of a connector under one claim of a run that stays, over its tasks. ``run`` is the Airflow run, or for a member of a
    shared application ``«DAG of the application»/«its run»``. ``new`` are the ranges that no event has. ``at_ms`` is the time of the last
    entry."""

    connector: str
    claim: Claim
    run: str
    type: ConnectorType
    records: int
    bytes: int
    at_ms: int
    ranges: Spans = field(default_factory=dict)
    new: Spans = field(default_factory=dict)
    datasets: list[tuple[str, str]] = field(default_factory=list)


class ChangedDeliveriesException(Exception):
    """Another process has changed the rows meanwhile, so the transaction must not be committed."""


def pending_connectors(session: Database) -> dict[str, int]:
    """The connectors with deliveries that may not be in an event, each with the time of its last event in ms since 1970; 0: no event."""
    names = list(session.scalars(select(batch.c.connector).distinct().where(batch.c.is_pending)))
    last = select(asset_event.c.connector, func.max(asset_event.c.at_ms)).group_by(asset_event.c.connector)
    known = dict(map(tuple, session.execute(last.where(asset_event.c.connector.in_(names)))) if names else ())
    return {name: int(known.get(name) or 0) for name in names}


def take_deliveries(session: Database, connector: str, *, now_ms: int) -> list[Deliveries]:
    """The deliveries with new ranges, oldest claim first, marked as written to events. The caller writes the events and commits. Raises
    ChangedDeliveriesException or IntegrityError if another process has done so meanwhile."""
    rows = _rows(session, connector, batch.c.is_pending)
    pending = sorted({row["claim"] for row in rows}, key=Claim.parse)
    tasks = _by_claim(_rows(session, connector, batch.c.claim.in_(pending)))
    events = select(asset_event).where(asset_event.c.connector == connector, asset_event.c.claim.in_(pending))
    sent = {row["claim"]: dict(row) for row in session.execute(events).mappings()}
    earlier = _by_claim(_rows(session, connector, true(), last=_EARLIER)) if rows else {}
    found = []
    for claim in pending:
        known = sent.get(claim)
        before = _unfinished(earlier | tasks, claim)
        deliveries = _deliveries(tasks[claim], json.loads(known["ranges"]) if known else {}, before)
        _mark(session, tasks[claim])
        if deliveries.new:
            _note(session, deliveries, known, now_ms)
            found.append(deliveries)
    return found


def last_deliveries(session: Database, connector: str) -> Deliveries | None:
    """The deliveries of the newest claim. None without deliveries."""
    tasks = _by_claim(_rows(session, connector, batch.c.stay.is_not(None), last=_EARLIER))
    return _deliveries(tasks[max(tasks, key=Claim.parse)], {}, {}) if tasks else None


def _rows(session: Database, connector: str, condition: Any, *, last: int | None = None) -> list[Row]:  # Any: an SQL condition
    statement = select(batch).where(batch.c.connector == connector, condition).order_by(batch.c.last_ms.desc()).limit(last)
    return [dict(row) for row in session.execute(statement).mappings()]


def _by_claim(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["claim"], []).append(row)
    return found


def _unfinished(tasks: Mapping[str, list[Row]], claim: str) -> Spans:
    """The ranges of the last claim before ``claim``, if a task of a run that stays may have been killed under it: it may have delivered
    more. A sink that was not killed continues where its last entry ends. After a change of offsets, the last claim is that of the
    change."""
    older = [each for each in tasks if Claim.parse(each) < Claim.parse(claim)]
    rows = tasks[max(older, key=Claim.parse)] if older else []
    may_be_killed = any(row["stay"] == Stay.OPEN for row in rows)
    return merged(json.loads(row["ranges"]) for row in rows) if may_be_killed else {}


def _deliveries(rows: list[Row], sent: Spans, before: Spans) -> Deliveries:
    ranges = merged(json.loads(row["ranges"]) for row in rows)
    newest = max(rows, key=lambda row: int(row["last_ms"]))
    datasets = {(namespace, name) for row in rows for namespace, name in json.loads(row["datasets"] or "[]")}
    return Deliveries(
        newest["connector"],
        Claim.parse(newest["claim"]),
        newest["run"],
        ConnectorType(newest["type"]),
        sum(row["records"] for row in rows),
        sum(row["bytes"] for row in rows),
        newest["last_ms"],
        ranges,
        without(connected(ranges, before), sent),
        sorted(datasets),
    )


def _mark(session: Database, rows: Iterable[Row]) -> None:
    """Remove the marks of ``rows``. A row that the mirror has changed since it was read stays pending."""
    for row in rows:
        unchanged = [batch.c[name] == row[name] for name in ("connector", "task", "claim", "last_ms", "records")]
        session.execute(update(batch).where(*unchanged, batch.c.is_pending).values(is_pending=False))


def _note(session: Database, deliveries: Deliveries, known: Row | None, now_ms: int) -> None:
    key = {"connector": deliveries.connector, "claim": str(deliveries.claim)}
    if known is None:
        session.execute(insert(asset_event).values(**key, ranges=json_text(deliveries.new), at_ms=now_ms))
        return
    of_it = [asset_event.c[name] == value for name, value in (*key.items(), ("at_ms", known["at_ms"]))]
    ranges = json_text(added([json.loads(known["ranges"]), deliveries.new]))
    done: Any = session.execute(update(asset_event).where(*of_it).values(ranges=ranges, at_ms=now_ms))  # Any: a CursorResult
    if done.rowcount != 1:
        raise ChangedDeliveriesException(f"the deliveries of {deliveries.connector} were taken by another process")
