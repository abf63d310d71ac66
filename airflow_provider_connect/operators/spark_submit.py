"""The parts of SparkSubmitOperator of Airflow's Spark provider that a connector's application needs: submit, wait, kill. Also the same for
an application without Spark.

Internals of apache-airflow-providers-apache-spark 6.3.4: of the operator ``_conn_id``, ``_archives``, ``_hook`` and ``_get_hook``; of its
hook ``_submit_sp``, ``_last_submit_log_lines`` and ``_process_spark_submit_log``, which takes an iterator of lines; that ``submit`` hands
keyword arguments to ``Popen``; the import of ``requests``.
"""

import importlib
import importlib.util
import logging
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from airflow.sdk import Connection
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowNotFoundException

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.hooks.airflow_settings import SPARK_CONNECTION, own_option
from airflow_provider_connect.runtime.config.built_in_providers import AIRFLOWS_OWN
from airflow_provider_connect.runtime.config.dag_settings import PROCESS, SPARK
from airflow_provider_connect.runtime.model.log_lines import LineReader
from airflow_provider_connect.runtime.model.run import KEEPER_FILE, PID_FILE
from airflow_provider_connect.runtime.spark.driver_heartbeat import watching_heartbeat
from airflow_provider_connect.runtime.spark.parent_death import bounded_lines, dies_with_parent, under_keeper
from airflow_provider_connect.runtime.spark.run_directory import RunDirectory

if TYPE_CHECKING:
    from airflow_provider_connect.runtime.spark.submit_options import SubmitOptions


class _LateModule(ModuleType):
    """Has a module's name. Loads the module when one of its attributes is read."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:  # already read within the body, for example by OpenLineage's client
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


@contextmanager
def _import_lazily(name: str) -> Iterator[None]:
    """Let ``import «name»`` in the body bind a late module. Imports outside of the body are not affected.

    The Spark provider imports ``requests`` for cluster modes that are not used here. This takes 25 of the provider's 28 ms in each task
    process. A run without work takes 150 ms in total.
    """
    if name in sys.modules:
        yield
        return
    sys.modules[name] = late = _LateModule(name)
    try:
        yield
    finally:
        if sys.modules.get(name) is late:
            del sys.modules[name]


with _import_lazily("requests"):
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

_log = logging.getLogger(__name__)
_KEPT_LINES = 10  # as many as the Spark hook keeps
_SHORTEST_SILENCE_SECONDS = 60.0  # a driver may be busy for that long
_KILL_WAIT_SECONDS = 4.0  # Airflow sends SIGKILL five seconds after it calls on_kill


class _HasLeft(Exception):
    """The application lives on, to hand its connectors over to the next run."""


class ApplicationOperator(SparkSubmitOperator):  # type: ignore[misc]  # Airflow is not typed for us
    """Runs the program of this package with spark-submit and the settings of the Spark connection. Deploy mode is always ``client``, and
    ``durable`` is always off: claims on the config topic decide which run may write, and an application ends with its task."""

    def __init__(self, *, connector: str, spark_conn_id: str | None = None, engine: str = SPARK, **kwargs: Any) -> None:
        refused = {"env_vars", "application_args", "application"} & kwargs.keys()
        if refused:
            raise ConfigException(f"ConnectTaskOperator does not take {', '.join(sorted(refused))}: it sets these itself")
        super().__init__(**(kwargs | {"deploy_mode": "client", "durable": False, "name": f"connect-{connector}"}))
        self.conf: dict[str, str] | None
        self.py_files: str | None
        self._archives: str | None
        self.connector = connector
        self.spark_conn_id = spark_conn_id
        self.engine = engine
        self._kill_requested = False
        self._directory: RunDirectory | None = None
        self._process: subprocess.Popen[str] | None = None

    def run_application(self, directory: RunDirectory) -> tuple[int | None, list[str]]:
        """Run the application to its end in this thread, because the end of the forking thread triggers the signal of ``die_with_parent``.
        An application that has left (``RunDirectory.has_left``) lives on. One whose driver sends no heartbeat for as long as Airflow waits
        for the heartbeat of a task is killed.

        Returns the exit code, and the last lines of the log.
        """
        seconds = max(_SHORTEST_SILENCE_SECONDS, conf.getfloat("scheduler", "task_instance_heartbeat_timeout"))
        ended: list[str] = []

        def kill() -> None:
            ended.append(f"The driver has sent no heartbeat for {seconds:.0f} s, as a suspended process, so it was killed")
            _log.error("Connector %s: %s", self.connector, *ended)
            if (process := self._submitted()) is not None:
                _kill_group(process.pid)

        with watching_heartbeat(directory.path / PID_FILE, seconds, kill):
            exit_code, log_tail = self._run_process(directory) if self.engine == PROCESS else self.submit_application(directory)
        return exit_code, log_tail + ended

    def _run_process(self, directory: RunDirectory) -> tuple[int | None, list[str]]:
        if self._kill_requested:
            raise AirflowFailException(f"Connector {self.connector}: killed before its application was started")
        command = [sys.executable, "-m", "airflow_provider_connect.runtime.worker.application.driver", "--run-dir", str(directory.path)]
        tail, reader = deque[str](maxlen=_KEPT_LINES), LineReader()
        self._process = process = subprocess.Popen(
            command,
            env=_strip_airflow_variables(os.environ) | {"TMPDIR": str(directory.scratch())},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            preexec_fn=dies_with_parent(own_group=True),  # as for spark-submit  # noqa: PLW1509
        )
        assert process.stdout is not None
        with process.stdout:
            for line in bounded_lines(process.stdout):
                tail.append(line.rstrip())
                if not reader.read(line):
                    _log.info("%s", tail[-1])
                if directory.has_left:
                    break
        if directory.has_left:
            self._process = None  # it is no longer ours to kill
            return 0, list(tail)
        return process.wait(), list(tail)

    def submit_application(self, directory: RunDirectory) -> tuple[int | None, list[str]]:
        """See ``run_application``."""
        from airflow_provider_connect.runtime.spark.class_data import build_in_background, note_exit
        from airflow_provider_connect.runtime.spark.submit_options import submit_options

        options = submit_options(self._spark_master(), scratch=directory.scratch(), python_archive=own_option("python_archive"))
        self._apply(options)
        self.application_args = ["--run-dir", str(directory.path)]
        self._hook = hook = self._get_hook()
        process_lines = hook._process_spark_submit_log
        hook._process_spark_submit_log = lambda lines: process_lines(self._forward_logs(lines))
        if self._kill_requested:
            raise AirflowFailException(f"Connector {self.connector}: killed before its application was submitted")
        environment = options.environment(_strip_airflow_variables(os.environ))
        try:  # in its own process group, so that Airflow's SIGTERM to the task's group reaches only the task process
            hook.submit(
                application_path(), env=environment, preexec_fn=under_keeper(directory.path / KEEPER_FILE), stdin=subprocess.DEVNULL
            )
        except _HasLeft:
            hook._submit_sp = None  # it is no longer ours to kill
            return 0, list(hook._last_submit_log_lines)
        except AirflowException as error:  # the exit code is not 0; the result has the reason
            _log.debug("spark-submit ended: %s", error)
        exit_code = None if hook._submit_sp is None else hook._submit_sp.returncode
        if not note_exit(options.class_data, exit_code):
            build_in_background(options.class_data)
        return exit_code, list(hook._last_submit_log_lines)

    def _forward_logs(self, lines: Iterable[str]) -> Iterator[str]:
        """The lines of spark-submit's output that are not log lines of our processes. Our log lines are logged here with their levels and
        loggers, because the hook would log all of them as its own, at INFO."""
        reader = LineReader()
        for line in lines:
            if reader.read(line):
                self._hook._last_submit_log_lines.append(line.rstrip())
            else:
                yield line
            if self._directory is not None and self._directory.has_left:
                raise _HasLeft

    def _apply(self, options: "SubmitOptions") -> None:
        """Apply the options below the DAG's own: the DAG's Spark settings override them, and its files follow ours."""
        conf = {**options.conf, **(self.conf or {})}
        own = conf.get("spark.driver.extraJavaOptions", "")
        self.conf = conf | {"spark.driver.extraJavaOptions": f"{options.driver_java_options} {own}".strip()}
        self.py_files = _join(options.py_files, self.py_files)
        self._archives = _join(options.archives, self._archives)

    def _spark_master(self) -> str:
        self._conn_id = self.spark_conn_id or spark_connection()
        return spark_master(self._conn_id)

    def on_kill(self) -> None:
        """Ask the driver to end after its batch. Kill it and spark-submit if it has not ended within four seconds.

        Called by Airflow in its signal handler. Raises no exception, because the application would stay alive.
        """
        self._kill_requested = True
        try:
            if (process := self._submitted()) is not None:
                self._end(process)
        except BaseException:
            _log.exception("Connector %s: the application may live on", self.connector)

    def _submitted(self) -> Any:
        """The process of the application, a Popen. None: there is none that is alive."""
        process = self._process or (None if self._hook is None else self._hook._submit_sp)
        return None if process is None or process.poll() is not None else process

    def _end(self, process: Any) -> None:  # a Popen
        deadline = time.monotonic() + _KILL_WAIT_SECONDS
        is_signalled = False
        while time.monotonic() < deadline and process.poll() is None:
            is_signalled = is_signalled or self._signal_driver()
            time.sleep(0.05)
        if process.poll() is None:
            _kill_group(process.pid)

    def _signal_driver(self) -> bool:
        """Signal the driver. False: the driver has not started yet."""
        pid = None if self._directory is None else self._directory.driver_pid()
        if pid is None:
            return False
        try:
            os.kill(pid, signal.SIGTERM)
        except OSError:
            return False
        return True


def _kill_group(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def application_path() -> str:
    """The path of the program for spark-submit."""
    spec = importlib.util.find_spec("airflow_provider_connect.spark_jobs.run_connector")
    if spec is not None and spec.origin is not None:
        return spec.origin
    path = Path(__file__).parents[2] / "spark_jobs" / "run_connector.py"  # a checkout on Python's path, not installed
    if not path.is_file():
        raise ConfigException("airflow_provider_connect.spark_jobs.run_connector is not installed: install airflow-provider-connect again")
    return str(path)


def _strip_airflow_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """``environ`` without Airflow's own settings, connections and keys, which an application must not have."""
    return {name: value for name, value in environ.items() if not name.startswith(AIRFLOWS_OWN)}


def _join(ours: Sequence[str], own: str | None) -> str | None:
    return ",".join([*ours, *filter(None, [own])]) or None


def spark_connection() -> str:
    """The id of the Spark connection for DAGs that do not name one."""
    return own_option("spark_conn_id") or SPARK_CONNECTION


def spark_master(conn_id: str) -> str:
    """The master that a Spark connection names. Raises ConfigException if it names none, because Airflow's Spark provider would
    use YARN."""
    try:
        connection = Connection.get(conn_id)
    except AirflowNotFoundException as error:
        raise ConfigException(
            f"Spark connection {conn_id} does not exist: create it with type 'spark' and a master such as local[2] or "
            "spark://host:7077 as its host, or name another one in option spark_conn_id of section [connect]"
        ) from error
    if not connection.host:
        raise ConfigException(f"Spark connection {conn_id} has no host: give the master, for instance local[2] or spark://host:7077")
    master = connection.host if "://" in connection.host or not connection.port else f"{connection.conn_type}://{connection.host}"
    return f"{master}:{connection.port}" if connection.port else str(master)
