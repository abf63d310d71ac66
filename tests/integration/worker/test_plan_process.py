"""Planning in a process of its own, as ``tasks.per.application`` does it: what comes back, and what a failure leaves behind."""

from __future__ import annotations

import os

import pytest

from airflow_provider_connect.errors import ConfigException, ConnectException, RetriableException
from airflow_provider_connect.model.run import RUN_FILE, RunSpec, RunState
from airflow_provider_connect.model.states import TargetState
from airflow_provider_connect.stores.topic_admin import TopicAdmin
from airflow_provider_connect.worker.application.plan_process import SharedPlan, plan_in_subprocess, write_private
from airflow_provider_connect.worker.application.readiness import Readiness, UnreadyException, check_readiness
from tests.integration.worker.scene import Scene, make_topic, values_of

SECRETS = {"${airflow:shop:password}": "canary-4711"}


@pytest.fixture(autouse=True)
def plugins_in_subprocesses(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(scene.folder / "plugins"), os.getcwd()]))


def plan(scene: Scene, define: dict[str, str], *, timeout_seconds: float = 60) -> SharedPlan:
    directory = scene.folder / "plan"
    directory.mkdir(mode=0o700)
    spec = RunSpec(scene.connector, scene.properties, "run-1", define=define, secrets=SECRETS)
    write_private(directory / RUN_FILE, spec.to_json())
    return plan_in_subprocess(directory, timeout_seconds=timeout_seconds)


def test_groups_of_tasks_run_under_one_claim(scene: Scene, unique: str) -> None:
    make_topic(scene.bootstrap, unique)
    config = scene.numbers(unique, tasks_max="3", tasks="3", until="100")
    shared = plan(scene, config)
    assert shared.tasks == [0, 1, 2]
    assert scene.configs().claims[scene.connector] == shared.claim
    results = [scene.run(tasks=[task], claim=shared.claim) for task in shared.tasks]
    assert [(result.state, result.claim) for result in results] == [(RunState.DONE, shared.claim)] * 3
    assert len(values_of(scene.bootstrap, unique)) == 300
    assert scene.states() == dict.fromkeys(range(3), "RUNNING")
    scene.run()  # another run came first: a group of the older plan does nothing
    assert scene.run(tasks=[0], claim=shared.claim).state is RunState.SKIPPED


def test_connector_that_cannot_start_is_reported_without_its_secret(scene: Scene, unique: str) -> None:
    scene.properties["config.providers.airflow.param.allowlist.pattern"] = "shop:.*"
    config = scene.numbers(unique, fail_start="true", password="${airflow:shop:password}")
    with pytest.raises(ConnectException) as caught:
        plan(scene, config)
    assert str(caught.value) == "login refused for password [hidden]"
    status = scene.statuses().connector(scene.connector)
    assert status is not None
    assert str(status.state) == "FAILED"
    assert "ConnectException: login refused for password [hidden]" in str(status.trace)
    assert status.claim == scene.configs().claims[scene.connector]
    assert not [path for path in (scene.folder / "plan").iterdir() if path.name != RUN_FILE and "canary" in path.read_text()]


def test_too_many_tasks_and_bad_configs_are_not_tried_again(scene: Scene, unique: str) -> None:
    with pytest.raises(ConnectException, match="has generated 3 tasks, which is greater than 2") as caught:
        plan(scene, scene.numbers(unique, tasks_max="2", tasks="3"))
    assert not caught.value.retriable
    (scene.folder / "plan").rename(scene.folder / "first-plan")
    scene.put_config(scene.numbers(unique, until="many"))
    with pytest.raises(ConfigException, match="Invalid value many for configuration until"):
        plan(scene, {})


def test_plan_that_takes_too_long_may_be_tried_again(scene: Scene, unique: str) -> None:
    with pytest.raises(RetriableException, match=r"did not plan its tasks within 0\.1 s"):
        plan(scene, scene.numbers(unique), timeout_seconds=0.1)


def test_connector_that_is_not_started_has_no_plan(scene: Scene, unique: str) -> None:
    make_topic(scene.bootstrap, unique)
    scene.run(scene.numbers(unique, until="10"))
    scene.put_target_state(TargetState.PAUSED)
    assert plan(scene, {}) == SharedPlan([], None, f"connector {scene.connector} is PAUSED")


def test_what_a_plan_has_checked_is_not_checked_again_by_its_tasks(scene: Scene, unique: str) -> None:
    """Whose folder is missing on one host of several fails there as it starts; a check that claimed anew would fence the others."""
    make_topic(scene.bootstrap, unique)
    TopicAdmin(scene.settings).ensure_internal_topics()
    scene.put_config(scene.file_sink(unique, file=str(scene.folder / "nowhere" / "out.txt")))

    def look(*, is_planned: bool) -> Readiness:
        return check_readiness(scene.settings, scene.connector, define=None, secrets_of=lambda _: {}, is_planned=is_planned)

    with pytest.raises(UnreadyException, match="There is no folder"):
        look(is_planned=False)
    assert look(is_planned=True).state == "work"
    scene.put_target_state(TargetState.PAUSED)
    assert look(is_planned=True).state == "not-started"
