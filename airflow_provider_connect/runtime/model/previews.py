"""The result of a preview: a dry run of a connector that reads the next records and commits nothing. Values that are sent as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from airflow_provider_connect.runtime.model.view_json import OMITTED

Fields = Mapping[str, str]
"""The structure of records, as types by path. ``$`` is the whole value, ``a.b`` a field of a field, ``a[]`` the elements of an array,
``a{}`` the values of a map. A value whose type ends with ``?`` may be missing or null."""


@dataclass(frozen=True, slots=True)
class PreviewRequest:
    """``config`` is raw. ``version`` is a version or range that replaces the version in the config. None: the version that a run would use.
    ``seconds`` is the time limit for reading."""

    connector: str
    config: Mapping[str, str]
    records: int
    seconds: float
    version: str | None = None


class PreviewEnd(StrEnum):
    """The reason why a task stopped reading."""

    RECORDS = "records"  # the task has read the requested number
    END = "end"  # its source has no more records
    IDLE = "idle"  # no record arrived for a while
    TIME = "time"  # the time limit of the preview has passed
    NOT_ASKED = "not_asked"  # not started: earlier tasks have read all records of the preview


@dataclass(frozen=True, slots=True)
class PreviewedTask:
    """One planned task. ``config`` is as on the config topic, with secrets hidden. ``partitions`` are the source partitions that the task
    read. For a sink, they are the topic partitions with the next offset."""

    task: int
    config: Mapping[str, str]
    records: int
    end: PreviewEnd
    partitions: Sequence[Mapping[str, object]] = ()


@dataclass(frozen=True, slots=True)
class PreviewedTopic:
    """The records that are written to a topic, or read from it. ``bytes`` counts keys and values. ``digests`` has the digest of each
    record, in order."""

    topic: str
    records: int
    bytes: int
    key: Fields
    value: Fields
    digests: Sequence[str] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class PreviewedRecord:
    """One record for display. ``offset`` None: the record is not in Kafka yet. ``source_offset`` None: the record is a sink's, or the
    source cannot resume after this record. In a replay of dead-letter records, ``source_offset`` is the partition and offset in the queue.
    A key, value or header that consists of bytes is text if the bytes are UTF-8, otherwise ``0x`` and hexadecimal digits. Other values
    without a form in JSON are text. ``is_cut``: a part was too long."""

    task: int
    topic: str
    partition: int | None
    offset: int | None
    timestamp: int | None
    key: Any  # any JSON value
    value: Any
    headers: Sequence[Mapping[str, object]] = ()
    is_cut: bool = False
    source_offset: Any = None  # an object, or the beginning of its text if it is too long


class StepOutcome(StrEnum):
    """The outcome of a transformation of a record."""

    APPLIED = "applied"
    SKIPPED = "skipped"  # the predicate does not apply to the record, which passes unchanged
    DROPPED = "dropped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PreviewedStep:
    """One transformation of one record. ``predicate`` is the alias of the predicate, after ``not`` if it is negated. None: the
    transformation applies to all records. ``records`` are the results, several if the transformation splits the record. Empty if the record
    was skipped, or all results were dropped or failed. ``error`` is the reason why a record failed, or cannot be shown."""

    alias: str
    class_name: str
    outcome: StepOutcome
    predicate: str | None = None
    records: Sequence[PreviewedRecord] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True)
class PreviewedSteps:
    """A record as it was read, and its ``transforms`` in order. The last transformation may have dropped the record. ``is_cut``: some
    transformations were left out, because the preview's limits were reached."""

    read: PreviewedRecord
    transforms: Sequence[PreviewedStep]
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class Preview:
    """A complete preview. ``read`` counts the records before transformations. ``offsets`` is the structure of a source's offsets.
    ``records`` are the first records, as many as may be shown. ``skipped`` counts failed records that are left out, and ``failures`` has
    the first reasons. ``steps`` has the steps of the first few records. It is empty without transformations. ``missing`` names what a run
    waits for. None: everything that the config names exists."""

    connector: str
    type: str
    class_name: str
    versions: Mapping[str, str]
    read: int
    tasks: Sequence[PreviewedTask]
    topics: Sequence[PreviewedTopic]
    records: Sequence[PreviewedRecord]
    offsets: Fields = field(default_factory=dict)
    skipped: int = 0
    failures: Sequence[str] = ()
    seconds: float = 0.0
    steps: Sequence[PreviewedSteps] = field(default=(), metadata=OMITTED)
    missing: str | None = field(default=None, metadata=OMITTED)

    def to_json(self) -> dict[str, Any]:
        values = asdict(self)
        for name in ("steps", "missing"):
            if not values[name]:
                del values[name]
        return values

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> "Preview":
        """Raises KeyError, TypeError or ValueError for JSON of another form."""
        parts = dict(values)
        parts["tasks"] = [PreviewedTask(**{**task, "end": PreviewEnd(task["end"])}) for task in parts["tasks"]]
        parts["topics"] = [PreviewedTopic(**topic) for topic in parts["topics"]]
        parts["records"] = [PreviewedRecord(**record) for record in parts["records"]]
        if "steps" in parts:
            parts["steps"] = list(map(_steps, parts["steps"]))
        return cls(**parts)


def _steps(values: Mapping[str, Any]) -> PreviewedSteps:
    return PreviewedSteps(PreviewedRecord(**values["read"]), list(map(_step, values["transforms"])), values["is_cut"])


def _step(values: Mapping[str, Any]) -> PreviewedStep:
    records = [PreviewedRecord(**record) for record in values["records"]]
    return PreviewedStep(**{**values, "outcome": StepOutcome(values["outcome"]), "records": records})
