"""Finds statuses that contradict the target state, the task set or the runs, and corrects them.

Contradictions arise if a process was killed between two steps: a verb after it wrote its record, or a run before it reported its end. Knows
nothing of the launcher of runs: facts about runs are arguments (``RunFacts``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.states import State, TargetState, connector_state_for, task_state_for
from airflow_provider_connect.runtime.model.status import ConnectorStatus, StatusState, TaskStatus
from airflow_provider_connect.sdk.bounded_regex import BoundedRegex

_PASSING = frozenset({State.UNASSIGNED, State.RESTARTING})
_SETTLED = {
    TargetState.STARTED: frozenset({State.RUNNING, State.FAILED}),
    TargetState.PAUSED: frozenset({State.PAUSED, State.FAILED}),
    TargetState.STOPPED: frozenset({State.STOPPED}),
}


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The facts about a connector's runs. ``is_live``: an application may be alive. ``is_waiting``: a run will start or continue without a
    request.

    ``ended_ms`` is the end of the last run, in ms since 1970. None: no run has ended. ``failure`` is the reason why the run failed. None:
    it did not fail. ``is_marked``: a user marked the run as failed, and its application may have reported success later.
    """

    is_live: bool = False
    is_waiting: bool = False
    ended_ms: int | None = None
    failure: str | None = None
    is_marked: bool = False


@dataclass(frozen=True, slots=True)
class Correction:
    """The states to write: of the connector (None: unchanged) and of its tasks. ``trace`` is for FAILED states. Also whether a run must
    start. If ``rerun`` lists tasks, the run is limited to these tasks."""

    connector: State | None = None
    tasks: Mapping[int, State] = field(default_factory=dict)
    trace: str | None = None
    needs_run: bool = False
    rerun: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return self.connector is not None or bool(self.tasks) or self.needs_run


def contradicting_connectors(configs: ClusterConfigState, statuses: StatusState) -> set[str]:
    """The connectors whose statuses do not match their target state. In most cases, a run or a verb is about to correct them."""
    found = {name for name in statuses.names() if name not in configs}
    found |= {name for name in configs.connector_configs if is_contradicting(configs, statuses, name)}
    return found


def is_contradicting(configs: ClusterConfigState, statuses: StatusState, name: str) -> bool:
    """Whether the statuses of an existing connector do not match its target state."""
    target = configs.target_states.get(name, TargetState.STARTED)
    connector, tasks = statuses.connectors.get(name), statuses.task_map(name)
    if connector is None or connector.state not in _SETTLED[target]:
        return True
    if name in statuses.topics and unconsumed_topics(statuses.topics_of(name), configs.connector_configs[name]):
        return True
    if target is TargetState.STOPPED:
        return bool(tasks) or bool(configs.tasks(name))
    return list(tasks) != configs.tasks(name) or any(task.state not in _SETTLED[target] for task in tasks.values())


def unconsumed_topics(topics: Iterable[str], config: Mapping[str, str]) -> list[str]:
    """The active topics of a sink that its raw config no longer names (KIP-558). Empty for a source, or if the topics are named with
    variables."""
    used = list(topics)
    named, pattern = config.get("topics", "").strip(), config.get("topics.regex", "").strip()
    if "${" in named + pattern:
        return []
    if named:
        consumed = {topic.strip() for topic in named.split(",")}
        return [topic for topic in used if topic not in consumed]
    try:
        return BoundedRegex(pattern, "topics.regex").unmatched(used) if pattern and used else []
    except (re.error, ConfigException):
        return []


def correction(configs: ClusterConfigState, statuses: StatusState, name: str, facts: RunFacts) -> Correction:
    """The correction for a STARTED or PAUSED connector. Empty while an application is alive, because the application writes the statuses
    itself."""
    target = configs.target_state(name)
    if facts.is_live or target is None or target is TargetState.STOPPED:
        return Correction()
    if target is TargetState.PAUSED:
        return _paused(configs.tasks(name), statuses.connector(name), statuses.task_map(name))
    if facts.is_waiting:
        return Correction()
    return _started(configs.tasks(name), statuses.connector(name), statuses.task_map(name), facts)


def _paused(committed: Iterable[int], connector: ConnectorStatus | None, tasks: Mapping[int, TaskStatus]) -> Correction:
    """Leaves FAILED states unchanged, because the launcher pauses a DAG that has failed too often."""
    settled, numbers = _SETTLED[TargetState.PAUSED], set(committed)
    state = None if connector is not None and connector.state in settled else State.PAUSED
    changes = {n: State.PAUSED for n in sorted(numbers) if n not in tasks or tasks[n].state not in settled}
    return Correction(state, changes | {n: State.DESTROYED for n in tasks if n not in numbers})


def _started(committed: Iterable[int], connector: ConnectorStatus | None, tasks: Mapping[int, TaskStatus], facts: RunFacts) -> Correction:
    numbers = set(committed)
    states = {status.state for status in (connector, *tasks.values()) if status is not None}
    hidden = facts.failure is not None and State.FAILED not in states  # the run failed, but no status is FAILED
    missing = State.RUNNING if facts.failure is None else State.FAILED
    changes = {n: _instance(tasks.get(n), facts, missing, hidden=hidden) for n in sorted(numbers)}
    changes |= {n: State.DESTROYED for n in tasks if n not in numbers}
    state = _instance(connector, facts, State.RUNNING, hidden=hidden and not numbers)
    wanted = {n: change for n, change in changes.items() if change is not None}
    rerun = tuple(n for n in sorted(numbers) if n not in wanted and n in tasks and tasks[n].state in _PASSING)
    stuck = state is None and connector is not None and connector.state in _PASSING
    resumed = connector is not None and connector.state in (State.PAUSED, State.STOPPED)  # by a verb that was killed before its run
    return Correction(state, wanted, facts.failure, needs_run=bool(rerun) or stuck or resumed, rerun=rerun)


def _instance(status: ConnectorStatus | TaskStatus | None, facts: RunFacts, missing: State, *, hidden: bool) -> State | None:
    """The state to write. If there is no status, this is the argument ``missing``. None: the current state is right, or only a run can
    correct it."""
    if status is None:
        return missing
    if status.state in _PASSING:
        return _outcome(status, facts)
    if hidden and (facts.is_marked or _ended_since(status, facts)):
        return State.FAILED
    rule = connector_state_for if isinstance(status, ConnectorStatus) else task_state_for
    wanted = rule(TargetState.STARTED, status.state)
    return None if wanted is status.state else wanted


def _outcome(status: ConnectorStatus | TaskStatus, facts: RunFacts) -> State | None:
    """The state of a connector or task that was about to start, from the result of a later run. None: there was no later run."""
    if not _ended_since(status, facts):
        return None
    return State.RUNNING if facts.failure is None else State.FAILED


def _ended_since(status: ConnectorStatus | TaskStatus, facts: RunFacts) -> bool:
    return facts.ended_ms is not None and status.timestamp <= facts.ended_ms
