"""A driver whose process is suspended ends with an error: its connector does not stay RUNNING without delivering."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from airflow_provider_connect.operators import spark_submit
from airflow_provider_connect.operators.connect import ConnectTaskOperator
from airflow_provider_connect.runtime.model.run import RunSpec
from airflow_provider_connect.runtime.spark import driver_heartbeat
from airflow_provider_connect.runtime.spark.driver_heartbeat import send_heartbeats, watching_heartbeat
from airflow_provider_connect.runtime.spark.run_directory import RunDirectory
from tests.integration.worker.environment import RunEnvironment, make_topic, send
from tests.waiting import HANG_SECONDS, wait_until

SILENCE = 1.0  # seconds


@pytest.mark.parametrize("engine", ["process", pytest.param("spark", marks=pytest.mark.soak)])
def test_a_suspended_driver_is_killed(
    environment: RunEnvironment, tmp_path: Path, unique: str, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    monkeypatch.setattr(spark_submit, "_SHORTEST_SILENCE_SECONDS", 3 * driver_heartbeat.HEARTBEAT_SECONDS)
    monkeypatch.setenv("AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT", "1")
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[1]"}')
    make_topic(environment.bootstrap, unique)
    send(environment.bootstrap, unique, ["1"])
    define = environment.file_sink(unique)
    directory = RunDirectory.make(tmp_path, "connect.frozen", "run-1")
    directory.write_spec(RunSpec(environment.connector, environment.properties, "run-1", define=define, stays_seconds=3600.0))

    def suspend() -> None:
        wait_until(lambda: environment.lines() == ["1"])
        pid = directory.driver_pid()
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)

    suspending = threading.Thread(target=suspend)
    suspending.start()
    operator = ConnectTaskOperator(task_id="run", connector=environment.connector, engine=engine)
    exit_code, log = operator.run_application(directory)
    suspending.join()
    assert exit_code in {-signal.SIGKILL, 128 + signal.SIGKILL}
    assert log[-1] == "The driver has sent no heartbeat for 15 s, as a suspended process, so it was killed"
    assert directory.result() is None


def test_a_driver_is_silent_only_when_its_heartbeats_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_heartbeat, "HEARTBEAT_SECONDS", 0.02)
    file, is_silent = tmp_path / "driver.pid", threading.Event()
    with watching_heartbeat(file, SILENCE, is_silent.set):
        assert not is_silent.wait(2 * SILENCE), "the driver has not started"
        file.touch()
        send_heartbeats(file)
        assert not is_silent.wait(2 * SILENCE), "it sends heartbeats"
        monkeypatch.setattr(os, "utime", lambda _: None)
        assert is_silent.wait(HANG_SECONDS)
    file.unlink()
