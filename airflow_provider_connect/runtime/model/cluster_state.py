"""The state of the config topic: connectors, tasks, target states, claims. It folds the topic's records in order (contract §2.5).

Knows nothing of bytes or Kafka: records are decoded values.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from airflow_provider_connect.runtime.model.ids import ConnectorTaskId
from airflow_provider_connect.runtime.model.records import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    FencingRecord,
    LoggerRecord,
    NoteKind,
    NoteRecord,
    SessionKeyRecord,
    TargetStateRecord,
    TaskRecord,
    Unreadable,
    UpgradeRecord,
)
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.model.upgrades import Upgrade, version_in_force

RESERVED: Final = ("offsets.storage.topic", "consumer.override.group.id")
"""The settings whose values no other connector may use."""


@dataclass(slots=True)
class ClusterConfigState:
    """The config topic up to ``offset`` (the next record to read).

    ``claims`` has each connector's newest claim. ``owners`` has the run that made the claim, unless a verb made it. ``successors`` has the
    ``FencingRecord.successor`` of connectors that are handed over. ``fencing_counts`` has the number of the connector's task ids that may
    be alive. ``applied_configs`` has the connector config from which its committed tasks were planned. ``generations`` counts the task sets
    that this reader has seen committed (in memory only). ``inconsistent`` are the connectors with missing tasks at the last commit record.
    ``pending_fencing`` are the connectors with a task set committed since their last fencing record. A deleted connector keeps its count,
    claim and generation. ``log_levels`` are the newest requests by logger. They are for workers that are running when the request is
    written. ``upgrades`` are the requested upgrades, by connector. ``notes`` are the notes about what sources are missing, ``long_calls``
    those about calls that have not returned. ``reserved`` has the values of ``RESERVED`` by connector, including connectors that a reader
    leaves out.
    """

    offset: int = 0
    connector_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    task_configs: dict[ConnectorTaskId, dict[str, str]] = field(default_factory=dict)
    task_counts: dict[str, int] = field(default_factory=dict)
    target_states: dict[str, TargetState] = field(default_factory=dict)
    fencing_counts: dict[str, int] = field(default_factory=dict)
    claims: dict[str, Claim] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    successors: dict[str, str] = field(default_factory=dict)
    applied_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    generations: dict[str, int] = field(default_factory=dict)
    inconsistent: set[str] = field(default_factory=set)
    pending_fencing: set[str] = field(default_factory=set)
    log_levels: dict[str, LoggerRecord] = field(default_factory=dict)
    upgrades: dict[str, Upgrade] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    long_calls: dict[str, str] = field(default_factory=dict)
    reserved: dict[str, dict[str, str]] = field(default_factory=dict)
    session_key: SessionKeyRecord | None = None

    def connectors(self) -> list[str]:
        """The names of the existing connectors, in the order of their first config."""
        return list(self.connector_configs)

    def __contains__(self, connector: object) -> bool:
        return connector in self.connector_configs

    def notes_of(self, kind: NoteKind) -> dict[str, str]:
        """The notes of this kind, by connector."""
        return self.notes if kind is NoteKind.MISSING else self.long_calls

    def connector_config(self, connector: str) -> dict[str, str] | None:
        """The raw config. None: there is no such connector."""
        return self.connector_configs.get(connector)

    def target_state(self, connector: str) -> TargetState | None:
        """The target state. None: there is no such connector."""
        return self.target_states.get(connector, TargetState.STARTED) if connector in self else None

    def version_in_force(self, connector: str, *, is_trying: bool = True) -> str | None:
        """The version or range that an upgrade sets for the connector's plugin. None: its config decides."""
        return version_in_force(self.upgrades.get(connector), self.connector_configs.get(connector, {}), is_trying=is_trying)

    def tasks(self, connector: str) -> list[int]:
        """The numbers of the committed tasks. Empty while the connector is inconsistent, and for an unknown connector."""
        if connector in self.inconsistent or connector not in self:
            return []
        return list(range(self.task_counts.get(connector, 0)))

    def task_config(self, connector: str, task: int) -> dict[str, str] | None:
        """The committed raw config of one task. None: there is no such task."""
        if task not in self.tasks(connector):
            return None
        return self.task_configs.get(ConnectorTaskId(connector, task))

    def all_task_configs(self, connector: str) -> dict[int, dict[str, str]]:
        """The committed raw configs of all tasks, by number."""
        return {task: self.task_configs[ConnectorTaskId(connector, task)] for task in self.tasks(connector)}

    def ids_alive(self, connector: str) -> int:
        """The number of task ids of the connector that may have a writer: the count in the last fencing record, or the number of committed
        tasks if it is larger. A claim records this number. With a smaller number, a fenced task with a higher id could commit after a
        takeover."""
        return max(self.fencing_counts.get(connector, 0), self.task_counts.get(connector, 0))

    def copy(self) -> "ClusterConfigState":
        """A copy that later records do not change. It shares the configs, which are never changed in place."""
        return dataclasses.replace(self, **{name: getattr(self, name).copy() for name in _COLLECTIONS})


_COLLECTIONS = [member.name for member in dataclasses.fields(ClusterConfigState) if member.name not in ("offset", "session_key")]


class ConfigLog:
    """Folds the records of the config topic, in order, into ``state``.

    ``topic_id`` is the topic's id. A claim consists of this id and an offset. Not thread-safe. The state changes in place, so take a
    ``copy``. To continue from another reader's end, pass the reader's ``state`` and ``pending``. With ``only``, records of other connectors
    are left out.
    """

    def __init__(
        self,
        topic_id: str = "",
        *,
        state: ClusterConfigState | None = None,
        pending: Mapping[str, Mapping[int, dict[str, str]]] | None = None,
        only: str | None = None,
    ) -> None:
        self.topic_id = topic_id
        self.state = ClusterConfigState() if state is None else state
        self.skipped = 0
        self._only = only
        self._deferred = {connector: dict(configs) for connector, configs in (pending or {}).items()}

    @property
    def pending(self) -> Mapping[str, Mapping[int, dict[str, str]]]:
        """The task configs, by connector and number, that are not yet committed."""
        return self._deferred

    def apply(self, record: ConfigRecord | Unreadable) -> str:
        """Applies one record. Returns the reason why it was skipped, or an empty text. Never raises."""
        self.state.offset = max(self.state.offset, record.offset + 1)
        if isinstance(record, ConnectorRecord):
            self._reserve(record.connector, record.config or {})
        if self._only is not None and connector_of(record) not in (self._only, ""):
            return ""
        reason = self._applied(record)
        self.skipped += bool(reason)
        return reason

    def _applied(self, record: ConfigRecord | Unreadable) -> str:
        match record:
            case Unreadable():
                return record.reason
            case ConnectorRecord():
                self._connector(record.connector, record.config)
            case TargetStateRecord():
                self._target_state(record.connector, record.state)
            case TaskRecord():
                return self._task(record)
            case CommitRecord():
                return self._commit(record.connector, record.tasks)
            case FencingRecord():
                return self._fencing(record)
            case SessionKeyRecord():
                self.state.session_key = record
            case LoggerRecord():
                self.state.log_levels[record.logger] = record
            case UpgradeRecord() | NoteRecord():
                self._of_ours(record)
            case _:
                pass  # restart requests are for workers that are running when the request is written, and change no state
        return ""

    def _of_ours(self, record: UpgradeRecord | NoteRecord) -> None:
        match record:
            case UpgradeRecord(connector, upgrade):
                self.state.upgrades.pop(connector, None)
                if upgrade is not None:
                    self.state.upgrades[connector] = upgrade
            case NoteRecord(connector, note, kind):
                notes = self.state.notes_of(kind)
                notes.pop(connector, None)
                if note is not None and connector in self.state:
                    notes[connector] = note

    def _reserve(self, connector: str, config: Mapping[str, str]) -> None:
        self.state.reserved.pop(connector, None)
        named = {key: config[key].strip() for key in RESERVED if config.get(key, "").strip()}
        if named:
            self.state.reserved[connector] = named

    def _connector(self, connector: str, config: Mapping[str, str] | None) -> None:
        for kind in NoteKind:
            self.state.notes_of(kind).pop(connector, None)
        if config is None:
            self._remove(connector)
            return
        self.state.connector_configs[connector] = dict(config)
        self.state.target_states.setdefault(connector, TargetState.STARTED)

    def _remove(self, connector: str) -> None:
        """Removes the config and the tasks. Target state, fencing count, claim, generation and flags remain (contract §2.5). The target
        state has a tombstone of its own."""
        state = self.state
        state.connector_configs.pop(connector, None)
        state.applied_configs.pop(connector, None)
        state.task_counts.pop(connector, None)
        state.upgrades.pop(connector, None)
        for task in [task for task in state.task_configs if task.connector == connector]:
            del state.task_configs[task]
        self._deferred.pop(connector, None)

    def _target_state(self, connector: str, target: TargetState | None) -> None:
        if target is not None:
            self.state.target_states[connector] = target
        elif connector in self.state:
            self.state.target_states[connector] = TargetState.STARTED
        else:
            self.state.target_states.pop(connector, None)

    def _task(self, record: TaskRecord) -> str:
        if record.config is None:
            return f"config of task {record.task} is null"
        self._deferred.setdefault(record.task.connector, {})[record.task.task] = dict(record.config)
        return ""

    def _commit(self, connector: str, tasks: int) -> str:
        state = self.state
        if connector not in state:
            self._remove(connector)  # compaction removed the connector's tombstone but not the commit record (KAFKA-16838)
            return f"commit of {tasks} tasks for connector {connector}, which has no config"
        reason = ""
        if missing := _missing(tasks, self._deferred.get(connector, {})):
            state.inconsistent.add(connector)
            reason = f"commit of {tasks} tasks for connector {connector}, but there is no config for {missing}"
        else:
            self._commit_whole(connector)
        if connector in self._deferred:
            self._deferred[connector] = {}
        state.task_counts[connector] = tasks
        state.pending_fencing.add(connector)
        return reason

    def _commit_whole(self, connector: str) -> None:
        state, deferred = self.state, self._deferred.get(connector)
        if deferred is not None:
            state.task_configs.update({ConnectorTaskId(connector, task): config for task, config in deferred.items()})
            state.generations[connector] = state.generations.get(connector, -1) + 1
        state.applied_configs[connector] = state.connector_configs[connector]
        state.inconsistent.discard(connector)

    def _fencing(self, record: FencingRecord) -> str:
        claim, known = self._claim_of(record), self.state.claims.get(record.connector)
        if known is not None and claim < known:
            return f"fencing count by claim {claim} of connector {record.connector}, which {known} has taken over"
        if claim != known:
            self.state.owners.pop(record.connector, None)
            if record.owner is not None:
                self.state.owners[record.connector] = record.owner
        self.state.successors.pop(record.connector, None)
        if record.successor is not None and record.claim is not None:
            self.state.successors[record.connector] = record.successor
        self.state.claims[record.connector] = claim
        self.state.fencing_counts[record.connector] = record.count
        self.state.pending_fencing.discard(record.connector)
        return ""

    def _claim_of(self, record: FencingRecord) -> Claim:
        """The claim that wrote the record. A claim with another topic id is invalid. The record itself is then the claim."""
        if record.claim is not None and record.claim.topic_id == (self.topic_id or record.claim.topic_id):
            return record.claim
        return Claim(record.offset, self.topic_id)


def connector_of(record: ConfigRecord | Unreadable) -> str:
    """The connector of a record. Empty if the record has no connector."""
    match record:
        case Unreadable() | SessionKeyRecord() | LoggerRecord():
            return ""
        case TaskRecord():
            return record.task.connector
        case _:
            return record.connector


def _missing(tasks: int, deferred: Mapping[int, object]) -> str:
    """The first of the tasks 0 … ``tasks`` - 1 that has no config, as a text. Empty if all have a config. Fast even for absurdly large
    counts."""
    first = next((task for task in range(tasks) if task not in deferred), None)
    if first is None:
        return ""
    return f"task {first} (configs given: {len(deferred)})"
