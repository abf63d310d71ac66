"""Conditions to wait for: a state, an offset, a topic, the deletion of a connector. Each condition is a value with a call, and evaluates
the call's answer.

Sensors, operators and triggers poll conditions; a condition is sent to the triggerer as JSON.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from airflow_provider_connect.client.calls import Call
from airflow_provider_connect.client.verbs import ConnectVerbs
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import BadRequestException, reason_of
from airflow_provider_connect.runtime.model.backfill_request import Backfill
from airflow_provider_connect.runtime.model.page import total_lag
from airflow_provider_connect.runtime.model.replays import Replay
from airflow_provider_connect.runtime.model.states import State
from airflow_provider_connect.runtime.model.upgrades import Upgrade, UpgradeState
from airflow_provider_connect.runtime.model.views import ConnectorInfo, ConnectorStatusView, OffsetView, StateView, TaskView

_NO_TRACE = "without a trace"


@dataclass(frozen=True, slots=True)
class Verdict:
    """``text`` describes the observed state. ``has_failed``: the state is FAILED and does not recover by itself. ``is_early``: the
    condition is met, but perhaps only because a start is not complete."""

    is_met: bool
    text: str
    has_failed: bool = False
    is_early: bool = False


class Condition(Protocol):
    """A condition on one connector."""

    @property
    def connector(self) -> str: ...

    def call(self) -> Call[Any]:
        """The request. ``evaluate`` gets its answer."""
        ...

    def evaluate(self, seen: Any) -> Verdict:
        """The verdict on an answer. If ``seen`` is None, the server does not know the connector or has no status of it yet (404)."""
        ...


@dataclass(frozen=True, slots=True)
class ConnectorReaches:
    """The connector is in one of ``states``; with ``with_tasks``, each of its tasks is also in one of them. STOPPED is reached when no task
    is left. RUNNING without tasks is early, because a connector runs before its tasks are known."""

    connector: str
    states: Sequence[str]
    with_tasks: bool = True

    def call(self) -> Call[ConnectorStatusView]:
        return ConnectVerbs.connector_status.call(self.connector)

    def evaluate(self, seen: ConnectorStatusView | None) -> Verdict:
        if seen is None:
            return Verdict(False, f"Connector {self.connector} has no status")
        tasks = [task for task in seen.tasks if task.state != State.DESTROYED] if self.with_tasks else []
        instances: list[StateView | TaskView] = [seen.connector, *tasks]
        failed = [instance for instance in instances if instance.state == State.FAILED and State.FAILED not in self.states]
        text = f"Connector {self.connector} is {seen.connector.state}" + (f", its tasks {_count_states(tasks)}" if tasks else "")
        if failed:
            return Verdict(False, f"{text}: {reason_of(failed[0].trace or _NO_TRACE)}", has_failed=True)
        is_emptied = not tasks or seen.connector.state != State.STOPPED
        is_early = self.with_tasks and not tasks and seen.connector.state == State.RUNNING
        return Verdict(is_emptied and all(instance.state in self.states for instance in instances), text, is_early=is_early)


@dataclass(frozen=True, slots=True)
class TaskReaches:
    """Task number ``task`` is in one of ``states``."""

    connector: str
    task: int
    states: Sequence[str]

    def call(self) -> Call[TaskView]:
        return ConnectVerbs.task_status.call(self.connector, self.task)

    def evaluate(self, seen: TaskView | None) -> Verdict:
        name = f"Task {self.connector}-{self.task}"
        if seen is None:
            return Verdict(False, f"{name} has no status")
        if seen.state == State.FAILED and State.FAILED not in self.states:
            return Verdict(False, f"{name} is FAILED: {reason_of(seen.trace or _NO_TRACE)}", has_failed=True)
        return Verdict(seen.state in self.states, f"{name} is {seen.state}")


@dataclass(frozen=True, slots=True)
class OffsetReaches:
    """Every partition that has all entries of ``partition`` has reached ``offset``, and at least one such partition exists. A partition has
    reached ``offset`` if its numbers are at least as large and its other values are equal. A sink's partition is ``{"kafka_topic": …,
    "kafka_partition": …}``; its offset is ``{"kafka_offset": …}``."""

    connector: str
    partition: Mapping[str, Any]
    offset: Mapping[str, Any]

    def call(self) -> Call[list[OffsetView]]:
        return ConnectVerbs.offsets.call(self.connector)

    def evaluate(self, seen: Sequence[OffsetView] | None) -> Verdict:
        found = [view for view in seen or () if self.partition.items() <= (view.partition or {}).items()]
        if not found:
            return Verdict(False, f"Connector {self.connector} has no offset for {dict(self.partition)}")
        behind = [view for view in found if view.offset is None or not _has_reached(view.offset, self.offset)]
        shown = behind[0] if behind else found[0]
        return Verdict(not behind, f"Connector {self.connector} has offset {shown.offset} for {shown.partition}")


@dataclass(frozen=True, slots=True)
class TopicActive:
    """The connector has used ``topic``."""

    connector: str
    topic: str

    def call(self) -> Call[list[str]]:
        return ConnectVerbs.active_topics.call(self.connector)

    def evaluate(self, seen: Sequence[str] | None) -> Verdict:
        return Verdict(self.topic in (seen or ()), f"Connector {self.connector} has used {', '.join(seen or ()) or 'no topic'}")


@dataclass(frozen=True, slots=True)
class LagBelow:
    """The sum of a sink's lags over its partitions is below ``records``. Not met while a lag is unknown because a committed offset is
    beyond the end of its partition. Not a ``Condition``: Connect's API does not report the ends of topics, so the hook also asks Kafka."""

    connector: str
    records: int

    def evaluate(self, seen: Mapping[TopicPartition, int | None] | None) -> Verdict:
        """``seen``: the lag of each partition, as ``ConnectHook.sink_lag`` returns it; None: there is no such connector."""
        if seen is None:
            return Verdict(False, f"Connector {self.connector} does not exist")
        lag = total_lag(seen.values())
        if lag is None:
            return Verdict(False, f"The lag of connector {self.connector} {lag_is_unknown(seen)}")
        return Verdict(lag < self.records, f"Connector {self.connector} has a lag of {lag} records in {len(seen)} partitions")


def lag_is_unknown(lags: Mapping[TopicPartition, int | None]) -> str:
    """The reason why the lag of a sink is unknown in some of its partitions, as the end of a sentence."""
    unknown = sorted(at for at, lag in lags.items() if lag is None)
    named = f"{unknown[0].topic}-{unknown[0].partition}"
    more = f" and {len(unknown) - 1} other{'s' if len(unknown) > 2 else ''}" if len(unknown) > 1 else ""
    return (
        f"is unknown in {named}{more}: the committed offset is beyond the end of the partition, because the topic was recreated or "
        "truncated, or the offset was altered. The next run begins where auto.offset.reset points, by default at the first record"
    )


@dataclass(frozen=True, slots=True)
class BackfillEnds:
    """Backfill ``name`` of the connector has delivered all of its ranges."""

    connector: str
    name: str

    def call(self) -> Call[list[Backfill]]:
        return ConnectVerbs.backfills.call(self.connector)

    def evaluate(self, seen: Sequence[Backfill] | None) -> Verdict:
        found = next((each for each in seen or () if each.name == self.name), None)
        if found is None:
            return Verdict(False, f"There is no backfill {self.name}", has_failed=True)
        if found.is_done:
            return Verdict(True, f"Backfill {self.name} has delivered all")
        if found.is_done is None:
            return Verdict(False, f"Backfill {self.name} is of a source: its end is not known", has_failed=True)
        text = f"Backfill {self.name} is {found.state}, with {found.left} offsets to go"
        return Verdict(False, text, has_failed=found.state == State.FAILED)


@dataclass(frozen=True, slots=True)
class IsGone:
    """There is no such connector."""

    connector: str

    def call(self) -> Call[ConnectorInfo]:
        return ConnectVerbs.connector_info.call(self.connector)

    def evaluate(self, seen: ConnectorInfo | None) -> Verdict:
        return Verdict(seen is None, f"Connector {self.connector} {'does not exist' if seen is None else 'exists'}")


@dataclass(frozen=True, slots=True)
class UpgradeSucceeds:
    """The last requested upgrade is DONE. It has failed if it is held back or rolled back."""

    connector: str

    def call(self) -> Call[Upgrade]:
        return ConnectVerbs.upgrade.call(self.connector)

    def evaluate(self, seen: Upgrade | None) -> Verdict:
        if seen is None:
            return Verdict(False, f"No upgrade of connector {self.connector} was requested")
        text = f"The upgrade of connector {self.connector} from version {seen.old} to {seen.new} is {seen.state}"
        has_failed = not seen.is_open and seen.state is not UpgradeState.DONE
        return Verdict(seen.state is UpgradeState.DONE, f"{text}: {seen.reason}" if seen.reason else text, has_failed=has_failed)


@dataclass(frozen=True, slots=True)
class ReplayEnds:
    """The replay of a sink's dead-letter records is complete. It has failed if another replay was requested since."""

    connector: str
    replay: str

    def call(self) -> Call[Replay]:
        return ConnectVerbs.dead_letter_replay.call(self.connector)

    def evaluate(self, seen: Replay | None) -> Verdict:
        if seen is None or seen.replay != self.replay:
            return Verdict(False, f"Another replay of dead-letter records of {self.connector} has replaced this one", has_failed=True)
        some = "1 dead-letter record" if seen.records == 1 else f"{seen.records} dead-letter records"
        text = f"{some} of {self.connector} {'is' if seen.records == 1 else 'are'} replayed"
        if seen.is_done:
            none = f"No dead-letter record of {self.connector} is replayed: none fits, or each one was replayed before"
            return Verdict(True, text if seen.records else none)
        if seen.state == State.FAILED:
            return Verdict(False, f"{text}, and connector {seen.connector} is FAILED: {seen.failure}", has_failed=True)
        so_far = f"{text} so far" if seen.records else f"No dead-letter record of {self.connector} is replayed yet"
        return Verdict(False, f"{so_far}; connector {seen.connector} is {seen.state or 'not started yet'}")


class FailureTimeout:
    """The time that FAILED, or RUNNING without tasks, must last before it counts. A changed or restarted connector keeps its old state for
    a while, and a new connector has no tasks for a while."""

    def __init__(self, seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._now = seconds, now
        self._seen: tuple[bool, bool] | None = None
        self._since = 0.0

    def ends_wait(self, verdict: Verdict) -> bool:
        """Whether the wait is over. Called after each check."""
        seen, now = (verdict.is_met, verdict.has_failed), self._now()
        if seen != self._seen:
            self._seen, self._since = seen, now
        is_over = now - self._since >= self._seconds
        return (verdict.is_met and (is_over or not verdict.is_early)) or (verdict.has_failed and is_over)


_CONDITIONS = (
    ConnectorReaches,
    TaskReaches,
    OffsetReaches,
    TopicActive,
    LagBelow,
    UpgradeSucceeds,
    IsGone,
    ReplayEnds,
    BackfillEnds,
)
_KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in _CONDITIONS}


def as_json(condition: Condition | LagBelow) -> dict[str, Any]:
    """The condition as JSON."""
    return {"kind": type(condition).__name__, **asdict(condition)}  # type: ignore[arg-type]  # all kinds are dataclasses


def of_json(value: Mapping[str, Any]) -> Condition | LagBelow:
    """The condition whose ``as_json`` is ``value``."""
    fields = dict(value)
    condition: Condition | LagBelow = _KINDS[fields.pop("kind")](**fields)
    return condition


def known_states(states: str | Sequence[str]) -> list[str]:
    """``states`` in capitals. Raises BadRequestException for a state that Kafka Connect does not have."""
    names = [state.upper() for state in ([states] if isinstance(states, str) else states)]
    known = [state.value for state in State if state is not State.DESTROYED]
    for name in names:
        if name not in known:
            raise BadRequestException(f"{name!r} is not a state of a connector or task; there are {', '.join(known)}")
    return names


def _has_reached(offset: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(_reaches(offset.get(name), value) for name, value in wanted.items())


def _reaches(value: object, wanted: object) -> bool:
    if isinstance(wanted, int | float) and not isinstance(wanted, bool):
        return isinstance(value, int | float) and value >= wanted
    return value == wanted


def _count_states(tasks: Sequence[TaskView]) -> str:
    states = [task.state for task in tasks]
    return ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
