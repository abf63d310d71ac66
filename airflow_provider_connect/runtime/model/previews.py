"""What a preview found: a dry run of a connector that reads the next records and commits nothing. Values that travel as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from airflow_provider_connect.runtime.model.view_json import OMITTED

Fields = Mapping[str, str]
"""What records look like: a type by path. ``$`` is the whole value, ``a.b`` a field in a field, ``a[]`` the elements of an array,
``a{}`` the values of a map. A type that ends with ``?`` may be missing or null."""


@dataclass(frozen=True, slots=True)
class PreviewRequest:
    """``config`` is raw. ``version``: a version or range in place of the config's own; None: what a run would take. ``seconds`` is the time
    for reading."""

    connector: str
    config: Mapping[str, str]
    records: int
    seconds: float
    version: str | None = None


class PreviewEnd(StrEnum):
    """Why a task read no further."""

    RECORDS = "records"  # it has read what was asked for
    END = "end"  # there is nothing more in its source
    IDLE = "idle"  # nothing came for a while
    TIME = "time"  # the time for the preview was over
    NOT_ASKED = "not_asked"  # the tasks before it have read all records of the preview; it was not started


@dataclass(frozen=True, slots=True)
class PreviewedTask:
    """One planned task. ``config`` is as on the config topic, secrets hidden; ``partitions`` are those of the source that it read from, or
    the sink's topic partitions with the offset at which it would go on."""

    task: int
    config: Mapping[str, str]
    records: int
    end: PreviewEnd
    partitions: Sequence[Mapping[str, object]] = ()


@dataclass(frozen=True, slots=True)
class PreviewedTopic:
    """What goes to a topic, or comes from it: ``bytes`` of keys and values, ``digests`` of each record in order."""

    topic: str
    records: int
    bytes: int
    key: Fields
    value: Fields
    digests: Sequence[str] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class PreviewedRecord:
    """One record as far as it is shown. ``offset`` None: it is not on Kafka yet. ``source_offset`` None: the record is of a sink, or its
    source cannot resume behind it; of a replay of dead-letter records it is the partition and the offset in the queue. A key, a value or a
    header of bytes is text where they are UTF-8, else ``0x`` and hexadecimal. Other values that JSON has no word for are text;
    ``is_cut``: something of it was too long."""

    task: int
    topic: str
    partition: int | None
    offset: int | None
    timestamp: int | None
    key: Any  # whatever JSON can hold
    value: Any
    headers: Sequence[Mapping[str, object]] = ()
    is_cut: bool = False
    source_offset: Any = None  # an object, or the beginning of its text where it is too long


class StepOutcome(StrEnum):
    """What became of a record in one transformation."""

    APPLIED = "applied"
    SKIPPED = "skipped"  # its predicate has chosen other records; the record goes on as it was
    DROPPED = "dropped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PreviewedStep:
    """One transformation of one record. ``predicate`` is the alias of its predicate, with ``not`` before it where it is negated; None: it
    applies to all records. ``records`` are those that left it, more than one where it splits; none where it was skipped, or all are dropped
    or failed. ``error``: why one has failed, or cannot be shown."""

    alias: str
    class_name: str
    outcome: StepOutcome
    predicate: str | None = None
    records: Sequence[PreviewedRecord] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True)
class PreviewedSteps:
    """A record as it was read, and each of ``transforms`` that it met, in their order; the last one may have dropped it. ``is_cut``: there
    was no room for all."""

    read: PreviewedRecord
    transforms: Sequence[PreviewedStep]
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class Preview:
    """A whole preview. ``read`` counts the records that tasks gave, before transformations; ``offsets`` is what a source's offsets look
    like; ``records`` are the first ones, as many as may be shown; ``skipped`` have failed and are left out, for the first
    ``failures``. ``steps`` are those of the first few records that were read; none without transformations. ``missing``: what a run waits
    for; None: all that the config names is there."""

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
        """Raises KeyError, TypeError or ValueError for what is no preview."""
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
