"""The broker goes away in the middle of runs, for a time, and comes back; and what the runs made of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_connect.dev.kafka_server import KafkaServer
from airflow_provider_connect.runtime.model.run import RunResult, RunState
from airflow_provider_connect.runtime.worker.delivery.commit_steps import CommitStep
from tests.e2e.faults.environments import SinkEnvironment, SourceEnvironment
from tests.e2e.faults.processes import processes_with
from tests.e2e.faults.runs import Fault, Submission
from tests.waiting import wait_until

RunEnvironment = SourceEnvironment | SinkEnvironment
SOURCE_STEP = CommitStep.COMMIT_TRANSACTION
SINK_STEP = CommitStep.COMMIT_GROUP
STATUS_STEP = "airflow_provider_connect.runtime.worker.task.environment:TaskEnvironment.report"
HELD_SECONDS = 1.0
RETRIABLE_WORDS = ("for now", "A later try may succeed", "No answer from Kafka", "not acknowledged")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one run lived through the outage."""

    result: RunResult
    seconds_after: float

    def __str__(self) -> str:
        return f"{self.result.state} {self.seconds_after:.1f} s after, {self.result.error or 'no error'}"


def announced(step: str, nth: int) -> Fault:
    """No process is killed: the worker waits briefly before the ``nth`` call of ``step`` and lets the test know."""
    return Fault(step, nth=nth, signal="SIGCONT", victim="driver", linger=HELD_SECONDS)


def in_the_middle(environment: RunEnvironment) -> Fault:
    """Some of the run's commits are made and others are not."""
    return announced(SOURCE_STEP, 3) if isinstance(environment, SourceEnvironment) else announced(SINK_STEP, 2)


def live_through(server: KafkaServer, environments: Sequence[tuple[RunEnvironment, Fault]], *, seconds: float, kill: bool) -> list[Outcome]:
    """One run of each environment; when all have reached their fault's step the broker is frozen, or killed, for ``seconds``.

    Raises AssertionError if a run does not end in time, leaves a process behind, or neither ends well nor reports a retriable error.
    """
    submissions = [environment.runs.submit(fault) for environment, fault in environments]
    wait_until(lambda: all(submission.struck for submission in submissions))
    (server.kill if kill else server.pause)()
    time.sleep(seconds)
    (server.start if kill else server.resume)()
    back = time.monotonic()
    return [_outcome(submission, back) for submission in submissions]


def _outcome(submission: Submission, back: float) -> Outcome:
    result = submission.wait()
    assert result is not None, submission.output()[-4000:]
    assert processes_with(submission.directory) == []
    outcome = Outcome(result, time.monotonic() - back)
    if result.state is not RunState.DONE:
        assert result.state is RunState.FAILED, result
        assert result.retriable, result
        assert any(words in (result.error or "") for words in RETRIABLE_WORDS), result.error
    return outcome
