"""The internals of Airflow that this package uses exist, by name and signature, in the version that each module was checked with."""

import importlib
import inspect
import os
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from airflow.api.common.delete_dag import delete_dag
from airflow.api_fastapi.app import create_auth_manager, get_auth_manager
from airflow.api_fastapi.auth.managers.base_auth_manager import BaseAuthManager
from airflow.api_fastapi.core_api.security import get_user, resolve_user_from_token
from airflow.dag_processing.bundles.base import BaseDagBundle
from airflow.models.dag import DagModel, DagTag
from airflow.models.dag_version import DagVersion
from airflow.models.dagbag import DagPriorityParsingRequest, DBDagBag
from airflow.models.dagbundle import DagBundleModel
from airflow.models.dagrun import DagRun
from airflow.models.log import Log
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.taskinstance import TaskInstance
from airflow.models.taskinstancehistory import TaskInstanceHistory
from airflow.models.team import Team
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.serialization.definitions.dag import SerializedDAG
from airflow.serialization.encoders import coerce_to_core_timetable
from airflow.serialization.serialized_objects import DagSerialization
from airflow.utils.log.log_reader import TaskLogReader
from airflow.utils.state import DagRunState, State, TaskInstanceState
from airflow.utils.types import DagRunTriggeredByType, DagRunType
from sqlalchemy import create_engine, func, select
from sqlalchemy.orm import Session

from airflow_provider_connect.api_server import serialized_dags
from airflow_provider_connect.api_server.serialized_dags import request_parse
from airflow_provider_connect.dag_files.connector_dag import ConnectorDag, StoredConnectorDag
from airflow_provider_connect.operators.connect import ConnectTaskOperator
from airflow_provider_connect.operators.definition import ATTRIBUTE, CONNECTOR, MARK
from airflow_provider_connect.runtime.spark.run_directory import RunDirectory
from airflow_provider_connect.runtime.spark.submit_options import SubmitOptions

CORE, SPARK = ("Airflow", "apache-airflow-core"), ("apache-airflow-providers-apache-spark",) * 2


@pytest.mark.parametrize(
    ("module", "product"),
    [
        ("api_server.access", CORE),
        ("api_server.attempts", CORE),
        ("api_server.dags", CORE),
        ("api_server.delivery_events", CORE),
        ("api_server.run_logs", CORE),
        ("api_server.runs", CORE),
        ("api_server.serialized_dags", CORE),
        ("dag_files.bundle", CORE),
        ("dag_files.dag_checks", CORE),
        ("operators.spark_submit", SPARK),
    ],
)
def test_a_module_names_the_version_that_it_was_checked_with(module: str, product: tuple[str, str]) -> None:
    title, distribution = product
    text = " ".join((importlib.import_module(f"airflow_provider_connect.{module}").__doc__ or "").split())
    assert f"Internals of {title} {version(distribution)}:" in text, "check what the module uses against this version, then name it there"


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        (BaseDagBundle.__init__, "name refresh_interval"),
        (BaseDagBundle.lock, ""),
        (DBDagBag.get_dag_for_run, "dag_run session"),
        (DBDagBag.get_latest_version_of_dag, "dag_id session"),
        (DagBundleModel.get_team_name, "session"),
        (DagPriorityParsingRequest.__init__, "bundle_name relative_fileloc"),
        (DagRun.set_state, "state"),
        (DagSerialization.to_dict, ""),
        (SerializedDAG.create_dagrun, "run_id run_after conf run_type triggered_by state session"),
        (SparkSubmitHook.submit, "application kwargs"),
        (TaskInstance.set_state, "state session"),
        (TaskInstance.register_asset_changes_in_db, "ti task_outlets outlet_events session"),
        (TaskLogReader.read_log_chunks, "ti try_number metadata"),
        (Team.get_all_team_names, "session"),
        (coerce_to_core_timetable, ""),
        (create_auth_manager, ""),
        (delete_dag, "dag_id session"),
        (get_auth_manager, ""),
        (get_user, "request bearer_credentials"),
        (resolve_user_from_token, "token_str"),
        (BaseAuthManager.is_authorized_dag, "method user details"),
        (BaseAuthManager.is_authorized_view, "access_view user"),
        (BaseAuthManager.is_authorized_variable, "method user details"),
        (BaseAuthManager.filter_authorized_dag_ids, "dag_ids user method"),
        (BaseAuthManager.get_authorized_dag_ids, "user method"),
        (BaseAuthManager.get_fastapi_app, ""),
    ],
)
def test_a_function_takes_what_it_is_given(function: Callable[..., Any], parameters: str) -> None:
    assert set(parameters.split()) <= inspect.signature(function).parameters.keys()


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        (
            DagModel,
            "dag_id is_paused is_stale has_import_errors last_parsed_time bundle_name relative_fileloc exceeds_max_non_backfill "
            "next_dagrun_create_after owners",
        ),
        (DagTag, "dag_id name"),
        (DagRun, "id dag_id run_id state run_type conf start_date queued_at end_date triggering_user_name"),
        (TaskInstanceHistory, "dag_id run_id task_id map_index try_number state start_date end_date updated_at rendered_map_index dag_run"),
        (Log, "id dag_id run_id event dttm extra owner owner_display_name"),
        (SerializedDagModel, "id dag_id dag_hash data dag_version_id"),
        (DagVersion, "id bundle_version"),
        (
            TaskInstance,
            "id dag_id run_id task_id map_index try_number max_tries state start_date end_date updated_at rendered_map_index "
            "_rendered_map_index hostname dag_run retry_delay_override",
        ),
    ],
)
def test_a_table_has_the_columns_that_are_read(table: type, columns: str) -> None:
    assert [name for name in columns.split() if not hasattr(table, name)] == []


def test_the_words_of_states_and_types_exist() -> None:
    assert [DagRunState.QUEUED, DagRunState.RUNNING, DagRunState.FAILED, DagRunState.SUCCESS]
    assert [TaskInstanceState.RUNNING, TaskInstanceState.RESTARTING, TaskInstanceState.QUEUED, TaskInstanceState.SKIPPED]
    assert {DagRunTriggeredByType.REST_API, DagRunType.MANUAL}
    assert TaskInstanceState.FAILED in State.failed_states
    assert TaskInstanceState.SKIPPED in State.finished


def test_a_second_parse_request_finds_the_first_by_airflows_id() -> None:
    engine = create_engine("sqlite://")
    cast("Any", DagPriorityParsingRequest.__table__).create(engine)
    with Session(engine) as session:
        for _ in range(2):
            request_parse(session, "dags-folder", "orders.py")
        request_parse(session, "dags-folder", "other.py")
        assert session.scalar(select(func.count()).select_from(DagPriorityParsingRequest)) == 2


CONFIG = {"connector.class": "FileStreamSource", "file": "/data/a", "topic": "a"}


@pytest.mark.parametrize(
    ("dag", "attribute"),
    [
        (lambda: ConnectorDag("orders", CONFIG), ATTRIBUTE),
        (lambda: StoredConnectorDag("orders", '{"airflow.schedule": "@hourly"}', file="f.py", is_paused=False), MARK),
    ],
)
def test_a_serialized_dag_carries_name_and_definition_or_mark(dag: Callable[[], Any], attribute: str) -> None:
    row = SimpleNamespace(dag_id="connect.orders", data=DagSerialization.to_dict(dag()))
    assert row.data["dag"]["fileloc"]
    assert [task["__var"][CONNECTOR] for task in row.data["dag"]["tasks"]] == ["orders"]
    assert serialized_dags._attribute(cast("Any", row), attribute)


def test_the_spark_provider_has_what_the_operator_reads() -> None:
    operator = ConnectTaskOperator(task_id="run", connector="orders", archives="a", conf={})
    assert (operator._archives, operator._hook, operator._conn_id) == ("a", None, "spark_default")
    assert inspect.signature(operator._get_hook).parameters == {}
    hook = SparkSubmitHook(conn_id="spark_default")
    assert (hook._submit_sp, list(hook._last_submit_log_lines)) == (None, [])


_PROGRAM = """#!/bin/sh
for argument in "$@"; do echo "argument $argument"; done
env | sed -n 's/^AIRFLOW_CONN.*/a secret of Airflow/p'
ps -o ppid=,pgid= -p $$ | sed 's/^/group /'
echo last words
exit 3
"""
_LOGGING_PROGRAM = """#!/bin/sh
echo WARNING tests.orders: rows without a key
echo 'ERROR tests.orders| Task orders-0 FAILED'
echo 'ERROR tests.orders:   File x'
echo DEBUG tests.orders: page 3
echo INFO of nobody
"""


def test_an_application_is_submitted_and_its_exit_code_and_log_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the provider's own hook; a script is in place of spark-submit."""
    exit_code, log, path = submitted(_PROGRAM, tmp_path, monkeypatch)
    assert (exit_code, log[-1]) == (3, "last words")
    assert {"local[1]", "spark.a=1", "ours.zip,own.zip", "ours.tar,own.tar", "connect-orders", str(path)} <= {
        line.removeprefix("argument ") for line in log
    }
    assert "a secret of Airflow" not in log
    (group,) = [line.split()[1:] for line in log if line.startswith("group ")]
    assert group[0] == group[1] != str(os.getpgrp()), "in the process group of its keeper"


def test_the_log_of_an_application_keeps_its_levels_and_loggers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    exit_code, log, _ = submitted(_LOGGING_PROGRAM, tmp_path, monkeypatch)
    assert (exit_code, log[-2:]) == (0, ["DEBUG tests.orders: page 3", "INFO of nobody"])
    records = [(record.levelname, record.name.partition(".")[0], record.getMessage()) for record in caplog.records]
    assert [record for record in records if record[1] == "tests"] == [
        ("WARNING", "tests", "rows without a key"),
        ("ERROR", "tests", "Task orders-0 FAILED\n  File x"),
        ("DEBUG", "tests", "page 3"),
    ]
    assert len([record for record in records if "orders-0" in record[2]]) == 1


def submitted(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int | None, list[str], Path]:
    """Submit with a script in place of spark-submit; returns exit code, last lines and the run's directory."""
    program = tmp_path / "spark-submit"
    program.write_text(text)
    program.chmod(0o755)
    options = SubmitOptions(
        str(program), {"PATH": f"{tmp_path}:{os.environ['PATH']}"}, "-Xours", {"spark.a": "1"}, ["ours.zip"], ["ours.tar"]
    )
    monkeypatch.setattr("airflow_provider_connect.runtime.spark.submit_options.submit_options", lambda *_, **__: options)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[1]"}')
    operator = ConnectTaskOperator(task_id="run", connector="orders", py_files="own.zip", archives="own.tar")
    directory = RunDirectory.make(tmp_path / "runs", "connect.orders", "run-1")
    exit_code, log = operator.submit_application(directory)
    return exit_code, log, directory.path
