"""One run of a connector as two values: the input of a Spark application, and its report.

The run's directory has mode 0700. ``run.json`` (JSON) is written before spark-submit, with mode 0600, because it contains secrets. The
application writes ``driver.pid`` and ``claim.json`` when it starts. ``result.json`` (JSON) is written last, by rename.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from airflow_provider_connect.errors import last_line
from airflow_provider_connect.runtime.model.states import State

RUN_FILE, PID_FILE, CLAIM_FILE, RESULT_FILE = "run.json", "driver.pid", "claim.json", "result.json"
PROGRESS_FILE = "progress.json"
"""The result so far. It is written after each task, in case the driver dies before the last task ends."""
FAILURES_FILE = "failures.json"
"""The traces of what is FAILED now in a run that stays."""
LEFT_FILE = "left"
"""The application has left Airflow's task, and hands its connectors over to the next run. It removes the run's directory."""
KEEPER_FILE = "keeper.pid"
"""The process id of spark-submit's parent, while that process ends with Airflow's task (``runtime.spark.keeper``)."""
UNREPORTED = "The application ended and did not report this task."


@dataclass(frozen=True, slots=True, order=True)
class Claim:
    """The right to write for a connector: the offset of a ``tasks-fencing-`` record on the config topic. The larger claim is newer.

    Claims with different topic ids cannot be compared: the config topic was recreated, so only a claim on the current topic is valid.
    """

    offset: int
    topic_id: str = field(compare=False)

    def __str__(self) -> str:
        return f"{self.topic_id}:{self.offset}"

    @classmethod
    def parse(cls, text: str) -> "Claim":
        """The claim from its text. Raises ValueError for any other text."""
        topic_id, _, offset = text.rpartition(":")
        return cls(int(offset), topic_id)


@dataclass(frozen=True, slots=True)
class RunSpec:
    """The input of an application. ``tasks`` are the ids to run. None: all tasks of the connector.

    ``claim`` is set if an earlier step of the run made the claim and planned the tasks (``tasks.per.application``). None: the application
    does both. ``define`` is the raw config of a connector that a DAG file defines. It is written to the config topic if the topic has no
    config of that connector. ``secrets`` maps variables such as ``${airflow:shop:password}``, which only Airflow can resolve, to their
    values. ``known`` is a ConfigSnapshot as JSON: the application continues to read the config topic from there. ``stays_seconds`` is the
    time for which the run lasts. It then keeps reading new data. None: the run ends when it has read everything. ``application`` is the
    shared application whose connectors the run hosts; ``connector`` is then empty. ``idle_seconds``: the run reads on until there was no
    new record for that long, or until ``longest_seconds`` are over. ``may_leave``: a run that stays may live on after Airflow's task.
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
    stays_seconds: float | None = None
    application: str | None = None
    idle_seconds: float | None = None
    longest_seconds: float | None = None
    may_leave: bool = True

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "RunSpec":
        values: dict[str, Any] = json.loads(text)
        if values.get("claim") is not None:
            values["claim"] = Claim(**values["claim"])
        return cls(**values)


class RunState(StrEnum):
    """The way in which an application ended."""

    DONE = "done"  # every task reached the end of its data
    STOPPED = "stopped"  # ended early: paused, stopped, deleted, killed gracefully, or replaced by a newer claim
    SKIPPED = "skipped"  # did nothing: the connector is deleted or not STARTED, or a newer claim came first
    FAILED = "failed"  # the connector or at least one task FAILED


@dataclass(slots=True)
class TaskResult:
    """The result of one task in one run. ``ranges`` maps topic and partition to the first and the next offset of written (source) or
    delivered (sink) records. ``trace`` is None unless the task FAILED. ``stopped_by`` is None if the task reached the end of its data. For
    lineage, ``topics`` maps used topics to the fields of their values (``model.lineage``), and ``datasets`` are the datasets outside of
    Kafka, each ``{"namespace", "name", "fields"}``. ``failed`` is the number of records skipped because errors are tolerated. ``error`` is
    the reason of the last failure, without secrets. ``is_logged``: the batch log has the ranges of this task, whose run stays, so the API
    server emits its asset events."""

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
    is_logged: bool = False


@dataclass(slots=True)
class RunResult:
    """The report of an application."""

    connector: str
    state: RunState
    claim: Claim | None = None
    tasks: list[TaskResult] = field(default_factory=list)
    error: str | None = None
    retriable: bool = False
    versions: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of_tasks(cls, connector: str, claim: Claim, tasks: Sequence[TaskResult], versions: Mapping[str, str]) -> "RunResult":
        """The result of a run whose tasks have ended."""
        failed = [task for task in tasks if task.state == State.FAILED]
        state = RunState.FAILED if failed else RunState.STOPPED if any(task.stopped_by for task in tasks) else RunState.DONE
        retriable = any(task.retriable for task in failed)
        error = f"task {failed[0].task}: {last_line(failed[0].trace or '')}" if failed else None
        return cls(connector, state, claim, list(tasks), error, retriable, dict(versions))

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
