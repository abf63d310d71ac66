"""How a run's end is read from Airflow's database, for statuses of connectors whose run was killed and could not report."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from airflow.models.dagrun import DagRun
from airflow.models.log import Log
from airflow.models.taskinstance import TaskInstance
from sqlalchemy import insert, update
from sqlalchemy.orm import Session

from airflow_provider_connect.api_server.runs import ENDS, run_facts
from airflow_provider_connect.runtime.model.contradictions import RunFacts
from tests.unit.airflow.staying_runs import START, StayingRuns

ENDED = datetime.fromtimestamp(START + 60, UTC)
ENDED_MS = int((START + 60) * 1000)


@pytest.fixture
def session() -> Iterator[Session]:
    """Airflow's database: run r1 of connector orders has FAILED, and so has its task."""
    runs = StayingRuns()
    runs.run("orders", "r1", "failed")
    with runs.sessions() as session:
        session.execute(update(DagRun).values(state="failed", start_date=datetime.fromtimestamp(START, UTC), end_date=ENDED))
        session.execute(update(TaskInstance).values(try_number=2, hostname="host-1"))
        yield session
    runs.engine.dispose()


def facts(session: Session) -> RunFacts:
    return run_facts(session, ["orders"])["orders"]


def mark(session: Session, user: str, state: str, at: datetime, event: str = "patch_dag_run") -> None:
    """An entry of Airflow's audit log, as its API writes it."""
    entry = Log(event, owner=user, dag_id="connect.orders", run_id="r1", extra=f'{{"state": "{state}", "method": "PATCH"}}')
    entry.dttm = at
    session.add(entry)
    session.flush()


def test_a_failed_run_with_no_live_task_names_its_failed_tries(session: Session) -> None:
    tries = "run (try 2, failed, on host-1)"
    failure = f"Run r1 failed and its application did not report this: {tries}. See the log of that try in Airflow. {ENDS}"
    assert facts(session) == RunFacts(ended_ms=ENDED_MS, failure=failure)


def test_a_failed_run_without_a_failed_task_started_nothing(session: Session) -> None:
    session.execute(update(TaskInstance).values(state="skipped"))
    assert facts(session) == RunFacts(ended_ms=ENDED_MS, failure=f"Run r1 failed before it started anything. {ENDS}")


@pytest.mark.parametrize("event", ["patch_dag_run", "patch_task_instance"])
def test_a_run_that_a_user_marked_as_failed_names_the_last_such_user(session: Session, event: str) -> None:
    mark(session, "anna", "failed", ENDED - timedelta(seconds=30), event)
    mark(session, "bert", "failed", ENDED, event)
    mark(session, "carl", "success", ENDED, event)
    failure = f"Run r1 was marked as failed by user bert in Airflow. {ENDS}"
    assert facts(session) == RunFacts(ended_ms=ENDED_MS, failure=failure, is_marked=True)


def test_a_mark_from_before_the_run_began_or_after_its_end_is_not_its_failure(session: Session) -> None:
    for at in (ENDED - timedelta(hours=1), ENDED + timedelta(hours=1)):
        mark(session, "anna", "failed", at)
    assert not facts(session).is_marked


def test_of_several_runs_the_last_to_end_counts(session: Session) -> None:
    ended = ENDED + timedelta(seconds=5)
    values = {"dag_id": "connect.orders", "run_type": "manual", "run_after": ended, "log_template_id": 1, "clear_number": 0}
    session.execute(insert(cast("Any", DagRun.__table__)).values(**values, run_id="r2", state="success", end_date=ended))
    assert facts(session) == RunFacts(ended_ms=ENDED_MS + 5000)
