"""Turns records of the config topic into rows and history: connectors, target states, task sets. The rules are those of ``ConfigLog``."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState, ConfigLog
from airflow_provider_connect.runtime.model.ids import ConnectorTaskId
from airflow_provider_connect.runtime.model.records import (
    CommitRecord,
    ConnectorRecord,
    LoggerRecord,
    RestartRecord,
    TargetStateRecord,
    TaskRecord,
    UpgradeRecord,
)
from airflow_provider_connect.runtime.model.secret_keys import HIDDEN, is_secret_key, is_variable
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.model.url_passwords import without_url_passwords
from airflow_provider_connect.runtime.sql_mirror.changes import Entry, Kind
from airflow_provider_connect.runtime.sql_mirror.rows import Database, Row, Rows, is_name, json_text, optional, storable
from airflow_provider_connect.runtime.sql_mirror.tables import connector_config, pending_task, target_state, task_config, task_set
from airflow_provider_connect.runtime.stores.state_stream import StateRecord

DEFINED_IN = "airflow.defined.in"

Hide = Callable[[Mapping[str, str], Mapping[str, str] | None], Mapping[str, str]]
"""Returns a config with ``[hidden]`` for the passwords that its plugins define. For a task's config, the second argument is the connector's
config."""

_Kept = ConnectorRecord | TargetStateRecord | TaskRecord | CommitRecord | RestartRecord | UpgradeRecord | LoggerRecord


def masked(config: Mapping[str, str], of: Mapping[str, str] | None = None) -> dict[str, str]:
    """``config`` with ``[hidden]`` for values of keys named like secrets, and for passwords in URLs. Variables (``${…}``) stay."""
    return {
        key: HIDDEN if is_secret_key(key) and value and not is_variable(value) else without_url_passwords(value)
        for key, value in config.items()
    }


def holds_hidden(config: Mapping[str, str] | None) -> bool:
    """Whether a value is hidden. Two configs with hidden values may differ although they look equal."""
    return any(HIDDEN in value for value in (config or {}).values())


def take_configs(database: Database, records: Sequence[StateRecord], *, hide: Hide = masked) -> list[Entry]:
    """Apply the records to the rows, in order. Returns the changes. ``hide`` hides secrets that ``masked`` does not recognize."""
    kept = [(record, value) for record in records if (value := kept_of(record.value)) is not None]
    tables = _Tables(database, {_connector(value) for _, value in kept})
    log, entries = tables.log(), []
    for record, value in kept:
        entries += _applied(log, record, _hidden(record.value, value, log.state, hide))
    tables.take(log, {_connector(value): record.timestamp for record, value in kept})
    tables.write(database)
    return entries


def kept_of(value: object) -> _Kept | None:
    """The record in its mirrored form, with secrets hidden. None: the record is not mirrored."""
    match value:
        case ConnectorRecord(config=config) | TaskRecord(config=config):
            value = replace(value, config=None if config is None else masked(config))
        case LoggerRecord(logger):
            return value if is_name(logger) else None
        case TargetStateRecord() | CommitRecord() | RestartRecord() | UpgradeRecord():
            pass
        case _:
            return None
    return value if is_name(_connector(value)) else None


def _hidden(raw: object, kept: _Kept, state: ClusterConfigState, hide: Hide) -> _Kept:
    """``kept`` with ``[hidden]`` for the values that ``hide`` hides in the raw record."""
    match raw:
        case ConnectorRecord(config=config) if config is not None and isinstance(kept, ConnectorRecord):
            return replace(kept, config=masked(hide(config, None)))
        case TaskRecord(config=config) if config is not None and isinstance(kept, TaskRecord):
            return replace(kept, config=masked(hide(config, state.connector_configs.get(kept.task.connector))))
    return kept


def _connector(record: _Kept) -> str:
    """The record's connector. Empty if the record does not concern a connector."""
    match record:
        case TaskRecord(task):
            return task.connector
        case LoggerRecord():
            return ""
        case _:
            return record.connector


def _applied(log: ConfigLog, record: StateRecord, value: _Kept) -> list[Entry]:
    old = _about(log.state, value)
    log.apply(value)
    return _entries(record, value, old, _about(log.state, value))


def _about(state: ClusterConfigState, value: _Kept) -> object:
    """The part of the state that the record can change."""
    match value:
        case ConnectorRecord(connector):
            return state.connector_configs.get(connector)
        case TargetStateRecord(connector):
            return state.target_states.get(connector)
        case CommitRecord(connector):
            ids = (ConnectorTaskId(connector, task) for task in range(state.task_counts.get(connector, 0)))
            return [state.task_configs[task] for task in ids if task in state.task_configs]
        case _:
            return None


def _entries(record: StateRecord, value: _Kept, old: object, new: object) -> list[Entry]:
    cause, at, who = (record.at, record.offset), record.timestamp, optional(record.author, storable)
    match value:
        case ConnectorRecord(connector, config) if old != new or holds_hidden(config):
            who = who or optional((config or {}).get(DEFINED_IN), storable)
            return [Entry(Kind.CONFIG, connector, at, cause, old=optional(old, json_text), new=optional(new, json_text), who=who)]
        case TargetStateRecord(connector) if old != new:
            return [Entry(Kind.TARGET_STATE, connector, at, cause, old=optional(old, str), new=optional(new, str), who=who)]
        case CommitRecord(connector) if old != new or _any_hidden(new):
            return [Entry(Kind.TASKS, connector, at, cause, old=json_text(old), new=json_text(new))]
        case RestartRecord() | UpgradeRecord() | LoggerRecord():
            return [_request(value, at, cause, who)]
        case _:
            return []


def _request(value: RestartRecord | UpgradeRecord | LoggerRecord, at: int, cause: tuple[TopicPartition, int], who: str | None) -> Entry:
    match value:
        case LoggerRecord(logger, level):
            return Entry(Kind.LOG_LEVEL, "", at, cause, logger, new=storable(level), who=who)
        case RestartRecord(connector, include_tasks, only_failed):
            asked = {"include-tasks": include_tasks, "only-failed": only_failed}
            return Entry(Kind.RESTART, connector, at, cause, new=json_text(asked), who=who)
        case UpgradeRecord(connector, upgrade):
            if upgrade is None:
                return Entry(Kind.UPGRADE, connector, at, cause, who=who)
            claim, note = optional(upgrade.claim, str), storable(upgrade.reason) if upgrade.reason else None
            return Entry(Kind.UPGRADE, connector, at, cause, new=json_text(upgrade.to_json()), who=who, claim=claim, note=note)


def _any_hidden(configs: object) -> bool:
    return isinstance(configs, list) and any(holds_hidden(config) for config in configs)


@dataclass(frozen=True, slots=True)
class ConfigNames:
    """The keys of the rows that belong to the config topic's current content."""

    configs: Collection[str]
    target_states: Collection[str]
    task_sets: Collection[str]
    tasks: Collection[ConnectorTaskId]

    @classmethod
    def of(cls, records: Iterable[StateRecord]) -> "ConfigNames":
        """``records`` are all records of the topic."""
        log = ConfigLog()
        for record in records:
            if (value := kept_of(record.value)) is not None:
                log.apply(value)
        state = log.state
        return cls(state.connector_configs.keys(), state.target_states.keys(), state.task_counts.keys(), state.task_configs.keys())


class _Tables:
    """The rows of some connectors, converted to state and back."""

    def __init__(self, database: Database, connectors: Collection[str]) -> None:
        self._configs = Rows(database, connector_config, connector_config.c.connector, connectors)
        self._targets = Rows(database, target_state, target_state.c.connector, connectors)
        self._sets = Rows(database, task_set, task_set.c.connector, connectors)
        self._tasks = Rows(database, task_config, task_config.c.connector, connectors)
        self._pending = Rows(database, pending_task, pending_task.c.connector, connectors)

    def log(self) -> ConfigLog:
        state = ClusterConfigState(
            connector_configs={row["connector"]: json.loads(row["config"]) for row in self._configs.now.values()},
            target_states={row["connector"]: TargetState(row["state"]) for row in self._targets.now.values()},
            task_counts={row["connector"]: row["tasks"] for row in self._sets.now.values()},
            inconsistent={row["connector"] for row in self._sets.now.values() if not row["is_whole"]},
            task_configs={ConnectorTaskId(row["connector"], row["task"]): json.loads(row["config"]) for row in self._tasks.now.values()},
        )
        pending: dict[str, dict[int, dict[str, str]]] = {}
        for row in self._pending.now.values():
            pending.setdefault(row["connector"], {})[row["task"]] = json.loads(row["config"])
        return ConfigLog(state=state, pending=pending)

    def take(self, log: ConfigLog, changed_ms: Mapping[str, int]) -> None:
        """Replace the rows by the log's state. Unchanged rows keep their time."""
        state = log.state
        configs = [{"connector": name, "config": json_text(config)} for name, config in state.connector_configs.items()]
        targets = [{"connector": name, "state": str(target)} for name, target in state.target_states.items()]
        counts = state.task_counts.items()
        sets = [{"connector": name, "tasks": count, "is_whole": name not in state.inconsistent} for name, count in counts]
        tasks = [{"connector": name, "task": task, "config": json_text(config)} for (name, task), config in state.task_configs.items()]
        _take(self._configs, configs, changed_ms)
        _take(self._targets, targets, changed_ms)
        _take(self._sets, sets, changed_ms)
        _take(self._tasks, tasks, changed_ms)
        self._pending.now = {
            (name, task): {"connector": name, "task": task, "config": json_text(config)}
            for name, configs in log.pending.items()
            for task, config in configs.items()
        }

    def write(self, database: Database) -> None:
        for rows in (self._configs, self._targets, self._sets, self._tasks, self._pending):
            rows.write(database)


def _take(rows: Rows, wanted: Iterable[Row], changed_ms: Mapping[str, int]) -> None:
    before, rows.now = rows.now, {}
    for row in wanted:
        known = before.get(rows.key(row))
        is_same = known is not None and all(known[name] == value for name, value in row.items())
        rows.put(known if known is not None and is_same else {**row, "changed_ms": changed_ms.get(str(row["connector"]), -1)})
