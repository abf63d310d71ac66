"""How many tasks a run publishes: each is a record on the config topic, which all connectors share."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from airflow_provider_connect.config.worker_settings import WorkerSettings
from airflow_provider_connect.errors import ConfigException, TaskException
from airflow_provider_connect.stores.offset_store import SourceOffsets
from airflow_provider_connect.worker.task.checked_connector import CheckedConnector, check_connector
from airflow_provider_connect.worker.task.task_configs import PlanningContext, task_configs


def settings(folder: Path) -> WorkerSettings:
    return WorkerSettings.of({"connectors.allowed.paths": str(folder), "connectors.max.tasks": "3"})


def checked(folder: Path, **more: str) -> CheckedConnector:
    config = {"connector.class": "FileStreamSink", "file": str(folder / "out"), "topics": "t", "name": "c", **more}
    return check_connector("c", config, settings(folder), {})


def test_a_run_refuses_a_stored_config_with_more_tasks_than_the_worker_allows(tmp_path: Path) -> None:
    with pytest.raises(ConfigException, match=r"Invalid value 4 for configuration tasks\.max: Value must be no more than 3 "):
        checked(tmp_path, **{"tasks.max": "4"})
    assert checked(tmp_path, **{"tasks.max": "3"}).settings.tasks_max == 3


def test_a_connector_that_generates_more_tasks_fails_even_where_tasks_max_is_not_enforced(tmp_path: Path) -> None:
    known = checked(tmp_path, **{"tasks.max": "1", "tasks.max.enforce": "false"})
    count = 3

    def generated(max_tasks: int) -> list[Mapping[str, str]]:
        return [known.connector.config.originals] * count

    known.connector.task_configs = generated  # type: ignore[method-assign]
    context = PlanningContext("c", lambda _: SourceOffsets("c", {}))
    assert len(task_configs(known, context, settings(tmp_path))) == 3
    count = 4
    with pytest.raises(TaskException, match=r"has generated 4 tasks, and the worker setting connectors\.max\.tasks allows 3"):
        task_configs(known, context, settings(tmp_path))


def test_many_tasks_of_a_large_config_are_refused_before_they_fill_the_topic(tmp_path: Path) -> None:
    worker = WorkerSettings.of({"connectors.allowed.paths": str(tmp_path)})
    config = {"connector.class": "FileStreamSink", "file": str(tmp_path / "out"), "topics": "t", "name": "c", "tasks.max": "1000"}
    context = PlanningContext("c", lambda _: SourceOffsets("c", {}))
    assert len(task_configs(check_connector("c", config | {"note": "x" * 8_000}, worker, {}), context, worker)) == 1000
    for text in ("x" * 9_000, "\u20ac" * 2_000):
        with pytest.raises(TaskException, match=r"of 1000 tasks have more than 8388608 characters together"):
            task_configs(check_connector("c", config | {"note": text}, worker, {}), context, worker)
