"""The state of the status topic: the states of connectors and tasks, and the topics that each connector has used (contract §2.9).

A status of ours has the claim of the run that wrote it. A status without a claim is a real worker's, and is always applied. ``author`` is
the user whose restart or reset wrote the status, for the history. This module does not read it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_connect.errors import shorten
from airflow_provider_connect.runtime.model.ids import ConnectorTaskId
from airflow_provider_connect.runtime.model.records import Unreadable
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.model.states import State


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """``status-connector-«c»``. State DESTROYED is the tombstone. ``generation`` is 0 in our statuses, so a real worker's status always
    replaces them."""

    connector: str
    state: State
    worker_id: str = ""
    trace: str | None = None
    generation: int = 0
    version: str | None = None
    claim: Claim | None = None
    offset: int = field(default=-1, compare=False, kw_only=True)
    timestamp: int = field(default=-1, compare=False, kw_only=True)  # of the record, in ms; -1: unknown
    author: str | None = field(default=None, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """``status-task-«c»-«t»``, otherwise like ConnectorStatus. ``failures`` is the number of consecutive applications in which the task has
    FAILED, not counting the running application. A restart or a change of the config resets this number."""

    connector: str
    task: int
    state: State
    worker_id: str = ""
    trace: str | None = None
    generation: int = 0
    version: str | None = None
    claim: Claim | None = None
    failures: int = field(default=0, kw_only=True)
    offset: int = field(default=-1, compare=False, kw_only=True)
    timestamp: int = field(default=-1, compare=False, kw_only=True)
    author: str | None = field(default=None, compare=False, kw_only=True)

    @property
    def id(self) -> ConnectorTaskId:
        return ConnectorTaskId(self.connector, self.task)


@dataclass(frozen=True, slots=True)
class FailedStatuses:
    """The FAILED statuses of a connector and its tasks that one process writes, under that process's claim. Traces must not contain
    secrets. Long traces are shortened here."""

    connector: str
    worker_id: str
    version: str | None
    claim: Claim | None

    def of_connector(self, trace: str) -> ConnectorStatus:
        trace = shorten(trace)
        return ConnectorStatus(self.connector, State.FAILED, self.worker_id, trace=trace, version=self.version, claim=self.claim)

    def beside_running(self) -> ConnectorStatus:
        """The connector's own status if only its tasks FAILED."""
        return ConnectorStatus(self.connector, State.RUNNING, self.worker_id, version=self.version, claim=self.claim)

    def of_task(self, task: int, trace: str, *, failures: int = 0) -> TaskStatus:
        """``failures`` is as in TaskStatus. With 0, the failure does not delay later runs. This is for failures that the check before a run
        has found."""
        trace = shorten(trace)
        return TaskStatus(
            self.connector, task, State.FAILED, self.worker_id, trace=trace, version=self.version, claim=self.claim, failures=failures
        )


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """``status-topic-«t»:connector-«c»``: the connector uses the topic. ``task`` used it first, at ``discover_timestamp`` (ms)."""

    topic: str
    connector: str
    task: int
    discover_timestamp: int
    claim: Claim | None = None
    offset: int = field(default=-1, compare=False, kw_only=True)
    timestamp: int = field(default=-1, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class TopicReset:
    """The tombstone of a TopicStatus: the connector no longer uses the topic, or its topics were reset."""

    topic: str
    connector: str
    claim: Claim | None = None
    offset: int = field(default=-1, compare=False, kw_only=True)
    timestamp: int = field(default=-1, compare=False, kw_only=True)
    author: str | None = field(default=None, compare=False, kw_only=True)


StatusRecord = ConnectorStatus | TaskStatus | TopicStatus | TopicReset
_NO_TASKS: Mapping[int, TaskStatus] = {}


class StatusState:
    """Folds status records. Each key is in one partition, so the records of a key arrive in order. Records of different keys arrive in any
    order.

    Not thread-safe. It changes in place, so take a ``copy``. ``version`` increases with every change.
    """

    def __init__(self) -> None:
        self.connectors: dict[str, ConnectorStatus] = {}
        self.topics: dict[str, dict[str, TopicStatus]] = {}
        self._own_topics: set[str] = set()  # connectors whose topics are not shared with a copy
        self.skipped = 0
        self.version = 0
        self._tasks: dict[str, dict[int, TaskStatus]] = {}  # inner dicts are replaced, never changed, because copies share them
        self._newest: dict[object, Claim] = {}

    def copy(self) -> "StatusState":
        """A copy that later records do not change."""
        copied = StatusState()
        copied.connectors, copied.topics = self.connectors.copy(), self.topics.copy()
        self._own_topics.clear()
        copied._tasks, copied._newest = self._tasks.copy(), self._newest.copy()
        copied.skipped, copied.version = self.skipped, self.version
        return copied

    @property
    def tasks(self) -> dict[ConnectorTaskId, TaskStatus]:
        """The statuses of all tasks."""
        return {status.id: status for tasks in self._tasks.values() for status in tasks.values()}

    def names(self) -> set[str]:
        """The connectors with a status of their own, of a task, or of a topic."""
        return {*self.connectors, *self._tasks, *self.topics}

    def connector(self, connector: str) -> ConnectorStatus | None:
        """The connector's status, or None."""
        return self.connectors.get(connector)

    def task(self, connector: str, task: int) -> TaskStatus | None:
        """The task's status, or None."""
        return self._tasks.get(connector, _NO_TASKS).get(task)

    def tasks_of(self, connector: str) -> list[TaskStatus]:
        """The statuses of the connector's tasks, by task number."""
        return list(self.task_map(connector).values())

    def task_map(self, connector: str) -> Mapping[int, TaskStatus]:
        """The statuses of the connector's tasks by number, in order. The same object is returned until one of the statuses changes."""
        return self._tasks.get(connector, _NO_TASKS)

    def topics_of(self, connector: str) -> list[str]:
        """The names of the topics that the connector has used since they were last reset, in alphabetical order."""
        return sorted(self.topics.get(connector, {}))

    def apply(self, record: StatusRecord | Unreadable) -> str:
        """Applies one record. Returns the reason why it was skipped, or an empty text. Never raises."""
        reason = record.reason if isinstance(record, Unreadable) else self._superseded(record) or self._applied(record)
        self.skipped += bool(reason)
        self.version += not reason
        return reason

    def _superseded(self, record: StatusRecord) -> str:
        """The reason to skip the status of a fenced run, whose claim is older than the newest claim of the same key. Empty: apply the
        status.

        The newest claim is remembered even if its status was replaced or removed. Claims are compared per key, because a run rewrites only
        the statuses of the tasks that it hosts. The other statuses keep their older claim.
        """
        claim, key = record.claim, _key(record)
        if claim is None:
            return ""
        newest = self._newest.get(key)
        if newest is not None and newest.topic_id == claim.topic_id and claim < newest:
            return f"status of {key} by claim {claim}, which {newest} has taken over"
        self._newest[key] = claim
        return ""

    def _applied(self, record: StatusRecord) -> str:
        match record:
            case ConnectorStatus(state=State.DESTROYED):
                self._remove(record)
            case ConnectorStatus():
                self.connectors[record.connector] = record
            case TaskStatus(state=State.DESTROYED):
                self._put_tasks(record.connector, {n: task for n, task in self.task_map(record.connector).items() if n != record.task})
            case TaskStatus():
                return self._task(record)
            case TopicStatus():
                self._topics_to_change(record.connector)[record.topic] = record
            case TopicReset():
                self._reset(record)
        return ""

    def _remove(self, tombstone: ConnectorStatus) -> None:
        """Removes the connector and its tasks. Statuses that were written after the tombstone stay, because they may be read before the
        tombstone."""
        self.connectors.pop(tombstone.connector, None)
        tasks = self.task_map(tombstone.connector)
        later = {n: task for n, task in tasks.items() if tombstone.timestamp >= 0 and task.timestamp > tombstone.timestamp}
        self._put_tasks(tombstone.connector, later)

    def _task(self, status: TaskStatus) -> str:
        """Applies a task's status. A real worker may report that it gave up a task after another worker has started the task. For statuses
        of ours, the claims decide."""
        known = self.task(status.connector, status.task)
        is_running = known is not None and known.state is State.RUNNING and known.generation >= status.generation
        if is_running and status.state is State.UNASSIGNED and status.claim is None:
            return f"late UNASSIGNED of task {status.id}, which is RUNNING"
        self._put_tasks(status.connector, {**self.task_map(status.connector), status.task: status})
        return ""

    def _put_tasks(self, connector: str, tasks: dict[int, TaskStatus]) -> None:
        if tasks:
            self._tasks[connector] = dict(sorted(tasks.items()))
        else:
            self._tasks.pop(connector, None)

    def _reset(self, tombstone: TopicReset) -> None:
        topics = self._topics_to_change(tombstone.connector)
        topics.pop(tombstone.topic, None)
        if not topics:
            del self.topics[tombstone.connector]

    def _topics_to_change(self, connector: str) -> dict[str, TopicStatus]:
        """The connector's topics, copied once if a copy of this state shares them. There may be a hundred thousand topics."""
        if connector not in self._own_topics or connector not in self.topics:
            self.topics[connector] = dict(self.topics.get(connector, ()))
            self._own_topics.add(connector)
        return self.topics[connector]


def _key(record: StatusRecord) -> object:
    match record:
        case ConnectorStatus():
            return f"connector {record.connector}"
        case TaskStatus():
            return f"task {record.id}"
        case _:
            return f"topic {record.topic} of connector {record.connector}"
