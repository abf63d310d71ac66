"""The app that the API server mounts, the commands, and the tables."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from airflow_provider_connect.runtime.model.ids import dag_id_for
from tests.integration.airflow.conftest import Airflow
from tests.integration.client.commands import run_commands
from tests.waiting import HANG_SECONDS, wait_until

Connector = tuple[Path, dict[str, str]]


@pytest.fixture(scope="module")
def viewer_password(airflow: Airflow) -> str:
    """The password that the auth manager made for its second user."""
    passwords = json.loads((airflow.stack.folder / "airflow" / "home" / "passwords.json").read_text())
    return str(passwords["viewer"])


@pytest.mark.parametrize("path", ["/connect/", "/connect/health"])
def test_no_client_gets_an_answer_without_authentication(airflow: Airflow, path: str) -> None:
    answer = httpx.get(airflow.url + path, timeout=HANG_SECONDS)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"].startswith("Basic")


@pytest.mark.parametrize("path", ["docs", "redoc", "openapi.json"])
def test_no_documentation_is_served_without_authentication(airflow: Airflow, path: str) -> None:
    assert httpx.get(f"{airflow.url}/connect/{path}", timeout=HANG_SECONDS).status_code in (401, 404)


def test_a_token_is_accepted(airflow: Airflow) -> None:
    answer = airflow.client.get("/connect/").json()
    assert answer.keys() == {"version", "commit", "kafka_cluster_id"}
    assert len(answer["kafka_cluster_id"]) == 22


def test_the_address_without_its_slash_is_the_same(airflow: Airflow) -> None:
    assert airflow.client.get("/connect").json() == airflow.client.get("/connect/").json()
    assert httpx.get(f"{airflow.url}/connect", timeout=HANG_SECONDS).status_code == 401
    assert "html" in httpx.get(f"{airflow.url}/connections", timeout=HANG_SECONDS).headers["Content-Type"]


def test_so_is_the_cookie_of_the_ui(airflow: Airflow) -> None:
    token = airflow.client.headers["Authorization"].removeprefix("Bearer ")
    assert httpx.get(f"{airflow.url}/connect/", cookies={"_token": token}, timeout=HANG_SECONDS).status_code == 200


def test_so_is_a_password_and_a_wrong_one_is_not(airflow: Airflow, viewer_password: str) -> None:
    state = airflow.stack.state() or {}
    admin = (str(state["username"]), str(state["password"]))
    assert httpx.get(f"{airflow.url}/connect/", auth=admin, timeout=HANG_SECONDS).status_code == 200
    assert httpx.get(f"{airflow.url}/connect/", auth=("viewer", viewer_password), timeout=HANG_SECONDS).status_code == 200
    assert httpx.get(f"{airflow.url}/connect/", auth=(admin[0], "wrong"), timeout=HANG_SECONDS).status_code == 401
    assert httpx.get(f"{airflow.url}/connect/", headers={"Authorization": "Basic !!!"}, timeout=HANG_SECONDS).status_code == 401


def test_a_bad_token_is_refused_even_beside_a_good_cookie(airflow: Airflow) -> None:
    token = airflow.client.headers["Authorization"].removeprefix("Bearer ")
    answer = httpx.get(f"{airflow.url}/connect/", headers={"Authorization": "Bearer x"}, cookies={"_token": token}, timeout=HANG_SECONDS)
    assert answer.status_code == 403


@pytest.mark.soak
def test_a_broken_worker_config_stops_no_run_and_health_names_what_is_wrong(airflow: Airflow, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("one\n")
    config = {"connector.class": "FileStreamSource", "file": str(tmp_path / "in.txt"), "topic": "broken-worker-config"}
    airflow.write_dag("broken-worker-config", config)
    airflow.run("broken-worker-config")
    try:
        airflow.set_variable("connect_worker_config", '{"offset.flush.interval.ms": "soon", "offset.flush.timeout.ms": ')
        message = wait_until(lambda: text if "is not JSON" in (text := _health(airflow)) else None, "/health names the Variable")
        assert "Variable connect_worker_config is ignored" in message
        (tmp_path / "in.txt").open("a").write("two\n")
        airflow.run("broken-worker-config")
    finally:
        airflow.set_variable("connect_worker_config", None)
    wait_until(lambda: "ignored" not in _health(airflow), "/health is as before")


def _health(airflow: Airflow) -> str:
    answer = airflow.client.get("/connect/health")
    assert answer.status_code == 200
    return str(answer.json()["message"])


def test_the_doctor_finds_nothing_wrong(airflow: Airflow) -> None:
    assert airflow.stack.airflow is not None
    (done,) = run_commands(airflow.stack.airflow.variables, [["doctor"]])
    assert done.code == 0, done.out + done.err
    for subject in ("java", "spark", "airflow", "settings", "bundle", "kafka", "topics", "rights", "clock", "rest"):
        assert any(line.split()[:2] == ["ok", subject] for line in done.out.splitlines()), (subject, done.out)


@pytest.mark.soak  # the cluster is checked each minute
def test_health_names_a_topic_that_others_have_changed(airflow: Airflow) -> None:
    settings = airflow.settings()
    client = AdminClient({"bootstrap.servers": settings.bootstrap_servers})

    before = next(topic.configs for topic in settings.internal_topics if topic.name == settings.batch_topic)
    times = {name: before[name] for name in ("segment.ms", "max.compaction.lag.ms")}

    def alter(values: Mapping[str, str]) -> None:
        entries = [ConfigEntry(*value, incremental_operation=AlterConfigOpType.SET) for value in values.items()]
        resource = ConfigResource(ResourceType.TOPIC, settings.batch_topic, incremental_configs=entries)
        client.incremental_alter_configs([resource])[resource].result(HANG_SECONDS)

    alter(dict.fromkeys(times, "604800000"))
    try:
        message = wait_until(lambda: text if settings.batch_topic in (text := _health(airflow)) else None, "/health names the topic")
        assert f"Topic {settings.batch_topic} keeps replaced records for longer than an hour" in message
        assert f" --alter --entity-type topics --entity-name {settings.batch_topic}" in message
    finally:
        alter(times)
    wait_until(lambda: settings.batch_topic not in _health(airflow), "/health is as before")


def test_it_is_healthy_while_the_broker_answers(airflow: Airflow) -> None:
    answer = airflow.client.get("/connect/health")
    assert (answer.status_code, answer.json()["status"]) == (200, "healthy")


def test_the_plugin_loads_without_an_error(airflow: Airflow) -> None:
    assert airflow.api("GET", "/plugins/importErrors")["import_errors"] == []
    plugins = {plugin["name"]: plugin for plugin in airflow.api("GET", "/plugins")["plugins"]}
    assert plugins["connect"]["fastapi_apps"][0]["url_prefix"] == "/connect"


def test_the_connection_type_has_its_form(airflow: Airflow) -> None:
    types = {found["connection_type"]: found for found in airflow.client.get("/ui/connections/hook_meta").json()}
    fields = types["connect"]["extra_fields"]
    assert {"security.protocol", "sasl.mechanism", "group.id"} <= fields.keys()


def test_a_task_instance_links_to_its_connector_and_pushes_nothing_for_it(airflow: Airflow, unique: str, file_source: Connector) -> None:
    connector = f"linked/{unique}"
    airflow.write_dag(connector, file_source[1], file=f"linked-{unique}.py")
    run = airflow.run(connector)
    links = airflow.api("GET", f"/dags/{dag_id_for(connector)}/dagRuns/{quote(run)}/taskInstances/run/links")["extra_links"]
    assert links == {"Connector status": f"{airflow.url}/connect/connectors/{quote(connector, safe='')}/status"}
    assert airflow.xcoms(connector, run).keys() <= {"return_value"}


def airflow_command(airflow: Airflow, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    assert airflow.stack.airflow is not None
    environment = airflow.stack.airflow.environment | variables
    return subprocess.run([sys.executable, "-m", "airflow", *arguments], env=environment, capture_output=True, text=True, check=False)


def test_the_provider_is_listed(airflow: Airflow) -> None:
    done = airflow_command(airflow, "providers", "list", "--output", "json")
    assert "airflow-provider-connect" in [provider["package_name"] for provider in json.loads(done.stdout)]


def test_the_effective_settings_are_printed_without_secrets(airflow: Airflow) -> None:
    variable = json.dumps({"producer.sasl.jaas.config": "very-secret", "group.id": "printed"})
    done = airflow_command(airflow, "connect", "settings", "--output", "json", AIRFLOW_VAR_CONNECT_WORKER_CONFIG=variable)
    assert done.returncode == 0, done.stderr
    printed: dict[str, Any] = json.loads(done.stdout)
    assert printed["group.id"] == {"value": "printed", "from": "Variable connect_worker_config"}
    assert printed["bootstrap.servers"]["from"] == str(airflow.stack.worker_properties)
    assert printed["producer.sasl.jaas.config"]["value"] == "[hidden]"
    assert "very-secret" not in done.stdout + done.stderr


def test_the_command_reports_wrong_settings_too(airflow: Airflow) -> None:
    done = airflow_command(airflow, "connect", "settings", AIRFLOW_VAR_CONNECT_WORKER_CONFIG="{nonsense")
    assert done.returncode == 1
    assert "Variable connect_worker_config is not JSON" in done.stderr


@pytest.mark.soak
def test_the_hook_reports_whether_kafka_answers(airflow: Airflow) -> None:
    servers = airflow.settings().bootstrap_servers
    code = "from airflow_provider_connect.hooks.connect import ConnectHook; print(ConnectHook().test_connection())"
    found = {}
    for host in (servers, "127.0.0.1:1"):
        connection = json.dumps({"conn_type": "connect", "host": host})
        assert airflow.stack.airflow is not None
        environment = airflow.stack.airflow.environment | {"AIRFLOW_CONN_CONNECT_DEFAULT": connection}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        found[host] = done.stdout.strip().splitlines()[-1]
    assert re.fullmatch(rf"\(True, 'Kafka cluster \S{{22}} answers at {servers}'\)", found[servers])
    assert found["127.0.0.1:1"].startswith("(False, ")
    assert "127.0.0.1:1" in found["127.0.0.1:1"]


@pytest.mark.soak  # each step of the migration: sql_mirror/test_migrations
@pytest.mark.parametrize("arguments", [(), ("--use-migration-files",)])
def test_the_tables_are_made_by_airflows_own_migration(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "_AIRFLOW"))}
    environment = inherited | {
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{tmp_path}/airflow.db",
    }
    for _ in range(2):  # a second time changes nothing
        command = [sys.executable, "-m", "airflow", "db", "migrate", *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    code = (
        "from sqlalchemy import create_engine, inspect; from alembic.migration import MigrationContext as M; "
        "from alembic.autogenerate import compare_metadata; from airflow_provider_connect.runtime.sql_mirror.tables import metadata; "
        f"c = create_engine('sqlite:///{tmp_path}/airflow.db').connect(); "
        "m = M.configure(c, opts={'version_table': 'alembic_version_connect', "
        "'include_object': lambda o, n, k, r, t: k != 'table' or n in metadata.tables}); "
        "print(m.get_current_revision(), compare_metadata(m, metadata))"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0007_failed []"
