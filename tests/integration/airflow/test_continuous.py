"""Runs that stay, in a real Airflow: records are delivered as they come, and verbs act on the run that is there."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

import psutil
import pytest

from airflow_provider_connect.runtime.model.ids import dag_id_for
from airflow_provider_connect.runtime.model.run import PID_FILE
from airflow_provider_connect.runtime.stores.config_store import ConfigStore
from airflow_provider_connect.runtime.stores.status_store import StatusStore
from tests.integration.airflow.conftest import Airflow
from tests.integration.worker.environment import Pauses, make_topic, send, send_until, values_of
from tests.waiting import HANG_SECONDS, wait_until

Connector = tuple[Path, dict[str, str]]
STAYS = {"airflow.schedule": "@continuous"}


@contextmanager
def connector(airflow: Airflow, name: str, config: dict[str, str]) -> Iterator[None]:
    """A connector created over REST, deleted at the end."""
    answer = airflow.client.post("/connect/connectors", json={"name": name, "config": config})
    assert answer.status_code == 201, answer.text
    try:
        yield
    finally:
        airflow.client.delete(f"/connect/connectors/{name}")


@contextmanager
def defined(airflow: Airflow, name: str, config: dict[str, str]) -> Iterator[None]:
    """A connector in a DAG file, deleted at the end."""
    dag_file = airflow.write_dag(name, config)
    try:
        yield
    finally:
        dag_file.unlink()
        airflow.client.put(f"/connect/connectors/{name}/stop")
        wait_until(lambda: running(airflow, name) == [], "the run ends")


def states(airflow: Airflow, name: str) -> list[str]:
    status = airflow.client.get(f"/connect/connectors/{name}/status").json()
    return [status["connector"]["state"], *(task["state"] for task in status["tasks"])]


def has_new_task(airflow: Airflow, name: str) -> bool:
    """Whether the run has planned anew after the last verb, when the old tasks have ended."""
    with StatusStore(airflow.settings()) as statuses, ConfigStore(airflow.settings()) as configs:
        connector = statuses.read().connector(name)
        return connector is not None and connector.claim == configs.read().claims[name]


def running(airflow: Airflow, name: str) -> list[str]:
    """The runs in progress."""
    found = airflow.api("GET", f"/dags/{dag_id_for(name)}/dagRuns")["dag_runs"]
    return [run["dag_run_id"] for run in found if run["state"] == "running"]


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def test_a_sink_created_over_rest_stays_and_verbs_act_on_its_run(airflow: Airflow, unique: str, file_sink: Connector) -> None:
    bootstrap, topic, name = airflow.settings().bootstrap_servers, f"lines-{unique}", f"stays-{unique}"
    file, config = file_sink
    other = file.with_name("other.txt")
    make_topic(bootstrap, topic)
    with connector(airflow, name, {**config, **STAYS}):
        send(bootstrap, topic, ["one"])
        wait_until(lambda: lines(file) == ["one"], "the run delivers")
        send(bootstrap, topic, ["two"])
        wait_until(lambda: lines(file) == ["one", "two"], "it stays")
        runs = running(airflow, name)
        assert len(runs) == 1

        answer = airflow.client.put(f"/connect/connectors/{name}/config", json={**config, **STAYS, "file": str(other)})
        assert answer.status_code == 200, answer.text
        wait_until(lambda: has_new_task(airflow, name), "the old task has ended")
        send(bootstrap, topic, ["three"])
        wait_until(lambda: lines(other) == ["three"], "the new config is in force")

        airflow.set_paused(name, paused=True)
        wait_until(lambda: states(airflow, name) == ["PAUSED", "PAUSED"], "it pauses")
        send(bootstrap, topic, ["four"])
        time.sleep(1)
        assert lines(other) == ["three"]
        airflow.set_paused(name, paused=False)
        wait_until(lambda: lines(other) == ["three", "four"], "it resumes")

        answer = airflow.client.post(f"/connect/connectors/{name}/restart?includeTasks=true")
        assert answer.status_code == 202, answer.text
        send(bootstrap, topic, ["five"])
        wait_until(lambda: lines(other) == ["three", "four", "five"], "it restarts")
        wait_until(lambda: states(airflow, name) == ["RUNNING", "RUNNING"], "its state is that of its tasks")
        assert running(airflow, name) == runs == airflow.runs(name)

        airflow.client.put(f"/connect/connectors/{name}/stop")
        wait_until(lambda: states(airflow, name) == ["STOPPED"], "it stops")
        wait_until(lambda: running(airflow, name) == [], "the run ends")
        airflow.client.put(f"/connect/connectors/{name}/resume")
        send(bootstrap, topic, ["six"])
        wait_until(lambda: lines(other)[-1] == "six", "another run delivers")

        answer = airflow.client.put(f"/connect/connectors/{name}/config", json={**config, "airflow.schedule": "none"})
        assert answer.status_code == 200, answer.text
        wait_until(lambda: running(airflow, name) == [], "the run ends with its schedule")
        assert lines(file) == ["one", "two"]


def test_a_source_of_a_dag_file_is_back_after_the_kill_of_its_process(airflow: Airflow, unique: str, file_source: Connector) -> None:
    bootstrap, topic, name = airflow.settings().bootstrap_servers, f"lines-{unique}", f"stays-{unique}"
    file, config = file_source
    make_topic(bootstrap, topic)
    file.write_text("one\n")
    dag_file = airflow.write_dag(name, {**config, **STAYS, "airflow.engine": "process"})
    try:
        wait_until(lambda: values_of(bootstrap, topic) == ["one"], "the run delivers")
        append(file, "two")
        wait_until(lambda: values_of(bootstrap, topic) == ["one", "two"], "it stays")
        (pid_file,) = (airflow.stack.folder / "runs").glob(f"{dag_id_for(name)}-*/*/try-*/{PID_FILE}")
        os.kill(int(pid_file.read_text()), signal.SIGKILL)
        append(file, "three")
        wait_until(lambda: values_of(bootstrap, topic) == ["one", "two", "three"], "another process delivers")
    finally:
        dag_file.unlink()
        airflow.client.delete(f"/connect/connectors/{name}")


@pytest.mark.soak  # it waits for a minute
def test_a_run_that_waits_for_a_slot_is_unassigned_with_the_reason(airflow: Airflow, unique: str, file_source: Connector) -> None:
    bootstrap, topic, name, pool = airflow.settings().bootstrap_servers, f"lines-{unique}", f"stays-{unique}", f"pool-{unique}"
    file, config = file_source
    make_topic(bootstrap, topic)
    file.write_text("one\n")
    assert airflow.client.post("/api/v2/pools", json={"name": pool, "slots": 0}).status_code == 201
    with defined(airflow, name, {**config, **STAYS, "airflow.engine": "process", "airflow.pool": pool}):
        wait_until(lambda: states(airflow, name) == ["UNASSIGNED"], "it waits")
        trace = airflow.client.get(f"/connect/connectors/{name}/status").json()["connector"]["trace"]
        assert f"has not started: it waits for a free slot of pool {pool} or of the executor" in trace
        assert values_of(bootstrap, topic) == []
        changed = {"name": pool, "slots": 1, "include_deferred": False}
        assert airflow.client.patch(f"/api/v2/pools/{pool}", params={"update_mask": "slots"}, json=changed).status_code == 200
        wait_until(lambda: values_of(bootstrap, topic) == ["one"], "it delivers")
        wait_until(lambda: states(airflow, name) == ["RUNNING", "RUNNING"], "it is RUNNING")
    assert airflow.client.delete(f"/api/v2/pools/{pool}").status_code == 204


@pytest.mark.soak  # each takes a minute
@pytest.mark.parametrize("is_host_lost", [False, True])
def test_a_source_is_back_after_the_loss_of_its_supervisor(
    airflow: Airflow, unique: str, file_source: Connector, *, is_host_lost: bool
) -> None:
    """With its host, the executor's process is lost too: nothing reports the end of the task."""
    bootstrap, topic, name = airflow.settings().bootstrap_servers, f"lines-{unique}", f"stays-{unique}"
    file, config = file_source
    make_topic(bootstrap, topic)
    file.write_text("one\n")
    lost: list[psutil.Process] = []
    dag_file = airflow.write_dag(name, {**config, **STAYS, "airflow.engine": "process", "airflow.retry.delay": "1s"})
    try:
        wait_until(lambda: values_of(bootstrap, topic) == ["one"], "the run delivers")
        (pid_file,) = (airflow.stack.folder / "runs").glob(f"{dag_id_for(name)}-*/*/try-*/{PID_FILE}")
        driver = psutil.Process(int(pid_file.read_text()))
        task = driver.parent()
        assert task is not None
        supervisor = task.parent()
        assert supervisor is not None
        lost.append(supervisor)
        if is_host_lost:
            supervisor.suspend()
            task.kill()
        else:
            supervisor.kill()
        began = time.monotonic()
        driver.wait(HANG_SECONDS)
        append(file, "two")
        wait_until(lambda: values_of(bootstrap, topic) == ["one", "two"], "another run delivers")
        print(f"back after {time.monotonic() - began:.0f} s")
        logs, dag = airflow.stack.folder / "airflow" / "logs", dag_id_for(name)
        is_expired = f"A task of {dag} has sent no heartbeat for long" in (logs / "api-server.log").read_text()
        detected = [line for line in (logs / "scheduler.log").read_text().splitlines() if "without a heartbeat" in line and dag in line]
        assert is_expired or not detected, "Airflow itself waits for five minutes"
        assert is_expired or not is_host_lost
    finally:
        for process in lost:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        dag_file.unlink()
        airflow.client.delete(f"/connect/connectors/{name}")


@pytest.mark.soak
def test_a_task_that_fails_is_noticed_while_its_run_goes_on(airflow: Airflow, unique: str, file_sink: Connector) -> None:
    bootstrap, topic, name = airflow.settings().bootstrap_servers, f"lines-{unique}", f"stays-{unique}"
    file, config = file_sink
    make_topic(bootstrap, topic, 2)
    json = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}
    steered = {"airflow.engine": "process", "airflow.on.failure": "canary", "tasks.max": "2"}
    dag_file = airflow.write_dag(name, {**config, **json, **STAYS, **steered})
    try:
        send(bootstrap, topic, ["1", "2"], partitions=2)
        wait_until(lambda: sorted(lines(file)) == ["1", "2"], "the run delivers")
        send(bootstrap, topic, ["{broken", "3"], partitions=2)
        sent = wait_until(lambda: [line for line in lines(airflow.notices) if name in line], "the notice is sent")
        (run,) = running(airflow, name)
        assert [line.startswith(f"{name} {run} run failed: ") and "Expecting property name" in line for line in sent] == [True], sent
        send(bootstrap, topic, ["4"], partitions=2, first=1)
        wait_until(lambda: sorted(lines(file)) == ["1", "2", "3", "4"], "the other task goes on")
        wait_until(lambda: sorted(states(airflow, name)) == ["FAILED", "RUNNING", "RUNNING"], "their states")
        assert running(airflow, name) == [run]
    finally:
        dag_file.unlink()
        airflow.client.put(f"/connect/connectors/{name}/stop")
        wait_until(lambda: running(airflow, name) == [], "the run ends")


@pytest.mark.parametrize("engine", ["process", pytest.param("spark", marks=pytest.mark.soak)])
def test_the_next_run_takes_over_without_a_pause(airflow: Airflow, unique: str, file_sink: Connector, engine: str) -> None:
    bootstrap, topic, name = airflow.settings().bootstrap_servers, f"lines-{unique}", f"stays-{unique}"
    file, config = file_sink
    make_topic(bootstrap, topic)
    with defined(airflow, name, {**config, **STAYS, "airflow.engine": engine}), Stream(bootstrap, topic) as stream:
        wait_until(lambda: lines(file), "the run delivers")
        with Pauses(file) as pauses:
            (pid_file,) = drivers(airflow, name)
            began = time.monotonic()
            os.kill(int(pid_file.read_text()), signal.SIGUSR1)
            wait_until(lambda: "success" in run_states(airflow, name), "its Airflow task has ended")
            wait_until(lambda: "running" in run_states(airflow, name), "the next run is there")
            wait_until(lambda: len(drivers(airflow, name)) == 2, "the next run has its driver")
            wait_until(lambda: len(drivers(airflow, name)) == 1, "the older driver has ended")
            handover_seconds = time.monotonic() - began
            known = len(lines(file))
            wait_until(lambda: len(lines(file)) > known + 20, "the next run delivers")
        sent = stream.end()
        wait_until(lambda: lines(file)[-1] == sent[-1], "everything is delivered")
        assert lines(file) == sent
        print(f"the longest pause of {engine}: {pauses.longest:.2f} s of {handover_seconds:.2f} s")
        assert pauses.longest < handover_seconds, "the older run delivers until the newer one takes over"


class Stream:
    """Sends a record each 50 ms."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap, self._topic = bootstrap, topic
        self._sent: list[str] = []
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> list[str]:
        """Returns everything that was sent."""
        self._enough.set()
        self._thread.join()
        return self._sent

    def _send(self) -> None:
        send_until(self._enough, self._bootstrap, self._topic, self._sent)


def run_states(airflow: Airflow, name: str) -> list[str]:
    found = airflow.api("GET", f"/dags/{dag_id_for(name)}/dagRuns")["dag_runs"]
    return [run["state"] for run in found]


def drivers(airflow: Airflow, name: str) -> list[Path]:
    """The process-id files of the drivers that live."""
    return list((airflow.stack.folder / "runs").glob(f"{dag_id_for(name)}-*/*/try-*/{PID_FILE}"))


def append(file: Path, line: str) -> None:
    with file.open("a") as written:
        written.write(f"{line}\n")


@pytest.mark.parametrize(("key", "text"), [("tasks.per.application", "2"), ("airflow.max.duration", "1h")])
def test_what_only_a_run_that_ends_can_have_is_refused_over_rest(
    airflow: Airflow, unique: str, file_sink: Connector, key: str, text: str
) -> None:
    answer = airflow.client.post("/connect/connectors", json={"name": f"stays-{unique}", "config": {**file_sink[1], **STAYS, key: text}})
    assert answer.status_code == 400
    assert f"Invalid value {text} for configuration {key}: with airflow.schedule=@continuous" in answer.text
