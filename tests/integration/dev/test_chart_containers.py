"""The values for Airflow's Helm chart outside containers: every command and probe in them is run, with a real broker and PostgreSQL.

Kubernetes is not run. The chart and its schema of values are in no package registry: the values are parsed, and not checked against it.
"""

import json
from collections.abc import Iterator

import httpx
import pytest

from airflow_provider_connect.dev.kafka_server import KafkaServer
from airflow_provider_connect.dev.own_server import LOOPBACK, free_ports
from airflow_provider_connect.dev.postgres_server import PostgresServer
from airflow_provider_connect.hooks.airflow_settings import BUNDLE
from tests.conftest import CACHE
from tests.deployments import FERNET_KEY, SECRETS, Deployment, Running, database, helm_parts, helm_values, log_ports
from tests.waiting import HANG_SECONDS, wait_until

CHART_PARTS = ("apiServer", "scheduler", "dagProcessor", "triggerer")


@pytest.fixture(scope="module")
def own_postgres() -> Iterator[PostgresServer]:
    with PostgresServer(max_connections="200") as server:
        yield server


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory, own_postgres: PostgresServer, kafka: KafkaServer) -> Iterator[Running]:
    """Every container that Airflow's chart makes of the values."""
    folder = tmp_path_factory.mktemp("chart")
    (port,) = free_ports(1)
    login = f"connect_chart:{SECRETS['POSTGRES_PASSWORD']}"
    given_by_chart = {
        "AIRFLOW__CORE__EXECUTOR": helm_values()["executor"],
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://{LOOPBACK}:{port}/execution/",
        "AIRFLOW__CORE__FERNET_KEY": FERNET_KEY,
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"postgresql+psycopg2://{login}@{LOOPBACK}:{own_postgres.port}/connect_chart",
        "AIRFLOW__API__SECRET_KEY": SECRETS["SPARK_AUTH_SECRET"],
        "AIRFLOW__API_AUTH__JWT_SECRET": SECRETS["AIRFLOW_JWT_SECRET"],
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin",  # the chart's own users are in FAB's tables
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(folder / "passwords.json"),
        **log_ports(),
    }
    connection = json.dumps({"conn_type": "connect", "host": LOOPBACK, "port": kafka.port})
    parts = helm_parts(folder, {"AIRFLOW_CONN_CONNECT_DEFAULT": connection}, given_by_chart)
    database(own_postgres, "connect_chart")
    (folder / "opt/airflow/connect-data").mkdir(parents=True)
    (folder / "passwords.json").write_text(json.dumps({"admin": SECRETS["AIRFLOW_ADMIN_PASSWORD"]}))
    deployment = Deployment(folder, CACHE)
    try:
        deployment.run("migrateDatabaseJob", parts["migrateDatabaseJob"])
        for name in CHART_PARTS:
            deployment.start(name, parts[name])
        yield Running(deployment, parts, f"http://{LOOPBACK}:{port}", kafka.bootstrap_servers)
    finally:
        deployment.stop()


@pytest.mark.soak
@pytest.mark.parametrize("name", CHART_PARTS[1:])
def test_a_container_of_the_chart_meets_its_probe(chart: Running, name: str) -> None:
    chart.wait_for(name)


@pytest.mark.soak
def test_the_charts_api_server_serves_connect(chart: Running) -> None:
    """The chart asks for Airflow's health over HTTP; Connect's REST API is beside it, for users alone."""

    def health() -> httpx.Response | None:
        try:
            return httpx.get(f"{chart.url}/api/v2/monitor/health", timeout=HANG_SECONDS)
        except httpx.TransportError:
            assert chart.deployment.processes["apiServer"].poll() is None, chart.deployment.text("apiServer")
            return None

    assert wait_until(health, "Airflow's health").status_code == 200
    assert httpx.get(f"{chart.url}/connect/connectors", timeout=HANG_SECONDS).status_code == 401
    answer = httpx.get(f"{chart.url}/connect/connectors", auth=("admin", SECRETS["AIRFLOW_ADMIN_PASSWORD"]), timeout=HANG_SECONDS)
    assert (answer.status_code, answer.json()) == (200, [])


def test_the_values_make_connectors_into_dags_and_hold_no_secret() -> None:
    values = helm_values()
    environment = {variable["name"]: variable["value"] for variable in values["env"]}
    bundles = json.loads(environment["AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST"])
    assert [bundle["classpath"] for bundle in bundles] == ["airflow.dag_processing.bundles.local.LocalDagBundle", BUNDLE]
    assert environment["AIRFLOW__CONNECT__CONNECTORS_ALLOWED_PATHS"] in {mount["mountPath"] for mount in values["volumeMounts"]}
    assert {mount["name"] for mount in values["volumeMounts"]} == {volume["name"] for volume in values["volumes"]}
    assert not [name for name in environment if name.endswith(("KEY", "SECRET", "PASSWORD", "SQL_ALCHEMY_CONN"))]
    assert values["createUserJob"]["defaultUser"]["enabled"] is False
