"""What the page in Airflow's UI is shown beside the answers of Kafka Connect's API: rows of its list, and its runs.

Fields are as in JSON.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


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
class ConnectorRow:
    """One connector of the list. ``state`` None: it has no status yet. ``tasks`` counts tasks by state. ``failure`` is the first line of a
    trace. ``last_run`` is the last application that delivered something, as far as that is known."""

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


@dataclass(frozen=True, slots=True)
class ConnectorRows:
    """The connectors that a user may read; ``may_create``: connectors of some names."""

    connectors: Sequence[ConnectorRow]
    may_create: bool


@dataclass(frozen=True, slots=True)
class ConnectorDetail:
    """One connector with its runs, the newest first. ``target`` is the state that users have asked for, STARTED, PAUSED or STOPPED, which
    the status follows in time. ``defined_in``: the DAG file that has its config; None: REST may change it."""

    row: ConnectorRow
    target: str
    may_delete: bool
    defined_in: str | None
    runs: Sequence[RunView]
