"""The config topic as somebody has read it, up to an offset, to hand on: whole, or what concerns one connector; as a value and as JSON.

It never decides anything: whoever gets it reads on from ``offset``, and a claim's transaction decides on the state at the topic's end.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_connect.model.cluster_state import ClusterConfigState, ConfigLog
from airflow_provider_connect.model.ids import ConnectorTaskId
from airflow_provider_connect.model.records import LoggerRecord, SessionKeyRecord
from airflow_provider_connect.model.run import Claim, RunSpec
from airflow_provider_connect.model.states import TargetState
from airflow_provider_connect.model.upgrades import Upgrade

Slice = dict[str, Any]
"""What there is to know about one connector, as JSON holds it; empty for one that nobody knows."""


@dataclass(frozen=True, slots=True)
class ConfigSnapshot:
    """``slices`` by connector, ``common`` what concerns none of them; nobody changes either. ``offset`` is the next record to read of the
    topic of this id."""

    topic_id: str
    offset: int
    slices: Mapping[str, Slice] = field(repr=False)
    common: Slice = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, log: ConfigLog, connectors: Iterable[str] | None = None) -> "ConfigSnapshot":
        """What ``log`` adds up to. ``connectors`` None: all that it knows."""
        names = _known(log) if connectors is None else connectors
        return cls(log.topic_id, log.state.offset, {name: _slice(log, name) for name in names}, _common(log.state))

    def log(self, only: str | None = None) -> ConfigLog:
        """A log that goes on from here; ``only``: what concerns other connectors is left out from now on."""
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
        """Raises ValueError or TypeError for anything that ``to_json`` has not written."""
        topic_id, offset, slices, common = json.loads(text)
        return cls(topic_id, offset, slices, common)


def handed_on(spec: RunSpec) -> ConfigSnapshot | None:
    """What the run was handed; None: it reads the whole topic."""
    return None if spec.known is None else ConfigSnapshot.from_json(spec.known)


def _known(log: ConfigLog) -> set[str]:
    state = log.state
    return {
        *state.connector_configs,
        *state.target_states,
        *state.fencing_counts,
        *state.claims,
        *state.inconsistent,
        *state.upgrades,
        *state.pending_fencing,
        *log.pending,
    }


def _slice(log: ConfigLog, name: str) -> Slice:
    state = log.state
    count = state.task_counts.get(name)
    tasks = {task: config for task in range(count or 0) if (config := state.task_configs.get(ConnectorTaskId(name, task))) is not None}
    found: Slice = {
        "config": state.connector_configs.get(name),
        "tasks": tasks,
        "count": count,
        "target": state.target_states.get(name),
        "fencing": state.fencing_counts.get(name),
        "claim": str(state.claims[name]) if name in state.claims else None,
        "applied": state.applied_configs.get(name),
        "generation": state.generations.get(name),
        "inconsistent": name in state.inconsistent,
        "unfenced": name in state.pending_fencing,
        "upgrade": state.upgrades[name].to_json() if name in state.upgrades else None,
        "pending": log.pending.get(name),
    }
    return {key: value for key, value in found.items() if value is not None and value is not False and value != {}}


def _put(state: ClusterConfigState, name: str, known: Slice) -> None:
    if "config" in known:
        state.connector_configs[name] = known["config"]
    if "tasks" in known:
        state.task_configs.update({ConnectorTaskId(name, task): config for task, config in _by_number(known["tasks"]).items()})
    if "count" in known:
        state.task_counts[name] = known["count"]
    if "target" in known:
        state.target_states[name] = TargetState(known["target"])
    if "fencing" in known:
        state.fencing_counts[name] = known["fencing"]
    if "claim" in known:
        state.claims[name] = Claim.parse(known["claim"])
    if "applied" in known:
        state.applied_configs[name] = known["applied"]
    if "generation" in known:
        state.generations[name] = known["generation"]
    if "inconsistent" in known:
        state.inconsistent.add(name)
    if "unfenced" in known:
        state.pending_fencing.add(name)
    if "upgrade" in known:
        state.upgrades[name] = Upgrade.of_json(known["upgrade"])


def _by_number(configs: Mapping[Any, dict[str, str]]) -> dict[int, dict[str, str]]:
    """JSON turns numbers that are keys into text."""
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
