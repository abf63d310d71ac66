"""What a task delivered in one run: an entry of the batch log which tells history, lineage and cost, and restores lost group offsets."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from airflow_provider_connect.model.ids import ConnectorTaskId
from airflow_provider_connect.model.run import Claim


class ConnectorType(StrEnum):
    """Which way a connector moves records."""

    SOURCE = "source"
    SINK = "sink"


ALTERED, ALTERING = "altered", ""


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """One entry, kept under its task; a later one replaces it. ``ranges`` maps topic and partition to the first offset of the run and the
    one after its last; ``next`` holds every position that the task knows so far, those of earlier runs included.

    Of no run are the entries that say what a sink's offsets were altered to over REST: ``run`` is ``altered``, or empty while the change is
    under way; one that stays empty is of a process that died, and the next run finishes what it began."""

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
    offset: int = field(default=-1, compare=False)
    timestamp: int = field(default=-1, compare=False)  # of the record, in ms; -1: not known


@dataclass(frozen=True, slots=True)
class BatchReset:
    """The tombstone: what the batch log knew of the task's positions no longer holds, for its offsets were altered or reset."""

    task: ConnectorTaskId
    offset: int = field(default=-1, compare=False)
