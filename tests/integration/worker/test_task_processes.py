"""A task's own process, started for real: its result comes back, and its end is named."""

from __future__ import annotations

import io
import os
import pickle
import signal
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.errors import RetriableException
from airflow_provider_connect.runtime.model.run import Claim, RunResult
from airflow_provider_connect.runtime.worker.application.remote_task import run_remotely
from airflow_provider_connect.runtime.worker.application.task_processes import answer, run_in_process
from airflow_provider_connect.runtime.worker.task.stop_signal import StopServer
from airflow_provider_connect.runtime.worker.task.task_payload import TaskPayload
from tests.integration.worker.environment import RunEnvironment

_STARTS = 20


@dataclass
class EndsWhenRead:
    """Settings that call a function in the process that reads them."""

    call: Callable[[int], object]
    argument: int

    def __reduce__(self) -> tuple[Callable[[int], object], tuple[int]]:
        return self.call, (self.argument,)


def payload(settings: Any) -> TaskPayload:
    return TaskPayload("orders", 1, 2, settings, {}, {}, {}, Claim(1, "t"), "exactly_once", "run", ("127.0.0.1", 1), "token")


def test_the_result_is_that_of_the_process(environment: RunEnvironment) -> None:
    result = run_in_process(payload(environment.properties))
    assert (result.task, str(result.state)) == (1, "FAILED")
    assert "contains no connector type" in str(result.trace)


def test_the_process_answers_with_its_result(environment: RunEnvironment, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    asked = replace(payload(environment.properties), locations=[str(tmp_path)])  # without compiled code, for which it makes way
    answer(io.BytesIO(pickle.dumps(asked)), writing)
    with os.fdopen(reading) as answered:
        found = RunResult.from_json(answered.read())
    assert (found.connector, [task.task for task in found.tasks]) == ("orders", [1])
    assert "contains no connector type" in str(found.tasks[0].trace)


@pytest.mark.parametrize(
    ("settings", "how"),
    [(EndsWhenRead(os._exit, 3), "ended with exit code 3"), (EndsWhenRead(signal.raise_signal, 9), "was ended by signal 9")],
)
def test_an_end_without_a_result_is_named(settings: EndsWhenRead, how: str) -> None:
    traces: list[str] = []
    with closing(StopServer("127.0.0.1")) as server:
        result = run_remotely(run_in_process, payload(settings), server, str, traces.append)
    assert (str(result.state), result.retriable) == ("FAILED", True)
    assert traces == [result.trace] == [f"The process of task orders-1 {how}. A later try may succeed."]


def test_a_process_that_does_not_start_may_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    before = len(open_pipes())
    for _ in range(_STARTS):
        with pytest.raises(RetriableException, match="The process of task orders-1 does not start"):
            run_in_process(payload({}))
    assert len(open_pipes()) - before < _STARTS  # a few are those of other threads of this process


def open_pipes() -> set[str]:
    """The pipes of this process. Its other descriptors come and go with its threads."""
    links = set()
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # that of the listing, or one that a thread has closed
            links.add(os.readlink(f"/proc/self/fd/{descriptor}"))
    return {link for link in links if link.startswith("pipe:")}
