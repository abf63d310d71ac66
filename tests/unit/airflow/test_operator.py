"""What the operator makes of a run's result, and how it keeps processes and secrets together. Nothing here needs Spark."""

import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowNotFoundException, AirflowSkipException

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.operators import connect, planning, spark_submit
from airflow_provider_connect.operators.connect import ConnectTaskOperator
from airflow_provider_connect.operators.plan import groups_of
from airflow_provider_connect.operators.run_report import failure, topic_asset, xcom_values
from airflow_provider_connect.operators.spark_submit import application_path, spark_master
from airflow_provider_connect.runtime.config.dag_settings import PROCESS, SPARK
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.run import Claim, RunResult, RunState, TaskResult
from airflow_provider_connect.runtime.spark.run_directory import RunDirectory
from airflow_provider_connect.runtime.spark.submit_options import SubmitOptions
from airflow_provider_connect.runtime.worker.application.readiness import Readiness
from tests.waiting import HANG_SECONDS, wait_until

SETTINGS = {"bootstrap.servers": "127.0.0.1:9", "group.id": "g"}
TRACE = "Traceback (most recent call last):\n  File x\nairflow_provider_connect.errors.DataException: offset 7 is no number\n"


def result(*tasks: TaskResult, **fields: object) -> RunResult:
    return RunResult("orders", RunState.FAILED, tasks=list(tasks), **fields)  # type: ignore[arg-type]


def test_a_failure_names_connector_task_and_the_last_line_of_its_trace() -> None:
    failed = [TaskResult(3, "FAILED", TRACE)]
    error = failure(result(TaskResult(0), *failed), failed)
    assert isinstance(error, AirflowFailException)
    assert str(error) == "Connector orders: task 3 FAILED: airflow_provider_connect.errors.DataException: offset 7 is no number"


def test_a_failure_that_may_go_away_is_retried() -> None:
    failed = [TaskResult(0, "FAILED", "a"), TaskResult(1, "FAILED", "b", retriable=True)]
    assert type(failure(result(*failed), failed)) is AirflowException


def test_a_connector_that_failed_before_its_tasks_reports_why() -> None:
    error = failure(result(error="ConfigException: no file", retriable=False), [])
    assert isinstance(error, AirflowFailException)
    assert str(error) == "Connector orders: ConfigException: no file"


def test_xcom_carries_numbers_only() -> None:
    task = TaskResult(1, records=3, bytes=30, seconds=0.12345, cpu_seconds=0.1, ranges={"secret-topic": {"0": [0, 3]}}, trace=None)
    assert xcom_values(result(task)) == {"1": {"records": 3, "bytes": 30, "seconds": 0.123, "cpu_seconds": 0.1}}
    failing = TaskResult(1, failed=2, error="TRANSFORMATION of offset 3 of secret-topic-0: ValueError: x")
    assert xcom_values(result(failing)) == {"1": {"records": 0, "bytes": 0, "seconds": 0.0, "cpu_seconds": 0.0, "failed": 2}}


def test_a_topic_is_an_asset_of_its_cluster_and_a_sinks_delivery_is_another() -> None:
    assert topic_asset("SASL_SSL://a:9092,b:9092", "lines").uri == "kafka://a:9092/lines"
    assert topic_asset("a:9092", "lines", group="connect-copy").uri == "kafka://a:9092/lines?group=connect-copy"


def test_tasks_are_shared_out_in_groups() -> None:
    claim = Claim(7, "topic")
    assert groups_of([2, 0, 1], claim, 2) == [{"tasks": [0, 1], "claim": "topic:7"}, {"tasks": [2], "claim": "topic:7"}]
    assert groups_of([], claim, 2) == []


def test_a_mapped_task_is_named_by_its_tasks() -> None:
    assert ConnectTaskOperator(task_id="run", connector="orders", tasks=[0, 1, 2, 5]).tasks_label == "orders 0-2, 5"


def test_of_an_application_that_died_only_its_own_tasks_are_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its siblings under the same claim may work, and in a retry the others are done."""
    reported: list[object] = []
    monkeypatch.setattr(
        "airflow_provider_connect.runtime.worker.application.failure_report.report_lost", lambda *_, tasks, **__: reported.append(tasks)
    )
    monkeypatch.setattr(ConnectTaskOperator, "_make_directory", lambda *_: RunDirectory.make(tmp_path, "orders", "run-1"))
    monkeypatch.setattr(connect, "require_started", lambda *_, **__: Readiness("work", ""))
    monkeypatch.setattr(ConnectTaskOperator, "submit_application", lambda *_: (137, ["killed"]))
    monkeypatch.setattr("airflow_provider_connect.operators.connect.worker_settings", lambda: WorkerSettings.of(SETTINGS))
    context = {"run_id": "run-1", "ti": SimpleNamespace(try_number=1), "dag_run": SimpleNamespace(run_type="manual", conf={})}
    with pytest.raises(AirflowException, match="exit code 137"):
        ConnectTaskOperator(task_id="run", connector="orders", tasks=[2, 3], claim="topic:7").execute(context)
    assert reported == [[2, 3]]


def test_the_application_is_there() -> None:
    assert Path(application_path()).name == "run_connector.py"


@pytest.fixture
def operator(tmp_path: Path) -> ConnectTaskOperator:
    operator = ConnectTaskOperator(task_id="run", connector="orders")
    operator._directory = RunDirectory.make(tmp_path, "connect.orders", "run")
    return operator


OF_AIRFLOW = {"AIRFLOW_CONN_SPARK_DEFAULT", "AIRFLOW_VAR_SHOP", "AIRFLOW__CORE__FERNET_KEY", "_AIRFLOW_KEY", "__AIRFLOW_KEY"}
_STUB = f"""#!{sys.executable}
import json, os, sys, time
from pathlib import Path

seen = Path(sys.argv[sys.argv.index("--run-dir") + 1], "seen")
seen.write_text(json.dumps({{"pid": os.getpid(), "environment": dict(os.environ)}}))
seen.rename(seen.with_suffix(".json"))
time.sleep(600)
"""


@dataclass
class Started:
    """An application that does not end by itself, the process of its task, and the application's environment."""

    pid: int
    task: int
    environment: dict[str, str]


@pytest.fixture(params=[SPARK, PROCESS])
def started(
    request: pytest.FixtureRequest, operator: ConnectTaskOperator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Started]:
    """A script in place of spark-submit, or of the driver, that a task process of its own has started."""
    stub = tmp_path / "spark-submit"
    stub.write_text(_STUB)
    stub.chmod(0o755)
    for name in OF_AIRFLOW:
        monkeypatch.setenv(name, json.dumps({"conn_type": "spark", "host": "local"}))
    monkeypatch.setenv("OF_THE_HOST", "1")
    options = SubmitOptions(str(stub), {"PATH": f"{tmp_path}:{os.environ['PATH']}"}, "", {})
    monkeypatch.setattr("airflow_provider_connect.runtime.spark.submit_options.submit_options", lambda *_, **__: options)
    operator.engine, directory = request.param, operator._directory
    if operator.engine == PROCESS:
        monkeypatch.setattr(sys, "executable", str(stub))
    assert directory is not None
    task = os.fork()
    if not task:
        try:
            operator.run_application(directory)
        finally:
            traceback.print_exc()
            os._exit(1)
    seen = directory.path / "seen.json"
    wait_until(lambda: seen.exists() or os.waitpid(task, os.WNOHANG)[0])
    assert seen.exists()
    found = json.loads(seen.read_text())
    yield Started(found["pid"], task, found["environment"])
    os.kill(task, signal.SIGKILL)
    os.waitpid(task, 0)
    if str(stub).encode() in command_line(found["pid"]):
        os.kill(found["pid"], signal.SIGKILL)


def test_an_application_gets_no_settings_connections_and_keys_of_airflow(started: Started) -> None:
    assert started.environment["OF_THE_HOST"] == "1"
    assert not OF_AIRFLOW & started.environment.keys()


def test_an_application_dies_with_its_task_process_and_is_not_in_its_process_group(started: Started) -> None:
    assert os.getpgid(started.pid) != os.getpgid(started.task)
    os.kill(started.task, signal.SIGKILL)
    wait_until(lambda: not command_line(started.pid))


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # gone
        return b""


class Submitted:
    """A process in place of spark-submit, in a group of its own, and the hook's one attribute that ``on_kill`` reads."""

    def __init__(self, script: str) -> None:
        self._submit_sp = subprocess.Popen([sys.executable, "-c", script], process_group=0, stdout=subprocess.PIPE, text=True)

    def wait_until_ready(self) -> int:
        assert self._submit_sp.stdout is not None
        self._submit_sp.stdout.readline()
        return self._submit_sp.pid

    def reap(self) -> int:
        assert self._submit_sp.stdout is not None
        self._submit_sp.stdout.close()
        return self._submit_sp.wait(HANG_SECONDS)


_GRACEFUL = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); print(1, flush=True); time.sleep(600)"
_STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"


@pytest.mark.parametrize("engine", [SPARK, PROCESS])
def test_a_killed_task_lets_its_driver_end_by_itself(operator: ConnectTaskOperator, engine: str) -> None:
    submitted = Submitted(_GRACEFUL)
    assert operator._directory is not None
    (operator._directory.path / "driver.pid").write_text(str(submitted.wait_until_ready()))
    if engine == PROCESS:
        operator._process = submitted._submit_sp
    else:
        operator._hook = submitted
    operator.on_kill()
    assert submitted.reap() == 0


def test_a_driver_that_does_not_end_in_time_is_killed_with_its_group(
    operator: ConnectTaskOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert spark_submit._KILL_WAIT_SECONDS < 5, "Airflow kills the task five seconds after it called on_kill"
    monkeypatch.setattr(spark_submit, "_KILL_WAIT_SECONDS", 0.5)
    hook = Submitted(_STUBBORN)
    assert operator._directory is not None
    (operator._directory.path / "driver.pid").write_text(str(hook.wait_until_ready()))
    operator._hook = hook
    before = time.monotonic()
    operator.on_kill()
    assert 0.4 < time.monotonic() - before < HANG_SECONDS
    assert hook.reap() == -signal.SIGKILL


@pytest.mark.parametrize("hook", [None, object()])
def test_nothing_gets_out_of_on_kill(operator: ConnectTaskOperator, hook: object) -> None:
    operator._hook = hook
    operator.on_kill()
    assert operator._kill_requested


def spark_at(host: str | None = None, port: int | None = None) -> Connection:
    return Connection(conn_id="c", conn_type="spark", host=host, port=port)


@pytest.mark.parametrize(
    ("connection", "master"),
    [
        (spark_at("local[2]"), "local[2]"),
        (spark_at("spark-1", 7077), "spark://spark-1:7077"),
        (spark_at("spark://spark-1:7077"), "spark://spark-1:7077"),
        (spark_at("k8s://https://spark-1", 6443), "k8s://https://spark-1:6443"),
    ],
)
def test_the_master_is_the_one_of_the_spark_connection(monkeypatch: pytest.MonkeyPatch, connection: Connection, master: str) -> None:
    monkeypatch.setattr(Connection, "get", lambda _: connection)
    assert spark_master("c") == master


def test_a_spark_connection_without_a_master_is_refused_and_nothing_goes_to_yarn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connection, "get", lambda _: spark_at())
    with pytest.raises(ConfigException, match="Spark connection c has no host"):
        spark_master("c")

    def missing(conn_id: str) -> Connection:
        raise AirflowNotFoundException(conn_id)

    monkeypatch.setattr(Connection, "get", missing)
    with pytest.raises(ConfigException, match="Spark connection c does not exist: create it"):
        spark_master("c")


def test_a_late_module_that_is_read_at_once_is_loaded_at_once() -> None:
    """As by OpenLineage's client, which the Spark provider imports where it is installed."""
    code = (
        "import sys\n"
        "from airflow_provider_connect.operators.spark_submit import _import_lazily\n"
        "with _import_lazily('requests'):\n"
        "    from requests import Session\n"
        "assert Session is sys.modules['requests'].Session"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=dict(os.environ), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_importing_the_operator_does_not_import_requests_and_leaves_it_as_it_was() -> None:
    code = (
        "import sys, airflow_provider_connect.operators.connect as connect; assert 'requests' not in sys.modules; "
        "import requests; assert requests.get; "
        "from airflow.providers.apache.spark.operators import spark_submit; assert spark_submit.requests.get is requests.get"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=dict(os.environ), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_run_that_stays_waits_for_its_connector_instead_of_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow would start the next run at once."""
    found = [Readiness("waiting", "its tasks have FAILED"), Readiness("not-started", "its target state is PAUSED"), Readiness("work", "")]
    waits: list[float] = []
    monkeypatch.setattr(planning, "_check", lambda *_, **__: found.pop(0))
    monkeypatch.setattr(time, "sleep", waits.append)
    operator = ConnectTaskOperator(task_id="run", connector="orders", stays_seconds=3600)
    assert planning.require_started(operator, WorkerSettings.of(SETTINGS), {}, is_asked_for=False, stays=True).state == "work"
    assert waits == [2.0, 2.0]


@pytest.mark.parametrize(("state", "reason"), [("waiting", "waits: why"), ("not-started", "is not started: why")])
def test_a_run_on_a_schedule_ends_where_one_that_stays_waits(monkeypatch: pytest.MonkeyPatch, state: str, reason: str) -> None:
    monkeypatch.setattr(planning, "_check", lambda *_, **__: Readiness(state, "why"))
    operator = ConnectTaskOperator(task_id="run", connector="orders")
    with pytest.raises(AirflowSkipException, match=f"Connector orders {reason}"):
        planning.require_started(operator, WorkerSettings.of(SETTINGS), {}, is_asked_for=False)
