"""What a task delivered in one run: an entry of the batch log, for history, lineage, cost, and the restoring of lost group offsets."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from airflow_provider_connect.data.records import Distance
from airflow_provider_connect.runtime.model.ids import ConnectorTaskId
from airflow_provider_connect.runtime.model.run import Claim


class ConnectorType(StrEnum):
    """Which way a connector moves records."""

    SOURCE = "source"
    SINK = "sink"


ALTERED, ALTERING = "altered", ""


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """One entry, kept under its task; a later one replaces it. ``ranges`` maps topic and partition to the first offset of the run and the
    one after its last; ``next`` holds every position that the task knows so far, those of earlier runs included.

    ``topic_ids``: the ids of the topics in ``next``, of those that are known: in a topic with another id these positions mean nothing.
    ``distance``: how far the task was from the end that its run had in sight, None: not known. ``failed``: the records of the run that were
    left out because errors are tolerated, the last one for ``error``, which holds no secret. ``destination`` names the one that has
    committed these positions too, exactly once.

    An entry with a sink's offsets that were altered over REST is of no run: ``run`` is ``altered``, or empty while the change is under way.
    After the death of that process it stays empty, and the next run finishes the change."""

    task: ConnectorTaskId
    run: str
    claim: Claim
    type: ConnectorType
    records: int = 0
    bytes: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    ranges: Mapping[str, Mapping[int, tuple[int, int]]] = field(default_factory=dict)
    next: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    distance: Distance | None = None
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    failed: int = 0
    error: str = ""
    destination: str = ""
    offset: int = field(default=-1, compare=False)
    timestamp: int = field(default=-1, compare=False)  # of the record, in ms; -1: not known


class Counted(Protocol):
    """What a task has counted in one run."""

    @property
    def records(self) -> int: ...

    @property
    def failed(self) -> int: ...

    @property
    def error(self) -> str: ...


def nothing_delivered(tasks: Iterable[Counted]) -> str | None:
    """The warning about a run whose ``tasks`` delivered no record while some failed: errors are tolerated, so it has ended well. None: it
    has delivered some, or none has failed."""
    counted = list(tasks)
    failed = sum(each.failed for each in counted)
    if not failed or any(each.records for each in counted):
        return None
    last = next((f", the last one by {each.error}" for each in reversed(counted) if each.error), "")
    return f"The last run delivered nothing: {failed} records failed and were left out (errors.tolerance=all){last}"


@dataclass(frozen=True, slots=True)
class BatchReset:
    """The tombstone: the task's positions in the batch log no longer hold, for its offsets were altered or reset."""

    task: ConnectorTaskId
    offset: int = field(default=-1, compare=False)
