"""Connectors that the config topic alone defines as DAGs: the files of the bundle, and the whole path in a real Airflow."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from airflow.dag_processing.dagbag import DagBag
from confluent_kafka import Consumer

from airflow_provider_connect.dag_files.bundle import ConnectorsBundle
from airflow_provider_connect.dev.own_server import free_ports
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.ids import dag_id_for
from airflow_provider_connect.runtime.model.records import ConnectorRecord
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.stores.config_store import ConfigStore
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from tests.integration.airflow.conftest import SECRET, Airflow
from tests.waiting import wait_until

CONFIG = {"connector.class": "FileStreamSource", "file": "/in.txt", "topic": "lines", "db.password": SECRET}
Connector = tuple[Path, dict[str, str]]


# ── the files ──


@pytest.fixture
def properties(worker_settings: Callable[..., dict[str, str]]) -> dict[str, str]:
    return worker_settings(airflow_schedule="1h")


@pytest.fixture
def store(properties: dict[str, str]) -> Iterator[ConfigStore]:
    settings = WorkerSettings.of(properties)
    TopicAdmin(settings).ensure_internal_topics()
    with ConfigStore(settings) as store:
        yield store


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, properties: dict[str, str]) -> Callable[[], ConnectorsBundle]:
    """Makes the bundle as a process that has just started does."""
    file = tmp_path / "worker.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    monkeypatch.setenv("AIRFLOW__CONNECT__WORKER_PROPERTIES", str(file))
    monkeypatch.setenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_STORAGE_PATH", str(tmp_path / "bundles"))
    monkeypatch.setattr("airflow_provider_connect.hooks.airflow_settings.worker_variable", dict)
    monkeypatch.setattr("airflow_provider_connect.hooks.airflow_settings.connection_properties", dict)
    return lambda: ConnectorsBundle(name="connectors")


def bag_of(bundle: ConnectorsBundle) -> DagBag:
    bag = DagBag(bundle.path, bundle_path=bundle.path, bundle_name="connectors")
    assert bag.import_errors == {}
    return bag


def texts(bundle: ConnectorsBundle) -> dict[str, str]:
    return {file.name: file.read_text() for file in bundle.path.glob("*.py")}


def test_stored_connectors_become_dags_and_their_configs_stay_on_the_topic(
    store: ConfigStore, bundle: Callable[[], ConnectorsBundle]
) -> None:
    store.put_connector("plain", CONFIG)
    store.put_connector("steered", {**CONFIG, "airflow.schedule": "none", "airflow.tags": "a,b", "tasks.per.application": "1"})
    store.put_connector("of-a-file", {**CONFIG, "airflow.defined.in": "dags/orders.py"})
    store.create_connector("stopped", CONFIG, TargetState.STOPPED)
    made = bundle()
    made.initialize()
    bag = bag_of(made)
    assert sorted(bag.dags) == ["connect.plain", "connect.steered", "connect.stopped"]
    assert sorted(bag.dags["connect.steered"].task_ids) == ["plan", "report", "run"]
    assert bag.dags["connect.steered"].tags == {"a", "b", "connector"}
    assert bag.dags["connect.plain"].relative_fileloc == "connectors_000.py"
    assert {name: dag.is_paused_upon_creation for name, dag in bag.dags.items()} == {
        "connect.plain": False,
        "connect.steered": False,
        "connect.stopped": True,
    }
    written = "".join(file.read_text(errors="replace") for file in made.path.parent.rglob("*") if file.is_file())
    assert "1h" in written
    assert not [text for text in (SECRET, "/in.txt", "FileStreamSource", "lines") if text in written]


def test_files_change_with_connectors_only_and_an_emptied_one_stays(store: ConfigStore, bundle: Callable[[], ConnectorsBundle]) -> None:
    names = [f"c{number}" for number in range(60)]
    store.change(lambda state: [ConnectorRecord(name, CONFIG) for name in names])
    made = bundle()
    made.refresh()
    times = {file.name: file.stat().st_mtime_ns for file in made.path.glob("*.py")}
    assert len(times) == 3  # two for connectors, one for shared applications
    store.put_target_state("c1", TargetState.PAUSED)
    made.refresh()
    assert {file.name: file.stat().st_mtime_ns for file in made.path.glob("*.py")} == times
    store.change(lambda state: [ConnectorRecord(name, None) for name in names])
    made.refresh()
    assert sorted(texts(made)) == sorted(times)
    assert bag_of(made).dags == {}


def test_a_shared_application_has_a_dag_while_a_connector_names_it(store: ConfigStore, bundle: Callable[[], ConnectorsBundle]) -> None:
    made = bundle()
    store.put_connector("orders", {**CONFIG, "airflow.application": "crm", "airflow.defined.in": "orders.py"})
    made.refresh()
    dag = bag_of(made).dags["connect-application.crm"]
    assert (dag.tags, dag.task_ids, dag.max_active_runs) == ({"connector application"}, ["run"], 1)
    store.delete_connector("orders")
    made.refresh()
    assert bag_of(made).dags == {}


def test_bytecode_of_an_older_text_is_never_taken(store: ConfigStore, bundle: Callable[[], ConnectorsBundle]) -> None:
    made = bundle()
    for tag in ("a", "b", "c"):  # texts of one length, within a second
        store.put_connector("orders", {**CONFIG, "airflow.tags": tag})
        made.refresh()
        assert bag_of(made).dags["connect.orders"].tags == {tag, "connector"}


def test_a_task_finds_its_dag_in_files_of_its_own_host(
    store: ConfigStore, bundle: Callable[[], ConnectorsBundle], monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put_connector("orders", CONFIG)
    bundle().initialize()
    store.put_connector("later", CONFIG)
    bundle().initialize()
    assert sorted(bag_of(bundle()).dags) == ["connect.orders"]  # the files are new, and no process asks for another
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "connect.later")
    made = bundle()
    made.initialize()
    assert sorted(bag_of(made).dags) == ["connect.later"]


def test_files_stay_while_kafka_is_away(
    store: ConfigStore, bundle: Callable[[], ConnectorsBundle], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store.put_connector("orders", CONFIG)
    bundle().refresh()
    file = Path(os.environ["AIRFLOW__CONNECT__WORKER_PROPERTIES"])
    file.write_text(f"{file.read_text()}\nbootstrap.servers=127.0.0.1:{free_ports(1)[0]}\n")
    monkeypatch.setattr("airflow_provider_connect.dag_files.bundle._READ_SECONDS", 1.0)
    made = bundle()
    made.refresh()
    assert sorted(bag_of(made).dags) == ["connect.orders"]


# ── in Airflow ──


def dag(airflow: Airflow, connector: str) -> dict[str, Any] | None:
    """The connector's DAG; None also where it is hidden, until it can be removed."""
    answer = airflow.client.get(f"/api/v2/dags/{dag_id_for(connector)}")
    return dict(answer.json()) if answer.status_code == 200 and not answer.json()["is_stale"] else None


def runs(airflow: Airflow, connector: str) -> list[dict[str, Any]]:
    return list(airflow.api("GET", f"/dags/{dag_id_for(connector)}/dagRuns")["dag_runs"])


def statuses(airflow: Airflow, connector: str) -> list[str]:
    """The states of the connector and of its tasks."""
    answer = airflow.client.get(f"/connect/connectors/{connector}/status")
    if answer.status_code != 200:
        return []
    return [answer.json()["connector"]["state"], *(task["state"] for task in answer.json()["tasks"])]


@pytest.fixture
def made(airflow: Airflow, unique: str) -> Iterator[str]:
    """The name of a connector that the test makes; it is deleted in the end."""
    yield unique
    if airflow.client.get(f"/connect/connectors/{unique}").status_code == 200:
        assert airflow.client.delete(f"/connect/connectors/{unique}").status_code == 204
    wait_until(lambda: dag(airflow, unique) is None, "its DAG is gone")


def post(airflow: Airflow, name: str, config: dict[str, str], **more: str) -> None:
    answer = airflow.client.post("/connect/connectors", json={"name": name, "config": config, **more})
    assert answer.status_code == 201, answer.text


def records(airflow: Airflow, topic: str, count: int) -> list[bytes]:
    """The first ``count`` values on the topic."""
    consumer = Consumer(
        {"bootstrap.servers": airflow.settings().bootstrap_servers, "group.id": f"reads-{topic}", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found: list[bytes] = []

    def are_read() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message.value() or b"")
        return len(found) >= count

    wait_until(are_read, lambda: f"{count} records, but {found}")
    consumer.close()
    return found


def test_a_connector_made_over_rest_runs_and_moves_what_is_added_later(airflow: Airflow, made: str, file_source: Connector) -> None:
    """With the schedule of the development stack, and without triggers by hand."""
    file, config = file_source
    file.write_text("one\ntwo\n")
    post(airflow, made, config)
    assert records(airflow, config["topic"], 2) == [b"one", b"two"]
    wait_until(lambda: statuses(airflow, made) == ["RUNNING", "RUNNING"], "connector and task are RUNNING")
    with file.open("a") as lines:
        lines.write("three\n")
    assert records(airflow, config["topic"], 1) == [b"three"]


@pytest.mark.soak
def test_a_connector_whose_maker_died_after_the_record_gets_its_dag_and_one_run(
    airflow: Airflow, made: str, file_source: Connector
) -> None:
    file, config = file_source
    file.write_text("one\n")
    with ConfigStore(airflow.settings()) as store:
        store.put_connector(made, {**config, "name": made, "airflow.schedule": "none"})
    wait_until(lambda: dag(airflow, made) is not None and runs(airflow, made), "its DAG has a run")
    wait_until(lambda: [run["state"] for run in runs(airflow, made)] == ["success"], "the run has succeeded")
    assert records(airflow, config["topic"], 1) == [b"one"]
    task = f"/connect/connectors/{made}/tasks/0"
    assert airflow.client.post(f"{task}/restart").status_code == 204
    wait_until(lambda: len(runs(airflow, made)) == 2, "the restart is a run")
    assert [run["conf"] for run in runs(airflow, made) if run["conf"]] == [{"tasks": [0]}]
    wait_until(lambda: {run["state"] for run in runs(airflow, made)} == {"success"}, "it has succeeded")
    wait_until(lambda: airflow.client.get(f"{task}/status").json()["state"] == "RUNNING", "the task is RUNNING")


def test_what_steers_the_dag_follows_the_config_and_deletion_removes_the_dag(airflow: Airflow, made: str, file_source: Connector) -> None:
    config = {**file_source[1], "airflow.schedule": "none", "airflow.tags": "first"}
    post(airflow, made, config, initial_state="STOPPED")
    found = wait_until(lambda: dag(airflow, made), "its DAG")
    assert found["is_paused"]
    airflow.client.patch(f"/connect/connectors/{made}/config", json={"airflow.tags": "second"}).raise_for_status()
    wait_until(lambda: "second" in str((dag(airflow, made) or {}).get("tags")), "the tag")
    assert airflow.client.delete(f"/connect/connectors/{made}").status_code == 204
    wait_until(lambda: dag(airflow, made) is None, "its DAG is gone")
    post(airflow, made, {**config, "airflow.tags": "third"}, initial_state="PAUSED")
    wait_until(lambda: "third" in str((dag(airflow, made) or {}).get("tags")), "a new DAG")
    assert runs(airflow, made) == []


@pytest.mark.soak
def test_an_application_for_each_task_and_a_variable_of_airflow(airflow: Airflow, made: str, file_source: Connector) -> None:
    """What only Airflow can resolve is found in the config on the topic, in the plan's task and in the mapped one."""
    file, config = file_source
    file.write_text("one\n")
    airflow.set_variable(f"file-{made}", str(file))
    config = {**config, "file": f"${{variable:file-{made}}}", "tasks.per.application": "1", "airflow.schedule": "none"}
    post(airflow, made, config)
    assert records(airflow, config["topic"], 1) == [b"one"]
    wait_until(lambda: [run["state"] for run in runs(airflow, made)] == ["success"], "the run has succeeded")
    assert statuses(airflow, made) == ["RUNNING", "RUNNING"]
    assert config["file"] in airflow.client.get(f"/connect/connectors/{made}/config").text


def test_a_name_that_is_code_and_longer_than_a_dag_id_is_a_name(airflow: Airflow, unique: str, file_source: Connector) -> None:
    file, config = file_source
    file.write_text("one\n")
    hit = file.parent / "hit"
    name = f"{{{{ macros.json.codecs.builtins.open('{hit}', 'w') }}}}{unique}" + "x" * 200
    texts = dict.fromkeys(("airflow.description", "airflow.doc", "airflow.display.name"), name)
    post(airflow, name, {**config, **texts, "airflow.schedule": "none", "airflow.tags": "{{ 1 }}"})
    connector = f"/connect/connectors/{quote(name, safe='')}"
    assert records(airflow, config["topic"], 1) == [b"one"]
    wait_until(lambda: [run["state"] for run in runs(airflow, name)] == ["success"], "the run has succeeded")
    (run,) = runs(airflow, name)
    path = f"/dags/{dag_id_for(name)}/dagRuns/{quote(run['dag_run_id'])}/taskInstances/run/links"
    assert airflow.api("GET", path)["extra_links"]["Connector status"].endswith(f"{connector}/status")
    assert airflow.api("GET", f"/dags/{dag_id_for(name)}")["dag_display_name"] == name
    airflow.set_paused(name, paused=True)
    wait_until(lambda: airflow.target_state(name) is TargetState.PAUSED, "the long name's flag and target state agree")
    assert airflow.client.delete(connector).status_code == 204
    wait_until(lambda: dag(airflow, name) is None, "its DAG is gone")
    assert not hit.exists()


def test_a_config_of_which_no_dag_can_be_made_is_refused_and_by_the_topic_fails_its_own_connector_alone(
    airflow: Airflow, made: str, file_source: Connector
) -> None:
    config = {**file_source[1], "airflow.schedule": "none"}
    bad = {"airflow.pool": "p" * 300, "airflow.tags": "t" * 101, "airflow.retry.delay": "999999999d", "airflow.schedule": "61 * * * *"}
    answer = airflow.client.post("/connect/connectors", json={"name": made, "config": {**config, **bad}})
    assert (answer.status_code, answer.json()["message"].count("\nInvalid value")) == (400, 4)
    found = airflow.client.put("/connect/connector-plugins/FileStreamSource/config/validate", json={"name": made, **config, **bad}).json()
    errors = {value["value"]["name"]: value["value"]["errors"] for value in found["configs"]}
    assert {key for key, texts in errors.items() if texts} == bad.keys()
    with ConfigStore(airflow.settings()) as store:
        store.put_connector(f"bad-{made}", {**config, **bad, "name": f"bad-{made}"})
    post(airflow, made, config, initial_state="STOPPED")
    wait_until(lambda: dag(airflow, made), "the DAG of the other")
    wait_until(lambda: statuses(airflow, f"bad-{made}") == ["FAILED"], "FAILED")
    trace = airflow.client.get(f"/connect/connectors/bad-{made}/status").json()["connector"]["trace"]
    assert [key for key in bad if key not in trace] == []
    assert dag(airflow, f"bad-{made}") is None
    assert airflow.client.delete(f"/connect/connectors/bad-{made}").status_code == 204


def test_a_backfill_is_refused(airflow: Airflow, made: str, file_source: Connector) -> None:
    post(airflow, made, {**file_source[1], "airflow.schedule": "@daily"}, initial_state="STOPPED")
    wait_until(lambda: dag(airflow, made), "its DAG")
    body = {"dag_id": dag_id_for(made), "from_date": "2026-01-01T00:00:00Z", "to_date": "2026-01-05T00:00:00Z", "max_active_runs": 4}
    answer = airflow.client.post("/api/v2/backfills", json=body)
    assert answer.status_code in (400, 409, 422), answer.text
    assert "does not allow backfill runs" in answer.text


def test_a_restart_while_connectors_are_paused_changes_no_file(store: ConfigStore, bundle: Callable[[], ConnectorsBundle]) -> None:
    store.put_connector("runs", CONFIG)
    store.create_connector("paused-from-the-start", CONFIG, TargetState.PAUSED)
    first = bundle()
    first.refresh()
    before = texts(first)
    store.put_target_state("runs", TargetState.PAUSED)
    store.put_target_state("paused-from-the-start", TargetState.STARTED)
    restarted = bundle()
    restarted.refresh()
    assert texts(restarted) == before
