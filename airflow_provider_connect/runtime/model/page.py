"""The responses for the page in Airflow's UI, in addition to those of Kafka Connect's API: rows of the page's list, runs, lags, dead-letter
records.

Fields are named as in JSON.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_provider_connect.data.records import Distance
from airflow_provider_connect.runtime.model.backfill_request import Backfill
from airflow_provider_connect.runtime.model.ids import dag_id_for
from airflow_provider_connect.runtime.model.replays import Replay
from airflow_provider_connect.runtime.model.view_json import named
from airflow_provider_connect.runtime.model.views import ConnectorInfo, ConnectorStatusView, Health

Distances = Mapping[str, Distance]
"""For each connector, its distance to the end of its data."""


@dataclass(frozen=True, slots=True)
class RunView:
    """The deliveries of one run, summed over its tasks. ``seconds`` and ``cpu_seconds`` are also sums. Times are in ms since 1970.
    ``failed`` records were left out, because errors are tolerated."""

    run: str
    tasks: int
    records: int
    bytes: int
    seconds: float
    cpu_seconds: float
    first_ms: int
    last_ms: int
    failed: int = 0


@dataclass(frozen=True, slots=True)
class AttemptView:
    """An attempt of one of Airflow's tasks in a run of a connector: attempt ``number`` of at most ``most``. ``state`` is Airflow's state.
    None: not scheduled yet. If the run has one application, ``map_index`` is -1 and ``label`` is None. ``next_ms`` is the start of the next
    attempt, since 1970. None: unknown, or not planned."""

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
    """Airflow's plan for a connector's DAG. ``next_run_ms``, since 1970, may be in the past. None: no run is scheduled. ``attempt`` belongs
    to a run that has not ended. ``schedule`` is in words, such as ``Every minute (* * * * *)``. ``is_continuous``: its runs stay, and the
    next run begins after the end of the current one, so it has no ``next_run_ms`` meanwhile."""

    next_run_ms: int | None
    owner: str | None
    tags: Sequence[str]
    attempt: AttemptView | None = None
    schedule: str | None = None
    is_continuous: bool = False


@dataclass(frozen=True, slots=True)
class ConnectorRow:
    """One connector of the list. ``state`` None: no status yet. ``tasks`` counts tasks by state. ``health``: see ``health.health_of``.
    ``last_run`` is the last known application that delivered something. ``lag`` is the number of records between a sink's positions and
    the ends of its topics. None: unknown, or a source. For a sink, ``left`` is the same. For a source, it is the number of
    ``left_unit`` that remained before the end that the last run knew. None: unknown. ``hours`` has records by hour, ending with the
    current hour. Empty: no records, or unknown. ``plan`` None: Airflow has no DAG of the connector. ``has_dag`` None: it is unknown
    whether Airflow has one."""

    name: str
    dag_id: str
    type: str
    class_name: str
    version: str | None
    state: str | None
    tasks: Mapping[str, int]
    may_change: bool
    last_run: RunView | None
    lag: int | None = None
    hours: Sequence[int] = ()
    plan: PlanView | None = None
    has_dag: bool | None = None
    left: int | None = None
    left_unit: str | None = None
    health: Health | None = None


@dataclass(frozen=True, slots=True)
class ConnectorRows:
    """A part of the connectors that a user may read. ``may_create``: the user may create connectors with some names. ``may_administer``:
    the user may change settings of all connectors, such as log levels. ``may_read_all``: the user may read every connector, so none is
    hidden. ``matching`` connectors fit the request's filters, and ``connectors`` are those from ``offset`` on. There are ``total``
    connectors, of which the user may change ``changeable``. ``states`` counts them by state."""

    connectors: Sequence[ConnectorRow]
    may_create: bool
    may_administer: bool = False
    may_read_all: bool = False
    offset: int = 0
    matching: int = 0
    total: int = 0
    changeable: int = 0
    states: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NamedConnector:
    """A connector that the user may change. ``matches``: it fits the request's filters."""

    name: str
    state: str | None
    matches: bool


@dataclass(frozen=True, slots=True)
class ConnectorNames:
    """The connectors that a user may change."""

    connectors: Sequence[NamedConnector]


@dataclass(frozen=True, slots=True)
class ProgressView:
    """The deliveries of the running applications since their start. ``rate`` is in records per second. ``left`` is the number of
    ``left_unit`` that remain. For a sink, these are the records before the ends of its topics. ``seconds_left`` is the time for the rest at
    this rate. ``failed`` is the number of records that failed and were left out. None: unknown."""

    records: int | None
    bytes: int | None
    rate: float | None
    left: int | None
    seconds_left: float | None
    left_unit: str | None = None
    failed: int | None = None


@dataclass(frozen=True, slots=True)
class FailedRun:
    """A run that Airflow marked as failed, and its end in ms since 1970."""

    run: str
    ended_ms: int


@dataclass(frozen=True, slots=True)
class DatasetView:
    """A dataset under OpenLineage's names, such as ``postgres://db:5432`` and ``shop.public.orders``."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class ConnectorDetail:
    """One connector with its runs, newest first. ``target`` is the state that users requested: STARTED, PAUSED or STOPPED. The status
    changes later. ``defined_in`` is the DAG file with the connector's config. None: REST may change the config. ``attempts`` are the
    attempts of the newest run. ``progress`` None: no application is running, or its progress is not known yet. ``dag_config`` has the
    ``airflow.*`` keys of the config, with secrets hidden. Connect's responses do not contain these keys. ``failed_runs`` are sorted newest
    first. ``datasets`` are what the last run has read or written outside of Kafka. Empty: unknown."""

    row: ConnectorRow
    target: str
    may_delete: bool
    defined_in: str | None
    runs: Sequence[RunView]
    attempts: Sequence[AttemptView] = ()
    progress: ProgressView | None = None
    dag_config: Mapping[str, str] = field(default_factory=dict)
    failed_runs: Sequence[FailedRun] = ()
    datasets: Sequence[DatasetView] = ()


@dataclass(frozen=True, slots=True)
class ConnectorClass:
    """One version of a connector class of which users may create connectors. ``summary`` is by the author of the class. None: unknown."""

    class_name: str = field(metadata=named("class"))
    type: str
    version: str
    summary: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """The lag of a sink in one partition. ``position`` None: there is no committed offset, and ``lag`` counts from the beginning.
    ``lag`` None: the committed offset is beyond the end of the partition."""

    topic: str
    partition: int
    position: int | None
    end: int
    lag: int | None


@dataclass(frozen=True, slots=True)
class ConnectorLag:
    """The partitions that a sink reads. If there are too many, only the partitions with the largest lags are listed, and ``left_out``
    counts the others. ``lag`` is the sum over all partitions. None: the lag of a partition is unknown."""

    partitions: Sequence[PartitionLag]
    lag: int | None
    left_out: int


def total_lag(lags: Iterable[int | None]) -> int | None:
    """The sum of the lags of partitions. None: one of them is unknown."""
    known = list(lags)
    return None if None in known else sum(lag for lag in known if lag is not None)


LAG_SPANS: Final = {1: 60, 24: 300, 168: 2400}
"""The time spans of a lag history in hours, each with the seconds of one point. A history has 60 to 288 points."""


@dataclass(frozen=True, slots=True)
class LagHistory:
    """A connector's distances to the end of its data. For a sink, these are the ends of its topics. ``distances`` has the largest distance
    in each span of ``step_ms`` from ``from_ms`` on. None: not measured. Empty: no history is stored here. ``unit`` is the newest unit.
    Distances in other units are left out. ``unit`` None: nothing was measured."""

    from_ms: int
    step_ms: int
    unit: str | None = None
    distances: Sequence[int | None] = ()


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The newest records of a sink's dead letter queue, newest first. Each record is in the form of ``herder.dead_letters.row_of``, with
    two flags: ``is_whole`` (key and value are complete) and ``is_replayed``. ``topic`` None: the connector has no queue. ``has_headers``:
    the queue's records name the connector. Without headers, no records are shown. ``is_whole`` false: the search timed out. ``left_out`` is
    the number of older requested records that did not fit into the response."""

    topic: str | None
    has_headers: bool
    records: Sequence[Mapping[str, Any]]
    is_whole: bool
    left_out: int


@dataclass(frozen=True, slots=True)
class ReplayView:
    """The last replay of a sink's dead-letter records, or None. ``connector`` is the connector that replays the records, and ``dag_id`` is
    its DAG. ``run`` is the newest run of that DAG. None: unknown, or the user may not read that connector. ``may_replay``: the user may
    request a replay."""

    replay: Replay | None
    connector: str
    dag_id: str
    run: str | None
    may_replay: bool


@dataclass(frozen=True, slots=True)
class BackfillRow:
    """A backfill with its DAG. ``last_run`` is the last application that delivered something. None: there is no such run, or it is
    unknown."""

    backfill: Backfill
    dag_id: str
    may_delete: bool
    last_run: RunView | None


@dataclass(frozen=True, slots=True)
class BackfillRows:
    """A connector's backfills that a user may read, newest first. ``may_create``: the user may create a backfill. ``of`` is set if this
    connector is itself a backfill: the connector whose data it delivers. Otherwise None."""

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
    health: Health | None = None,
) -> ConnectorRow:
    """The connector as a row of the list. The row contains nothing of the config except the class. ``planned`` is by DAG. None: unknown."""
    tasks, dag_id = status.tasks if status else (), dag_id_for(info.name)
    return ConnectorRow(
        name=info.name,
        dag_id=dag_id,
        type=info.type,
        class_name=info.config.get("connector.class", ""),
        version=status.connector.version if status else None,
        state=status.connector.state if status else None,
        tasks=dict(Counter(task.state for task in tasks)),
        may_change=may_change,
        last_run=last_run,
        lag=distance.left if distance is not None and info.type == "sink" else None,
        left=None if distance is None else distance.left,
        left_unit=None if distance is None else distance.unit,
        hours=hours,
        plan=planned.get(dag_id) if planned else None,
        has_dag=None if planned is None else dag_id in planned,
        health=health,
    )
