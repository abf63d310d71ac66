"""Several API servers of Airflow over one PostgreSQL database and one broker. No scheduler, no dag-processor: nothing runs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from sqlalchemy import create_engine, text

from airflow_provider_connect.dev.airflow_server import USERNAME, AirflowServer
from airflow_provider_connect.dev.own_server import LOOPBACK, free_ports
from airflow_provider_connect.dev.postgres_server import PostgresServer
from airflow_provider_connect.hooks.airflow_settings import BUNDLE
from airflow_provider_connect.runtime.spark.cache import cache_directory
from airflow_provider_connect.runtime.spark.parent_death import dies_with_parent
from tests.waiting import HANG_SECONDS


@dataclass(frozen=True, slots=True)
class ApiServer:
    """One of them, and a client of it that has logged in; many threads may use the client."""

    url: str
    client: httpx.Client


@contextmanager
def api_servers(folder: Path, worker: Mapping[str, str], postgres: PostgresServer, count: int = 2) -> Iterator[tuple[list[ApiServer], str]]:
    """The servers, and the address of their database. ``worker``: the worker properties."""
    name = f"airflow_{time.monotonic_ns()}"
    admin = create_engine(postgres.url(), isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text(f"create database {name}"))
    admin.dispose()
    properties = folder / "worker.properties"
    properties.parent.mkdir(parents=True, exist_ok=True)
    properties.write_text("".join(f"{key}={value}\n" for key, value in worker.items()))
    variables = {
        "AIRFLOW__CONNECT__WORKER_PROPERTIES": str(properties),
        "AIRFLOW__CONNECT__RUN_DIRECTORY": str(folder / "runs"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": postgres.url(name),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_POOL_SIZE": "5",
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps([{"name": "connectors", "classpath": BUNDLE, "kwargs": {}}]),
    }
    processes: list[subprocess.Popen[bytes]] = []
    try:
        made = [AirflowServer(folder, cache_directory(), port, variables, outlives_parent=False) for port in free_ports(count)]
        _migrate(made[0])
        processes += [_started(server) for server in made]
        servers = [_logged_in(server, process) for server, process in zip(made, processes, strict=True)]
        yield servers, postgres.url(name)
        for server in servers:
            server.client.close()
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(HANG_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _migrate(server: AirflowServer) -> None:
    """The folders, the password and the tables that all share."""
    for made in (server.home, server.dags_folder, server.log_folder):
        made.mkdir(parents=True, exist_ok=True)
    (server.home / "airflow.cfg").write_text("# All settings are environment variables.\n")
    (server.home / "passwords.json").write_text(json.dumps({USERNAME: server.password}))
    command = [sys.executable, "-m", "airflow", "db", "migrate"]
    done = subprocess.run(command, env=server.environment, cwd=server.directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def _started(server: AirflowServer) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "airflow", "api-server", "--host", LOOPBACK, "--port", str(server.port)]
    with _log_of(server).open("wb") as log:
        return subprocess.Popen(
            command,
            env=server.environment,
            cwd=server.directory,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=dies_with_parent(),  # noqa: PLW1509 - calls the kernel only
        )


def _logged_in(server: AirflowServer, process: subprocess.Popen[bytes]) -> ApiServer:
    client = httpx.Client(base_url=server.url, timeout=HANG_SECONDS, limits=httpx.Limits(max_connections=None))
    deadline = time.monotonic() + HANG_SECONDS
    login = {"username": USERNAME, "password": server.password}
    while True:
        try:
            token = client.post("/auth/token", json=login).raise_for_status().json()["access_token"]
            client.headers["Authorization"] = f"Bearer {token}"
            client.get("/connect/health").raise_for_status()
            return ApiServer(server.url, client)
        except httpx.HTTPError as error:
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"{server.url} does not serve: {error}\n{_log_of(server).read_text()[-3000:]}") from error
            time.sleep(0.2)


def _log_of(server: AirflowServer) -> Path:
    return server.directory / f"api-server-{server.port}.log"
