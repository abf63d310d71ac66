"""A task that fails again and again: how often is counted on the status topic, and scheduled runs leave it more and more time."""

from __future__ import annotations

import pytest

from airflow_provider_connect.model.run import RunState
from airflow_provider_connect.model.states import State
from airflow_provider_connect.model.status import TaskStatus
from airflow_provider_connect.stores.status_store import StatusWriter
from airflow_provider_connect.stores.topic_admin import TopicAdmin
from airflow_provider_connect.worker.application.failure_report import report_lost
from airflow_provider_connect.worker.application.readiness import Readiness, check_readiness, seconds_to_wait
from tests.integration.worker.scene import Scene, make_topic


def prepare(scene: Scene, topic: str) -> None:
    TopicAdmin(scene.settings).ensure_internal_topics()
    make_topic(scene.bootstrap, topic)


def scheduled(scene: Scene, *, is_asked_for: bool = False) -> Readiness:
    """What a scheduled run finds."""
    settings, name = scene.settings, scene.connector
    return check_readiness(settings, name, define=None, secrets_of=lambda _: {}, is_asked_for=is_asked_for, may_wait=True)


def failures(scene: Scene) -> list[tuple[str, int]]:
    return [(str(status.state), status.failures) for status in scene.statuses().tasks_of(scene.connector)]


@pytest.mark.parametrize(("failures", "seconds"), [(1, 60), (2, 120), (3, 240), (6, 1920), (7, 3600), (8, 3600), (10_000, 3600)])
def test_the_wait_doubles_up_to_an_hour(failures: int, seconds: float) -> None:
    assert seconds_to_wait(failures) == seconds


def test_failures_are_counted_make_scheduled_runs_wait_and_are_forgotten_with_success(scene: Scene, unique: str) -> None:
    prepare(scene, unique)
    config = scene.numbers(unique, fail_tasks="0")
    scene.put_config(config)
    for count in (1, 2, 3):
        assert scene.run().state is RunState.FAILED
        assert failures(scene) == [("FAILED", count)]
    found = scheduled(scene)
    assert (found.state, "FAILED 3 times in a row" in found.reason) == ("waiting", True)
    assert int(found.reason.split(" starts in ")[1].split(" s ")[0]) in range(120, 241)
    assert scheduled(scene, is_asked_for=True).state == "work"
    assert scene.readiness().state == "work"  # a retry, a run by hand
    scene.put_config({**config, "fail.tasks": "9"})
    assert scheduled(scene).state == "work"  # the config is another
    assert scene.run().state is RunState.DONE
    assert failures(scene) == [("RUNNING", 0)]


def test_a_changed_config_begins_anew_and_so_does_a_restart(scene: Scene, unique: str) -> None:
    prepare(scene, unique)
    config = scene.numbers(unique, fail_tasks="0")
    scene.put_config(config)
    scene.run()
    scene.run()
    scene.put_config({**config, "until": "2000"})
    claim = scene.run().claim
    assert failures(scene) == [("FAILED", 1)]
    assert scheduled(scene).state == "waiting"
    with StatusWriter(scene.settings, claim=claim) as writer:
        writer.put_task(TaskStatus(scene.connector, 0, State.RESTARTING, "api:0", claim=claim))
    assert scheduled(scene).state == "work"


def test_a_task_that_failed_once_runs_to_its_end_and_is_forgiven(scene: Scene, unique: str) -> None:
    prepare(scene, unique)
    claim = scene.run(scene.numbers(unique, until="10")).claim
    assert claim is not None
    with StatusWriter(scene.settings, claim=claim) as writer:
        writer.put_task(TaskStatus(scene.connector, 0, State.FAILED, "h:1", trace="once", claim=claim, failures=4))
    assert scene.run().state is RunState.DONE
    assert failures(scene) == [("RUNNING", 0)]


def test_a_run_that_its_time_ends_has_ended_well(scene: Scene, unique: str) -> None:
    """The runs of a source that always has more end in no other way."""
    prepare(scene, unique)
    claim = scene.run(scene.numbers(unique, until="100000", size="10", poll_ms="100", batch_max_duration_ms="1500")).claim
    with StatusWriter(scene.settings, claim=claim) as writer:
        writer.put_task(TaskStatus(scene.connector, 0, State.FAILED, "h:1", trace="once", claim=claim, failures=4))
    assert scene.run().state is RunState.STOPPED
    assert failures(scene) == [("RUNNING", 0)]


def test_an_application_that_died_counts_too(scene: Scene, unique: str) -> None:
    prepare(scene, unique)
    claim = scene.run(scene.numbers(unique)).claim
    directory = scene.folder / "run"
    directory.mkdir()
    (directory / "claim.json").write_text(str(claim))
    with StatusWriter(scene.settings, claim=claim) as writer:
        writer.put_task(TaskStatus(scene.connector, 0, State.RUNNING, "h:1", claim=claim, failures=2))
    report_lost(scene.settings, scene.connector, directory, 137, ["killed"])
    assert failures(scene) == [("FAILED", 3)]


def test_siblings_that_work_are_not_held_up(scene: Scene, unique: str) -> None:
    prepare(scene, unique)
    scene.put_config(scene.numbers(unique, tasks_max="2", tasks="2", fail_tasks="1"))
    scene.run()
    assert failures(scene) == [("RUNNING", 0), ("FAILED", 1)]
    assert scheduled(scene).state == "work"
