"""A snapshot of the config topic up to an offset, of all connectors or of one. It is passed to another process as JSON.

No decision depends on a snapshot alone. The reader of a snapshot continues from ``offset``, and a claim's transaction checks the state at
the topic's end.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState, ConfigLog
from airflow_provider_connect.runtime.model.ids import ConnectorTaskId
from airflow_provider_connect.runtime.model.records import LoggerRecord, SessionKeyRecord
from airflow_provider_connect.runtime.model.run import Claim, RunSpec
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.model.upgrades import Upgrade

Slice = dict[str, Any]
"""The state of one connector as JSON. Empty for an unknown connector."""


@dataclass(frozen=True, slots=True)
class ConfigSnapshot:
    """``slices`` has the state by connector, and ``common`` has all other state. Neither is ever modified. ``offset`` is the next record to
    read, in the topic with this id."""

    topic_id: str
    offset: int
    slices: Mapping[str, Slice] = field(repr=False)
    common: Slice = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, log: ConfigLog, connectors: Iterable[str] | None = None) -> "ConfigSnapshot":
        """A snapshot of ``log``. ``connectors`` None means all connectors."""
        names = _known(log) if connectors is None else connectors
        return cls(log.topic_id, log.state.offset, {name: _slice(log, name) for name in names}, _common(log.state))

    def log(self, only: str | None = None) -> ConfigLog:
        """A log that continues from this snapshot. With ``only``, later records of other connectors are left out."""
        state, pending = ClusterConfigState(offset=self.offset), {}
        for name, known in self.slices.items():
            _put(state, name, known)
            if "pending" in known:
                pending[name] = _by_number(known["pending"])
        state.log_levels.update(self.log_levels())
        state.reserved.update(self.common.get("reserved", {}))
        if "session" in self.common:
            state.session_key = SessionKeyRecord(*self.common["session"])
        return ConfigLog(self.topic_id, state=state, pending=pending, only=only)

    def log_levels(self) -> dict[str, LoggerRecord]:
        """The newest requested level by logger."""
        return {name: LoggerRecord(name, level, offset) for name, (level, offset) in self.common.get("levels", {}).items()}

    def to_json(self) -> str:
        return json.dumps([self.topic_id, self.offset, dict(self.slices), self.common], separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "ConfigSnapshot":
        """Raises ValueError or TypeError for a text that was not written by ``to_json``."""
        topic_id, offset, slices, common = json.loads(text)
        return cls(topic_id, offset, slices, common)


def received_snapshot(spec: RunSpec) -> ConfigSnapshot | None:
    """The snapshot that the run received. None: the run reads the whole topic."""
    return None if spec.known is None else ConfigSnapshot.from_json(spec.known)


_MAPS: Mapping[str, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "config": ("connector_configs", dict, dict),
    "count": ("task_counts", int, int),
    "target": ("target_states", str, TargetState),
    "fencing": ("fencing_counts", int, int),
    "claim": ("claims", str, Claim.parse),
    "owner": ("owners", str, str),
    "successor": ("successors", str, str),
    "applied": ("applied_configs", dict, dict),
    "generation": ("generations", int, int),
    "upgrade": ("upgrades", Upgrade.to_json, Upgrade.of_json),
    "note": ("notes", str, str),
    "long_call": ("long_calls", str, str),
}
"""For each key of a slice: the attribute of the state, and the conversions to JSON and back."""
_SETS = {"inconsistent": "inconsistent", "unfenced": "pending_fencing"}
_KNOWN_BY = ("connector_configs", "target_states", "fencing_counts", "claims", "inconsistent", "upgrades", "pending_fencing")


def _known(log: ConfigLog) -> set[str]:
    return {*log.pending, *(name for attribute in _KNOWN_BY for name in getattr(log.state, attribute))}


def _slice(log: ConfigLog, name: str) -> Slice:
    state = log.state
    ids = (ConnectorTaskId(name, task) for task in range(state.task_counts.get(name, 0)))
    found: Slice = {key: encode(known[name]) for key, (map_, encode, _) in _MAPS.items() if name in (known := getattr(state, map_))}
    found |= {key: True for key, set_ in _SETS.items() if name in getattr(state, set_)}
    found["tasks"] = {task.task: state.task_configs[task] for task in ids if task in state.task_configs}
    found["pending"] = log.pending.get(name, {})
    return {key: value for key, value in found.items() if value != {}}


def _put(state: ClusterConfigState, name: str, known: Slice) -> None:
    for key, (map_, _, decode) in _MAPS.items():
        if key in known:
            getattr(state, map_)[name] = decode(known[key])
    for key, set_ in _SETS.items():
        if key in known:
            getattr(state, set_).add(name)
    state.task_configs.update({ConnectorTaskId(name, task): config for task, config in _by_number(known.get("tasks", {})).items()})


def _by_number(configs: Mapping[Any, dict[str, str]]) -> dict[int, dict[str, str]]:
    """Restores task numbers, because JSON's keys are texts."""
    return {int(number): config for number, config in configs.items()}


def _common(state: ClusterConfigState) -> Slice:
    found: Slice = {}
    if state.log_levels:
        found["levels"] = {name: [record.level, record.offset] for name, record in state.log_levels.items()}
    if state.reserved:
        found["reserved"] = state.reserved.copy()
    if state.session_key is not None:
        key = state.session_key
        found["session"] = [key.key, key.algorithm, key.creation_timestamp, key.offset]
    return found
