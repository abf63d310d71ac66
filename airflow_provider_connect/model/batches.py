"""What a task delivered in one run: an entry of the batch log, for history, lineage, cost, and the restoring of lost group offsets."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from airflow_provider_connect.model.ids import ConnectorTaskId
from airflow_provider_connect.model.run import Claim
from airflow_provider_connect.sdk.records import Distance


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
    ``distance``: how far the task was from the end that its run had in sight, None: not known.

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
    offset: int = field(default=-1, compare=False)
    timestamp: int = field(default=-1, compare=False)  # of the record, in ms; -1: not known


@dataclass(frozen=True, slots=True)
class BatchReset:
    """The tombstone: the task's positions in the batch log no longer hold, for its offsets were altered or reset."""

    task: ConnectorTaskId
    offset: int = field(default=-1, compare=False)
