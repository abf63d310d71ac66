"""Runs that should stay and wait for Airflow: their connectors are UNASSIGNED with the reason, and a run without connectors is ended."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from airflow_provider_connect.api_server.dags import DagRemoval
from airflow_provider_connect.api_server.status_comparison import StatusComparison
from airflow_provider_connect.api_server.waiting_runs import waiting_runs
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.contradictions import RunFacts
from airflow_provider_connect.runtime.model.ids import application_dag_id, dag_id_for
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.model.states import State, TargetState
from airflow_provider_connect.runtime.model.status import ConnectorStatus, StatusState
from tests.unit.airflow.staying_runs import START, StayingRuns

NOW = datetime.fromtimestamp(START, UTC)
QUEUED = "it waits for a worker of Airflow's executor. "
SCHEDULED = "it waits for a free slot of pool p or of the executor. "


@pytest.fixture
def runs() -> Iterator[StayingRuns]:
    runs = StayingRuns()
    yield runs
    runs.engine.dispose()


def add(
    runs: StayingRuns, dag_id: str, state: str | None, *, waits: int = 40, schedule: str = "@continuous", is_stale: bool = False
) -> None:
    """A DAG with the run r1, whose task has had ``state`` for ``waits`` seconds."""
    since = NOW - timedelta(seconds=waits)
    runs.run(dag_id, "r1", "none")
    with runs.sessions() as session:
        parsed = NOW - timedelta(hours=1)
        session.add(DagModel(dag_id=dag_id, bundle_name="b", fileloc="f", last_parsed_time=parsed, timetable_summary=schedule))
        session.flush()
        for model, values in (
            (DagRun, {"queued_at": since - timedelta(seconds=5), "dag_id": dag_id}),
            (TaskInstance, {"state": state, "scheduled_dttm": None if state is None else since, "dag_id": dag_id}),
        ):
            session.execute(update(model).where(cast("Any", model).dag_id == dag_id_for(dag_id)).values(**values))
        session.execute(update(DagModel).where(DagModel.dag_id == dag_id).values(is_stale=is_stale, is_paused=False))


def reasons(runs: StayingRuns) -> dict[str, str]:
    with runs.sessions() as session:
        return waiting_runs(session, NOW)


@pytest.mark.parametrize(("state", "reason"), [(None, "it waits for Airflow's scheduler. "), ("scheduled", SCHEDULED), ("queued", QUEUED)])
def test_a_run_that_has_not_started_waits_for_a_reason(runs: StayingRuns, state: str | None, reason: str) -> None:
    add(runs, dag_id_for("orders"), state)
    add(runs, application_dag_id("crm"), state)
    found = reasons(runs)
    assert list(found) == [application_dag_id("crm"), dag_id_for("orders")]
    assert found[dag_id_for("orders")].startswith(f"Run r1 of DAG connect.orders has not started: {reason}")


@pytest.mark.parametrize(
    "but",
    [{"state": "running"}, {"state": "deferred"}, {"state": "up_for_retry"}, {"waits": 20}, {"schedule": "5 minutes"}, {"is_stale": True}],
    ids=str,
)
def test_other_runs_do_not_wait(runs: StayingRuns, but: dict[str, Any]) -> None:
    add(runs, dag_id_for("orders"), **{"state": "queued", **but})
    assert reasons(runs) == {}


class Control:
    """A herder whose topics have one connector, which is RUNNING: its runs are noted, not judged."""

    def __init__(self, config: dict[str, str]) -> None:
        self.configs, self.statuses = ClusterConfigState(), StatusState()
        self.configs.connector_configs["orders"] = config
        self.configs.target_states["orders"] = TargetState.STARTED
        self.configs.claims["orders"] = Claim(4, "topic")
        self.statuses.apply(ConnectorStatus("orders", State.RUNNING, "host:1", claim=Claim(4, "topic")))
        self.reported: list[tuple[str, str, Claim | None]] = []

    def snapshot(self) -> "Control":
        return self

    def correct(self, _name: str, _facts: RunFacts) -> bool:
        return True

    def report_waiting(self, name: str, reason: str, claim: Claim | None) -> None:
        self.reported.append((name, reason, claim))


@pytest.mark.parametrize("dag_id", [dag_id_for("orders"), application_dag_id("crm")])
def test_a_connector_is_reported_with_the_run_that_would_host_it(runs: StayingRuns, dag_id: str) -> None:
    control, clock = Control({"airflow.application": "crm"} if "crm" in dag_id else {}), [START]
    comparison = StatusComparison(control, runs.sessions, verb_seconds=1, has_bundle=True, now=lambda: clock[0])
    comparison.tick()
    assert control.reported == []
    add(runs, dag_id, "queued", waits=0)
    clock[0] += 61
    comparison.tick()
    ((name, reason, claim),) = control.reported
    assert (name, claim) == ("orders", Claim(4, "topic"))
    assert reason.startswith(f"Run r1 of DAG {dag_id} has not started: {QUEUED}")


def test_a_paused_connector_of_a_waiting_application_is_not_reported(runs: StayingRuns) -> None:
    control = Control({"airflow.application": "crm"})
    control.configs.target_states["orders"] = TargetState.PAUSED
    control.statuses.apply(ConnectorStatus("orders", State.PAUSED, "host:1", claim=Claim(4, "topic")))
    add(runs, application_dag_id("crm"), "queued")
    StatusComparison(control, runs.sessions, verb_seconds=1, has_bundle=True, now=lambda: START).tick()
    assert control.reported == []


@pytest.mark.parametrize(
    ("dag_id", "state", "is_stale", "ends"),
    [
        (application_dag_id("crm"), "up_for_reschedule", True, True),
        (application_dag_id("crm"), None, True, True),
        (application_dag_id("crm"), "running", True, False),
        (application_dag_id("crm"), None, False, False),
        (dag_id_for("orders"), None, True, False),
    ],
)
def test_a_run_that_an_application_without_connectors_has_left_is_ended(
    runs: StayingRuns, dag_id: str, state: str | None, *, is_stale: bool, ends: bool
) -> None:
    add(runs, dag_id, state, is_stale=is_stale)
    with runs.sessions() as session:
        session.execute(update(DagModel).values(has_import_errors=False))
    runs.state.connector_configs["orders"] = {}
    DagRemoval(runs.sessions, now=lambda: START).tick(runs.state)
    with Session(runs.engine) as session:
        assert list(session.scalars(select(DagRun.state))) == ["success" if ends else "running"]
