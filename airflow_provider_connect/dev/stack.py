"""Starts and stops a real Kafka broker and Airflow with the provider on this machine, on free ports and without Docker.

``up``, ``status`` and ``down`` are the commands. All files of a ``Stack`` are in one folder, by default ``.dev`` of the working directory.
Its ``stack.json`` has all addresses. Data is kept when the stack is down.
"""

import json
import os
import shlex
import sys
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

from airflow_provider_connect.dev.airflow_server import USERNAME, AirflowServer, unhealthy_parts
from airflow_provider_connect.dev.kafka_server import KafkaServer
from airflow_provider_connect.dev.marked import VARIABLE, end_marked, is_marked, marked_processes
from airflow_provider_connect.dev.own_server import LOOPBACK, free_ports, is_listening
from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.runtime.config.properties import parse_properties
from airflow_provider_connect.runtime.spark.cache import CACHE_VARIABLE, cache_directory
from airflow_provider_connect.runtime.spark.jar_cache import announce
from airflow_provider_connect.sdk.allowed_paths import DATA_FOLDER
from airflow_provider_connect.sdk.allowed_paths import SETTING as ALLOWED_PATHS

DIRECTORY, STATE_FILE = Path(".dev"), "stack.json"
SPARK_MASTER = "local[2]"
AIRFLOW_URL = "airflow_url"
"""The key of ``stack.json`` that a stack without Airflow does not have."""
_ROOT = "connect-rest"
_BUNDLES = [
    {"name": "dags-folder", "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle", "kwargs": {}},
    {"name": "connectors", "classpath": "airflow_provider_connect.dag_files.bundle.ConnectorsBundle", "kwargs": {}},
]
_SCHEDULE = {"airflow.schedule": "5s"}


class Stack:
    """A broker and an Airflow, or with ``only_broker`` a broker alone. ``worker`` is a worker.properties file. If it has
    bootstrap.servers, no broker is started.

    ``variables`` are added to the environment of Airflow and of every task. Unless ``outlives_parent``, the servers are killed when the
    thread that started them ends. As a context manager, the stack is up inside the block. Connectors may reach files below ``allowed``, by
    default below ``data_folder``. The worker's file may name another folder.
    """

    def __init__(
        self,
        directory: Path = DIRECTORY,
        *,
        cache: Path | None = None,
        worker: Path | None = None,
        variables: Mapping[str, str] | None = None,
        allowed: Path | None = None,
        outlives_parent: bool = False,
        with_root: bool = False,
        only_broker: bool = False,
        notify: Callable[[str], None] = announce,
    ) -> None:
        self.directory = directory.absolute()
        self.folder = self.directory / "stack"
        self.cache = cache or cache_directory()
        self._worker, self._variables, self._outlives_parent, self._notify = worker, dict(variables or {}), outlives_parent, notify
        self._allowed = allowed or self.data_folder
        self._with_root, self._only_broker = with_root, only_broker
        self._root_port: int | None = None
        self.kafka: KafkaServer | None = None
        self.airflow: AirflowServer | None = None

    @property
    def state_file(self) -> Path:
        """``stack.json``, which exists while the stack is up."""
        return self.directory / STATE_FILE

    @property
    def dags_folder(self) -> Path:
        """The folder from which Airflow reads DAG files."""
        return self.folder / "airflow" / "dags"

    @property
    def log_folder(self) -> Path:
        """The folder of task logs."""
        return self.folder / "airflow" / "task-logs"

    @property
    def data_folder(self) -> Path:
        """The folder in which connectors may read and write files, unless another folder is configured."""
        return self.folder / DATA_FOLDER

    @property
    def plugins_folder(self) -> Path:
        """The folder in which plugins are found within a second of their installation, unless the worker's file names other folders."""
        return self.folder / "plugins"

    @property
    def worker_properties(self) -> Path:
        """The file with the provider's worker properties."""
        return self.folder / "worker.properties"

    @property
    def mark(self) -> str:
        """The mark in the environment of all processes of this stack, and of no others."""
        file = self.folder / "mark"
        if not file.exists():
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            file.write_text(uuid.uuid4().hex)
        return file.read_text()

    def state(self) -> dict[str, object] | None:
        """The content of ``stack.json``. None: the stack is down."""
        try:
            found: dict[str, object] = json.loads(self.state_file.read_text())
        except (OSError, ValueError):
            return None
        return found

    def is_up(self) -> bool:
        """Whether Airflow serves now, if the stack has one, and the stack's own broker if it has one."""
        return self.state() is not None and not self.faults()

    def faults(self) -> list[str]:
        """A sentence for each process that has ended, and for each part that does not serve. Empty if the stack is down."""
        state = self.state()
        if state is None:
            return []
        pids, ended = _pids(state), self._ended(state)
        found = self.ended_processes()
        servers = str(state["bootstrap_servers"])
        if "kafka" in pids.keys() - ended.keys() and not is_listening(int(servers.rpartition(":")[2])):
            found.append(f"kafka does not listen at {servers}; its log: {self._log_of('kafka')}")
        parts = unhealthy_parts(str(state[AIRFLOW_URL])) if AIRFLOW_URL in state else []
        unhealthy = [name for name in parts if name not in ended]
        return found + [f"{name} is not healthy; its log: {self._log_of(name if name in pids else 'api-server')}" for name in unhealthy]

    def ended_processes(self) -> list[str]:
        """A sentence for each process that has ended. Empty if the stack is down."""
        return [f"{name} has ended (process {pid}); its log: {self._log_of(name)}" for name, pid in self._ended(self.state() or {}).items()]

    def _ended(self, state: Mapping[str, object]) -> dict[str, int]:
        return {name: pid for name, pid in _pids(state).items() if not is_marked(pid, self.mark)}

    def _log_of(self, name: str) -> Path:
        return self.folder / "kafka" / "server.log" if name == "kafka" else self.folder / "airflow" / "logs" / f"{name}.log"

    def up(self) -> dict[str, object]:
        """Start everything, and return the content of ``stack.json``. Processes of an interrupted start are ended first. Raises
        ConnectException, after ending everything, if a part does not start or has ended meanwhile."""
        end_marked(self.mark)
        worker = {ALLOWED_PATHS: str(self._allowed), "plugin.path": str(self.plugins_folder)} | _worker_properties(self._worker)
        for folder in (self.data_folder, self.plugins_folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.environ[VARIABLE] = self.mark
        try:
            state = self._up(worker)
            if faults := self.faults():
                raise ConnectException("\n".join(faults))
            return state
        except BaseException:
            self.down()
            raise
        finally:
            del os.environ[VARIABLE]

    def down(self) -> int:
        """End all processes of this stack, including running tasks, and return their number. Does nothing if the stack is down."""
        servers = _pids(self.state() or {})
        kafka = servers.pop("kafka", 0)
        ended = end_marked(self.mark, first=servers.values(), last=(kafka,))
        self.state_file.unlink(missing_ok=True)
        return ended

    def __enter__(self) -> "Stack":
        self.up()
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    def _up(self, worker: dict[str, str]) -> dict[str, object]:
        if self._only_broker:
            return self._write_state({"bootstrap_servers": self._start_broker()})
        self.airflow = airflow = AirflowServer(
            self.folder / "airflow",
            self.cache,
            self._reuse_port("airflow-port"),
            self._provider_variables(),
            outlives_parent=self._outlives_parent,
        )
        airflow.prepare()
        if "bootstrap.servers" in worker:
            self._notify(f"Kafka: {worker['bootstrap.servers']} (named by {self._worker}; no broker started)")
        else:
            worker = {"bootstrap.servers": self._start_broker(), **worker}
        self._write_worker(worker)
        airflow.start()
        self._notify("Airflow: starting api-server, scheduler, dag-processor and triggerer")
        if self._with_root:
            self._root_port = self._reuse_port("root-port")
            airflow.start_command(_ROOT, "connect", "rest", "--host", LOOPBACK, "--port", str(self._root_port))
        state = self._write_state(self._state(airflow, worker))
        airflow.wait_until_healthy()
        if self._root_port is not None:
            airflow.wait_until_it_listens(_ROOT, self._root_port)
        self._notify(f"Airflow: {airflow.url}")
        return state

    def _reuse_port(self, name: str) -> int:
        """The port of the last start if it is free, so that an open browser page continues to work."""
        file = self.folder / name
        port = int(file.read_text()) if file.exists() else 0
        if port == 0 or is_listening(port):
            port = free_ports(1)[0]
            file.write_text(str(port))
        return port

    def _provider_variables(self) -> dict[str, str]:
        return {
            "AIRFLOW__CONNECT__RUN_DIRECTORY": str(self.folder / "runs"),
            "AIRFLOW__CONNECT__WORKER_PROPERTIES": str(self.worker_properties),
            "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(_BUNDLES),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": SPARK_MASTER}),
            CACHE_VARIABLE: str(self.cache),
            VARIABLE: self.mark,
            "SPT_NOENV": "1",  # setproctitle, which Airflow's processes use, would overwrite the mark
            **self._variables,
        }

    def _write_worker(self, worker: Mapping[str, str]) -> None:
        self.worker_properties.touch(mode=0o600)
        self.worker_properties.write_text("".join(f"{_escaped(key, ' =:')}={_escaped(value, '')}\n" for key, value in worker.items()))

    def _start_broker(self) -> str:
        """Start the stack's own broker, and return its address."""
        self.kafka = KafkaServer(
            self.folder / "kafka", self.cache, quick=False, outlives_parent=self._outlives_parent, notify=self._notify
        ).start()
        self._notify(f"Kafka: {self.kafka.bootstrap_servers}")
        return self.kafka.bootstrap_servers

    def _state(self, airflow: AirflowServer, worker: Mapping[str, str]) -> dict[str, object]:
        return {
            AIRFLOW_URL: airflow.url,
            "rest_url": f"{airflow.url}/connect",
            "rest_root_url": None if self._root_port is None else f"http://{LOOPBACK}:{self._root_port}",
            "bootstrap_servers": worker["bootstrap.servers"],
            "username": USERNAME,
            "password": airflow.password,
            "dags_folder": str(airflow.dags_folder),
            "log_folder": str(airflow.log_folder),
            "data_folder": str(self.data_folder),
            "plugins_folder": worker["plugin.path"],
            "worker_properties": str(self.worker_properties),
            "environment": str(self._write_environment(airflow.variables)),
        }

    def _write_state(self, addresses: Mapping[str, object]) -> dict[str, object]:
        pids = {} if self.airflow is None else {name: process.pid for name, process in self.airflow.processes.items()}
        if self.kafka is not None:
            pids["kafka"] = self.kafka.pid
        state: dict[str, object] = {**addresses, "pids": pids}
        scratch = self.state_file.with_suffix(".tmp")
        scratch.touch(mode=0o600)
        scratch.write_text(json.dumps(state, indent=2) + "\n")
        scratch.rename(self.state_file)
        return state

    def _write_environment(self, variables: Mapping[str, str]) -> Path:
        """Write a file for the shell's ``source``, after which the ``airflow`` command uses this stack."""
        file = self.folder / "environment.sh"
        file.touch(mode=0o600)
        file.write_text("".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items() if name != VARIABLE))
        return file


def up(worker: str | None = None, *, only_broker: bool = False, directory: Path = DIRECTORY) -> int:
    """Start the stack in the background and print its addresses. ``only_broker``: start no Airflow. Returns exit code 0, or 1 with the
    reason on standard error."""
    if only_broker and worker:
        announce("--worker has settings of the stack's Airflow, which --only-broker does not start")
        return 1
    stack = Stack(directory, worker=Path(worker) if worker else None, outlives_parent=True, with_root=True, only_broker=only_broker)
    if (known := stack.state()) is not None:
        faults = stack.faults()
        if not faults and (only_broker or AIRFLOW_URL in known):
            announce(f"already up: {_address(known)} (airflow connect dev down ends it)")
            announce(cli_advice(known))
            return 0
        announce("\n".join([*(faults or ["only the broker is up"]), "so all of it is started anew"]))
        stack.down()
    try:
        state = stack.up()
    except ConnectException as error:
        announce(str(error))
        return 1
    user = f"  user {state['username']}  password {state['password']}" if AIRFLOW_URL in state else ""
    announce(f"up. {_address(state)}{user}; all in {stack.state_file}")
    announce(cli_advice(state))
    return 0


def _address(state: Mapping[str, object]) -> str:
    return str(state.get(AIRFLOW_URL) or f"broker {state['bootstrap_servers']}, without Airflow")


def cli_advice(state: Mapping[str, object]) -> str:
    """A shell command that makes ``airflow`` use this stack: it puts this environment's programs first and sets the stack's settings. For a
    broker alone, the setting that names the broker."""
    if AIRFLOW_URL not in state:
        return f"its worker setting: bootstrap.servers={state['bootstrap_servers']}"
    programs = shlex.quote(str(Path(sys.executable).parent))
    return f"its command line: export PATH={programs}:$PATH; source {shlex.quote(str(state['environment']))}; airflow connect list"


def directory_in_use() -> Path:
    """The folder that ``status`` and ``down`` use: a folder with a stack that is up, in the working directory or the nearest directory
    above. Otherwise the stack of the shell's ``AIRFLOW_HOME``, which ``environment.sh`` sets. Without a stack, the folder in the working
    directory."""
    here = Path.cwd()
    found = [above / DIRECTORY for above in (here, *here.parents)]
    if home := os.environ.get("AIRFLOW_HOME"):
        found.append(Path(home).parent.parent)
    return next((directory for directory in found if (directory / STATE_FILE).is_file()), here / DIRECTORY)


def status(output: str = "text", *, directory: Path | None = None) -> int:
    """Print the running parts with their addresses, and parts that have ended or are not healthy. ``output`` is ``json`` or ``text``.
    Returns exit code 0 if everything is up and healthy, otherwise 1. The default of ``directory`` is ``directory_in_use()``."""
    stack = Stack(directory or directory_in_use())
    state, faults = stack.state(), stack.faults()
    is_up = state is not None and not faults
    if output == "json":
        print(json.dumps({"up": is_up, "faults": faults, **(state or {})}, indent=2))
    elif state is None:
        left = len(marked_processes(stack.mark)) if stack.folder.exists() else 0
        print(
            f"down: no stack in {stack.directory}; {left} processes" if directory else f"down: {_not_found(stack, f'; {left} processes')}"
        )
    else:
        print("up" if is_up else "\n".join(["not healthy: airflow connect dev up (make up) starts all of it anew", *faults]))
        for name in (
            AIRFLOW_URL,
            "rest_url",
            "rest_root_url",
            "bootstrap_servers",
            "username",
            "password",
            "dags_folder",
            "log_folder",
            "data_folder",
            "plugins_folder",
        ):
            if name in state:
                print(f"{name:18} {state[name]}")
    return 0 if is_up else 1


def down() -> int:
    """End the stack. Returns exit code 0, even if it was down."""
    stack = Stack(directory_in_use())
    ended = stack.down() if stack.folder.exists() else 0
    announce(f"down; {ended} processes ended" if ended else f"was down: {_not_found(stack)}")
    return 0


def _not_found(stack: Stack, rest: str = "") -> str:
    """What ``directory_in_use`` has searched, and how to have it find a stack."""
    return (
        f"no stack in {stack.directory} or a .dev of the folders above{rest}. "
        "Run the command in the folder of airflow connect dev up or below it, or source the stack's environment.sh first"
    )


def _pids(state: Mapping[str, object]) -> dict[str, int]:
    """The ids of the started processes, by the names of their parts."""
    pids = state.get("pids")
    return dict(pids) if isinstance(pids, dict) else {}


def _worker_properties(file: Path | None) -> dict[str, str]:
    """The file's settings, with a short schedule as the default. Raises ConfigException if the file cannot be read."""
    if file is None:
        return dict(_SCHEDULE)
    try:
        given = parse_properties(file.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigException(f"The worker properties {file} cannot be read: {error}") from error
    return _SCHEDULE | given


def _escaped(text: str, also: str) -> str:
    """``text``, escaped for java.util.Properties."""
    escapes = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", **{character: f"\\{character}" for character in also}}
    escaped = "".join(escapes.get(character, character) for character in text)
    return f"\\{escaped}" if escaped[:1] in {" ", "#", "!"} else escaped


if __name__ == "__main__":
    commands = {"up": lambda: up(sys.argv[2] if len(sys.argv) > 2 and sys.argv[2] else None), "status": status, "down": down}
    sys.exit(commands[sys.argv[1]]())
