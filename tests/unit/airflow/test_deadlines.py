"""The deadline of runs: what the DAG serializes to, what Airflow makes of it, and the notice that is sent."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.api_fastapi.core_api.datamodels.dag_run import DAGRunResponse
from airflow.sdk import AsyncCallback, DeadlineAlert, DeadlineReference  # type: ignore[attr-defined]  # its stub lacks them
from airflow.serialization.decoders import decode_deadline_alert
from airflow.serialization.serialized_objects import DagSerialization

from airflow_provider_connect.dag_files.connector_dag import ConnectorDag, StoredConnectorDag
from airflow_provider_connect.dag_files.connector_files import mark_of
from airflow_provider_connect.dag_files.deadlines import run_is_late, ui_url
from tests.unit.airflow.test_notices import CONFIG, sent, settings

KEYS = {"airflow.deadline.duration": "90s", "airflow.on.deadline": "team,admins"}
QUEUED = datetime(2026, 5, 4, 12, tzinfo=UTC)


def dags(keys: dict[str, str]) -> list[Any]:
    return [StoredConnectorDag("orders", mark_of(keys), file="f.py", is_paused=False), ConnectorDag("orders", {**CONFIG, **keys})]


@pytest.mark.parametrize("more", [{}, {"tasks.per.application": "2"}])
def test_the_serialized_dag_has_the_deadline_with_names_and_nothing_else_of_the_config(more: dict[str, str]) -> None:
    for dag in dags({**KEYS, "airflow.description": "canary", **more}):
        written = json.loads(json.dumps(DagSerialization.to_dict(dag)))["dag"]["deadline"]
        assert "canary" not in json.dumps(written)
        (found,) = map(decode_deadline_alert, written)
        assert (found.reference.reference_name, found.interval) == ("DagRunQueuedAtDeadline", timedelta(seconds=90))
        assert isinstance(found.callback, AsyncCallback)
        assert found.callback.path == f"{run_is_late.__module__}.run_is_late"
        assert found.callback.kwargs == {"connector": "orders", "names": ["team", "admins"], "seconds": 90.0}


def test_a_dag_is_the_same_at_each_parse_and_has_no_deadline_without_the_key() -> None:
    for one, two in zip(dags(KEYS), dags(KEYS), strict=True):
        assert DagSerialization.to_dict(one) == DagSerialization.to_dict(two)
    for dag in dags({"airflow.deadline.silence": "1h", "airflow.on.deadline": "team"}):
        assert DagSerialization.to_dict(dag)["dag"].get("deadline") is None


@pytest.mark.parametrize("as_list", [True, False])
def test_the_deadline_of_a_dag_file_stays_beside(as_list: bool) -> None:
    own = DeadlineAlert(DeadlineReference.DAGRUN_QUEUED_AT, timedelta(hours=1), AsyncCallback(run_is_late, {"seconds": 1}))
    dag = ConnectorDag("orders", {**CONFIG, **KEYS}, deadline=[own] if as_list else own)
    assert [alert.interval for alert in dag.deadline] == [timedelta(hours=1), timedelta(seconds=90)]


def late(ended: object = None, *, deadline: object = QUEUED + timedelta(seconds=90), state: str = "running") -> None:
    run = {"dag_id": "connect.orders", "dag_run_id": "manual__1", "state": state, "end_date": ended, "queued_at": str(QUEUED)}
    asyncio.run(run_is_late("orders", ["team"], 90.0, {"dag_run": run, "deadline": {"id": "1", "deadline_time": deadline}}))


def test_a_notice_of_an_overdue_run_has_the_keys_of_a_notice_of_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://air.flow/below/")
    settings(monkeypatch, team={"text": "{{ connector }} {{ state }} {{ ti.run_id }}: {{ trace }} {{ ti.log_url }}"})
    late()
    ((text, facts),) = sent
    error = "Run manual__1 has taken longer than 90s (airflow.deadline.duration) since it was queued. It is running."
    assert text == f"orders overdue manual__1: {error} https://air.flow/below/dags/connect.orders/runs/manual__1"
    assert {"connector", "tasks", "state", "error", "trace", "dag_id", "task_id", "run_id", "try_number", "map_index", "ti"} <= set(facts)


def test_airflows_scheduler_gives_the_callback_these_fields_of_the_run() -> None:
    assert {"dag_id", "dag_run_id", "state", "end_date"} <= DAGRunResponse.model_fields.keys()


@pytest.mark.parametrize(
    ("ended", "notices"),
    [("2026-05-04T12:01:30Z", 0), ("2026-05-04T12:01:29.5+00:00", 0), (QUEUED, 0), ("2026-05-04T12:01:30.1Z", 1), (None, 1)],
)
def test_a_run_that_failed_in_time_is_not_overdue(monkeypatch: pytest.MonkeyPatch, ended: object, notices: int) -> None:
    settings(monkeypatch, team={"text": "late"})
    late(ended, state="failed" if ended else "running")
    late(ended, deadline=(QUEUED + timedelta(seconds=90)).isoformat())
    assert len(sent) == 2 * notices


def test_without_the_address_of_airflow_there_is_no_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "")
    assert ui_url("connect.orders", "manual__1") == ""
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://a")
    assert ui_url("connect.a b", "x/y?z") == "http://a/dags/connect.a%20b/runs/x%2Fy%3Fz"
