"""A task that fails again and again: how often is counted on the status topic, and scheduled runs leave it more and more time."""

from __future__ import annotations

import pytest

from airflow_provider_connect.runtime.model.run import RunState
from airflow_provider_connect.runtime.model.states import State
from airflow_provider_connect.runtime.model.status import TaskStatus
from airflow_provider_connect.runtime.stores.status_store import StatusWriter
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from airflow_provider_connect.runtime.worker.application.failure_report import report_lost
from airflow_provider_connect.runtime.worker.application.readiness import Readiness, check_readiness, seconds_to_wait
from tests.integration.worker.environment import RunEnvironment, make_topic


def prepare(environment: RunEnvironment, topic: str) -> None:
    TopicAdmin(environment.settings).ensure_internal_topics()
    make_topic(environment.bootstrap, topic)


def scheduled(environment: RunEnvironment, *, is_asked_for: bool = False) -> Readiness:
    """What a scheduled run finds."""
    settings, name = environment.settings, environment.connector
    return check_readiness(settings, name, define=None, secrets_of=lambda _: {}, is_asked_for=is_asked_for, may_wait=True)


def failures(environment: RunEnvironment) -> list[tuple[str, int]]:
    return [(str(status.state), status.failures) for status in environment.statuses().tasks_of(environment.connector)]


@pytest.mark.parametrize(("failures", "seconds"), [(1, 60), (2, 120), (3, 240), (6, 1920), (7, 3600), (8, 3600), (10_000, 3600)])
def test_the_wait_doubles_up_to_an_hour(failures: int, seconds: float) -> None:
    assert seconds_to_wait(failures) == seconds


def test_failures_are_counted_make_scheduled_runs_wait_and_are_forgotten_with_success(environment: RunEnvironment, unique: str) -> None:
    prepare(environment, unique)
    config = environment.numbers(unique, fail_tasks="0")
    environment.put_config(config)
    for count in (1, 2, 3):
        assert environment.run().state is RunState.FAILED
        assert failures(environment) == [("FAILED", count)]
        found = scheduled(environment)
        times = "once" if count == 1 else f"{count} times in a row"
        assert (found.state, f"FAILED {times}, so" in found.reason) == ("waiting", True)
    assert int(found.reason.split(" starts in ")[1].split(" s ")[0]) in range(120, 241)
    assert scheduled(environment, is_asked_for=True).state == "work"
    assert environment.readiness().state == "work"  # a retry, a run by hand
    environment.put_config({**config, "fail.tasks": "9"})
    assert scheduled(environment).state == "work"  # the config is another
    assert environment.run().state is RunState.DONE
    assert failures(environment) == [("RUNNING", 0)]


def test_a_changed_config_begins_anew_and_so_does_a_restart(environment: RunEnvironment, unique: str) -> None:
    prepare(environment, unique)
    config = environment.numbers(unique, fail_tasks="0")
    environment.put_config(config)
    environment.run()
    environment.run()
    environment.put_config({**config, "until": "2000"})
    claim = environment.run().claim
    assert failures(environment) == [("FAILED", 1)]
    assert scheduled(environment).state == "waiting"
    with StatusWriter(environment.settings, claim=claim) as writer:
        writer.put_task(TaskStatus(environment.connector, 0, State.RESTARTING, "api:0", claim=claim))
    assert scheduled(environment).state == "work"


def test_a_task_that_failed_once_runs_to_its_end_and_is_forgiven(environment: RunEnvironment, unique: str) -> None:
    prepare(environment, unique)
    claim = environment.run(environment.numbers(unique, until="10")).claim
    assert claim is not None
    with StatusWriter(environment.settings, claim=claim) as writer:
        writer.put_task(TaskStatus(environment.connector, 0, State.FAILED, "h:1", trace="once", claim=claim, failures=4))
    assert environment.run().state is RunState.DONE
    assert failures(environment) == [("RUNNING", 0)]


def test_a_run_that_its_time_ends_has_ended_well(environment: RunEnvironment, unique: str) -> None:
    """The runs of a source that always has more end in no other way."""
    prepare(environment, unique)
    claim = environment.run(environment.numbers(unique, until="100000", size="10", poll_ms="100", batch_max_duration_ms="1500")).claim
    with StatusWriter(environment.settings, claim=claim) as writer:
        writer.put_task(TaskStatus(environment.connector, 0, State.FAILED, "h:1", trace="once", claim=claim, failures=4))
    assert environment.run().state is RunState.STOPPED
    assert failures(environment) == [("RUNNING", 0)]


def test_an_application_that_died_counts_too(environment: RunEnvironment, unique: str) -> None:
    prepare(environment, unique)
    claim = environment.run(environment.numbers(unique)).claim
    directory = environment.folder / "run"
    directory.mkdir()
    (directory / "claim.json").write_text(str(claim))
    with StatusWriter(environment.settings, claim=claim) as writer:
        writer.put_task(TaskStatus(environment.connector, 0, State.RUNNING, "h:1", claim=claim, failures=2))
    report_lost(environment.settings, environment.connector, directory, 137, ["killed"])
    assert failures(environment) == [("FAILED", 3)]


def test_siblings_that_work_are_not_held_up(environment: RunEnvironment, unique: str) -> None:
    prepare(environment, unique)
    environment.put_config(environment.numbers(unique, tasks_max="2", tasks="2", fail_tasks="1"))
    environment.run()
    assert failures(environment) == [("RUNNING", 0), ("FAILED", 1)]
    assert scheduled(environment).state == "work"
