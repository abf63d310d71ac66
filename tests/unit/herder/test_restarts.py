"""Restarts (contract §8): what is reported, what is written, what is run."""

import pytest

from airflow_provider_connect.errors import ConnectException, NotFoundException
from airflow_provider_connect.runtime.model.records import RestartRecord
from airflow_provider_connect.runtime.model.states import State, TargetState
from tests.unit.herder.conftest import CAUSE, CONFIG, RunEnvironment

R, F = State.RUNNING, State.FAILED
States = tuple[str, list[str]]


@pytest.mark.parametrize(
    ("connector", "flags", "views", "run"),
    [
        (R, (False, False), (("RESTARTING", ["RUNNING", "FAILED"]), ("RUNNING", ["RUNNING", "FAILED"])), [None]),
        (R, (False, True), (("RUNNING", ["RUNNING", "FAILED"]), ("RUNNING", ["RUNNING", "FAILED"])), []),
        (F, (False, True), (("RESTARTING", ["RUNNING", "FAILED"]), ("RESTARTING", ["RUNNING", "FAILED"])), [None]),
        (R, (True, True), (("RUNNING", ["RUNNING", "RESTARTING"]), ("RUNNING", ["RUNNING", "RESTARTING"])), [[1]]),
        (R, (True, False), (("RESTARTING", ["RESTARTING", "RESTARTING"]), ("RESTARTING", ["RESTARTING", "RESTARTING"])), [[0, 1]]),
    ],
)
def test_what_a_restart_returns_writes_and_runs(
    environment: RunEnvironment, connector: State, flags: tuple[bool, bool], views: tuple[States, States], run: list[list[int] | None]
) -> None:
    reported, written = views
    environment.herder.create_connector("c", CONFIG)
    environment.run("c", R, F, connector=connector)
    plan = environment.herder.restart_connector("c", include_tasks=flags[0], only_failed=flags[1])
    assert (plan.connector.state, [task.state for task in plan.tasks]) == reported
    assert plan.tasks[1].trace == "it broke"
    assert environment.states("c") == written
    assert environment.runs.taken() == [("trigger", "c", tasks) for tasks in run]
    records = [record for record in environment.configs.records if isinstance(record, RestartRecord)]
    assert records == ([RestartRecord("c", *flags)] if any(flags) else [])


class TestAFailedConnectorAloneIsWaitedFor:
    """As in Connect: the answer comes after the start (contract §8)."""

    @pytest.fixture
    def seen(self, environment: RunEnvironment) -> list[object]:
        """What there was to see while the restart was waited for."""
        environment.herder.create_connector("c", CONFIG)
        environment.run("c", R, F, connector=F)
        return []

    def restart(self, environment: RunEnvironment, seen: list[object], outcome: State) -> str | None:
        def wait() -> None:
            seen.extend([environment.states("c"), environment.runs.taken()])
            environment.run("c", R, F, connector=outcome)

        environment.while_waiting = wait
        plan = environment.herder.restart_connector("c", include_tasks=False, only_failed=False)
        assert plan.connector.state == "RESTARTING"
        return plan.connector.trace

    def test_until_it_has_started(self, environment: RunEnvironment, seen: list[object]) -> None:
        assert (self.restart(environment, seen, R) or "").startswith(CAUSE)
        assert seen == [("RESTARTING", ["RUNNING", "FAILED"]), [("trigger", "c", None)]]

    def test_and_the_cause_is_raised_when_it_fails_again(self, environment: RunEnvironment, seen: list[object]) -> None:
        with pytest.raises(ConnectException) as caught:
            self.restart(environment, seen, F)
        assert (caught.value.status_code, caught.value.message) == (500, f"Failed to start connector: c: {CAUSE}")

    def test_for_as_long_as_a_request_may_take(self, environment: RunEnvironment, seen: list[object]) -> None:
        with pytest.raises(ConnectException, match="Request timed out"):
            environment.herder.restart_connector("c", include_tasks=False, only_failed=False)
        assert environment.states("c")[0] == "RESTARTING"

    def test_unless_no_run_will_ever_start(self, environment: RunEnvironment, seen: list[object]) -> None:
        environment.runs.in_the_way = "there is no bundle"
        environment.herder.restart_connector("c", include_tasks=False, only_failed=False)

    def test_but_not_where_the_answer_holds_a_plan(self, environment: RunEnvironment, seen: list[object]) -> None:
        environment.while_waiting = lambda: pytest.fail("nothing is waited for")
        environment.herder.restart_connector("c", include_tasks=False, only_failed=True)


@pytest.mark.parametrize("target", [TargetState.PAUSED, TargetState.STOPPED])
def test_what_restarts_while_paused_or_stopped_is_so_again(environment: RunEnvironment, target: TargetState) -> None:
    environment.herder.create_connector("c", CONFIG)
    environment.run("c", R, F, connector=F)
    (environment.herder.pause if target is TargetState.PAUSED else environment.herder.stop)("c")
    environment.runs.taken()
    environment.herder.restart_connector("c", include_tasks=True, only_failed=False)
    assert environment.states("c") == (("PAUSED", ["PAUSED", "PAUSED"]) if target is TargetState.PAUSED else ("STOPPED", []))
    assert environment.runs.taken() == []


def test_a_restarted_task_runs_even_if_nothing_is_new(environment: RunEnvironment) -> None:
    environment.herder.create_connector("c", CONFIG)
    environment.run("c", R, F)
    environment.herder.restart_task("c", 1)
    assert environment.states("c") == ("RUNNING", ["RUNNING", "RESTARTING"])
    assert environment.runs.taken() == [("trigger", "c", [1])]


def test_a_restart_fences_the_run_in_progress(environment: RunEnvironment) -> None:
    environment.herder.create_connector("c", CONFIG)
    old = environment.run("c", R)
    environment.runs.alive = {"c"}
    environment.herder.restart_task("c", 0)
    newest = environment.configs.read().claims["c"]
    assert newest > old
    status = environment.statuses.task("c", 0)
    assert status is not None
    assert status.claim == newest


def test_unknown_connectors_and_tasks_are_reported_in_connects_words(environment: RunEnvironment) -> None:
    with pytest.raises(NotFoundException, match=r"^Unknown connector: nobody$"):
        environment.herder.restart_connector("nobody", include_tasks=False, only_failed=False)
    with pytest.raises(NotFoundException, match=r"^Unknown connector: nobody$"):
        environment.herder.restart_task("nobody", 0)
    environment.herder.create_connector("c", CONFIG)
    for task in (7, -1):
        with pytest.raises(NotFoundException, match=rf"^Unknown task: c-{task}$"):
            environment.herder.restart_task("c", task)


def test_a_connector_without_a_status_cannot_be_planned_but_started(environment: RunEnvironment) -> None:
    environment.configs.create_connector("c", {**CONFIG, "name": "c"})
    with pytest.raises(NotFoundException, match=r"^Status for connector c not found$"):
        environment.herder.restart_connector("c", include_tasks=True, only_failed=False)
    environment.herder.restart_connector("c", include_tasks=False, only_failed=False)
    assert environment.states("c") == ("RUNNING", [])
