"""A Python module that is missing: what the tasks of a run report, and that no later attempt helps."""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.abc import MetaPathFinder
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_connect.errors import ConfigException, RetriableException, is_transient
from airflow_provider_connect.runtime.worker.application import task_body

TASKS = 3
RUNNERS = {True: "source_runner", False: "sink_runner"}


class Missing(MetaPathFinder):
    """Takes its time to find out that ``name`` is missing."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == self.name:
            time.sleep(0.2)
            raise ModuleNotFoundError("No module named 'numpy'", name="numpy")


@pytest.mark.parametrize("is_source", [True, False])
def test_each_task_of_a_run_reports_the_missing_module(is_source: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    used = "airflow_provider_connect.runtime.worker.task.task_runner"
    for name in (f"airflow_provider_connect.runtime.worker.task.{RUNNERS[is_source]}", used):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Missing(used), *sys.meta_path])
    environment: Any = SimpleNamespace(checked=SimpleNamespace(is_source=is_source, is_java=False))
    begin = threading.Barrier(TASKS)

    def run() -> str:
        begin.wait()
        with pytest.raises(ImportError) as raised:
            task_body._run_once(environment)
        return str(raised.value)

    with ThreadPoolExecutor(TASKS) as threads:
        found = [task.result() for task in [threads.submit(run) for _ in range(TASKS)]]
    assert found == ["No module named 'numpy'"] * TASKS


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ModuleNotFoundError("No module named 'numpy'"), False),
        (ImportError("cannot import name 'x'"), False),
        (ConfigException("no such folder"), False),
        (RetriableException("later"), True),
        (KeyError("rows"), True),
    ],
)
def test_a_missing_module_stays_missing(error: Exception, expected: bool) -> None:
    assert is_transient(error) is expected
