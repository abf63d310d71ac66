"""A task of a run that stays: the end of its loop, and its producers."""

from __future__ import annotations

import gc
import weakref
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.run import Claim, TaskResult
from airflow_provider_connect.runtime.worker.application import task_loop
from airflow_provider_connect.runtime.worker.application.task_body import TaskHost
from airflow_provider_connect.runtime.worker.application.task_loop import TaskLoop
from airflow_provider_connect.runtime.worker.task.stop_signal import StopEvent, StopReason
from airflow_provider_connect.runtime.worker.task.task_payload import TaskPayload
from airflow_provider_connect.runtime.worker.task.task_producers import producer_config

PAYLOAD = TaskPayload("orders", 0, 1, {}, {}, {}, {}, Claim(1, "id"), "exactly_once", "run", ("127.0.0.1", 1), "token", stays=True)


class Client:
    """A client that is part of a reference cycle."""

    def __init__(self) -> None:
        self.callback = self.__init__  # type: ignore[misc]


def test_clients_of_a_task_that_has_ended_are_released(monkeypatch: pytest.MonkeyPatch) -> None:
    clients: list[weakref.ref[Client]] = []

    def run_task(*_: object) -> TaskResult:
        clients.append(weakref.ref(Client()))
        return TaskResult(0, stopped_by=StopReason.STOPPED)

    monkeypatch.setattr(task_loop, "run_task", run_task)
    backing: Any = SimpleNamespace(configs=lambda: SimpleNamespace(follow=lambda *_: nullcontext()))
    gc.disable()
    try:
        assert TaskLoop(PAYLOAD, TaskHost(backing, "worker", None), StopEvent()).run().stopped_by is StopReason.STOPPED
        assert [client() for client in clients] == [None]
    finally:
        gc.enable()


@pytest.mark.parametrize(("is_endless", "given", "linger"), [(False, {}, "20"), (True, {}, "2"), (True, {"linger.ms": "7"}, "7")])
def test_producers_of_runs_that_stay_wait_for_less(is_endless: bool, given: dict[str, str], linger: str) -> None:
    settings = WorkerSettings.of({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"})
    payload = SimpleNamespace(connector="orders", task=0, endless=is_endless)
    environment: Any = SimpleNamespace(settings=settings, payload=payload)
    assert producer_config(environment, given)["linger.ms"] == linger
