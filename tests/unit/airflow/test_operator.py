"""What the operator makes of a run's result, and how it keeps processes and secrets together. Nothing here needs Spark."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from airflow_provider_connect.operators import connect, planning, spark_submit
from airflow_provider_connect.operators.connect import ConnectTaskOperator
from airflow_provider_connect.operators.plan import groups_of
from airflow_provider_connect.operators.run_report import failure, topic_asset, xcom_values
from airflow_provider_connect.operators.spark_submit import application_path
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.run import Claim, RunResult, RunState, TaskResult
from airflow_provider_connect.runtime.spark.run_directory import RunDirectory
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


_PARENT = """
import os, subprocess, sys, time
from airflow_provider_connect.runtime.spark.parent_death import dies_with_parent
child = subprocess.Popen(["sleep", "600"], preexec_fn=dies_with_parent(own_group=True), stdin=subprocess.DEVNULL)
print(child.pid, os.getpgid(child.pid), flush=True)
time.sleep(600)
"""


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # gone
        return b""


def test_spark_submit_dies_with_the_task_process_and_has_a_process_group_of_its_own() -> None:
    parent = subprocess.Popen([sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    assert parent.stdout is not None
    child, group = map(int, parent.stdout.readline().split())
    assert group == child
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: not command_line(child))


class Submitted:
    """A process in place of spark-submit, in a group of its own, and the hook's one attribute that ``on_kill`` reads."""

    def __init__(self, script: str) -> None:
        self._submit_sp = subprocess.Popen([sys.executable, "-c", script], process_group=0, stdout=subprocess.PIPE)

    def wait_until_ready(self) -> int:
        assert self._submit_sp.stdout is not None
        self._submit_sp.stdout.readline()
        return self._submit_sp.pid

    def reap(self) -> int:
        assert self._submit_sp.stdout is not None
        self._submit_sp.stdout.close()
        return self._submit_sp.wait(HANG_SECONDS)


@pytest.fixture
def operator(tmp_path: Path) -> ConnectTaskOperator:
    operator = ConnectTaskOperator(task_id="run", connector="orders")
    operator._directory = RunDirectory.make(tmp_path, "connect.orders", "run")
    return operator


_GRACEFUL = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); print(1, flush=True); time.sleep(600)"
_STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"


def test_a_killed_task_lets_its_driver_end_by_itself(operator: ConnectTaskOperator) -> None:
    hook = Submitted(_GRACEFUL)
    assert operator._directory is not None
    (operator._directory.path / "driver.pid").write_text(str(hook.wait_until_ready()))
    operator._hook = hook
    operator.on_kill()
    assert hook.reap() == 0


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
