"""Which task configs a run publishes, and how many: each is a record on the config topic, which all connectors share."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from airflow_provider_connect.errors import ConfigException, ConnectException, TaskException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.stores.offset_store import SourceOffsets
from airflow_provider_connect.runtime.worker.task.checked_connector import CheckedConnector, check_connector
from airflow_provider_connect.runtime.worker.task.task_configs import PlanningContext, task_configs
from airflow_provider_connect.sdk.config_def import Password


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
    assert len(published(known, tmp_path, [{}] * 3)) == 3
    with pytest.raises(TaskException, match=r"has generated 4 tasks, and the worker setting connectors\.max\.tasks allows 3"):
        published(known, tmp_path, [{}] * 4)


def published(known: CheckedConnector, folder: Path, generated: Any) -> Sequence[Mapping[str, str]]:
    """What goes to the topic of what the connector returns."""
    known.connector.task_configs = lambda max_tasks: generated  # type: ignore[method-assign]
    return task_configs(known, PlanningContext("c", lambda _: SourceOffsets("c", {})), settings(folder))


def test_numbers_and_booleans_are_published_as_text(tmp_path: Path) -> None:
    [config] = published(checked(tmp_path), tmp_path, ({"share": 1, "all": True, "rate": 2.5, "small": False, "big": 10**20, "is": "x"},))
    assert config == {
        "share": "1",
        "all": "true",
        "rate": "2.5",
        "small": "false",
        "big": "100000000000000000000",
        "is": "x",
        "task.class": "org.apache.kafka.connect.file.FileStreamSinkTask",
        "topics": "t",
    }


def test_a_config_object_stands_for_its_texts(tmp_path: Path) -> None:
    known = checked(tmp_path)
    [config] = published(known, tmp_path, [known.connector.config_def.parse({"file": "f", "share": 2})])
    assert (config["file"], config["share"]) == ("f", "2")
    assert published(known, tmp_path, []) == []


WRONG: list[tuple[Any, str]] = [
    (None, r"task_configs of .*\.FileStreamSinkConnector must return a list of mappings, got NoneType: an empty list means nothing to do"),
    ({"share": "1"}, "must return a list of mappings, got dict"),
    ("share", "must return a list of mappings, got str"),
    (5, "must return a list of mappings, got int"),
    (iter([{}]), "must return a list of mappings, got list_iterator"),
    ([None], r"config of task 0 from task_configs of .* must be a mapping, got NoneType"),
    ([{}, "share=1"], r"config of task 1 from task_configs of .* must be a mapping, got str"),
    ([{}, {"shares": [1, 2]}], r"'shares' of task 1 from task_configs of .* must be text, a number or a boolean, got list"),
    ([{"share": None}], r"'share' of task 0 .* must be text, a number or a boolean, got NoneType: leave it out"),
    ([{"key": b"the secret"}], r"'key' of task 0 .* must be text, a number or a boolean, got bytes$"),
    ([{"key": Password("the secret")}], r"'key' of task 0 .* must be text, .* got Password: take it from the config's originals"),
    ([{5: "a"}], r"names of settings must be text, got int in the config of task 0"),
]


@pytest.mark.parametrize(("generated", "message"), WRONG)
def test_what_is_no_list_of_texts_is_refused_before_it_is_published(tmp_path: Path, generated: Any, message: str) -> None:
    with pytest.raises(TaskException, match=message) as raised:
        published(checked(tmp_path, **{"tasks.max": "2"}), tmp_path, generated)
    assert "the secret" not in str(raised.value)


def test_many_tasks_of_a_large_config_are_refused_before_they_fill_the_topic(tmp_path: Path) -> None:
    worker = WorkerSettings.of({"connectors.allowed.paths": str(tmp_path)})
    config = {"connector.class": "FileStreamSink", "file": str(tmp_path / "out"), "topics": "t", "name": "c", "tasks.max": "1000"}
    context = PlanningContext("c", lambda _: SourceOffsets("c", {}))
    assert len(task_configs(check_connector("c", config | {"note": "x" * 8_000}, worker, {}), context, worker)) == 1000
    for text in ("x" * 9_000, "\u20ac" * 2_000):
        with pytest.raises(TaskException, match=r"of 1000 tasks have more than 8388608 characters together"):
            task_configs(check_connector("c", config | {"note": text}, worker, {}), context, worker)


def test_an_error_that_a_thread_of_the_connector_raises_fails_its_plan(tmp_path: Path) -> None:
    known, context = checked(tmp_path), PlanningContext("c", lambda _: SourceOffsets("c", {}))

    def generated(max_tasks: int) -> list[Mapping[str, str]]:
        thread = Thread(target=context.raise_error, args=[OSError("the listener has ended")])
        thread.start()
        thread.join()
        return [{}]

    known.connector.task_configs = generated  # type: ignore[method-assign]
    with pytest.raises(ConnectException, match="Connector c raised an error: the listener has ended"):
        task_configs(known, context, settings(tmp_path))
