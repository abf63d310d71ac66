"""What the page tells of the DAGs of connectors: when they run next, whose they are, and their tags."""

from datetime import UTC, datetime
from typing import Any, cast

from airflow.models.dag import DagModel, DagTag
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from airflow_provider_connect.api_server.dags import plans
from airflow_provider_connect.model.page import PlanView

NEXT = datetime(2026, 1, 31, 14, 0, 5, tzinfo=UTC)


def dag(dag_id: str, **more: Any) -> DagModel:
    given = {"is_paused": False, "is_stale": False, "next_dagrun_create_after": NEXT, "owners": "ada", **more}
    return DagModel(dag_id=dag_id, bundle_name="connect", fileloc="/x.py", **given)


def test_plans_are_those_of_connectors_that_are_there_and_a_paused_dag_has_no_next_run() -> None:
    engine = create_engine("sqlite://")
    for table in (DagModel, DagTag):
        cast("Any", table.__table__).create(engine)
    with Session(engine) as session:
        dags = [
            dag("connect.runs"),
            dag("connect.paused", is_paused=True, owners=""),
            dag("connect.by-hand", next_dagrun_create_after=None),
            dag("connect.gone", is_stale=True),
            dag("another"),
        ]
        session.add_all([*dags, *(DagTag(dag_id=of, name=name) for of in ("connect.runs", "another") for name in ("shop", "connector"))])
        session.commit()
        assert plans(session) == {
            "connect.runs": PlanView(int(NEXT.timestamp() * 1000), "ada", ["connector", "shop"]),
            "connect.paused": PlanView(None, None, []),
            "connect.by-hand": PlanView(None, "ada", []),
        }
