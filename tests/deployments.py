"""The services of docker-compose.yaml and of the Helm values as processes: their own commands, variables and checks.

What a container changes is replaced by text: names of hosts, fixed ports, folders below /opt. Nothing else is.
"""

from __future__ import annotations

import base64
import os
import re
import secrets
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg2
import yaml

from airflow_provider_connect.dev.marked import VARIABLE, end_marked
from airflow_provider_connect.dev.own_server import free_ports
from airflow_provider_connect.dev.postgres_server import PostgresServer
from airflow_provider_connect.runtime.spark.java_runtime import find_java
from airflow_provider_connect.runtime.spark.parent_death import dies_with_parent
from tests.waiting import HANG_SECONDS

ROOT = Path(__file__).resolve().parents[1]
COMPOSE, VALUES = ROOT / "docker-compose.yaml", ROOT / "docs" / "kubernetes" / "airflow-values.yaml"
_NAMES = ("AIRFLOW_ADMIN_PASSWORD", "AIRFLOW_JWT_SECRET", "SPARK_AUTH_SECRET", "POSTGRES_PASSWORD")
SECRETS = {name: secrets.token_urlsafe(16) for name in _NAMES}
FERNET_KEY = base64.urlsafe_b64encode(os.urandom(32)).decode()
_AS_ROOT = {"install": 'for last; do case "$last" in /*) mkdir -p "$last" ;; esac; done', "chown": "exit 0"}
_AS_USER = 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"'


@dataclass(slots=True)
class Part:
    """One service: the program that its container runs, its variables, and what asks whether it is healthy."""

    command: Sequence[str]
    environment: Mapping[str, str]
    check: Sequence[str] = ()


@dataclass(slots=True)
class Deployment:
    """Runs parts. Its processes have a mark, by which ``stop`` ends them with all that they have started."""

    folder: Path
    cache: Path
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, part: Part) -> None:
        with self.log(name).open("ab") as log:
            self.processes[name] = subprocess.Popen(
                part.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=self._environment(part),
                start_new_session=True,
                preexec_fn=dies_with_parent(),  # noqa: PLW1509 - calls the kernel only
            )

    def run(self, name: str, part: Part) -> None:
        """Raises AssertionError with its log where its exit code is another than 0."""
        self.start(name, part)
        code = self.processes.pop(name).wait(HANG_SECONDS)
        assert code == 0, f"{name}: exit code {code}\n{self.text(name)}"

    def is_healthy(self, part: Part) -> bool:
        """What the container's health check answers, once."""
        done = subprocess.run(
            part.check, env=self._environment(part), cwd=self.folder, capture_output=True, timeout=HANG_SECONDS, check=False
        )
        return done.returncode == 0

    def wait_until_healthy(self, name: str, part: Part) -> None:
        """Raises AssertionError with its log when it ends before it is healthy, or never is."""
        deadline = time.monotonic() + HANG_SECONDS
        while not self.is_healthy(part):
            ended = self.processes[name].poll() if name in self.processes else None
            assert ended is None, f"{name} ended with {ended}\n{self.text(name)}"
            assert time.monotonic() < deadline, f"{name} is not healthy\n{self.text(name)}"
            time.sleep(0.2)

    def stop(self) -> None:
        end_marked(self.mark)
        for process in self.processes.values():
            process.wait(HANG_SECONDS)

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def text(self, name: str) -> str:
        return self.log(name).read_text(errors="replace")[-4000:]

    def _environment(self, part: Part) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "_AIRFLOW", "SPARK", "PYTHON"))}
        programs = f"{self._programs()}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        ours = {
            "PATH": programs,
            "JAVA_HOME": str(find_java(cache=self.cache).home),
            "AIRFLOW_PROVIDER_CONNECT_CACHE": str(self.cache),
            "AIRFLOW_HOME": f"{self.folder}/opt/airflow",
            "SPARK_LOCAL_IP": "127.0.0.1",
            VARIABLE: self.mark,
            "SPT_NOENV": "1",
        }
        return {**inherited, **ours, **part.environment}

    def _programs(self) -> Path:
        """Stand-ins for the programs that need root: folders are of one user here."""
        folder = self.folder / "programs"
        if not folder.exists():
            folder.mkdir(parents=True)
            for name, text in {**_AS_ROOT, "runuser": _AS_USER}.items():
                (folder / name).write_text(f"#!/bin/sh\n{text}\n")
                (folder / name).chmod(0o755)
        return folder


@dataclass(slots=True)
class Running:
    """A deployment whose parts have been started."""

    deployment: Deployment
    parts: Mapping[str, Part]
    url: str
    kafka: str

    def wait_for(self, name: str) -> None:
        self.deployment.wait_until_healthy(name, self.parts[name])


def compose_parts(folder: Path, replaced: Mapping[str, str], variables: Mapping[str, str]) -> dict[str, Part]:
    """The services of docker-compose.yaml, by name. ``replaced`` are texts of the file, ``variables`` what its user exports; folders below
    /opt are below ``folder``."""
    services = yaml.safe_load(COMPOSE.read_text())["services"]

    def local(value: str) -> str:
        return _interpolated(_replaced(value, {**replaced, "/opt/": f"{folder}/opt/"}), variables)

    parts = {}
    for name, service in services.items():
        given = service.get("command", [])
        command = [*service.get("entrypoint", []), *(given if isinstance(given, list) else ["airflow", *given.split()])]
        check = service["healthcheck"].get("test", ["CMD"])[1:]
        environment = {key: local(str(value)) for key, value in service.get("environment", {}).items()}
        parts[name] = Part([local(word) for word in command], environment, [local(word) for word in check])
    return parts


def helm_parts(folder: Path, secrets: Mapping[str, str], given_by_chart: Mapping[str, str]) -> dict[str, Part]:
    """The containers that the chart makes of the values, by their names in the values. ``secrets``: contents of the user's Secrets, by
    their variables; ``given_by_chart``: what the chart adds to each environment."""
    values = helm_values()
    environment = {variable["name"]: variable["value"].replace("/opt/", f"{folder}/opt/") for variable in values["env"]}
    environment |= {secret["envName"]: secrets[secret["envName"]] for secret in values["secret"]} | dict(given_by_chart)
    names = ("migrateDatabaseJob", "apiServer", "scheduler", "dagProcessor", "triggerer")
    return {name: Part(values[name]["args"], environment, values[name].get("livenessProbe", {}).get("command", ())) for name in names}


def helm_values() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(VALUES.read_text())
    return found


def kafka_properties(environment: Mapping[str, str]) -> dict[str, str]:
    """Kafka's settings of its image's variables: KAFKA_LOG_DIRS is log.dirs."""
    return {name.removeprefix("KAFKA_").lower().replace("_", "."): value for name, value in environment.items()}


def database(postgres: PostgresServer, name: str) -> None:
    """What PostgreSQL's image makes of POSTGRES_USER, POSTGRES_PASSWORD and POSTGRES_DB."""
    connection = psycopg2.connect(postgres.uri())
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(f"create role {name} login password '{SECRETS['POSTGRES_PASSWORD']}'")
        cursor.execute(f"create database {name} owner {name}")
    connection.close()


def log_ports() -> dict[str, str]:
    """Airflow's servers of logs have fixed ports, in a container each."""
    names = ("AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT", "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT")
    return dict(zip(names, map(str, free_ports(2)), strict=True))


def _interpolated(text: str, variables: Mapping[str, str]) -> str:
    """As Compose reads it: ``${NAME:?message}``, ``${NAME:-default}``, and ``$$`` for a dollar."""
    pattern = re.compile(r"\$\$|\$\{(\w+):([?-])([^}]*)\}")

    def value(found: re.Match[str]) -> str:
        if found.group() == "$$":
            return "$"
        name, kind, rest = found.groups()
        return variables[name] if kind == "?" else variables.get(name, rest)

    return pattern.sub(value, text)


def _replaced(text: str, pairs: Mapping[str, str]) -> str:
    for old, new in pairs.items():
        text = text.replace(old, new)
    return text
