"""A run goes on from what its Airflow task has read of the config topic, in its driver and in its task bodies."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from airflow_provider_connect.runtime.model.run import RunSpec, RunState, TaskResult
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.stores.config_cache import ConfigCache
from airflow_provider_connect.runtime.wire import config_topic
from airflow_provider_connect.runtime.worker.application.application import Application
from airflow_provider_connect.runtime.worker.application.task_body import run_task
from airflow_provider_connect.runtime.worker.task.task_payload import TaskPayload
from tests.integration.worker.environment import RunEnvironment, values_of


def handed(environment: RunEnvironment, folder: Path) -> Application:
    known = ConfigCache(folder).read(environment.settings, environment.connector).to_json()
    spec = RunSpec(environment.connector, environment.properties, "run-handed", secrets=environment.secrets, known=known)

    def sent(payload: TaskPayload) -> TaskResult:
        return run_task(pickle.loads(pickle.dumps(payload)))

    return Application(spec, lambda: sent, host="127.0.0.1", on_claim=lambda _: None)


def test_a_run_that_is_handed_the_state_reads_none_of_it_again(
    environment: RunEnvironment, unique: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = environment.file_source(unique)
    environment.file.write_text("one\n")
    assert environment.run(config).state is RunState.DONE
    with environment.file.open("a") as file:
        file.write("two\n")
    application, offset = handed(environment, tmp_path), environment.configs().offset
    read: list[int] = []
    decode = config_topic.decode

    def noted(*arguments: object, offset: int, **named: object) -> object:
        read.append(offset)
        return decode(*arguments, offset=offset, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(config_topic, "decode", noted)
    result = application.run()
    monkeypatch.undo()
    assert (result.state, [task.records for task in result.tasks]) == (RunState.DONE, [1])
    assert values_of(environment.bootstrap, unique) == ["one", "two"]
    assert min(read) >= offset


def test_what_came_after_the_state_was_handed_on_decides(environment: RunEnvironment, unique: str, tmp_path: Path) -> None:
    config = environment.file_source(unique)
    environment.file.write_text("one\n")
    environment.run(config)
    application = handed(environment, tmp_path)
    environment.put_target_state(TargetState.STOPPED)
    assert application.run().state is RunState.SKIPPED
