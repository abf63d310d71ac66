"""Reads and changes of the tables in the caller's session. The caller commits, so several calls can be one transaction."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import Column, Select, Subquery, Table, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.runtime.model.batches import ALTERED, ALTERING
from airflow_provider_connect.runtime.model.ids import dag_id_for
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.model.views import OffsetView
from airflow_provider_connect.runtime.sql_mirror.changes import Kind
from airflow_provider_connect.runtime.sql_mirror.rows import Database, Row, remove_rows
from airflow_provider_connect.runtime.sql_mirror.tables import (
    LONGEST_NAME,
    agreement,
    asset_event,
    batch,
    connector_config,
    history,
    lease,
    position,
    sink_position,
)

_OWN_TOPIC = "offsets.storage.topic"
_CLAIMS_AT_ONCE = 500
_CONNECTORS_AT_ONCE = 100
_HOUR_MS = 3_600_000
_NUMBERS = ("records", "bytes", "seconds", "cpu_seconds", "failed")
_MEASURED = [batch.c[name] for name in ("claim", "connector", "task", "run", "type", "stay", *_NUMBERS, "first_ms", "last_ms")]
HOURS = 24
OF_RUNS = batch.c.run.not_in((ALTERED, ALTERING))
"""Not the rows for changes of offsets over REST, which belong to no run."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Agreement:
    """The last paused flag and target state that agreed."""

    paused: bool
    target_state: str


def agreement_key(connector: str) -> str:
    """The key of a connector's agreement: its name. If the name is too long for the column, the key is a line break followed by the id of
    the connector's DAG. No name contains a line break."""
    return connector if len(connector) <= LONGEST_NAME else f"\n{dag_id_for(connector)}"


def agreements(session: Database) -> dict[str, Agreement]:
    """All agreements by ``agreement_key``."""
    rows = session.execute(select(agreement.c.connector, agreement.c.paused, agreement.c.target_state))
    return {name: Agreement(bool(paused), state) for name, paused, state in rows}


def move_agreement(session: Database, connector: str, old: Agreement | None, new: Agreement) -> bool:
    """Replace ``old`` by ``new``. Returns False, without a change, if another process has changed the row."""
    key = agreement_key(connector)
    if old is None:
        values = {"connector": key, "paused": new.paused, "target_state": new.target_state}
        return _inserted(session, insert(agreement).values(values))
    statement = (
        update(agreement)
        .where(agreement.c.connector == key, agreement.c.paused == old.paused, agreement.c.target_state == old.target_state)
        .values(paused=new.paused, target_state=new.target_state)
    )
    return _count(session, statement) == 1


def drop_agreement(session: Database, key: str) -> None:
    """Delete the agreement with this ``agreement_key``, so that a later connector of that name starts without an agreement."""
    session.execute(delete(agreement).where(agreement.c.connector == key))


def hold_lease(session: Database, name: str, holder: str, *, now: float, seconds: float) -> bool:
    """Take or keep the lease ``name`` for ``seconds`` from ``now``. False: another holder has it, and it has not expired."""
    free = (lease.c.holder == holder) | (lease.c.until < now)
    if _count(session, update(lease).where(lease.c.name == name, free).values(holder=holder, until=now + seconds)) == 1:
        return True
    if session.execute(select(lease.c.name).where(lease.c.name == name)).first() is not None:
        return False
    return _inserted(session, insert(lease).values(name=name, holder=holder, until=now + seconds))


def drop_lease(session: Database, name: str, holder: str) -> None:
    """Release the lease, so that another holder can take it immediately."""
    session.execute(delete(lease).where(lease.c.name == name, lease.c.holder == holder))


# --- the mirror -----------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Change:
    """A line of history, as ``changes.Kind`` describes it. ``at_ms`` is the timestamp of the record that caused the change. ``who`` is the
    worker or the DAG file that wrote it, ``run`` the Airflow run. Each is None if unknown."""

    id: int
    connector: str
    kind: str
    subject: str
    at_ms: int
    old: str | None
    new: str | None
    who: str | None
    run: str | None
    note: str | None


@dataclass(frozen=True, slots=True)
class RunMetrics:
    """The deliveries of a run of a connector, over all tries and tasks. ``seconds`` and ``cpu_seconds`` are sums over its tasks. ``failed``
    records were left out."""

    connector: str
    run: str
    type: str
    tasks: int
    tries: int
    records: int
    bytes: int
    seconds: float
    cpu_seconds: float
    failed: int
    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """A sink's position in a partition after its last run. ``lag`` None: the end is unknown, or the position is beyond the end."""

    topic: str
    partition: int
    position: int
    lag: int | None
    as_of_ms: int


def changes(
    session: Database,
    connector: str | None = None,
    *,
    kinds: Collection[Kind] = (),
    before_id: int | None = None,
    limit: int = 100,
) -> list[Change]:
    """Lines of history below ``before_id``, newest first. They are limited to one connector and to ``kinds``, if given."""
    runs = runs_by_claim()
    statement = (
        select(history, runs.c.run)
        .outerjoin(runs, (runs.c.connector == history.c.connector) & (runs.c.claim == history.c.claim))
        .order_by(history.c.id.desc())
        .limit(limit)
    )
    if connector is not None:
        statement = statement.where(history.c.connector == connector)
    if kinds:
        statement = statement.where(history.c.kind.in_([str(kind) for kind in kinds]))
    if before_id is not None:
        statement = statement.where(history.c.id < before_id)
    found = session.execute(statement).mappings()
    return [Change(**{name: row[name] for name in Change.__slots__}) for row in found]


def offsets_before(session: Database, connector: str, change_id: int) -> list[OffsetView]:
    """The offsets that undo every change of the connector's offsets from line ``change_id`` on: each changed partition with its previous
    offset. Offset None: the partition had no offset. Empty list: no offset has changed since."""
    of_these = (history.c.connector == connector, history.c.kind == str(Kind.OFFSET), history.c.id >= change_id)
    statement = select(history.c.subject, history.c.old).where(*of_these).order_by(history.c.id)
    first: dict[str, str | None] = {}
    for subject, old in session.execute(statement):
        first.setdefault(subject, old)
    return [OffsetView(json.loads(subject), None if old is None else json.loads(old)) for subject, old in first.items()]


def run_metrics(session: Database, connector: str | None = None, *, before_ms: int | None = None, limit: int = 100) -> list[RunMetrics]:
    """The runs that delivered something, newest first, of one connector or of all. Their last entry is before ``before_ms``."""
    last = func.max(batch.c.last_ms)
    statement = _run_metrics().where(OF_RUNS).order_by(last.desc(), batch.c.connector, batch.c.run).limit(limit)
    if connector is not None:
        statement = statement.where(batch.c.connector == connector)
    if before_ms is not None:
        statement = statement.having(last < before_ms)
    return [_measured(dict(row)) for row in session.execute(statement).mappings()]


class KeptRead(Generic[_T]):
    """Caches the result of ``read`` until the mirror has read a record or old lines were deleted. One small query checks this. May be used
    from several threads."""

    def __init__(self, read: Callable[[Database], _T]) -> None:
        self._read = read
        self._kept: tuple[object, _T] | None = None

    def __call__(self, session: Database) -> _T:
        kept, version = self._kept, _version(session)
        if kept is None or kept[0] != version:
            kept = self._kept = (version, self._read(session))
        return kept[1]


def _version(session: Database) -> list[tuple[Any, ...]]:
    """A value that changes with each transaction of the mirror, because the mirror commits its positions together with the rows."""
    columns = [position.c[name] for name in ("topic", "topic_partition", "topic_id", "position", "since_ms")]
    return sorted(map(tuple, session.execute(select(*columns))))


def last_runs(session: Database) -> list[RunMetrics]:
    """The deliveries of the last run with work of each existing connector: of its last try. For a run that stays, of the whole run: each
    pause, restart or new config begins another claim in it.

    Reads first the claims, then their rows. In a single statement, query planners would read all rows of each connector. The rows are
    summed in this process. Nearly every claim has one row, and a database would sort all rows.
    """
    latest = batch.alias()
    of_it = select(latest.c.claim).where(latest.c.connector == connector_config.c.connector, latest.c.run.not_in((ALTERED, ALTERING)))
    newest = of_it.order_by(latest.c.last_ms.desc(), latest.c.claim.desc()).limit(1).scalar_subquery()
    claims = {connector: claim for connector, claim in session.execute(select(connector_config.c.connector, newest)) if claim is not None}
    wanted = sorted(set(claims.values()))
    found: dict[str, list[Any]] = {}  # rows of SQLAlchemy
    for at in range(0, len(wanted), _CLAIMS_AT_ONCE):
        for row in session.execute(select(*_MEASURED).where(batch.c.claim.in_(wanted[at : at + _CLAIMS_AT_ONCE]))):
            if row.claim == claims.get(row.connector):
                found.setdefault(row.connector, []).append(row)
    staying = [(connector, rows[0].run) for connector, rows in found.items() if rows[0].stay is not None]
    for at in range(0, len(staying), _CLAIMS_AT_ONCE):
        some = dict(staying[at : at + _CLAIMS_AT_ONCE])
        is_one = batch.c.connector.in_(some) & batch.c.run.in_(set(some.values()))
        for row in session.execute(select(*_MEASURED).where(is_one)):
            if row.run == some[row.connector] and row.claim != claims[row.connector]:
                found[row.connector].append(row)
    return [_sum(rows) for rows in found.values()]


def _sum(rows: Sequence[Any]) -> RunMetrics:
    """The deliveries of one run from its rows. Any: rows of SQLAlchemy."""
    return RunMetrics(
        rows[0].connector,
        rows[0].run,
        rows[0].type,
        tasks=len({row.task for row in rows}),
        tries=len({row.claim for row in rows}),
        records=sum(row.records for row in rows),
        bytes=sum(row.bytes for row in rows),
        seconds=sum(row.seconds for row in rows),
        cpu_seconds=sum(row.cpu_seconds for row in rows),
        failed=sum(row.failed for row in rows),
        first_ms=min(row.first_ms for row in rows),
        last_ms=max(row.last_ms for row in rows),
    )


def records_by_hour(session: Database, *, now_ms: int) -> dict[str, list[int]]:
    """The records that each existing connector has delivered in each of the last ``HOURS`` hours, ending with the current one. A run is
    counted in the hour of its last entry. Connectors without records are left out.

    Queries some connectors at a time, so that query planners use the index of connector and time instead of reading the rows of every run.
    """
    first_ms = (now_ms // _HOUR_MS - HOURS + 1) * _HOUR_MS
    names = sorted(session.scalars(select(connector_config.c.connector)))
    hour = ((batch.c.last_ms - first_ms) // _HOUR_MS).label("hour")
    found: dict[str, list[int]] = {}
    for at in range(0, len(names), _CONNECTORS_AT_ONCE):
        some = batch.c.connector.in_(names[at : at + _CONNECTORS_AT_ONCE])
        rows = select(batch.c.connector, hour, batch.c.records).where(some, batch.c.last_ms >= first_ms).subquery()
        sums = select(rows.c.connector, rows.c.hour, func.sum(rows.c.records)).group_by(rows.c.connector, rows.c.hour)
        for connector, number, records in session.execute(sums):
            if records:
                hours = found.setdefault(connector, [0] * HOURS)
                hours[min(int(number), HOURS - 1)] += int(records)  # another clock may be ahead
    return found


def _run_metrics() -> Select[Any]:
    """A query of the metrics by connector and run."""
    return select(
        batch.c.connector,
        batch.c.run,
        func.max(batch.c.type).label("type"),
        func.count(batch.c.task.distinct()).label("tasks"),
        func.count(batch.c.claim.distinct()).label("tries"),
        *(func.sum(batch.c[name]).label(name) for name in _NUMBERS),
        func.min(batch.c.first_ms).label("first_ms"),
        func.max(batch.c.last_ms).label("last_ms"),
    ).group_by(batch.c.connector, batch.c.run)


def _measured(row: Mapping[str, Any]) -> RunMetrics:
    return RunMetrics(**{**row, **{name: int(row[name]) for name in ("records", "bytes", "failed")}})


def sink_lags(session: Database, connector: str, ends: Mapping[TopicPartition, int]) -> list[PartitionLag]:
    """Each partition's position in the batch log, and its distance from ``ends``, the end offsets that the caller has fetched."""
    newest: dict[TopicPartition, tuple[Claim, int, int]] = {}
    for row in session.execute(select(sink_position).where(sink_position.c.connector == connector)):
        at, known = TopicPartition(row.topic, row.kafka_partition), (Claim.parse(row.claim), row.position, row.changed_ms)
        newest[at] = max(newest.get(at, known), known)
    return [
        PartitionLag(*at, position, ends[at] - position if position <= ends.get(at, -1) else None, changed_ms)
        for at, (_, position, changed_ms) in sorted(newest.items())
    ]


def offset_topics(session: Database) -> list[str]:
    """The offsets topics that belong to single connectors."""
    statement = select(connector_config.c.config).where(connector_config.c.config.contains(f'"{_OWN_TOPIC}"', autoescape=True))
    topics = {json.loads(text).get(_OWN_TOPIC, "") for text in (row.config for row in session.execute(statement))}
    return sorted(topic for topic in topics if topic and "${" not in topic)


def forget_history(session: Database, before_ms: int, *, most: int = 5000) -> bool:
    """Delete older lines of history, metrics of runs and notes about their asset events, at most ``most`` of each, to keep the transaction
    short. Returns whether older lines may remain. The current state is not deleted. Offsets can no longer be restored to an earlier
    time."""
    session.execute(update(position).where(position.c.since_ms < before_ms).values(since_ms=before_ms))
    tables = {batch: batch.c.last_ms, history: history.c.at_ms, asset_event: asset_event.c.at_ms}
    found = [oldest(session, table, at, before_ms, most) for table, at in tables.items()]
    for table, rows in zip(tables, found, strict=True):
        remove_rows(session, table, rows)
    return any(len(rows) == most for rows in found)


def oldest(session: Database, table: Table, at: Column[Any], before_ms: int, most: int) -> list[Row]:
    """The keys of at most ``most`` rows whose ``at`` is before ``before_ms``, oldest first."""
    statement = select(*table.primary_key.columns).where(at < before_ms).order_by(at).limit(most)
    return [dict(row) for row in session.execute(statement).mappings()]


def runs_by_claim() -> Subquery:
    """The Airflow run of each connector's claim, as a subquery for joins."""
    key = (batch.c.connector, batch.c.claim)
    return select(*key, func.max(batch.c.run).label("run")).where(OF_RUNS).group_by(*key).subquery()


def _inserted(session: Database, statement: Any) -> bool:
    try:
        with session.begin_nested():
            session.execute(statement)
    except IntegrityError:  # another process has added it first
        return False
    return True


def _count(session: Database, statement: Any) -> int:
    return int(session.execute(statement).rowcount)  # type: ignore[attr-defined]  # an update's result is a CursorResult
