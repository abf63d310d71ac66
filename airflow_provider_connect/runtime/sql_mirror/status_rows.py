"""Turns records of the status topic into rows and history: states of connectors and tasks, active topics. The rules are those of
``StatusState``."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from sqlalchemy import func, select

from airflow_provider_connect.runtime.model.ids import ConnectorTaskId
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.model.states import State
from airflow_provider_connect.runtime.model.status import ConnectorStatus, StatusRecord, StatusState, TaskStatus, TopicReset, TopicStatus
from airflow_provider_connect.runtime.sql_mirror.changes import Entry, Kind
from airflow_provider_connect.runtime.sql_mirror.rows import Database, Row, Rows, is_claim, is_name, json_text, optional, storable
from airflow_provider_connect.runtime.sql_mirror.tables import active_topic, connector_status, history, task_status
from airflow_provider_connect.runtime.stores.state_stream import StateRecord

_Subject = tuple[Kind, str]
_Visible = ConnectorStatus | TaskStatus | TopicStatus


def take_statuses(database: Database, records: Sequence[StateRecord]) -> list[Entry]:
    """Apply the records to the rows, in order. Returns the changes."""
    kept = [(record, record.value) for record in records if is_kept(record.value)]
    tables = _Tables(database, {value.connector for _, value in kept})
    state, entries = tables.state(database, [value for _, value in kept]), []
    for record, value in kept:
        entries += _applied(state, record, value)
    tables.take(state)
    tables.write(database)
    return entries


def is_kept(value: object) -> TypeGuard[StatusRecord]:
    """Whether the record is mirrored."""
    match value:
        case ConnectorStatus() | TaskStatus():
            return is_name(value.connector) and is_claim(value.claim)
        case TopicStatus() | TopicReset():
            return is_name(value.connector) and is_name(value.topic) and is_claim(value.claim)
        case _:
            return False


def _applied(state: StatusState, record: StateRecord, value: StatusRecord) -> list[Entry]:
    before = _about(state, value)
    if state.apply(value):
        return []
    after = _about(state, value)
    entries = []
    for key in {**before, **after}:
        old, new = before.get(key), after.get(key)
        if old != new:
            entries.append(_entry(record, value, key, old, new))
    return entries


def _about(state: StatusState, value: StatusRecord) -> dict[_Subject, _Visible]:
    """The part of the state that the record may change. A connector's tombstone also removes its tasks."""
    connector = value.connector
    found: dict[_Subject, _Visible] = {}
    match value:
        case ConnectorStatus():
            if (status := state.connector(connector)) is not None:
                found[Kind.STATUS, ""] = status
            if value.state is State.DESTROYED:
                found |= {(Kind.TASK_STATUS, str(task.task)): task for task in state.tasks_of(connector)}
        case TaskStatus():
            if (known := state.task(connector, value.task)) is not None:
                found[Kind.TASK_STATUS, str(value.task)] = known
        case _:
            if (topic := state.topics.get(connector, {}).get(value.topic)) is not None:
                found[Kind.TOPIC, value.topic] = topic
    return found


def _entry(record: StateRecord, value: StatusRecord, key: _Subject, old: _Visible | None, new: _Visible | None) -> Entry:
    kind, subject = key
    who = record.author or (new.worker_id if isinstance(new, ConnectorStatus | TaskStatus) else None)
    return Entry(
        kind,
        value.connector,
        record.timestamp,
        (record.at, record.offset),
        subject,
        _json(old),
        _json(new),
        who=storable(who) if who else None,
        claim=optional(value.claim, str),
    )


def _json(value: _Visible | None) -> str | None:
    shown: dict[str, object]
    match value:
        case ConnectorStatus() | TaskStatus():
            shown = {"state": str(value.state), "worker_id": value.worker_id, "version": value.version, "trace": value.trace}
        case TopicStatus():
            shown = {"task": value.task, "discovered_ms": value.discover_timestamp}
        case _:
            return None
    return json_text(shown)


@dataclass(frozen=True, slots=True)
class StatusNames:
    """The keys of the rows that belong to the status topic's current content."""

    connectors: Collection[str]
    tasks: Collection[ConnectorTaskId]
    topics: Collection[tuple[str, str]]

    @classmethod
    def of(cls, records: Iterable[StateRecord]) -> "StatusNames":
        """``records`` are all records of the topic."""
        state = StatusState()
        for record in records:
            if is_kept(record.value):
                state.apply(record.value)
        topics = {(connector, topic) for connector, topics in state.topics.items() for topic in topics}
        return cls(state.connectors.keys(), state.tasks.keys(), topics)


class _Tables:
    """The rows of some connectors, converted to state and back."""

    def __init__(self, database: Database, connectors: Collection[str]) -> None:
        self._connectors = Rows(database, connector_status, connector_status.c.connector, connectors)
        self._tasks = Rows(database, task_status, task_status.c.connector, connectors)
        self._topics = Rows(database, active_topic, active_topic.c.connector, connectors)

    def state(self, database: Database, records: Iterable[StatusRecord]) -> StatusState:
        """The rows as state. Claims of removed statuses are also needed. If a fenced run may have written a record, these claims are read
        from the history."""
        state = StatusState()
        uncertain = {value.connector for value in records if value.claim is not None and not self._claimed(value)}
        for removed in _last_claims(database, uncertain):
            state.apply(removed)
        for row in self._connectors.now.values():
            state.apply(ConnectorStatus(row["connector"], *_fields(row), timestamp=row["changed_ms"]))
        for row in self._tasks.now.values():
            state.apply(TaskStatus(row["connector"], row["task"], *_fields(row), timestamp=row["changed_ms"]))
        for row in self._topics.now.values():
            claim = _claim(row["claim"])
            state.apply(TopicStatus(row["topic"], row["connector"], row["task"], row["discovered_ms"], claim, timestamp=row["changed_ms"]))
        return state

    def _claimed(self, value: StatusRecord) -> bool:
        """Whether a row of the record's key has a claim. If so, that claim is the newest."""
        match value:
            case ConnectorStatus():
                row = self._connectors.now.get((value.connector,))
            case TaskStatus():
                row = self._tasks.now.get((value.connector, value.task))
            case _:
                row = self._topics.now.get((value.connector, value.topic))
        return row is not None and row["claim"] is not None

    def take(self, state: StatusState) -> None:
        self._connectors.now = {(name,): {"connector": name, **_columns(status)} for name, status in state.connectors.items()}
        self._tasks.now = {
            (task.connector, task.task): {"connector": task.connector, "task": task.task, **_columns(status)}
            for task, status in state.tasks.items()
        }
        self._topics.now = {
            (status.connector, status.topic): {
                "connector": status.connector,
                "topic": status.topic,
                "task": status.task,
                "discovered_ms": status.discover_timestamp,
                "claim": optional(status.claim, str),
                "changed_ms": status.timestamp,
            }
            for topics in state.topics.values()
            for status in topics.values()
        }

    def write(self, database: Database) -> None:
        for rows in (self._connectors, self._tasks, self._topics):
            rows.write(database)


def _fields(row: Row) -> tuple[State, str, str | None, int, str | None, Claim | None]:
    return State(row["state"]), row["worker_id"], row["trace"], row["generation"], row["version"], _claim(row["claim"])


def _columns(status: ConnectorStatus | TaskStatus) -> Row:
    return {
        "state": str(status.state),
        "worker_id": storable(status.worker_id),
        "trace": optional(status.trace, storable),
        "version": optional(status.version, storable),
        "generation": status.generation,
        "claim": optional(status.claim, str),
        "changed_ms": status.timestamp,
    }


def _claim(text: str | None) -> Claim | None:
    return None if text is None else Claim.parse(text)


def _last_claims(database: Database, connectors: Collection[str]) -> Iterable[StatusRecord]:
    """For each key of these connectors, a tombstone with the newest claim that ever wrote the key."""
    kinds = [Kind.STATUS, Kind.TASK_STATUS, Kind.TOPIC]
    names = sorted(connectors)
    for start in range(0, len(names), 500):
        of_these = (history.c.connector.in_(names[start : start + 500]), history.c.kind.in_(kinds), history.c.claim.is_not(None))
        newest = select(func.max(history.c.id)).where(*of_these).group_by(history.c.connector, history.c.kind, history.c.subject)
        statement = select(history.c.kind, history.c.connector, history.c.subject, history.c.claim).where(history.c.id.in_(newest))
        for kind, connector, subject, text in database.execute(statement):
            claim = Claim.parse(text)
            match kind:
                case Kind.STATUS:
                    yield ConnectorStatus(connector, State.DESTROYED, claim=claim)
                case Kind.TASK_STATUS:
                    yield TaskStatus(connector, int(subject), State.DESTROYED, claim=claim)
                case _:
                    yield TopicReset(subject, connector, claim)
