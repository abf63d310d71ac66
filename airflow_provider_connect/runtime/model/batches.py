"""An entry of the batch log: the deliveries of a task in one run. Used for history, lineage and cost, and to restore lost group offsets."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from airflow_provider_connect.data.records import Distance
from airflow_provider_connect.runtime.model.ids import ConnectorTaskId
from airflow_provider_connect.runtime.model.run import Claim


class ConnectorType(StrEnum):
    """The direction in which a connector moves records."""

    SOURCE = "source"
    SINK = "sink"


class Stay(StrEnum):
    """The state of a task whose run stays, as of its entry."""

    OPEN = "open"  # the task continues, or was killed and may have delivered more; a sink also if it has ended
    OVER = "over"  # the task has ended, and the entry has everything that it has delivered


ALTERED, ALTERING = "altered", ""
MOST_DATASETS = 100
"""The maximum number of datasets in an entry. Further datasets are left out."""
MOST_RANGES = 5_000
"""The maximum number of partitions in the ``ranges`` of a source's entry. Of more, the entry has none: a record has at most 1 MiB."""


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """One entry, keyed by its task. A later entry replaces it. ``ranges`` maps topic and partition to the first offset of the run and the
    offset after the run's last. ``next`` contains all positions that the task knows so far, including positions from earlier runs.

    ``topic_ids`` are the known ids of the topics in ``next``. The positions are invalid in a topic with another id. A source's entry has
    the id of the topic with its offsets, once it has committed some. ``distance`` is the distance from the task's position to the end that
    its run knew. None: unknown. ``failed`` is the number of records that were skipped because errors are tolerated. ``error`` is the reason
    of the last failure, without secrets. ``destination`` is the exactly-once destination that also committed these positions. ``stay`` is
    None for a run that ends when it has read everything. ``datasets`` are the namespaces and names of the datasets outside of Kafka that
    the task has read or written.

    An entry with a sink's offsets that were altered over REST belongs to no run. The entry's ``run`` is ``altered``, or empty during the
    change. If the process dies, ``run`` stays empty, and the next run finishes the change."""

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
    stay: Stay | None = None
    datasets: Sequence[tuple[str, str]] = ()
    offset: int = field(default=-1, compare=False)
    timestamp: int = field(default=-1, compare=False)  # of the record, in ms; -1: unknown


class Counted(Protocol):
    """The counters of a task in one run."""

    @property
    def records(self) -> int: ...

    @property
    def failed(self) -> int: ...

    @property
    def error(self) -> str: ...


def refusals(tasks: Iterable[Counted]) -> str | None:
    """The warning about a run that succeeded because errors are tolerated, although its ``tasks`` left out records. None: they left out
    none."""
    counted = list(tasks)
    failed, delivered = sum(each.failed for each in counted), sum(each.records for each in counted)
    if not failed:
        return None
    last = next((f", the last one by {each.error}" for each in reversed(counted) if each.error), "")
    if not delivered:
        return f"The last run delivered nothing: {failed} records failed and were left out (errors.tolerance=all){last}"
    return f"The last run left out {failed} of {delivered + failed} records, because they failed (errors.tolerance=all){last}"


@dataclass(frozen=True, slots=True)
class BatchReset:
    """The tombstone of an entry. The task's offsets were altered or reset, which invalidates its positions in the batch log."""

    task: ConnectorTaskId
    offset: int = field(default=-1, compare=False)
