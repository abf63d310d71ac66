"""The driver process of a run, with tasks in this process in place of Spark's: its files, its signal, its end."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_provider_connect.runtime.config.masking import Mask
from airflow_provider_connect.runtime.model.run import (
    CLAIM_FILE,
    KEEPER_FILE,
    PID_FILE,
    RESULT_FILE,
    RUN_FILE,
    RunResult,
    RunSpec,
    RunState,
    TaskResult,
)
from airflow_provider_connect.runtime.spark.parent_death import under_keeper
from airflow_provider_connect.runtime.spark.run_directory import RunDirectory, write_private
from airflow_provider_connect.runtime.worker.application import driver
from airflow_provider_connect.runtime.worker.application.task_body import run_task
from airflow_provider_connect.runtime.worker.task.task_payload import TaskPayload
from tests.integration.worker.environment import RunEnvironment, make_topic, values_of
from tests.waiting import wait_until

Run = Callable[[TaskPayload], TaskResult]


class Engine:
    """In place of Spark: runs tasks here. ``before`` is called as the first task begins."""

    def __init__(self, before: Callable[[], object] = lambda: None) -> None:
        self.before, self.is_stopped = before, False

    def stop(self) -> None:
        self.is_stopped = True

    def run(self, payload: TaskPayload) -> TaskResult:
        self.before()
        return run_task(payload)


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def driven(environment: RunEnvironment, config: dict[str, str], engine: Engine, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, RunResult]:
    """The directory of a run after its end, and the result in it."""
    directory = environment.folder / "run"
    directory.mkdir(mode=0o700)
    write_private(directory / RUN_FILE, RunSpec(environment.connector, environment.properties, "run-1", define=config).to_json())

    def start_engine(connector: str, engines: list[Engine], _: Mask, *, is_shared: bool) -> Run:
        assert not is_shared
        assert connector == environment.connector
        engines.append(engine)
        return engine.run

    def exit_at_once(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(driver, "start_engine", start_engine)
    monkeypatch.setattr(driver, "exit_at_once", exit_at_once)
    with pytest.raises(SystemExit) as ended:
        driver.run_with_spark(directory)
    assert ended.value.code == 0
    assert engine.is_stopped
    return directory, RunResult.from_json((directory / RESULT_FILE).read_text())


def test_a_run_leaves_its_files(environment: RunEnvironment, unique: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make_topic(environment.bootstrap, unique)
    directory, result = driven(environment, environment.numbers(unique, until="30", size="10"), Engine(), monkeypatch)
    assert (result.state, [task.records for task in result.tasks]) == (RunState.DONE, [30])
    assert len(values_of(environment.bootstrap, unique)) == 30
    assert (directory / PID_FILE).read_text() == str(os.getpid())
    assert (directory / CLAIM_FILE).read_text() == str(result.claim)
    assert {stat.S_IMODE(file.stat().st_mode) for file in directory.iterdir()} == {0o600}


def test_sigterm_ends_a_run_after_its_batch(environment: RunEnvironment, unique: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make_topic(environment.bootstrap, unique)
    config = environment.numbers(unique, until="100000", size="10", poll_ms="50")
    _, result = driven(environment, config, Engine(lambda: os.kill(os.getpid(), signal.SIGTERM)), monkeypatch)
    assert result.state is RunState.STOPPED
    assert [task.stopped_by for task in result.tasks] == ["the application was asked to end"]
    assert (environment.offsets().get({"task": 0}) or {"next": 0}) == {"next": len(values_of(environment.bootstrap, unique))}


def test_a_run_that_cannot_begin_has_a_result_too(environment: RunEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    _, result = driven(environment, {"name": environment.connector, "connector.class": "NoSuchSource"}, Engine(), monkeypatch)
    assert result.state is RunState.FAILED
    assert "NoSuchSource" in str(result.error)


def test_a_shared_application_without_connectors_ends(environment: RunEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = environment.folder / "run"
    directory.mkdir(mode=0o700)
    write_private(directory / RUN_FILE, RunSpec("", environment.properties, "run-1", application="crm").to_json())
    codes: list[int] = []
    monkeypatch.setattr(driver, "exit_at_once", codes.append)
    with pytest.raises(AssertionError, match="unreachable"):
        driver.run_without_spark(directory)
    result = RunResult.from_json((directory / RESULT_FILE).read_text())
    assert (codes, result.connector, result.state, result.error) == ([0], "crm", RunState.DONE, None)


def test_a_driver_leaves_its_airflow_task_with_its_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(driver, "discard_output", lambda: None)
    assert driver._report_and_leave(tmp_path, RunResult("orders", RunState.DONE))
    assert RunDirectory(tmp_path).has_left
    assert RunResult.from_json((tmp_path / RESULT_FILE).read_text()).state is RunState.DONE
    assert "This application delivers until that run takes over." in capfd.readouterr().out
    assert not driver._report_and_leave(tmp_path / "missing", RunResult("orders", RunState.DONE))


def test_a_driver_leaves_with_its_keeper_and_not_without_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_KEEPER_SECONDS", 30.0)
    assert not driver._leave_with_spark(tmp_path), "there is no keeper"
    file = tmp_path / KEEPER_FILE
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, preexec_fn=under_keeper(file)) as child:  # noqa: PLW1509
        wait_until(lambda: file.exists() and file.read_text())
        assert driver._leave_with_spark(tmp_path)
        child.communicate(b"\n")
    assert driver._leave(tmp_path)
