"""One run of a connector as two values: what a Spark application gets, and what it reports.

Both travel as JSON files in a directory of mode 0700 that belongs to the run: ``run.json`` (written before spark-submit, mode 0600: it
holds secrets), ``driver.pid`` and ``claim.json`` (written by the application as it starts) and ``result.json`` (written last, by rename).
"""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

RUN_FILE, PID_FILE, CLAIM_FILE, RESULT_FILE = "run.json", "driver.pid", "claim.json", "result.json"
PROGRESS_FILE = "progress.json"
"""The result as it stands after each task, for the case that the driver dies before the last has ended."""
UNREPORTED = "The application ended and did not report this task."


@dataclass(frozen=True, slots=True, order=True)
class Claim:
    """The right to write for a connector: the offset of a ``tasks-fencing-`` record on the config topic. The larger is the newer.

    Claims of two topic ids cannot be compared: the config topic was created anew, and the claim on the topic that exists holds.
    """

    offset: int
    topic_id: str = field(compare=False)

    def __str__(self) -> str:
        return f"{self.topic_id}:{self.offset}"

    @classmethod
    def parse(cls, text: str) -> "Claim":
        """The claim that ``str`` wrote. Raises ValueError for anything else."""
        topic_id, _, offset = text.rpartition(":")
        return cls(int(offset), topic_id)


@dataclass(frozen=True, slots=True)
class RunSpec:
    """What an application gets. ``tasks`` None: all tasks that the connector has; otherwise these ids alone.

    ``claim`` is given when an earlier step of the run has claimed and planned (``tasks.per.application``); None: the application does both.
    ``define`` is the config of a connector that a DAG file defines, raw, written to the config topic when the topic has none.
    ``secrets`` maps variables such as ``${airflow:shop:password}``, which only Airflow can resolve, to their values. ``known`` is what was
    read of the config topic before, as JSON of a ConfigSnapshot: the application reads on from there.
    """

    connector: str
    settings: Mapping[str, str]
    run_id: str
    try_number: int = 1
    tasks: list[int] | None = None
    claim: Claim | None = None
    define: Mapping[str, str] | None = None
    secrets: Mapping[str, str] = field(default_factory=dict)
    known: str | None = None

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "RunSpec":
        values: dict[str, Any] = json.loads(text)
        if values.get("claim") is not None:
            values["claim"] = Claim(**values["claim"])
        return cls(**values)


class RunState(StrEnum):
    """How an application ended."""

    DONE = "done"  # every task came to the end of what there was
    STOPPED = "stopped"  # ended early: paused, stopped, deleted, killed gracefully, or a newer claim
    SKIPPED = "skipped"  # did nothing: the connector is not STARTED, gone, or a newer claim came first
    FAILED = "failed"  # the connector or at least one task FAILED


@dataclass(slots=True)
class TaskResult:
    """What one task did in one run. ``ranges`` maps topic and partition to first and next offset; for a source what it wrote, for a
    sink what it delivered. ``trace`` is None unless the task FAILED; ``stopped_by`` is None when it came to the end of what there was.
    For lineage: ``topics`` maps topics that were used to the fields of their values (``model.lineage``), ``datasets`` are those outside of
    Kafka, each ``{"namespace", "name", "fields"}``. ``failed``: records that were left out because errors are tolerated, the last one for
    ``error``, without secrets."""

    task: int
    state: str = "RUNNING"
    trace: str | None = None
    retriable: bool = False
    stopped_by: str | None = None
    records: int = 0
    bytes: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    ranges: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    topics: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    datasets: list[dict[str, Any]] = field(default_factory=list)
    failed: int = 0
    error: str = ""


@dataclass(slots=True)
class RunResult:
    """What an application reports."""

    connector: str
    state: RunState
    claim: Claim | None = None
    tasks: list[TaskResult] = field(default_factory=list)
    error: str | None = None
    retriable: bool = False
    versions: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "RunResult":
        values: dict[str, Any] = json.loads(text)
        values["state"] = RunState(values["state"])
        values["tasks"] = [TaskResult(**task) for task in values["tasks"]]
        if values.get("claim") is not None:
            values["claim"] = Claim(**values["claim"])
        return cls(**values)
