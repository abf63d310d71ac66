"""An API server of Airflow with FAB's auth manager: rights by DAG. Nothing else runs; the broker is the session's."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from airflow_provider_connect.dev.airflow_server import tables_version
from airflow_provider_connect.dev.own_server import LOOPBACK, free_ports
from airflow_provider_connect.runtime.spark.cache import cache_directory, made_once
from airflow_provider_connect.runtime.spark.parent_death import dies_with_parent
from tests.airflow_home import airflow_environment, run_python
from tests.own_packages import FAB, own_packages
from tests.waiting import HANG_SECONDS, wait_until

HERE = Path(__file__).resolve().parent
_MANAGER = "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager"
_PASSWORDS = "passwords.json"
MINE = "mine"
"""The connector whose DAG ``owner`` may do everything with."""


@dataclass(frozen=True, slots=True)
class FabServer:
    """``passwords`` by user: admin, op, user and viewer, with the roles of these names, and owner, who has rights on one DAG.
    ``environment`` is of processes that share its database."""

    url: str
    passwords: Mapping[str, str]
    environment: Mapping[str, str]


@contextmanager
def fab_server(folder: Path, worker: Mapping[str, str]) -> Iterator[FabServer]:
    home = folder / "home"
    shutil.copytree(fab_home(), home)
    properties = folder / "worker.properties"
    properties.write_text("".join(f"{key}={value}\n" for key, value in worker.items()))
    port = free_ports(1)[0]
    environment = _environment(home) | {
        "AIRFLOW__API__BASE_URL": f"http://{LOOPBACK}:{port}",
        "AIRFLOW__CONNECT__WORKER_PROPERTIES": str(properties),
    }
    with (folder / "api-server.log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "airflow", "api-server", "--host", LOOPBACK, "--port", str(port)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=dies_with_parent(),  # noqa: PLW1509 - calls the kernel only
        )
    try:
        _wait_until_it_answers(f"http://{LOOPBACK}:{port}", server, folder / "api-server.log")
        yield FabServer(f"http://{LOOPBACK}:{port}/connect", json.loads((home / _PASSWORDS).read_text()), environment)
    finally:
        server.terminate()
        try:
            server.wait(HANG_SECONDS)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def fab_home() -> Path:
    """An AIRFLOW_HOME with FAB's tables and users, to be copied: both take half a minute."""
    users = (HERE / "fab_users.py").read_bytes()
    mark = hashlib.sha256(FAB.read_bytes() + users + f"{sys.version}{tables_version()}{MINE}".encode()).hexdigest()[:12]
    return made_once(cache_directory() / "fab" / f"home-{mark}", _make_home)


def _make_home(home: Path) -> None:
    home.mkdir()
    environment = _environment(home)
    run_python(environment, "-m", "airflow", "db", "migrate")
    (home / _PASSWORDS).write_text(run_python(environment, str(HERE / "fab_users.py"), MINE).splitlines()[-1])
    for generated in (*home.glob("*.cfg"), *home.glob("*.py")):  # the copy has its own
        generated.unlink()


def _environment(home: Path) -> dict[str, str]:
    path = os.pathsep.join([str(own_packages(FAB)), str(HERE.parents[2])])  # in the environment, every Airflow would make its tables
    return airflow_environment(home, {"AIRFLOW__CORE__AUTH_MANAGER": _MANAGER, "PYTHONPATH": path})


def _wait_until_it_answers(url: str, server: "subprocess.Popen[bytes]", log: Path) -> None:

    def answers() -> bool:
        assert server.poll() is None, log.read_text(errors="replace")[-3000:]
        with suppress(httpx.HTTPError):
            return httpx.get(f"{url}/connect/health", timeout=HANG_SECONDS).status_code == 401
        return False

    wait_until(answers, lambda: f"the API server answers: {log.read_text(errors='replace')[-3000:]}")
