"""One real Airflow with a real broker for all tests here, and a client of its REST API."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from airflow_provider_connect.dev.postgres_server import PostgresServer
from airflow_provider_connect.dev.stack import Stack
from airflow_provider_connect.runtime.config.dag_settings import DEFINED_IN
from airflow_provider_connect.runtime.config.properties import parse_properties
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.ids import dag_id_for
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.stores.config_store import ConfigStore
from tests.canaries import VAULT, Canaries
from tests.conftest import worker_properties
from tests.integration.airflow.fab_server import FabServer, fab_server
from tests.waiting import HANG_SECONDS, wait_until

STRING = "org.apache.kafka.connect.storage.StringConverter"
SECRET = "canary-secret-7f3a"
CANARIES = Canaries()
LOCKED_TRIES = 5
NOTIFIER = """
from airflow.sdk import BaseNotifier


class FileNotifier(BaseNotifier):
    template_fields = ("line",)

    def __init__(self, path, line):
        super().__init__()
        self.path, self.line = path, line

    def notify(self, context):
        with open(self.path, "a") as file:
            file.write(f"{self.line}\\n")
"""


def long_input(file: Path, lines: int = 3_000_000) -> None:
    """Appends lines of 90 digits, in whole thousands. A run that reads three million lives long enough to be stopped or killed."""
    block = "".join(f"{number:090d}\n" for number in range(1000))
    with file.open("a") as written:
        for _ in range(lines // 1000):
            written.write(block)


@dataclass
class Airflow:
    """A running Airflow, as its users see it."""

    stack: Stack
    client: httpx.Client
    notices: Path
    """What the notifier ``canary`` has sent, a line each."""

    @property
    def database_url(self) -> str:
        """SQLAlchemy's address of Airflow's database."""
        assert self.stack.airflow is not None
        return self.stack.airflow.variables["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]

    @property
    def url(self) -> str:
        return str(self.client.base_url)

    def api(self, method: str, path: str, **arguments: Any) -> Any:
        answer = self.client.request(method, f"/api/v2{path}", **arguments)
        for _ in range(LOCKED_TRIES):  # another process has written to SQLite for longer than Airflow waits
            if answer.status_code != 500 or "Database error" not in answer.text or not self.database_url.startswith("sqlite"):
                break
            answer = self.client.request(method, f"/api/v2{path}", **arguments)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def write_dag(self, connector: str, config: Mapping[str, str], *, file: str | None = None) -> Path:
        """A DAG file that defines the connector and never runs by itself; waits until Airflow and the config topic know it."""
        path = self.stack.dags_folder / (file or f"{connector}.py")
        whole = {"airflow.schedule": "none", **config}
        partial = path.with_suffix(".tmp")
        partial.write_text(f"from airflow_provider_connect import ConnectorDag\n\nConnectorDag({connector!r}, {whole!r})\n")
        partial.rename(path)
        wait_until(lambda: self.is_known(connector, whole), f"connector {connector} is defined")
        return path

    def is_known(self, connector: str, config: Mapping[str, str]) -> bool:
        found = self.client.get(f"/api/v2/dags/{dag_id_for(connector)}")
        return found.status_code == 200 and config.items() <= (self.config(connector) or {}).items()

    def connectors(self) -> set[str]:
        return set(self.client.get("/connect/connectors").raise_for_status().json())

    def delete_connector(self, connector: str) -> None:
        """Delete a connector. For one that a DAG file defines, the file is deleted first, and the config is released without delay."""
        with ConfigStore(self.settings()) as store:
            config = store.read().connector_config(connector) or {}
            if file := config.get(DEFINED_IN):
                (self.stack.dags_folder / file).unlink(missing_ok=True)
                store.put_connector(connector, {key: value for key, value in config.items() if key != DEFINED_IN})
        answer = self.client.delete(f"/connect/connectors/{quote(connector, safe='')}")
        assert answer.status_code in {204, 404}, answer.text

    def settings(self) -> WorkerSettings:
        return WorkerSettings.of(parse_properties(self.stack.worker_properties.read_text()))

    def config(self, connector: str) -> dict[str, str] | None:
        with ConfigStore(self.settings()) as store:
            return store.read().connector_config(connector)

    def target_state(self, connector: str) -> TargetState | None:
        with ConfigStore(self.settings()) as store:
            return store.read().target_state(connector)

    def put_target_state(self, connector: str, target: TargetState) -> None:
        with ConfigStore(self.settings()) as store:
            store.put_target_state(connector, target)

    def is_paused(self, connector: str) -> bool:
        return bool(self.api("GET", f"/dags/{dag_id_for(connector)}")["is_paused"])

    def set_paused(self, connector: str, *, paused: bool) -> None:
        self.api("PATCH", f"/dags/{dag_id_for(connector)}", json={"is_paused": paused})

    def trigger(self, connector: str) -> str:
        return str(self.api("POST", f"/dags/{dag_id_for(connector)}/dagRuns", json={"logical_date": None})["dag_run_id"])

    def run_state(self, connector: str, run: str) -> str:
        return str(self.api("GET", f"/dags/{dag_id_for(connector)}/dagRuns/{quote(run)}")["state"])

    def wait_for_run(self, connector: str, run: str, within_seconds: float = HANG_SECONDS) -> str:
        return str(
            wait_until(
                lambda: state if (state := self.run_state(connector, run)) in ("success", "failed") else None,
                f"run {run} of {connector} ends",
                within_seconds,
            )
        )

    def run(self, connector: str, within_seconds: float = HANG_SECONDS) -> str:
        """Trigger a run and wait for its end; returns its id. It must succeed."""
        run = self.trigger(connector)
        state = self.wait_for_run(connector, run, within_seconds)
        assert state == "success", self.log(connector, run)
        return run

    def runs(self, connector: str) -> list[str]:
        """The ids of all runs."""
        return [run["dag_run_id"] for run in self.api("GET", f"/dags/{dag_id_for(connector)}/dagRuns")["dag_runs"]]

    def tasks(self, connector: str, run: str) -> list[dict[str, Any]]:
        found = self.api("GET", f"/dags/{dag_id_for(connector)}/dagRuns/{quote(run)}/taskInstances")["task_instances"]
        return list(found)

    def xcoms(self, connector: str, run: str, task: str = "run") -> dict[str, Any]:
        path = f"/dags/{dag_id_for(connector)}/dagRuns/{quote(run)}/taskInstances/{task}/xcomEntries"
        keys = [entry["key"] for entry in self.api("GET", path)["xcom_entries"]]
        return {key: self.api("GET", f"{path}/{key}")["value"] for key in keys}

    def log(self, connector: str, run: str) -> str:
        folder = self.stack.log_folder / f"dag_id={dag_id_for(connector)}" / f"run_id={run}"
        return "\n".join(file.read_text() for file in sorted(folder.rglob("*.log")))

    def log_records(self, connector: str, run: str) -> list[tuple[str, str, str]]:
        """Level, logger and text of all that the run's tasks have logged."""
        found = [json.loads(line) for line in self.log(connector, run).splitlines() if line.startswith("{")]
        return [(record["level"], record.get("logger", ""), record["event"]) for record in found]

    def set_variable(self, key: str, value: str | None) -> None:
        self.client.delete(f"/api/v2/variables/{key}")
        if value is not None:
            self.api("POST", "/variables", json={"key": key, "value": value})


def signed_in(stack: Stack) -> httpx.Client:
    """A client of the running stack's Airflow, for its admin."""
    state = stack.state() or {}
    url, login = str(state["airflow_url"]), {name: state[name] for name in ("username", "password")}
    token = httpx.post(f"{url}/auth/token", json=login, timeout=HANG_SECONDS).json()["access_token"]
    return httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=HANG_SECONDS)


@pytest.fixture(scope="package")
def airflow_database() -> Iterator[dict[str, str]]:
    """Airflow's settings for its database: PostgreSQL as in production, or what ``AIRFLOW_DATABASE`` in the environment names, ``sqlite``.

    The stacks of the other folders (contract, demo, README, those that are killed) have SQLite."""
    wanted = os.environ.get("AIRFLOW_DATABASE", "postgresql")
    if wanted == "sqlite":
        yield {}
        return
    assert wanted == "postgresql", f"AIRFLOW_DATABASE is sqlite or postgresql, not {wanted}"
    with PostgresServer(max_connections="200") as server:
        yield {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": server.url()}


@pytest.fixture(scope="package")
def airflow(tmp_path_factory: pytest.TempPathFactory, airflow_database: dict[str, str]) -> Iterator[Airflow]:
    """The stack, once for all tests here; it ends with the last of them, since schedules never rest. Airflow and the broker are the same
    programs that users run."""
    modules = tmp_path_factory.mktemp("modules")
    (modules / "canary_vault.py").write_text(VAULT)
    (modules / "canary_notifier.py").write_text(NOTIFIER)
    notices = modules / "notices.txt"
    variables = {
        **airflow_database,
        "PYTHONPATH": str(modules),
        "CANARY_OF_THE_HOST": CANARIES.of("env"),
        "AIRFLOW__CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL": "0",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "60",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "2",
        "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "10",
        "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",  # at the stack's 0.1 an idle one takes a fifth of a core
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin,viewer:viewer,user:user,op:op",
        "AIRFLOW__CONNECT__AIRFLOW_ALLOWED_CONTINUOUS": "true",
        "AIRFLOW__CONNECT__AIRFLOW_ALLOWED_APPLICATIONS": "*",
        "AIRFLOW__CONNECT__AIRFLOW_APPLICATION_SHARED_ENGINE": "process",
        "AIRFLOW__CONNECT__COST_CPU_HOUR": "36",
        "AIRFLOW__CONNECT__COST_CURRENCY": "EUR",
        "AIRFLOW__CONNECT__CONFIG_PROVIDERS_AIRFLOW_PARAM_ALLOWLIST_PATTERN": "shop:.*",
        "AIRFLOW__CONNECT__CONFIG_PROVIDERS_VARIABLE_PARAM_ALLOWLIST_PATTERN": "file-.*",
        "AIRFLOW__CONNECT__AIRFLOW_NOTIFIERS_CANARY_CLASS": "canary_notifier.FileNotifier",
        "AIRFLOW__CONNECT__AIRFLOW_NOTIFIERS_CANARY_PATH": str(notices),
        "AIRFLOW__CONNECT__AIRFLOW_NOTIFIERS_CANARY_LINE": "{{ connector }} {{ run_id }} {{ task_id }} {{ state }}: {{ trace }}",
        "AIRFLOW_CONN_SHOP": json.dumps({"conn_type": "generic", "login": "me", "password": SECRET}),
    }
    cache = Path(os.environ["AIRFLOW_PROVIDER_CONNECT_CACHE"])
    opened = Stack(tmp_path_factory.mktemp("stack"), cache=cache, variables=variables, allowed=Path("/"), with_root=True)
    with opened as stack, signed_in(stack) as client:
        yield Airflow(stack, client, notices)


@pytest.fixture(autouse=True)
def _delete_left_connectors(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test leaves no connectors behind: the pages of the tests after it list all that there are. Those of a module's fixtures stay."""
    if "airflow" not in request.fixturenames:
        yield
        return
    airflow: Airflow = request.getfixturevalue("airflow")
    before = airflow.connectors()
    yield
    for connector in airflow.connectors() - before:
        airflow.delete_connector(connector)


@pytest.fixture(scope="package")
def fab(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FabServer]:
    """An API server whose users have the rights of FAB's auth manager; a test deletes the connectors that it has created."""
    with fab_server(tmp_path_factory.mktemp("fab"), worker_properties(bootstrap, "fab")) as server:
        yield server


@pytest.fixture
def file_source(tmp_path: Path, unique: str) -> tuple[Path, dict[str, str]]:
    """A file and the config of a connector that reads it."""
    file = tmp_path / "input.txt"
    return file, {
        "connector.class": "FileStreamSource",
        "file": str(file),
        "topic": f"lines-{unique}",
        "key.converter": STRING,
        "value.converter": STRING,
    }


@pytest.fixture
def file_sink(tmp_path: Path, unique: str) -> tuple[Path, dict[str, str]]:
    """A file and the config of a connector that writes it from the topic of ``file_source``."""
    file = tmp_path / "output.txt"
    return file, {
        "connector.class": "FileStreamSink",
        "file": str(file),
        "topics": f"lines-{unique}",
        "key.converter": STRING,
        "value.converter": STRING,
    }
