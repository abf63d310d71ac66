"""What the page in Airflow's UI is shown beside the answers of Kafka Connect's API: rows of its list, runs, lags, and dead letters.

Fields are as in JSON.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_provider_connect.data.records import Distance
from airflow_provider_connect.runtime.model.backfill_request import Backfill
from airflow_provider_connect.runtime.model.ids import dag_id_for
from airflow_provider_connect.runtime.model.replays import Replay
from airflow_provider_connect.runtime.model.view_json import named
from airflow_provider_connect.runtime.model.views import ConnectorInfo, ConnectorStatusView

Distances = Mapping[str, Distance]
"""By connector: how far it is from the end of what it reads."""

_MOST_OF_A_TRACE: Final = 300
_IN_FRONT: Final = "Tolerance exceeded in error handler: "
_CLASS = re.compile(r"(?:[\w$]+\.)*[A-Z][\w$]*")


@dataclass(frozen=True, slots=True)
class RunView:
    """What one run has delivered, all its tasks together; ``seconds`` and ``cpu_seconds`` are sums over them. Times in ms since 1970."""

    run: str
    tasks: int
    records: int
    bytes: int
    seconds: float
    cpu_seconds: float
    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class AttemptView:
    """An attempt of one of Airflow's tasks in a run of a connector: the ``number``-th of ``most``. ``state`` is Airflow's; None: it has not
    been scheduled. ``map_index`` is -1 and ``label`` None where the run has one application. ``next_ms``, since 1970: when the next
    attempt begins; None: not known, or none is planned."""

    run: str
    task: str
    map_index: int
    label: str | None
    state: str | None
    number: int
    most: int
    next_ms: int | None


@dataclass(frozen=True, slots=True)
class PlanView:
    """What Airflow has planned for a connector's DAG. ``next_run_ms``, since 1970, may have passed; None: no run will begin by itself.
    ``attempt`` is of a run that has not ended. ``schedule`` is in words, such as ``Every minute (* * * * *)``."""

    next_run_ms: int | None
    owner: str | None
    tags: Sequence[str]
    attempt: AttemptView | None = None
    schedule: str | None = None


@dataclass(frozen=True, slots=True)
class ConnectorRow:
    """One connector of the list. ``state`` None: it has no status yet. ``tasks`` counts tasks by state. ``failure`` is the first line of a
    trace, ``note`` what the source lacks, such as its file. ``last_run`` is the last application that delivered something, as far as that
    is known. ``lag``: records between a sink's positions and the ends of its topics; None: not known, or a source. ``left``, of a sink the
    same, is how many of ``left_unit`` a source had before the end that its last run had in sight; None: not known. ``hours``: records by
    hour, the last one the present hour; empty: none, or not known. ``plan`` None: Airflow has no DAG of it, or, where ``has_dag`` is None,
    it is not known whether it has."""

    name: str
    dag_id: str
    type: str
    class_name: str
    version: str | None
    state: str | None
    tasks: Mapping[str, int]
    failure: str | None
    may_change: bool
    last_run: RunView | None
    lag: int | None = None
    hours: Sequence[int] = ()
    plan: PlanView | None = None
    has_dag: bool | None = None
    note: str | None = None
    left: int | None = None
    left_unit: str | None = None


@dataclass(frozen=True, slots=True)
class ConnectorRows:
    """The connectors that a user may read; ``may_create``: connectors of some names. ``may_administer``: what concerns
    all connectors, such as log levels."""

    connectors: Sequence[ConnectorRow]
    may_create: bool
    may_administer: bool = False


@dataclass(frozen=True, slots=True)
class ProgressView:
    """What the applications that run now have delivered since they began; ``rate`` in records a second. ``left``: how many of ``left_unit``
    lie before the end, for a sink records before the ends of its topics; ``seconds_left`` is how long they take at this rate. None: not
    known."""

    records: int | None
    bytes: int | None
    rate: float | None
    left: int | None
    seconds_left: float | None
    left_unit: str | None = None


@dataclass(frozen=True, slots=True)
class FailedRun:
    """A run that Airflow has marked failed, and when, in ms since 1970."""

    run: str
    ended_ms: int


@dataclass(frozen=True, slots=True)
class ConnectorDetail:
    """One connector with its runs, the newest first. ``target`` is the state that users have asked for, STARTED, PAUSED or STOPPED, which
    the status follows in time. ``defined_in``: the DAG file that has its config; None: REST may change it. ``attempts`` are those of the
    newest run. ``progress`` None: nothing of it runs, or what runs is not known yet. ``dag_config`` are the ``airflow.*`` keys of its
    config, which Connect's answers do not have, secrets hidden. ``failed_runs``: the newest first."""

    row: ConnectorRow
    target: str
    may_delete: bool
    defined_in: str | None
    runs: Sequence[RunView]
    attempts: Sequence[AttemptView] = ()
    progress: ProgressView | None = None
    dag_config: Mapping[str, str] = field(default_factory=dict)
    failed_runs: Sequence[FailedRun] = ()


@dataclass(frozen=True, slots=True)
class ConnectorClass:
    """One version of a connector class from which users may make a connector. ``summary`` is its author's; None: not known."""

    class_name: str = field(metadata=named("class"))
    type: str
    version: str
    summary: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """How far a sink is in one partition. ``position`` None: it has committed nothing there, and ``lag`` counts from the beginning."""

    topic: str
    partition: int
    position: int | None
    end: int
    lag: int


@dataclass(frozen=True, slots=True)
class ConnectorLag:
    """The partitions that a sink reads, those furthest behind where they are too many; ``left_out`` counts the others. ``lag`` is the sum
    over all."""

    partitions: Sequence[PartitionLag]
    lag: int
    left_out: int


LAG_SPANS: Final = {1: 60, 24: 300, 168: 2400}
"""The spans for which lags are shown, in hours, with the seconds of one point: 60 to 288 points each."""


@dataclass(frozen=True, slots=True)
class LagHistory:
    """How far a connector was from the end of what it reads, a sink from the ends of its topics: the largest distance in each span of
    ``step_ms`` from ``from_ms`` on; None: not measured. Empty ``distances``: no history is kept here. ``unit`` is the newest one, and
    distances in others are left out; None: nothing was measured."""

    from_ms: int
    step_ms: int
    unit: str | None = None
    distances: Sequence[int | None] = ()


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The newest records of a sink's dead letter queue, the newest first, each as ``herder.dead_letters.row_of`` has it, with
    ``is_whole``, whether key and value are shown as they are, and ``is_replayed``. ``topic`` None:
    the connector has no queue. ``has_headers``: its records name the connector, without which none are shown. Not ``is_whole``: the time
    was over before all was read. ``left_out``: older ones of those that were asked for, for which the answer had no room."""

    topic: str | None
    has_headers: bool
    records: Sequence[Mapping[str, Any]]
    is_whole: bool
    left_out: int


@dataclass(frozen=True, slots=True)
class ReplayView:
    """The last replay of a sink's dead-letter records; None: there was none. ``connector`` replays them, its DAG is ``dag_id``. ``run`` is
    the newest run of that DAG; None: not known, or the user may not read that connector. ``may_replay``: the user may request one."""

    replay: Replay | None
    connector: str
    dag_id: str
    run: str | None
    may_replay: bool


@dataclass(frozen=True, slots=True)
class BackfillRow:
    """A backfill with its DAG. ``last_run`` is the last application that delivered something; None: none has, or that is not known."""

    backfill: Backfill
    dag_id: str
    may_delete: bool
    last_run: RunView | None


@dataclass(frozen=True, slots=True)
class BackfillRows:
    """A connector's backfills that a user may read, the newest first. ``may_create``: the user may create one. ``of``: the connector that
    this one is a backfill of itself, which has none; None: it is no backfill."""

    backfills: Sequence[BackfillRow]
    may_create: bool
    of: str | None


def row_of(
    info: ConnectorInfo,
    status: ConnectorStatusView | None,
    *,
    may_change: bool,
    last_run: RunView | None,
    distance: Distance | None = None,
    hours: Sequence[int] = (),
    planned: Mapping[str, PlanView] | None = None,
) -> ConnectorRow:
    """The connector as a row of the list. Nothing of its config but the class is in it. ``planned`` is by DAG; None: not known."""
    tasks, dag_id = status.tasks if status else (), dag_id_for(info.name)
    traces = [status.connector.trace if status else None, *(task.trace for task in tasks)]
    first = next((_reason(trace) for trace in traces if trace and trace.strip()), None)
    return ConnectorRow(
        name=info.name,
        dag_id=dag_id,
        type=info.type,
        class_name=info.config.get("connector.class", ""),
        version=status.connector.version if status else None,
        state=status.connector.state if status else None,
        tasks=dict(Counter(task.state for task in tasks)),
        failure=first[:_MOST_OF_A_TRACE] if first else None,
        may_change=may_change,
        last_run=last_run,
        lag=distance.left if distance is not None and info.type == "sink" else None,
        left=None if distance is None else distance.left,
        left_unit=None if distance is None else distance.unit,
        hours=hours,
        plan=planned.get(dag_id) if planned else None,
        has_dag=None if planned is None else dag_id in planned,
        note=status.note if status else None,
    )


def _reason(trace: str) -> str:
    """The message of the last cause, without its class; what has no message is called by its class."""
    lines = trace.strip().splitlines()
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    line = causes[-1] if causes else lines[0]
    name, _, message = line.partition(": ")
    return message.removeprefix(_IN_FRONT) if message and _CLASS.fullmatch(name) else line
