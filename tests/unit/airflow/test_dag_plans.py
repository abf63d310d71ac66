"""What the page shows of the DAGs of connectors: when they run next, their owners, tags and attempts."""

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from airflow.models.dag import DagModel, DagTag
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.models.trigger import Trigger
from airflow.sdk import DAG
from airflow.serialization.encoders import coerce_to_core_timetable
from sqlalchemy import create_engine, insert, update
from sqlalchemy.orm import Session

from airflow_provider_connect.api_server.attempts import failed_runs, newest_attempts, open_attempts
from airflow_provider_connect.api_server.dags import plans
from airflow_provider_connect.runtime.model.page import AttemptView, PlanView

NEXT = datetime(2026, 1, 31, 14, 0, 5, tzinfo=UTC)
NEXT_MS = int(NEXT.timestamp() * 1000)


@pytest.fixture
def session() -> Iterator[Session]:
    engine = create_engine("sqlite://")
    for table in (DagModel, DagTag, DagRun, TaskInstance, Trigger):
        cast("Any", table.__table__).create(engine)
    with Session(engine) as session:
        yield session
    engine.dispose()


def dag(dag_id: str, **more: Any) -> DagModel:
    given = {"is_paused": False, "is_stale": False, "next_dagrun_create_after": NEXT, "owners": "ada", **more}
    return DagModel(dag_id=dag_id, bundle_name="connect", fileloc="/x.py", **given)


def add_run(session: Session, dag_id: str, run_id: str, state: str, *attempts: dict[str, Any]) -> None:
    started = {} if state == "queued" else {"start_date": NEXT}
    run = {
        "dag_id": dag_id,
        "run_id": run_id,
        "state": state,
        "run_type": "manual",
        "run_after": NEXT,
        "log_template_id": None,
        "span_status": "not_started",
    }
    session.execute(insert(cast("Any", DagRun.__table__)).values({**run, **started}))
    for each in attempts:
        row = {
            "id": uuid.uuid4(),
            "dag_id": dag_id,
            "run_id": run_id,
            "task_id": "run",
            "pool": "default_pool",
            "pool_slots": 1,
            "max_tries": 3,
        }
        session.execute(insert(cast("Any", TaskInstance.__table__)).values({**row, "span_status": "not_started", **each}))
    session.commit()


def attempt(run: str, state: str | None, number: int, *, task: str = "run", index: int = -1, **more: Any) -> AttemptView:
    return AttemptView(run, task, index, state=state, number=number, most=4, **{"label": None, "next_ms": None, **more})


def test_plans_are_those_of_connectors_that_are_there_and_a_paused_dag_has_no_next_run(session: Session) -> None:
    dags = [
        dag("connect.runs"),
        dag("connect.paused", is_paused=True, owners=""),
        dag("connect.by-hand", next_dagrun_create_after=None),
        dag("connect.gone", is_stale=True),
        dag("connect.stays", timetable_summary="@continuous"),
        dag("connect.ended", timetable_summary="@continuous"),
        dag("another"),
    ]
    session.add_all([*dags, *(DagTag(dag_id=of, name=name) for of in ("connect.runs", "another") for name in ("shop", "connector"))])
    session.commit()
    add_run(session, "connect.runs", "second", "running", {"state": "running", "try_number": 2})
    add_run(session, "connect.stays", "third", "running", {"state": "running", "try_number": 4})
    runs = PlanView(NEXT_MS, "ada", ["connector", "shop"], attempt("second", "running", 2))
    assert plans(session) == {
        "connect.runs": runs,
        "connect.paused": PlanView(None, None, []),
        "connect.by-hand": PlanView(None, "ada", []),
        "connect.stays": PlanView(None, "ada", [], attempt("third", "running", 4), "@continuous", is_continuous=True),
        "connect.ended": PlanView(NEXT_MS, "ada", [], None, "@continuous", is_continuous=True),
    }
    assert plans(session, "connect.runs") == {"connect.runs": runs}
    assert plans(session, "connect.gone") == {}


@pytest.mark.parametrize(
    ("schedule", "shown"),
    [
        ("* * * * *", "Every minute (* * * * *)"),
        ("@daily", "At 00:00 (0 0 * * *)"),
        (timedelta(seconds=45), "Every 45 s"),
        (timedelta(minutes=90), "Every 1 h 30 min"),
        (timedelta(days=1, hours=2), "Every 1 d 2 h"),
        (timedelta(days=2), "Every 2 d"),
        ("@continuous", "As frequently as possible, but only one run at a time."),
        (None, "When triggered"),
    ],
)
def test_a_schedule_is_in_words(session: Session, schedule: Any, shown: str) -> None:
    made = DAG("connect.c", schedule=schedule, start_date=NEXT, max_active_runs=1)
    timetable = coerce_to_core_timetable(made.timetable)
    session.add(dag("connect.c", timetable_summary=timetable.summary, timetable_description=timetable.description))
    session.commit()
    assert plans(session)["connect.c"].schedule == shown


def test_failed_runs_are_the_newest_first(session: Session) -> None:
    for number, state in enumerate(["failed"] * 30 + ["success", "running"]):
        add_run(session, "connect.c", f"r{number}", state)
    add_run(session, "connect.d", "other", "failed")
    assert failed_runs(session, "c") == []
    for number in range(30):
        ended = NEXT + timedelta(seconds=number)
        session.execute(update(DagRun).where(DagRun.run_id == f"r{number}").values(end_date=ended))
    found = failed_runs(session, "c")
    assert [each.run for each in found] == [f"r{number}" for number in range(29, 9, -1)]
    assert found[0].ended_ms == NEXT_MS + 29_000


def test_the_open_attempt_is_the_one_that_waits_for_its_retry_then_the_one_that_runs(session: Session) -> None:
    waits = {"state": "up_for_retry", "try_number": 1, "map_index": 1, "end_date": NEXT, "retry_delay_override": 30.0}
    add_run(session, "connect.fails", "first", "running", {"state": "running", "try_number": 3, "map_index": 0}, waits)
    add_run(session, "connect.waits", "first", "queued", {"state": None, "try_number": 0})
    add_run(session, "connect.begins", "first", "running", {"state": "success", "try_number": 1, "task_id": "plan"}, {"state": "queued"})
    add_run(session, "connect.ended", "first", "success", {"state": "success", "try_number": 1})
    add_run(session, "another", "first", "running", {"state": "running", "try_number": 1})
    then = int((NEXT + timedelta(seconds=30)).timestamp() * 1000)
    assert open_attempts(session) == {
        "connect.fails": attempt("first", "up_for_retry", 1, index=1, next_ms=then),
        "connect.waits": attempt("first", None, 0),
        "connect.begins": attempt("first", "queued", 0),
    }
    assert open_attempts(session, "connect.waits").keys() == {"connect.waits"}


def test_the_newest_run_has_its_failures_first(session: Session) -> None:
    assert newest_attempts(session, "orders") == ()
    add_run(session, "connect.orders", "old", "failed", {"state": "failed", "try_number": 4})
    labels = [{"map_index": index, "rendered_map_index": f"orders {index}"} for index in (0, 1)]
    ended = {"state": "success", "try_number": 1, **labels[0]}, {"state": "failed", "try_number": 4, **labels[1]}
    add_run(session, "connect.orders", "new", "failed", *ended, {"state": "upstream_failed", "task_id": "report"})
    add_run(session, "connect.orders-2", "newer", "running", {"state": "running", "try_number": 1})
    assert newest_attempts(session, "orders") == [
        attempt("new", "upstream_failed", 0, task="report"),
        attempt("new", "failed", 4, index=1, label="orders 1"),
        attempt("new", "success", 1, index=0, label="orders 0"),
    ]
