"""Plans of connectors whose code hangs."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from airflow_provider_connect.errors import TaskException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.worker.application import planner
from airflow_provider_connect.runtime.worker.application.planner import Planner
from tests.conftest import worker_properties
from tests.waiting import HANG_SECONDS, wait_until

CONNECTOR: Any = SimpleNamespace(name="one", plugin=SimpleNamespace(class_name="Shop", origin="plugins"))


def test_plans_that_hang_are_limited_until_they_return(monkeypatch: pytest.MonkeyPatch) -> None:
    returned = threading.Event()

    def hang(*_: object) -> list[dict[str, str]]:
        returned.wait(HANG_SECONDS)
        return [{}]

    monkeypatch.setattr(planner, "task_configs", hang)
    settings = WorkerSettings.of({**worker_properties("127.0.0.1:1", "plans"), "plugin.plan.timeout.ms": "20"})
    plans = Planner(settings, cast(Any, None), cast(Any, None), cast(Any, None))
    try:
        for _ in range(planner._MOST_UNRETURNED):
            with pytest.raises(TaskException, match=r"took more than the 0\.02 s of plugin\.plan\.timeout\.ms"):
                plans._task_configs(CONNECTOR, cast(Any, None))
        with pytest.raises(TaskException, match="has not returned from its last 10 plans"):
            plans._task_configs(CONNECTOR, cast(Any, None))
    finally:
        returned.set()
    wait_until(lambda: not plans._unreturned)
    assert plans._task_configs(CONNECTOR, cast(Any, None)) == [{}]
