"""OpenLineage's events of real runs in a real Airflow, as its provider writes them, read back by the client's own models."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.connectors.jdbc.catalog.column import TableName
from airflow_provider_connect.connectors.jdbc.database.database_url import parse_url
from airflow_provider_connect.connectors.jdbc.database.datasets import table_dataset
from airflow_provider_connect.sdk.datasets import Dataset, kafka_namespace
from tests.airflow_home import airflow_environment, airflow_home
from tests.own_packages import OPENLINEAGE, own_packages
from tests.waiting import HANG_SECONDS

CANARY = "canary-of-lineage-81c4"

RUNS = """
import json, sys
from airflow_provider_connect import ConnectorDag

dags = [ConnectorDag(name, config) for name, config in json.load(open(sys.argv[1])).items()]
if __name__ == "__main__":
    print("STATES", json.dumps([dag.test().state for dag in dags]))
"""

MODELS = """
import json, sys
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import schema_dataset
from openlineage.client.naming import dataset as naming
from openlineage.client.serde import Serde

FIELD = schema_dataset.SchemaDatasetFacetFields


def field(given):
    return FIELD(**{**given, "fields": [field(inner) for inner in given.get("fields", [])]})


def datasets(kind, given):
    for each in given:
        facets = dict(each["facets"])
        if "schema" in facets:
            fields = [field(one) for one in facets["schema"]["fields"]]
            facets["schema"] = schema_dataset.SchemaDatasetFacet(fields=fields, producer=facets["schema"]["_producer"])
        yield kind(namespace=each["namespace"], name=each["name"], facets=facets)


for line in open(sys.argv[1]):
    given = json.loads(line)
    event = RunEvent(
        eventTime=given["eventTime"],
        producer=given["producer"],
        run=Run(**given["run"]),
        job=Job(**given["job"]),
        eventType=RunState(given["eventType"]),
        inputs=list(datasets(InputDataset, given["inputs"])),
        outputs=list(datasets(OutputDataset, given["outputs"])),
    )
    again = json.loads(Serde.to_json(event))
    for side in ("inputs", "outputs"):
        named = [{name: each[name] for name in ("namespace", "name", "facets")} for each in again[side]]
        assert named == [{name: each[name] for name in ("namespace", "name", "facets")} for each in given[side]], (named, given[side])

names = {
    "kafka": naming.Kafka("k", "9092", "orders"),
    "postgresql": naming.Postgres("db", "5432", "shop", "public", "orders"),
    "mysql": naming.MySQL("db", "3306", "shop", "orders"),
    "file": naming.LocalFileSystem("/data/orders"),
    "s3": naming.S3("bucket", "lake/orders"),
    "hdfs": naming.HDFS("name", "8020", "/lake/orders"),
}
print(json.dumps({key: [each.get_namespace(), each.get_name()] for key, each in names.items()}))
"""

STAYING = """
import sys
from datetime import UTC, datetime
from airflow.providers.openlineage.plugins.adapter import OpenLineageAdapter
from airflow_provider_connect.api_server.delivery_events import DeliveryEvents
from airflow_provider_connect.api_server.staying_lineage import StayingLineage
from tests.unit.airflow.staying_runs import START, StayingRuns

runs = StayingRuns()
lineage = StayingLineage(runs.sessions, "k:9092", since=datetime.now(UTC))
events = DeliveryEvents(runs, runs.sessions, "k:9092", report=lineage.note, now=lambda: runs.clock)
for name, state in (("orders", "deferred"), ("ended", "success")):
    runs.add(name, {"connector.class": "FileStreamSink", "topics": "t", "airflow.application": "crm"})
    runs.run(name, "r1", state)
    runs.deliver(name, 3, 5, run="connect-application.crm/r7")
events.tick()
lineage.tick()
runs.deliver("orders", 3, 9, run="connect-application.crm/r7")
runs.end("orders", "skipped", "stopped")
lineage.tick()
lineage.tick()
at = datetime.fromtimestamp(START, UTC)
print(OpenLineageAdapter.build_task_instance_run_id("connect.orders", "run", 1, at, -1))
"""


@pytest.fixture(scope="module")
def packages() -> str:
    """Python's path with OpenLineage's provider."""
    return os.pathsep.join([str(own_packages(OPENLINEAGE)), str(Path(__file__).resolve().parents[3])])


def by_models(packages: str, events: Path) -> dict[str, list[str]]:
    """Have the client's models check all events; returns the names of its own conventions."""
    environment = {**os.environ, "PYTHONPATH": packages}
    command = [sys.executable, "-W", "ignore", "-c", MODELS, str(events)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=3 * HANG_SECONDS)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def test_names_are_those_of_the_clients_conventions(packages: str, tmp_path: Path) -> None:
    nothing = tmp_path / "no-events"
    nothing.touch()
    table = TableName("orders")
    ours = {
        "kafka": Dataset.topic("k:9092,l:9092", "orders"),
        "postgresql": table_dataset(parse_url("jdbc:postgresql://db/shop"), table, []),
        "mysql": table_dataset(parse_url("jdbc:mysql://db/shop"), table, []),
        "file": Dataset.at("file:///data/orders"),
        "s3": Dataset.at("s3a://bucket/lake/orders"),
        "hdfs": Dataset.at("hdfs://name/lake/orders"),
    }
    assert {key: [each.namespace, each.name] for key, each in ours.items()} == by_models(packages, nothing)


def test_a_run_that_stays_reports_what_it_delivers_and_its_end(packages: str, tmp_path: Path) -> None:
    """The run of ``ended`` is over: its own COMPLETE event was sent in its task's process."""
    events = tmp_path / "events.json"
    transport = {"type": "file", "log_file_path": str(events), "append": True}
    settings = {"AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport), "PYTHONPATH": packages}
    home = airflow_environment(tmp_path / "airflow", settings)
    command = [sys.executable, "-W", "ignore", "-c", STAYING]
    done = subprocess.run(command, env=home, capture_output=True, text=True, check=False, timeout=3 * HANG_SECONDS)
    assert done.returncode == 0, done.stderr
    by_models(packages, events)
    running, complete = map(json.loads, events.read_text().splitlines())
    assert (running["eventType"], complete["eventType"]) == ("RUNNING", "COMPLETE")
    for each, end, state in ((running, 5, "running"), (complete, 9, "stopped")):
        assert each["job"]["name"] == "connect.orders.run"
        assert each["run"]["runId"] == done.stdout.split()[-1]
        assert each["run"]["facets"]["parent"]["job"]["name"] == "connect.orders"
        assert [(found["namespace"], found["name"]) for found in each["inputs"]] == [("kafka://k:9092", "t")]
        assert [(found["namespace"], found["name"]) for found in each["outputs"]] == [("file", "/orders")]
        delivery = each["run"]["facets"]["connect_delivery"]
        assert delivery["ranges"] == [{"topic": "t", "partition": 0, "first": 3, "next": end}]
        assert (delivery["connector"], delivery["kind"], delivery["state"], delivery["records"]) == ("orders", "sink", state, end - 3)


@pytest.mark.soak  # four runs
@pytest.mark.timeout(9 * HANG_SECONDS)
def test_runs_report_topics_tables_schemas_and_ranges(
    packages: str, tmp_path: Path, unique: str, worker_settings: Callable[..., dict[str, str]]
) -> None:
    database, events, connectors = tmp_path / "shop.db", tmp_path / "events.json", tmp_path / "connectors.json"
    with closing(sqlite3.connect(database)) as connection:
        connection.executescript("CREATE TABLE orders (id INTEGER PRIMARY KEY, tea TEXT); INSERT INTO orders VALUES (1, 'a'), (2, 'b');")
    (tmp_path / "lines.txt").write_text("one\n")
    source, sink, lines, failing = (f"{kind}-{unique}" for kind in ("source", "sink", "lines", "failing"))
    shop = {"connection.url": f"jdbc:sqlite:{database}", "connection.password": CANARY, "airflow.engine": "process"}
    copy = {"connector.class": "JdbcSink", **shop, "auto.create": "true", "table.name.format": "copy"}
    read = {"connector.class": "JdbcSource", "mode": "incrementing", "incrementing.column.name": "id", "table.include": "orders"}
    text = {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}
    configs: dict[str, dict[str, str]] = {
        source: {**shop, **read, "topic.prefix": f"{unique}-"},
        sink: {**copy, "topics": f"{unique}-orders"},
        lines: {"connector.class": "FileStreamSource", "file": str(tmp_path / "lines.txt"), "topic": lines, "airflow.engine": "process"},
        failing: {**copy, "topics": lines, **text, "airflow.retries": "0"},
    }
    connectors.write_text(json.dumps(configs))
    settings = worker_settings()
    transport = {"type": "file", "log_file_path": str(events), "append": True}
    home = airflow_home(
        tmp_path / "airflow",
        {
            "AIRFLOW__CORE__DAGS_FOLDER": str(tmp_path / "airflow" / "dags"),
            "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport),
            "AIRFLOW__OPENLINEAGE__EXECUTION_TIMEOUT": str(int(3 * HANG_SECONDS)),
            "AIRFLOW__OPENLINEAGE__EXECUTE_IN_THREAD": "True",  # dag.test() has threads, which a fork does not bear
            "AIRFLOW__OPENLINEAGE__EMISSION_POLICY": json.dumps([{"scope": {}, "controls": {"emit_dag_events": False}}]),
            "AIRFLOW_VAR_CONNECT_WORKER_CONFIG": json.dumps(settings),
            "PYTHONPATH": packages,
        },
    )
    file = tmp_path / "airflow" / "dags" / f"{unique}.py"
    file.parent.mkdir()
    file.write_text(RUNS)
    command = [sys.executable, "-W", "ignore", str(file), str(connectors)]
    done = subprocess.run(command, env=home, capture_output=True, text=True, check=False, timeout=3 * HANG_SECONDS)
    assert 'STATES ["success", "success", "success", "failed"]' in done.stdout, done.stdout + done.stderr

    by_models(packages, events)
    assert CANARY not in events.read_text()
    found = {(each["job"]["name"], each["eventType"]): each for each in map(json.loads, events.read_text().splitlines())}

    def event(connector: str, kind: str) -> Any:
        return found[f"connect.{connector}.run", kind]

    def names(connector: str, kind: str, side: str) -> list[tuple[str, str]]:
        return [(each["namespace"], each["name"]) for each in event(connector, kind)[side]]

    cluster, tables = kafka_namespace(settings["bootstrap.servers"]), f"sqlite://{database}"
    assert names(source, "COMPLETE", "inputs") == [(tables, "orders")]
    assert names(source, "COMPLETE", "outputs") == [(cluster, f"{unique}-orders")]
    assert names(sink, "COMPLETE", "inputs") == [(cluster, f"{unique}-orders")]
    assert names(sink, "COMPLETE", "outputs") == [(tables, "copy")]
    assert names(lines, "COMPLETE", "inputs") == [("file", str(tmp_path / "lines.txt"))]
    assert names(failing, "FAIL", "inputs") == names(failing, "FAIL", "outputs") == names(source, "START", "outputs") == []

    def columns(side: str, connector: str) -> dict[str, str]:
        (dataset,) = event(connector, "COMPLETE")[side]
        return {each["name"]: each["type"] for each in dataset["facets"]["schema"]["fields"]}

    assert columns("inputs", source) == {"id": "integer", "tea": "text"}
    assert columns("outputs", source) == columns("inputs", sink) == {"id": "int64", "tea": "string"}
    assert columns("outputs", sink).keys() == {"id", "tea"}
    for connector, kind in ((source, "source"), (sink, "sink")):
        delivery = event(connector, "COMPLETE")["run"]["facets"]["connect_delivery"]
        assert (delivery["connector"], delivery["kind"], delivery["records"]) == (connector, kind, 2)
        ((topic, partition, first),) = {(each["topic"], each["partition"], each["first"]) for each in delivery["ranges"]}
        assert (topic, partition, first) == (f"{unique}-orders", 0, 0)
        assert delivery["ranges"][0]["next"] >= 2
    assert event(failing, "FAIL")["run"]["facets"]["connect_delivery"]["records"] == 0
