"""Airflow in a private AIRFLOW_HOME, with its settings as environment variables, its database and its four server processes.

Knows nothing of Kafka. The caller passes the provider's settings as further variables.
"""

import base64
import hashlib
import importlib.metadata
import json
import os
import secrets
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from airflow_provider_connect.dev.own_server import LOOPBACK, is_listening
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.spark.cache import made_once
from airflow_provider_connect.runtime.spark.parent_death import dies_with_parent

USERNAME = "admin"
_API_SERVER, _SCHEDULER = "api-server", "scheduler"
_COMPONENTS = {
    _API_SERVER: (_API_SERVER, "--host", LOOPBACK),
    "dag-processor": ("dag-processor",),
    "triggerer": ("triggerer", "--skip-serve-logs"),
    _SCHEDULER: (_SCHEDULER, "--skip-serve-logs"),
}
_HEALTHY = ("metadatabase", "scheduler", "dag_processor", "triggerer")
_CONNECTION = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"
_NOT_INHERITED = ("AIRFLOW", "_AIRFLOW", "PYTHONDONTWRITEBYTECODE")
_HEALTH_SECONDS = 60  # an API server that is slow is not down
_DATABASE_TIMEOUT_SECONDS = 20  # SQLite's default of 5 s is too short for a commit on a busy disk; heartbeats have 30 s
_API_SERVER_TIMEOUT_SECONDS = 4  # its event loop waits in log_action for a transaction that needs the loop for its end: until this timeout


class AirflowServer:
    """One Airflow on the loopback interface. Its database, passwords and keys are kept in ``directory`` between starts.

    The database is SQLite, unless ``variables`` name another.
    """

    def __init__(self, directory: Path, cache: Path, port: int, variables: Mapping[str, str], *, outlives_parent: bool) -> None:
        self.directory, self.port, self._cache = directory.absolute(), port, cache
        self.home, self.dags_folder, self.log_folder = self.directory / "home", self.directory / "dags", self.directory / "task-logs"
        self.url = f"http://{LOOPBACK}:{port}"
        self._outlives_parent = outlives_parent
        self._database, self._stamp = self.home / "airflow.db", self.home / "migrated"
        self._secrets = self._load_secrets()
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_INHERITED)}
        self.variables = self._settings() | dict(variables)
        self.environment = inherited | self.variables
        self._is_file = self.variables[_CONNECTION].startswith("sqlite:")
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._migration: subprocess.Popen[bytes] | None = None
        self._is_new = False

    @property
    def password(self) -> str:
        return self._secrets["password"]

    def prepare(self) -> None:
        """Create the folders, and start to create or upgrade the database if necessary. ``start`` waits for the end.

        A new SQLite database is copied from the cache. The cache has a database for each version of Airflow and of our tables.
        """
        for folder in (self.home, self.dags_folder, self.log_folder):
            folder.mkdir(parents=True, exist_ok=True)
        (self.home / "airflow.cfg").write_text("# All settings are environment variables: see environment.sh.\n")
        template = database_template(self._cache)
        if self._is_file and not self._database.exists() and template.exists():
            _copy_database(template, self._database)
            self._stamp.write_text(tables_version())
        if not self._stamp.exists() or self._stamp.read_text() != tables_version():
            self._is_new = self._is_file and not self._database.exists()
            self._migration = self._spawn("migrate", ("db", "migrate"))

    def start(self) -> None:
        """Wait for the database, and start the four processes. ``wait_until_healthy`` returns when they serve.

        The scheduler is the last, when the API server listens: a task that starts before it would fail.
        """
        if self._migration is not None:
            if self._migration.wait():
                raise ConnectException(
                    f"Airflow's database cannot be made (exit code {self._migration.returncode}). {self._tail('migrate')}"
                )
            self._stamp.write_text(tables_version())
            if self._is_new:
                made_once(database_template(self._cache), lambda file: _copy_database(self._database, file))
        passwords = self.home / "passwords.json"
        passwords.write_text(json.dumps({USERNAME: self.password}))
        passwords.chmod(0o600)
        for name in _COMPONENTS:
            if name == _SCHEDULER:
                self.wait_until_it_listens(_API_SERVER, self.port)
            self.start_part(name)

    def start_part(self, name: str) -> None:
        """Start one of the four processes, or restart it if it has ended."""
        self.processes[name] = self._spawn(name, _COMPONENTS[name])

    def start_command(self, name: str, *arguments: str) -> None:
        """Start another server command of Airflow in its own process."""
        self.processes[name] = self._spawn(name, arguments)

    def wait_until_it_listens(self, name: str, port: int, timeout_seconds: float = 600) -> None:
        """Wait until process ``name`` listens on ``port``. If it ends or the timeout passes, raises ConnectException with its log."""
        deadline = time.monotonic() + timeout_seconds
        while not is_listening(port):
            if self.processes[name].poll() is not None or time.monotonic() > deadline:
                raise ConnectException(f"Airflow's {name} does not listen on port {port}. {self._tail(name)}")
            time.sleep(0.1)

    def wait_until_healthy(self, timeout_seconds: float = 600) -> None:
        """Wait until every part reports that it is healthy. If a part ends, raises ConnectException with its log."""
        deadline = time.monotonic() + timeout_seconds
        while not is_healthy(self.url):
            for name, process in self.processes.items():
                if process.poll() is not None:
                    raise ConnectException(f"Airflow's {name} ended with exit code {process.returncode}. {self._tail(name)}")
            if time.monotonic() > deadline:
                raise ConnectException(f"Airflow is not healthy after {timeout_seconds} s; see {self.directory / 'logs'}")
            time.sleep(0.1)

    def _spawn(self, name: str, arguments: tuple[str, ...]) -> "subprocess.Popen[bytes]":
        log = self.directory / "logs" / f"{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        own = {_CONNECTION: self._connection(_API_SERVER_TIMEOUT_SECONDS)} if self._is_file and name == _API_SERVER else {}
        with log.open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "airflow", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                env=self.environment | own,
                start_new_session=True,
                preexec_fn=None if self._outlives_parent else dies_with_parent(),  # noqa: PLW1509 - calls the kernel only
            )

    def _connection(self, timeout_seconds: int) -> str:
        return f"sqlite:///{self._database}?timeout={timeout_seconds}"

    def _tail(self, name: str) -> str:
        log = self.directory / "logs" / f"{name}.log"
        return f"{log}:\n{log.read_text(errors='replace')[-3000:]}"

    def _load_secrets(self) -> dict[str, str]:
        file = self.directory / "secrets.json"
        if not file.exists():
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            file.touch(mode=0o600)
            made = {name: secrets.token_urlsafe(32) for name in ("jwt", "session")}
            made["fernet"] = base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
            file.write_text(json.dumps({**made, "password": secrets.token_urlsafe(9)}))
        kept: dict[str, str] = json.loads(file.read_text())
        return kept

    def _settings(self) -> dict[str, str]:
        """Airflow's own settings: small, private, with short intervals and a limited time to recover."""
        return {
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__API__HOST": LOOPBACK,
            "AIRFLOW__API__PORT": str(self.port),
            "AIRFLOW__API__SECRET_KEY": self._secrets["session"],
            "AIRFLOW__API_AUTH__JWT_SECRET": self._secrets["jwt"],
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.dags_folder),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__FERNET_KEY": self._secrets["fernet"],
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL": "1",
            "AIRFLOW__CORE__PARALLELISM": "4",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self.home / "passwords.json"),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USERNAME}:admin",
            _CONNECTION: self._connection(_DATABASE_TIMEOUT_SECONDS),
            "AIRFLOW__DAG_PROCESSOR__BUNDLE_REFRESH_CHECK_INTERVAL": "1",
            "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_STORAGE_PATH": str(self.home / "bundles"),
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "900",
            "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "2",
            "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(self.log_folder),
            "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "30",
            "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.1",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
        }


def database_template(cache: Path) -> Path:
    """The file in ``cache`` from which a new SQLite database is copied. It may be missing."""
    return cache / "airflow" / f"{tables_version()}.db"


def tables_version() -> str:
    """A hash of everything that determines the tables: Airflow's version, and the code of our own tables."""
    digest = hashlib.sha256(importlib.metadata.version("apache-airflow-core").encode())
    tables = Path(__file__).resolve().parent.parent / "runtime" / "sql_mirror"
    for file in sorted(tables.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _copy_database(source: Path, target: Path) -> None:
    with closing(sqlite3.connect(source)) as original, closing(sqlite3.connect(target)) as copy:
        original.backup(copy)


def is_healthy(url: str) -> bool:
    """Whether all four parts of the Airflow at ``url`` report that they are healthy."""
    return not unhealthy_parts(url)


def unhealthy_parts(url: str) -> list[str]:
    """The parts that the Airflow at ``url`` does not report as healthy, by the names of their processes. Only ``api-server`` if there is no
    report. A killed part is still reported as healthy for up to half a minute."""
    try:
        with urllib.request.urlopen(f"{url}/api/v2/monitor/health", timeout=_HEALTH_SECONDS) as answer:
            health = json.load(answer)
    except (OSError, ValueError):
        return ["api-server"]
    return [part.replace("_", "-") for part in _HEALTHY if (health.get(part) or {}).get("status") != "healthy"]
