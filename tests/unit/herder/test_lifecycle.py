"""Pausing, resuming, stopping: target states, statuses and runs (contract §6.4)."""

import pytest

from airflow_provider_connect.errors import NotFoundException
from airflow_provider_connect.runtime.model.contradictions import RunFacts
from airflow_provider_connect.runtime.model.states import State, TargetState
from airflow_provider_connect.runtime.model.status import ConnectorStatus, TaskStatus
from tests.unit.herder.conftest import CONFIG, RunEnvironment

R, P, F = State.RUNNING, State.PAUSED, State.FAILED


@pytest.fixture
def running(environment: RunEnvironment) -> RunEnvironment:
    """A connector that runs two tasks, of which one has FAILED; none is at work now."""
    environment.herder.create_connector("c", CONFIG)
    environment.run("c", R, F)
    return environment


def test_unknown_connectors_are_reported_in_connects_words(environment: RunEnvironment) -> None:
    for verb in (environment.herder.pause, environment.herder.resume, environment.herder.stop):
        with pytest.raises(NotFoundException, match=r"^Unknown connector nobody$"):
            verb("nobody")


def test_a_paused_connector_and_all_its_tasks_are_paused(running: RunEnvironment) -> None:
    running.herder.pause("c")
    running.herder.pause("c")
    assert running.states("c") == ("PAUSED", ["PAUSED", "PAUSED"])
    assert len(running.herder.connector_info("c").tasks) == 2
    assert running.runs.taken() == []
    running.herder.resume("c")
    assert running.states("c") == ("RUNNING", ["RUNNING", "RUNNING"])
    assert running.runs.taken() == [("trigger", "c", None)]
    running.herder.resume("c")
    assert running.runs.taken() == []


def test_a_failed_connector_stays_failed_when_it_is_paused_and_its_tasks_are_paused(environment: RunEnvironment) -> None:
    environment.herder.create_connector("c", CONFIG)
    environment.run("c", R, connector=F)
    environment.herder.pause("c")
    assert environment.states("c") == ("FAILED", ["PAUSED"])
    environment.herder.stop("c")
    assert environment.states("c") == ("STOPPED", [])


def test_a_pause_by_airflow_keeps_what_has_failed(running: RunEnvironment) -> None:
    running.herder.pause("c", keep_failed=True)
    assert running.states("c") == ("PAUSED", ["PAUSED", "FAILED"])


def test_a_run_in_progress_writes_its_own_paused_statuses(running: RunEnvironment) -> None:
    running.runs.alive = {"c"}
    running.herder.pause("c")
    assert running.states("c") == ("RUNNING", ["RUNNING", "FAILED"])
    assert running.configs.read().target_state("c") is TargetState.PAUSED


def test_a_run_that_is_about_to_pause_cannot_report_it_after_a_resume(running: RunEnvironment) -> None:
    old = running.configs.read().claims["c"]
    running.runs.alive = {"c"}
    running.herder.pause("c")
    running.herder.resume("c")
    running.backing.status_store.put_connector(ConnectorStatus("c", P, "worker:1", claim=old))
    running.backing.status_store.put_task(TaskStatus("c", 0, P, "worker:1", claim=old))
    running.herder.correct("c", RunFacts())
    assert running.states("c") == ("RUNNING", ["RUNNING", "FAILED"])


def test_a_stopped_connector_has_no_tasks_and_no_runs(running: RunEnvironment) -> None:
    old = running.configs.read().claims["c"]
    running.runs.alive = {"c"}
    running.herder.stop("c")
    assert running.states("c") == ("STOPPED", [])
    assert running.herder.connector_info("c").tasks == []
    assert running.runs.taken() == [("end", "c")]
    assert running.configs.read().claims["c"] > old
    running.herder.stop("c")
    assert running.states("c") == ("STOPPED", [])


def test_a_pause_after_a_stop_leaves_no_tasks(running: RunEnvironment) -> None:
    running.herder.stop("c")
    running.herder.pause("c")
    assert running.states("c") == ("PAUSED", [])
    assert running.herder.connector_info("c").tasks == []
    running.herder.resume("c")
    assert running.states("c") == ("RUNNING", [])


def test_a_run_that_does_not_end_in_time_is_stopped_all_the_same_and_its_statuses_follow(running: RunEnvironment) -> None:
    running.runs.alive = running.runs.stubborn = {"c"}
    running.herder.stop("c")
    assert running.configs.read().target_state("c") is TargetState.STOPPED
    assert running.states("c") == ("RUNNING", ["RUNNING", "FAILED"])
    assert not running.herder.correct("c", RunFacts(is_live=True))
    running.runs.alive = set()
    assert running.herder.correct("c", RunFacts())
    assert running.states("c") == ("STOPPED", [])


# ── what a killed process leaves, and who completes it ──


def test_a_stop_of_which_only_the_record_was_written_is_completed(running: RunEnvironment) -> None:
    running.configs.put_target_state("c", TargetState.STOPPED)
    running.runs.alive = {"c"}
    assert running.herder.correct("c", RunFacts(is_live=True))
    assert running.states("c") == ("STOPPED", [])
    running.runs.taken()
    assert running.herder.correct("c", RunFacts())
    assert running.runs.taken() == []


def test_a_deletion_of_which_only_the_record_was_written_is_completed(running: RunEnvironment) -> None:
    running.configs.delete_connector("c")
    assert running.herder.correct("c", RunFacts())
    assert running.statuses.names() == set()
    assert running.runs.taken() == [("end", "c"), ("forget", "c")]


def test_a_name_that_is_taken_again_while_its_last_owner_is_cleared_away_keeps_its_statuses(running: RunEnvironment) -> None:
    running.configs.delete_connector("c")
    end = running.runs.end

    def meanwhile(connector: str) -> None:
        end(connector)
        running.configs.create_connector("c", {**CONFIG, "name": "c"})

    running.runs.end = meanwhile  # type: ignore[method-assign]
    running.herder.correct("c", RunFacts())
    assert running.states("c") == ("RUNNING", ["RUNNING", "FAILED"])
    assert ("forget", "c") not in running.runs.taken()


def test_a_creation_of_which_only_the_record_was_written_is_completed(environment: RunEnvironment) -> None:
    environment.configs.create_connector("c", {**CONFIG, "name": "c"})
    environment.herder.correct("c", RunFacts())
    assert environment.states("c") == ("RUNNING", [])


def test_a_killed_run_is_failed_with_what_airflow_knows_of_it(environment: RunEnvironment) -> None:
    environment.herder.create_connector("c", CONFIG)
    environment.run("c", R, R)
    environment.herder.correct("c", RunFacts(ended_ms=1, failure="killed on host x"))
    assert environment.states("c") == ("RUNNING", ["FAILED", "FAILED"])
    assert environment.herder.task_status("c", 1).trace == "killed on host x"


def test_a_change_whose_run_never_came_gets_one(environment: RunEnvironment) -> None:
    environment.herder.create_connector("c", CONFIG)
    environment.run("c", R, R)
    environment.herder.put_connector_config("c", {**CONFIG, "topic": "other"})
    environment.runs.taken()
    environment.herder.correct("c", RunFacts(is_waiting=True))
    assert environment.runs.taken() == []
    environment.herder.correct("c", RunFacts())
    assert environment.runs.taken() == [("trigger", "c", [0, 1])]


class TestAConnectorThatNothingCanRun:
    """No bundle makes a DAG of it: it is UNASSIGNED, with the reason, rather than RUNNING for ever."""

    REASON = "Connectors created over REST never run: add the bundle"

    def state(self, environment: RunEnvironment) -> tuple[str, str | None]:
        view = environment.herder.connector_status("c").connector
        return view.state, view.trace

    def test_is_unassigned_when_it_is_created_changed_restarted_and_resumed(self, environment: RunEnvironment) -> None:
        environment.runs.in_the_way = self.REASON
        environment.herder.create_connector("c", CONFIG)
        assert self.state(environment) == ("UNASSIGNED", self.REASON)
        environment.herder.put_connector_config("c", {**CONFIG, "tasks.max": "2"})
        environment.herder.restart_connector("c", include_tasks=True, only_failed=False)
        assert self.state(environment) == ("UNASSIGNED", self.REASON)
        environment.herder.pause("c")
        assert self.state(environment) == ("PAUSED", None)
        environment.herder.resume("c")
        assert self.state(environment) == ("UNASSIGNED", self.REASON)
        assert environment.herder.health_warnings() == [self.REASON]

    def test_and_so_are_its_tasks_where_it_ran_before(self, running: RunEnvironment) -> None:
        running.runs.in_the_way = self.REASON
        assert running.herder.correct("c", RunFacts())
        assert running.states("c") == ("UNASSIGNED", ["UNASSIGNED", "FAILED"])
        assert self.state(running) == ("UNASSIGNED", self.REASON)

    def test_runs_once_it_can(self, environment: RunEnvironment) -> None:
        environment.runs.in_the_way = self.REASON
        environment.herder.create_connector("c", CONFIG)
        environment.runs.taken()
        environment.runs.in_the_way = None
        assert environment.herder.correct("c", RunFacts())
        assert environment.runs.taken() == [("trigger", "c", None)]
        assert environment.herder.health_warnings() == []


def test_the_log_of_a_failed_connector_whose_run_waits_names_no_other_state(
    running: RunEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    running.herder.refuse_dag("c", "no")
    for _ in range(2):
        running.herder.report_waiting("c", "no slot is free", running.configs.read().claims["c"])
    assert running.states("c")[0] == "FAILED"
    assert "UNASSIGNED" not in caplog.text


def test_a_connector_whose_run_waits_is_unassigned_with_the_reason_until_a_run_starts(running: RunEnvironment) -> None:
    claim = running.configs.read().claims["c"]
    running.herder.report_waiting("c", "no slot is free", claim)
    assert running.states("c") == ("UNASSIGNED", ["UNASSIGNED", "FAILED"])
    assert running.herder.connector_status("c").connector.trace == "no slot is free"
    running.herder.correct("c", RunFacts(is_waiting=True))
    assert running.runs.taken() == []
    running.run("c", R, R)
    assert running.states("c") == ("RUNNING", ["RUNNING", "RUNNING"])
    running.herder.report_waiting("c", "no slot is free", claim)  # the run has claimed it meanwhile
    assert running.states("c") == ("RUNNING", ["RUNNING", "RUNNING"])
    running.herder.pause("c")
    running.herder.report_waiting("c", "no slot is free", running.configs.read().claims["c"])
    assert running.states("c") == ("PAUSED", ["PAUSED", "PAUSED"])
