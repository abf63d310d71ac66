"""One run of a connector as an Airflow task: looks whether there is work, submits the Spark application, reports what it did."""

import hashlib
import importlib
import importlib.util
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.sdk import Asset, AssetAlias, Connection
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowNotFoundException, AirflowSkipException

from airflow_provider_connect.config.built_in_providers import AIRFLOWS_OWN
from airflow_provider_connect.config.worker_settings import WorkerSettings
from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.hooks.airflow_settings import SPARK_CONNECTION, airflow_secrets, own_option, run_directory, worker_settings
from airflow_provider_connect.model.ids import consumer_group
from airflow_provider_connect.model.run import Claim, RunResult, RunSpec, RunState, TaskResult
from airflow_provider_connect.operators.definition import DefinesConnector
from airflow_provider_connect.operators.planning import hide_in_logs, tell_unready
from airflow_provider_connect.operators.run_conf import asked_tasks, may_wait, refuse_backfill
from airflow_provider_connect.operators.run_metrics import emit_lost, emit_run
from airflow_provider_connect.spark.parent_death import die_with_parent, dies_with_parent
from airflow_provider_connect.spark.run_directory import RunDirectory, forget_secrets_left, remove_stale_runs

if TYPE_CHECKING:
    from airflow_provider_connect.spark.submit_options import SubmitOptions
    from airflow_provider_connect.worker.application.readiness import Readiness


class _StandIn(ModuleType):
    """Has a module's name, and loads the module when something in it is asked for."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self.__name__), name)


@contextmanager
def _loaded_at_first_use(name: str) -> Iterator[None]:
    """Let ``import «name»`` in the body bind a stand-in; before and after it, the import does what it always does.

    The Spark provider imports ``requests`` at its top, for cluster modes that are not used here: 25 ms of the 28 ms that it costs each
    task process, measured, in a run that with nothing to do takes 150 ms in all.
    """
    if name in sys.modules:
        yield
        return
    sys.modules[name] = stand_in = _StandIn(name)
    try:
        yield
    finally:
        if sys.modules.get(name) is stand_in:
            del sys.modules[name]


with _loaded_at_first_use("requests"):
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

_log = logging.getLogger(__name__)
_LABEL_LENGTH, _COLUMN_LENGTH = 200, 250  # Airflow keeps so many characters of a mapped task's label
_URI_LENGTH = 1500  # and of an asset
_KILL_WAIT_SECONDS = 4.0  # Airflow sends SIGKILL five seconds after it called on_kill


class ConnectTaskOperator(DefinesConnector, SparkSubmitOperator):  # type: ignore[misc]  # Airflow is not typed for us
    """Runs a connector's tasks in one Spark application, and nothing at all when there is nothing to do.

    ``tasks`` and ``claim`` come from a plan (``tasks.per.application``); without them the application claims and plans. What was delivered
    becomes asset events on ``kafka://«first bootstrap server»/«topic»``, by way of the asset alias of the DAG's id; a sink has its consumer
    group in the asset's URI too. Other keyword arguments are SparkSubmitOperator's; deploy mode is always ``client``
    and ``durable`` always off, because the claims on the config topic decide who may write, and an application ends with its task.
    """

    template_fields: Sequence[str] = ()  # the name may come by REST or the config topic: it is never a template
    ui_color = "#e8f1f8"

    def __init__(
        self,
        *,
        connector: str,
        connector_definition: str | None = None,
        dag_mark: str | None = None,
        tasks: Sequence[int] | None = None,
        claim: str | None = None,
        spark_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        refused = {"env_vars", "application_args", "application"} & kwargs.keys()
        if refused:
            raise ConfigException(f"ConnectTaskOperator does not take {', '.join(sorted(refused))}: it sets what the application is told")
        super().__init__(**(kwargs | {"deploy_mode": "client", "durable": False, "name": f"connect-{connector}"}))
        self.conf: dict[str, str] | None
        self.py_files: str | None
        self._archives: str | None
        self.connector = connector
        self.connector_definition = connector_definition
        self.dag_mark = dag_mark
        self.tasks = tasks
        self.claim = claim
        self.spark_conn_id = spark_conn_id
        self._kill_requested = False
        self._directory: RunDirectory | None = None

    @property
    def tasks_label(self) -> str:
        """Names a mapped task in the UI."""
        return f"{self.connector[:_LABEL_LENGTH]} {_ranges_text(self.tasks or [])}"[:_COLUMN_LENGTH]

    def execute(self, context: Mapping[str, Any]) -> dict[str, dict[str, float]] | None:
        """The run's figures by task: records, bytes, seconds and CPU-seconds. None, which costs no XCom, when there was nothing to do."""
        die_with_parent()  # had it ended before this line, the next question to Airflow, over its socket, fails
        try:
            return self._run(context)
        except ConnectException as error:
            kind = AirflowException if error.retriable else AirflowFailException
            raise kind(f"Connector {self.connector}: {error.message}") from error

    def _run(self, context: Mapping[str, Any]) -> dict[str, dict[str, float]] | None:
        refuse_backfill(context)
        settings = worker_settings()
        asked_for = asked_tasks(context)
        found = self._readiness(settings, context, is_asked_for=asked_for is not None)
        if found.state == "no-work":
            _log.info("Connector %s has nothing to do: %s", self.connector, found.reason)
            return None
        directory = self._make_directory(context)
        tasks = asked_for if self.tasks is None else list(self.tasks)
        spec = RunSpec(
            connector=self.connector,
            settings=settings.originals,
            run_id=context["run_id"],
            try_number=context["ti"].try_number,
            tasks=tasks if self.tasks is not None else directory.tasks_left() or tasks,
            claim=Claim.parse(self.claim) if self.claim else None,
            define=self.definition(),
            secrets={**airflow_secrets(settings.originals), **found.secrets},
            known=None if found.known is None else found.known.to_json(),
        )
        directory.write_spec(spec)
        try:
            exit_code, log_tail = self._submit(directory)
        finally:
            directory.forget_secrets()
        result = directory.result()
        if result is None:
            raise self._lost(settings, directory, spec.tasks, exit_code, log_tail)
        return self._report(context, settings, directory, result, group=sink_group(self.connector, found.config))

    def _readiness(self, settings: WorkerSettings, context: Mapping[str, Any], *, is_asked_for: bool) -> "Readiness":
        """Whether there is work. Raises AirflowSkipException unless the connector is STARTED."""
        # loads the Kafka client: not when the DAG is parsed
        from airflow_provider_connect.stores.config_cache import ConfigCache
        from airflow_provider_connect.worker.application.readiness import UnreadyException, check_readiness

        try:
            found = check_readiness(
                settings,
                self.connector,
                define=self.definition(),
                secrets_of=airflow_secrets,
                is_asked_for=is_asked_for,
                is_planned=self.tasks is not None,
                may_wait=may_wait(context),
                cache=ConfigCache(run_directory()),
                hide=hide_in_logs(),
            )
        except UnreadyException as error:
            tell_unready(self.connector, settings, error, context, self.definition())
            raise
        if found.state == "waiting":
            raise AirflowSkipException(f"Connector {self.connector} waits: {found.reason}")
        if found.state == "not-started":
            raise AirflowSkipException(f"Connector {self.connector} is not started: {found.reason}")
        return found

    def _make_directory(self, context: Mapping[str, Any]) -> RunDirectory:
        ti, base = context["ti"], run_directory()
        remove_stale_runs(base, ti.dag_id, now=time.time())
        forget_secrets_left(base, ti.dag_id, now=time.time())
        self._directory = RunDirectory.make(
            base, ti.dag_id, ti.run_id, map_index=-1 if ti.map_index is None else ti.map_index, try_number=ti.try_number
        )
        return self._directory

    # ── the application ──

    def _submit(self, directory: RunDirectory) -> tuple[int | None, list[str]]:
        """Run the application to its end, in this thread: the signal of ``die_with_parent`` follows the thread that forks.

        Returns spark-submit's exit code and the last lines of its log.
        """
        from airflow_provider_connect.spark.class_data import build_behind, note_exit
        from airflow_provider_connect.spark.submit_options import submit_options

        options = submit_options(self._spark_master(), scratch=directory.scratch(), python_archive=own_option("python_archive"))
        self._take(options)
        self.application_args = ["--run-dir", str(directory.path)]
        self._hook = hook = self._get_hook()
        if self._kill_requested:
            raise AirflowFailException(f"Connector {self.connector}: killed before its application was submitted")
        environment = options.environment(_without_airflow(os.environ))
        try:  # in a process group of its own: Airflow's SIGTERM to the task's group then reaches the task process alone
            hook.submit(application_path(), env=environment, preexec_fn=dies_with_parent(own_group=True), stdin=subprocess.DEVNULL)
        except AirflowException as error:  # it says that the exit code is not 0; what that means, the result says
            _log.debug("spark-submit ended: %s", error)
        exit_code = None if hook._submit_sp is None else hook._submit_sp.returncode
        if not note_exit(options.class_data, exit_code):
            build_behind(options.class_data)
        return exit_code, list(hook._last_submit_log_lines)

    def _take(self, options: "SubmitOptions") -> None:
        """The options under what the DAG says: a DAG's own Spark settings win, its files come behind ours."""
        conf = {**options.conf, **(self.conf or {})}
        own = conf.get("spark.driver.extraJavaOptions", "")
        self.conf = conf | {"spark.driver.extraJavaOptions": f"{options.driver_java_options} {own}".strip()}
        self.py_files = ",".join([*options.py_files, *filter(None, [self.py_files])]) or None
        self._archives = ",".join([*options.archives, *filter(None, [self._archives])]) or None

    def _spark_master(self) -> str:
        """The master that the Spark connection names. Raises ConfigException when it names none: the provider would go to YARN."""
        self._conn_id = self.spark_conn_id or own_option("spark_conn_id") or SPARK_CONNECTION
        try:
            connection = Connection.get(self._conn_id)
        except AirflowNotFoundException as error:
            raise ConfigException(
                f"Spark connection {self._conn_id} does not exist: create it with type 'spark' and a master such as local[2] or "
                "spark://host:7077 as its host, or name another one in option spark_conn_id of section [connect]"
            ) from error
        if not connection.host:
            raise ConfigException(
                f"Spark connection {self._conn_id} has no host: give the master, for instance local[2] or spark://host:7077"
            )
        master = connection.host if "://" in connection.host or not connection.port else f"{connection.conn_type}://{connection.host}"
        return f"{master}:{connection.port}" if connection.port else str(master)

    def on_kill(self) -> None:
        """Tell the driver to end after its batch, and end it and spark-submit if it has not within four seconds.

        Called by Airflow in its signal handler; an exception here would leave the application alive, so none gets out.
        """
        self._kill_requested = True
        try:
            process = None if self._hook is None else self._hook._submit_sp
            if process is not None and process.poll() is None:
                self._end(process)
        except BaseException:
            _log.exception("Connector %s: the application may live on", self.connector)

    def _end(self, process: Any) -> None:
        deadline = time.monotonic() + _KILL_WAIT_SECONDS
        told = False
        while time.monotonic() < deadline and process.poll() is None:
            told = told or self._tell_driver()
            time.sleep(0.05)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)

    def _tell_driver(self) -> bool:
        pid = None if self._directory is None else self._directory.driver_pid()
        if pid is None:  # it has not started yet; the caller asks again
            return False
        try:
            os.kill(pid, signal.SIGTERM)
        except OSError:
            return False
        return True

    # ── the result ──

    def _lost(
        self, settings: WorkerSettings, directory: RunDirectory, tasks: list[int] | None, exit_code: int | None, log_tail: list[str]
    ) -> Exception:
        from airflow_provider_connect.stores.config_cache import ConfigCache
        from airflow_provider_connect.worker.application.failure_report import report_lost

        emit_lost(self.connector)
        reason = f"Connector {self.connector}: the application ended with exit code {exit_code} and without a result"
        if self._kill_requested:  # Airflow knows who ended it, and the API server writes that into the statuses if the run has FAILED
            return AirflowException(reason)  # type: ignore[no-any-return]
        try:
            cache = ConfigCache(run_directory())
            report_lost(settings, self.connector, directory.path, exit_code, log_tail, tasks=tasks, cache=cache)
        except ConnectException as error:
            _log.warning("Connector %s: its FAILED status could not be written: %s", self.connector, error)
        return AirflowException(": ".join([reason, *log_tail[-1:]]))  # type: ignore[no-any-return]

    def _report(
        self, context: Mapping[str, Any], settings: WorkerSettings, directory: RunDirectory, result: RunResult, *, group: str | None
    ) -> dict[str, dict[str, float]] | None:
        emit_run(result)
        emit_asset_events(context, settings.bootstrap_servers, result, group=group)
        failed = [task for task in result.tasks if task.trace is not None]
        if failed or result.state is RunState.FAILED:
            raise failure(result, failed)
        directory.remove_run()
        if result.state is RunState.SKIPPED:
            raise AirflowSkipException(
                f"Connector {self.connector} did not run: {result.error or 'it is not started, or a newer run took over'}"
            )
        for task in result.tasks:
            _log.info(
                "Connector %s task %d: %d records, %d bytes in %.2f s", result.connector, task.task, task.records, task.bytes, task.seconds
            )
        return figures(result) or None


def sink_group(connector: str, config: Mapping[str, str]) -> str | None:
    """The consumer group of a sink; None for a source."""
    return consumer_group(connector, config) if config.get("topics") or config.get("topics.regex") else None


def application_path() -> str:
    """The program that spark-submit is given."""
    spec = importlib.util.find_spec("airflow_provider_connect.spark_jobs.run_connector")
    if spec is not None and spec.origin is not None:
        return spec.origin
    path = Path(__file__).parents[2] / "spark_jobs" / "run_connector.py"  # a checkout on the path, not installed
    if not path.is_file():
        raise ConfigException("airflow_provider_connect.spark_jobs.run_connector is not installed: install airflow-provider-connect again")
    return str(path)


def _without_airflow(environ: Mapping[str, str]) -> dict[str, str]:
    """``environ`` without Airflow's own settings, connections and keys, which an application must not see."""
    return {name: value for name, value in environ.items() if not name.startswith(AIRFLOWS_OWN)}


def figures(result: RunResult) -> dict[str, dict[str, float]]:
    """What goes to XCom: task numbers and figures, nothing of the config."""
    return {
        str(task.task): {
            "records": task.records,
            "bytes": task.bytes,
            "seconds": round(task.seconds, 3),
            "cpu_seconds": round(task.cpu_seconds, 3),
        }
        for task in result.tasks
    }


def failure(result: RunResult, failed: Sequence[TaskResult]) -> Exception:
    """The exception for a run that FAILED; one that Airflow retries if at least one of its causes may go away by itself."""
    causes = [f"task {task.task} FAILED: {_last_line(task.trace or '')}" for task in failed]
    if not causes or result.error:
        causes.insert(0, _last_line(result.error or "the connector FAILED"))
    retriable = result.retriable if not failed else any(task.retriable for task in failed)
    kind = AirflowException if retriable else AirflowFailException
    return kind(f"Connector {result.connector}: {'; '.join(causes)}")  # type: ignore[no-any-return]


def _last_line(trace: str) -> str:
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"


def emit_asset_events(context: Mapping[str, Any], bootstrap_servers: str, result: RunResult, *, group: str | None) -> None:
    """One event a topic with what was delivered: ``{"connector": …, "ranges": {partition: [[first, next], …]}}``."""
    alias = AssetAlias(context["ti"].dag_id)
    if alias not in (context["task"].outlets or []):
        return
    for topic, ranges in sorted(_delivered(result.tasks).items()):
        extra = {"connector": result.connector, "ranges": ranges}
        context["outlet_events"][alias].add(topic_asset(bootstrap_servers, topic, group=group), extra=extra)


def topic_asset(bootstrap_servers: str, topic: str, *, group: str | None = None) -> Asset:
    """The asset that stands for a topic, or for what the sink of ``group`` has delivered of it.

    The two differ: a sink whose DAG is scheduled on the topic's asset would otherwise start itself again and again.
    """
    server = bootstrap_servers.partition(",")[0].rpartition("://")[2]
    uri = f"kafka://{server}/{topic}"
    if group is None:
        return Asset(uri)
    whole = f"{uri}?group={quote(group, safe='')}"
    return Asset(whole if len(whole) <= _URI_LENGTH else f"{uri}?group-sha256={hashlib.sha256(group.encode()).hexdigest()}")


def _delivered(tasks: Sequence[TaskResult]) -> dict[str, dict[str, list[list[int]]]]:
    topics: dict[str, dict[str, list[list[int]]]] = {}
    for task in tasks:
        for topic, partitions in task.ranges.items():
            for partition, (first, end) in partitions.items():
                if end > first:
                    topics.setdefault(topic, {}).setdefault(partition, []).append([first, end])
    return topics


def _ranges_text(numbers: Sequence[int]) -> str:
    """``[0, 1, 2, 5]`` as ``0-2, 5``."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)
