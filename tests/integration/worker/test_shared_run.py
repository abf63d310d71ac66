"""The driver of a shared application, as its Airflow task starts it: connectors join, change, fail and leave while it runs."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil
import pytest

from airflow_provider_connect.errors import ConfigException, RetriableException
from airflow_provider_connect.runtime.config.masking import Mask
from airflow_provider_connect.runtime.model.run import LEFT_FILE, PID_FILE, RESULT_FILE, RunResult, RunSpec, RunState
from airflow_provider_connect.runtime.model.states import State, TargetState
from airflow_provider_connect.runtime.stores.backing import TopicBacking
from airflow_provider_connect.runtime.stores.config_cache import ConfigCache
from airflow_provider_connect.runtime.stores.config_store import ConfigStore
from airflow_provider_connect.runtime.worker.application.handover import Leave
from airflow_provider_connect.runtime.worker.application.readiness import check_hosted, request_hosting
from airflow_provider_connect.runtime.worker.application.shared_run import SharedRun
from airflow_provider_connect.runtime.worker.application.task_loop import run_payload
from tests.e2e.faults import shared_application
from tests.integration.worker.environment import Pauses, RunEnvironment, make_topic, send, send_until
from tests.waiting import HANG_SECONDS, wait_until


@contextmanager
def running(environment: RunEnvironment, folder: Path, engine: str, *, seconds: float = 3600.0) -> Iterator[subprocess.Popen[bytes]]:
    """The driver of application ``crm`` in the new directory ``folder``. Killed at the end, unless it has ended."""
    application = shared_application.start(folder, environment.properties, engine, seconds=seconds)
    try:
        yield application.process
    finally:
        shared_application.kill(application)


def put(environment: RunEnvironment, topic: str, **more: str) -> None:
    """As the herder writes a config: a connector that exists is claimed."""
    TopicBacking(environment.settings).ensure()
    with ConfigStore(environment.settings) as store:
        is_new = environment.connector not in store.read()
        store.put_connector(environment.connector, environment.file_sink(topic, **{"airflow.application": "crm", **more}))
        if not is_new:
            store.claim(environment.connector)


@pytest.mark.parametrize("engine", ["process", "spark"])
def test_connectors_join_fail_and_leave_while_the_application_runs(
    environment: RunEnvironment, tmp_path: Path, unique: str, engine: str
) -> None:
    folder = tmp_path / "run"
    first, second = environment, replace(environment, connector=f"second-{unique}")
    make_topic(first.bootstrap, unique)
    put(first, unique)
    with running(environment, folder, engine) as driver:
        send(first.bootstrap, unique, ["1"])
        wait_until(lambda: first.lines() == ["1"])

        number = {"transforms": "number", "transforms.number.type": "org.apache.kafka.connect.transforms.Cast$Value"}
        put(second, unique, **number, **{"transforms.number.spec": "int32"})
        wait_until(lambda: second.lines() == ["1"])
        send(first.bootstrap, unique, ["two"])
        wait_until(lambda: second.states() == {0: "FAILED"})
        wait_until(lambda: first.lines() == ["1", "two"])

        put(second, unique)
        wait_until(lambda: second.lines() == ["1", "two"])
        wait_until(lambda: second.states() == {0: "RUNNING"})

        first.put_target_state(TargetState.STOPPED)
        with ConfigStore(environment.settings) as store:
            store.delete_connector(second.connector)
            store.delete_connector(first.connector)
        driver.wait(HANG_SECONDS)
    result = RunResult.from_json((folder / RESULT_FILE).read_text())
    assert (result.state, result.error) == (RunState.DONE, None), (folder / "output").read_text()


@pytest.mark.parametrize("engine", ["process", pytest.param("spark", marks=pytest.mark.soak)])
def test_the_next_run_takes_all_members_over_without_a_pause(environment: RunEnvironment, tmp_path: Path, unique: str, engine: str) -> None:
    # At least once, a task that is left behind after the graceful time doubles its last records.
    environment.properties["task.shutdown.graceful.timeout.ms"] = str(int(HANG_SECONDS * 1000))
    folder, members = tmp_path / "run-1" / "try-1", [replace(environment, connector=f"{number}-{unique}") for number in range(3)]
    folder.parent.mkdir()
    make_topic(environment.bootstrap, unique)
    send(environment.bootstrap, unique, ["first"])
    for number, member in enumerate(members):
        put(member, unique, delivery_guarantee="exactly_once" if number else "at_least_once")
    enough, sent = threading.Event(), list[str]()
    sender = threading.Thread(target=send_until, args=(enough, environment.bootstrap, unique, sent), daemon=True)
    with running(environment, folder, engine) as driver:
        (tmp_path / "output").hardlink_to(folder / "output")  # the driver removes its folder
        wait_until(lambda: all(member.lines() for member in members))
        sender.start()
        with Pauses(members[0].file) as first, Pauses(members[1].file) as second:
            os.kill(int((folder / PID_FILE).read_text()), signal.SIGUSR1)
            wait_until((folder / LEFT_FILE).exists)
            assert RunResult.from_json((folder / RESULT_FILE).read_text()).state is RunState.DONE
            with running(environment, tmp_path / "next", engine):
                assert driver.wait(HANG_SECONDS) == 0
                assert not folder.parent.exists()
                known = [len(member.lines()) for member in members]
                wait_until(lambda: all(len(each.lines()) > n + 20 for each, n in zip(members, known, strict=True)))
                enough.set()
                sender.join()
                wait_until(lambda: all(member.lines()[-1:] == sent[-1:] for member in members))
    print(f"the longest pauses of {engine}: {first.longest:.2f} and {second.longest:.2f} s")
    assert [member.lines() for member in members] == [["first", *sent]] * 3, (tmp_path / "output").read_text()


def test_a_killed_task_is_replaced_and_a_killed_driver_leaves_no_process(environment: RunEnvironment, tmp_path: Path, unique: str) -> None:
    folder = tmp_path / "run"
    make_topic(environment.bootstrap, unique)
    put(environment, unique)
    with running(environment, folder, "process") as driver:
        send(environment.bootstrap, unique, ["1"])
        wait_until(lambda: environment.lines() == ["1"])
        (task,) = psutil.Process(driver.pid).children()
        task.kill()
        send(environment.bootstrap, unique, ["2"])
        wait_until(lambda: environment.lines() == ["1", "2"])
        left = psutil.Process(driver.pid).children(recursive=True)
        assert left
        driver.send_signal(signal.SIGKILL)
        wait_until(lambda: not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in left))


@dataclass
class Vault:
    """Airflow's variables: the first request of a connector may fail with ``errors``."""

    values: dict[str, str]
    errors: list[Exception] = field(default_factory=list)

    def secrets_of(self, connector: str, config: Mapping[str, str]) -> Mapping[str, str]:
        if self.errors:
            raise self.errors.pop(0)
        return self.values


@contextmanager
def shared_run(
    environment: RunEnvironment, vault: Vault, *, leave: Leave | None = None, state: RunState = RunState.STOPPED
) -> Iterator[SharedRun]:
    """The shared run in a thread of this process, with its tasks in threads. It ends with ``state``."""
    spec = RunSpec("", environment.properties, "connect-application.crm/run-1", stays_seconds=3600.0, application="crm")
    run = SharedRun(spec, lambda: run_payload, host="127.0.0.1", mask=Mask(), secrets_of=vault.secrets_of, leave=leave)
    results: list[RunResult] = []
    thread = threading.Thread(target=lambda: results.append(run.run()), daemon=True)
    thread.start()
    try:
        yield run
    finally:
        if state is RunState.STOPPED:
            run.request_end()
        thread.join(HANG_SECONDS)
    assert [(result.state, result.error) for result in results] == [(state, None)]


def test_members_are_offered_and_the_next_run_has_them(environment: RunEnvironment, unique: str) -> None:
    left: list[tuple[RunState, Mapping[str, str]]] = []
    make_topic(environment.bootstrap, unique)
    send(environment.bootstrap, unique, ["1"])
    put(environment, unique)

    def leave(result: RunResult) -> bool:
        left.append((result.state, environment.configs().successors))
        return True

    with shared_run(environment, Vault({}), leave=leave, state=RunState.DONE) as older:
        wait_until(lambda: environment.lines() == ["1"])
        older.request_handover()
        wait_until(lambda: left == [(RunState.DONE, {environment.connector: ""})])
        send(environment.bootstrap, unique, ["2"])
        wait_until(lambda: environment.lines() == ["1", "2"])
        with shared_run(environment, Vault({})):
            wait_until(lambda: environment.configs().successors == {})
            send(environment.bootstrap, unique, ["3"])
            wait_until(lambda: environment.lines() == ["1", "2", "3"])


def test_a_member_waits_for_its_variables_fails_alone_and_is_hosted_again(
    environment: RunEnvironment, unique: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_connect.runtime.worker.application.shared_run._FIRST_RETRY_SECONDS", 0.1)
    environment.properties["config.providers.access.default"] = "allow"
    file = environment.folder / "of-a-variable.txt"
    vault = Vault({"${variable:file}": str(file)}, [RetriableException("the vault is away"), ConfigException("the vault refuses")])
    first, second = environment, replace(environment, connector=f"second-{unique}")
    make_topic(first.bootstrap, unique)
    send(first.bootstrap, unique, ["1"])
    put(first, unique, file="${variable:file}")
    with shared_run(environment, vault):
        wait_until(lambda: (status := first.statuses().connector(first.connector)) and status.state is State.FAILED)
        cache = ConfigCache(tmp_path / "cache")
        found = check_hosted(environment.settings, first.connector, cache)
        assert (found.state, found.wait_seconds > 0) == ("waiting", True)

        put(second, unique)
        wait_until(lambda: second.lines() == ["1"])
        wait_until(lambda: check_hosted(environment.settings, second.connector, cache).state == "no-work")
        assert check_hosted(environment.settings, "unknown", cache).state == "not-started"

        request_hosting(environment.settings, first.connector)
        wait_until(lambda: file.exists() and file.read_text() == "1\n")
        second.put_target_state(TargetState.PAUSED)
        wait_until(lambda: second.states() == {0: "PAUSED"})
        assert check_hosted(environment.settings, second.connector, cache).state == "not-started"
        put(second, unique, **{"airflow.application": "erp"})
        send(first.bootstrap, unique, ["2"])
        wait_until(lambda: file.read_text() == "1\n2\n")
    assert second.lines() == ["1"]


def test_a_member_whose_variables_stay_away_is_failed_until_they_are_back(
    environment: RunEnvironment, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_connect.runtime.worker.application.shared_run._FIRST_RETRY_SECONDS", 0.1)
    environment.properties["config.providers.access.default"] = "allow"
    file = environment.folder / "of-a-variable.txt"
    vault = Vault({"${variable:file}": str(file)}, [RetriableException("the vault is away") for _ in range(1000)])
    make_topic(environment.bootstrap, unique)
    send(environment.bootstrap, unique, ["1"])
    put(environment, unique, file="${variable:file}")
    with shared_run(environment, vault):
        wait_until(lambda: (status := environment.statuses().connector(environment.connector)) and status.state is State.FAILED)
        failed = environment.statuses().connector(environment.connector)
        assert "the vault is away" in str(failed and failed.trace)
        vault.errors.clear()
        wait_until(lambda: file.exists() and file.read_text() == "1\n")


def test_a_plan_that_hangs_fails_its_connector_alone(environment: RunEnvironment, unique: str) -> None:
    environment.properties["plugin.plan.timeout.ms"] = "1000"
    first, second = environment, replace(environment, connector=f"second-{unique}")
    make_topic(first.bootstrap, unique)
    put(first, unique)
    with ConfigStore(environment.settings) as store:
        store.put_connector(second.connector, second.numbers(unique, hang_seconds="600", airflow_application="crm"))
    with shared_run(environment, Vault({})):
        send(first.bootstrap, unique, ["1"])
        wait_until(lambda: first.lines() == ["1"])
        wait_until(lambda: (status := second.statuses().connector(second.connector)) and status.state is State.FAILED)
        send(first.bootstrap, unique, ["2"])
        wait_until(lambda: first.lines() == ["1", "2"])
    failed = second.statuses().connector(second.connector)
    assert failed is not None
    assert "TaskException: tests.NumbersSourceConnector (" in str(failed.trace)
    assert "took more than the 1 s of plugin.plan.timeout.ms" in str(failed.trace)
    assert "It was then at (" in str(failed.trace)


def test_a_shared_run_without_a_broker_fails(environment: RunEnvironment) -> None:
    properties = {**environment.properties, "bootstrap.servers": "127.0.0.1:1"}
    spec = RunSpec("", properties, "connect-application.crm/run-1", stays_seconds=1.0, application="crm")
    run = SharedRun(spec, lambda: run_payload, host="127.0.0.1", mask=Mask(), secrets_of=Vault({}).secrets_of)
    result = run.run()
    assert (result.state, result.retriable) == (RunState.FAILED, True)
    assert result.error
