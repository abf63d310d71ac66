"""Planning in a process of its own, as ``tasks.per.application`` does it: what comes back, and what a failure leaves behind."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from airflow_provider_connect.errors import ConfigException, ConnectException, RetriableException
from airflow_provider_connect.runtime.model.run import RUN_FILE, RunSpec, RunState
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.spark.run_directory import write_private
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from airflow_provider_connect.runtime.worker.application import plan_process
from airflow_provider_connect.runtime.worker.application.plan_process import SharedPlan, plan_in_subprocess
from airflow_provider_connect.runtime.worker.application.readiness import Readiness, UnreadyException, check_readiness
from tests.integration.worker.environment import RunEnvironment, make_topic, values_of
from tests.waiting import HANG_SECONDS

TOO_SHORT_SECONDS = 0.1

SECRETS = {"${airflow:shop:password}": "canary-4711"}


@pytest.fixture(autouse=True)
def plugins_in_subprocesses(environment: RunEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(environment.folder / "plugins"), os.getcwd()]))


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planning process is this one: a process of its own takes seconds to start."""

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        plan_process.main(Path(command[-1]))
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)


def plan(environment: RunEnvironment, define: dict[str, str], *, timeout_seconds: float = HANG_SECONDS) -> SharedPlan:
    directory = environment.folder / "plan"
    directory.mkdir(mode=0o700)
    spec = RunSpec(environment.connector, environment.properties, "run-1", define=define, secrets=SECRETS)
    write_private(directory / RUN_FILE, spec.to_json())
    return plan_in_subprocess(directory, timeout_seconds=timeout_seconds)


def test_groups_of_tasks_run_under_one_claim(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    config = environment.numbers(unique, tasks_max="3", tasks="3", until="100")
    shared = plan(environment, config)
    assert shared.tasks == [0, 1, 2]
    assert environment.configs().claims[environment.connector] == shared.claim
    results = [environment.run(tasks=[task], claim=shared.claim) for task in shared.tasks]
    assert [(result.state, result.claim) for result in results] == [(RunState.DONE, shared.claim)] * 3
    assert len(values_of(environment.bootstrap, unique)) == 300
    assert environment.states() == dict.fromkeys(range(3), "RUNNING")
    environment.run()  # another run came first: a group of the older plan does nothing
    assert environment.run(tasks=[0], claim=shared.claim).state is RunState.SKIPPED


@pytest.mark.usefixtures("in_this_process")
def test_connector_that_cannot_start_is_reported_without_its_secret(environment: RunEnvironment, unique: str) -> None:
    environment.properties["config.providers.airflow.param.allowlist.pattern"] = "shop:.*"
    config = environment.numbers(unique, fail_start="true", password="${airflow:shop:password}")
    with pytest.raises(ConnectException) as caught:
        plan(environment, config)
    assert str(caught.value) == "login refused for password [hidden]"
    status = environment.statuses().connector(environment.connector)
    assert status is not None
    assert str(status.state) == "FAILED"
    assert "ConnectException: login refused for password [hidden]" in str(status.trace)
    assert status.claim == environment.configs().claims[environment.connector]
    assert not [path for path in (environment.folder / "plan").iterdir() if path.name != RUN_FILE and "canary" in path.read_text()]


@pytest.mark.usefixtures("in_this_process")
def test_too_many_tasks_and_bad_configs_are_not_tried_again(environment: RunEnvironment, unique: str) -> None:
    with pytest.raises(ConnectException, match="has generated 3 tasks, which is greater than 2") as caught:
        plan(environment, environment.numbers(unique, tasks_max="2", tasks="3"))
    assert not caught.value.retriable
    (environment.folder / "plan").rename(environment.folder / "first-plan")
    environment.put_config(environment.numbers(unique, until="many"))
    with pytest.raises(ConfigException, match="Invalid value many for configuration until"):
        plan(environment, {})


def test_plan_that_takes_too_long_may_be_tried_again(environment: RunEnvironment, unique: str) -> None:
    with pytest.raises(RetriableException, match=r"did not plan its tasks within 0\.1 s"):
        plan(environment, environment.numbers(unique), timeout_seconds=TOO_SHORT_SECONDS)


@pytest.mark.usefixtures("in_this_process")
def test_connector_that_is_not_started_has_no_plan(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    environment.run(environment.numbers(unique, until="10"))
    environment.put_target_state(TargetState.PAUSED)
    assert plan(environment, {}) == SharedPlan([], None, f"connector {environment.connector} is PAUSED")


def test_what_a_plan_has_checked_is_not_checked_again_by_its_tasks(environment: RunEnvironment, unique: str) -> None:
    """Whose folder is missing on one host of several fails there as it starts; a check that claimed anew would fence the others."""
    make_topic(environment.bootstrap, unique)
    TopicAdmin(environment.settings).ensure_internal_topics()
    environment.put_config(environment.file_sink(unique, file=str(environment.folder / "nowhere" / "out.txt")))

    def check(*, is_planned: bool) -> Readiness:
        return check_readiness(environment.settings, environment.connector, define=None, secrets_of=lambda _: {}, is_planned=is_planned)

    with pytest.raises(UnreadyException, match="There is no folder"):
        check(is_planned=False)
    assert check(is_planned=True).state == "work"
    environment.put_target_state(TargetState.PAUSED)
    assert check(is_planned=True).state == "not-started"
