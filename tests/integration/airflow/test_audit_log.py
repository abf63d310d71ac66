"""Who did it: each change over REST is a row of Airflow's audit log, and our history names who has set a DAG's paused flag."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import httpx
from sqlalchemy import Connection, Engine, create_engine

from airflow_provider_connect.runtime.model.ids import dag_id_for
from airflow_provider_connect.runtime.sql_mirror.changes import Kind
from airflow_provider_connect.runtime.sql_mirror.queries import agreement_key, agreements, changes
from tests.airflow_home import airflow_home, run_python
from tests.integration.airflow.conftest import Airflow
from tests.integration.airflow.fab_server import MINE, FabServer
from tests.waiting import HANG_SECONDS, wait_until

T = TypeVar("T")


def ask(engine: Engine, query: Callable[[Connection], T]) -> T:
    with engine.connect() as connection:
        return query(connection)


def test_changes_over_rest_are_in_the_audit_log_and_flags_in_the_history(
    airflow: Airflow, unique: str, file_source: tuple[Path, dict[str, str]]
) -> None:
    name, (file, config) = f"audited-{unique}", file_source
    file.write_text("one\n")
    dag_id = dag_id_for(name)
    created = airflow.client.post("/connect/connectors", json={"name": name, "config": {**config, "airflow.schedule": "none"}})
    assert created.status_code == 201, created.text
    wait_until(lambda: airflow.client.get(f"/api/v2/dags/{dag_id}").is_success and not airflow.is_paused(name), "there is a DAG")
    engine = create_engine(airflow.database_url)
    wait_until(lambda: ask(engine, lambda connection: agreement_key(name) in agreements(connection)), "flag and target state agree")
    assert airflow.client.put(f"/connect/connectors/{name}/pause").is_success
    assert airflow.client.put(f"/connect/connectors/{name}x/pause").status_code == 404
    wait_until(lambda: airflow.is_paused(name), "the DAG is paused")
    found = airflow.api("GET", "/eventLogs", params={"order_by": "event_log_id", "dag_id": dag_id})["event_logs"]
    entries = [(row["event"], row["owner"], json.loads(row["extra"])) for row in found if row["event"].startswith("connect.")]
    wanted = {"connector": name}
    assert entries == [("connect.create_connector", "admin", wanted), ("connect.pause", "admin", wanted)]
    airflow.set_paused(name, paused=False)

    def users() -> Sequence[tuple[str | None, str | None]]:
        found = ask(engine, lambda connection: changes(connection, name, kinds=[Kind.TARGET_STATE]))
        return [(change.new, change.who) for change in reversed(found)]

    wait_until(lambda: len(users()) > 1, "both changes are recorded")
    assert users() == [("PAUSED", "admin"), ("STARTED", "admin")]
    engine.dispose()
    assert airflow.client.delete(f"/connect/connectors/{name}").is_success


def test_fabs_users_are_in_the_audit_log(fab: FabServer) -> None:
    auth = ("owner", fab.passwords["owner"])
    config = {"connector.class": "FileStreamSource", "topic": "t", "file": "/tmp/none"}
    body = {"name": MINE, "config": config, "initial_state": "STOPPED"}
    assert httpx.post(f"{fab.url}/connectors", json=body, auth=("admin", fab.passwords["admin"]), timeout=HANG_SECONDS).status_code == 201
    assert httpx.put(f"{fab.url}/connectors/{MINE}/pause", auth=auth, timeout=HANG_SECONDS).is_success
    assert httpx.delete(f"{fab.url}/connectors/{MINE}", auth=auth, timeout=HANG_SECONDS).is_success
    entries = json.loads(run_python(fab.environment, "-c", _ENTRIES, dag_id_for(MINE)).splitlines()[-1])
    assert entries[-3:] == [["connect.create_connector", "admin"], ["connect.pause", "owner"], ["connect.delete_connector", "owner"]]


_ENTRIES = """
import json, sys
from airflow.models.log import Log
from airflow.utils.session import create_session
from sqlalchemy import select

with create_session() as session:
    entries = session.execute(select(Log.event, Log.owner).where(Log.dag_id == sys.argv[1]).order_by(Log.id))
    print(json.dumps([list(entry) for entry in entries]))
"""


def test_the_user_of_a_flag_is_the_one_who_set_it_last(tmp_path: Path) -> None:
    """By the rows that Airflow's API, scheduler and command line write."""
    assert json.loads(run_python(airflow_home(tmp_path), "-c", _FLAGS).splitlines()[-1]) == {
        "paused by the API": "anna",
        "and unpaused by it": "bert",
        "another change of the DAG came later": None,
        "paused by Airflow itself": "scheduler",
        "paused on the command line": "carl",
        "set otherwise by another writer": None,
        "long ago": None,
        "another DAG": None,
    }


_FLAGS = """
import json
from datetime import timedelta
from airflow.models.log import Log
from airflow.utils.session import create_session
from airflow_provider_connect.api_server.runs import flag_author

def api(owner, **flag):
    return Log("patch_dag", owner=owner, dag_id="d", extra=json.dumps({**flag, "method": "PATCH"}))

found = {}
with create_session() as session:
    def asked(case, entry, paused, age=timedelta(0)):
        entry.dttm -= age
        session.add(entry)
        session.flush()
        found[case] = flag_author(session, "d", paused=paused)

    asked("another DAG", Log("patch_dag", owner="x", dag_id="e", extra='{"is_paused": true}'), True)
    asked("long ago", api("anna", is_paused=True), True, timedelta(hours=1))
    asked("paused by the API", api("anna", is_paused=True), True)
    asked("and unpaused by it", api("bert", is_paused=False), False)
    asked("another change of the DAG came later", api("x"), False)
    asked("paused by Airflow itself", Log("paused", owner="scheduler", dag_id="d", extra="[('dag_id', 'd'), ('is_paused', True)]"), True)
    asked("paused on the command line", Log("cli_dag_pause", owner="carl", dag_id="d", extra='{"full_command": "x"}'), True)
    asked("set otherwise by another writer", Log("cli_dag_unpause", owner="carl", dag_id="d"), True)
print(json.dumps(found))
"""
