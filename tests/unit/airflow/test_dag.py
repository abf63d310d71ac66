"""A connector as a DAG: what Airflow's parser makes of a DAG file, and what the serialized DAG holds and does not."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.models.taskinstancekey import TaskInstanceKey
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG
from airflow.sdk.execution_time import macros
from airflow.serialization.serialized_objects import DagSerialization
from airflow.utils.types import DagRunType

from airflow_provider_connect.dag_files.connector_dag import ConnectorDag, StoredConnectorDag
from airflow_provider_connect.dag_files.connector_files import mark_of
from airflow_provider_connect.dag_files.links import ConnectorStatusLink
from airflow_provider_connect.dag_files.retry import ConnectRetryPolicy
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.operators.connect import ConnectTaskOperator
from airflow_provider_connect.operators.definition import ATTRIBUTE

CONFIG = {"connector.class": "FileStreamSource", "file": "/canary/in.txt", "topic": "lines", "tasks.max": "4"}
DAG_FILE = """
from airflow_provider_connect import ConnectorDag

ConnectorDag("orders", {"connector.class": "FileStreamSource", "file": "/in.txt", "topic": "lines"})
ConnectorDag("shop orders/2", {"connector.class": "FileStreamSink", "file": "/out.txt", "topics": "lines"}, schedule="@daily")
"""


def bag_of(folder: Path, text: str) -> DagBag:
    folder.mkdir(exist_ok=True)
    (folder / "connectors.py").write_text(text)
    return DagBag(folder, bundle_path=folder, bundle_name="dags-folder")


def tasks_of(serialized: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {task["__var"]["task_id"]: task["__var"] for task in serialized["dag"]["tasks"]}


def test_a_dag_file_defines_connectors_without_binding_a_name(tmp_path: Path) -> None:
    bag = bag_of(tmp_path / "dags", DAG_FILE)
    assert bag.import_errors == {}
    assert sorted(bag.dags) == ["connect.orders", "connect.shop--20orders--2f2"]
    assert bag.dags["connect.orders"].relative_fileloc == "connectors.py"
    assert bag.dags["connect.orders"].fileloc == str(tmp_path / "dags" / "connectors.py")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ('{"file": "/in.txt"}', 'ConfigException: Missing required configuration "connector.class"'),
        ('{"connector.class": "FileStreamSource", "tasks.max": "0"}', "Invalid value 0 for configuration tasks.max"),
        ('{"connector.class": "FileStreamSource", "airflow.retries": "few"}', "Invalid value few for configuration airflow.retries"),
    ],
)
def test_a_mistake_is_an_import_error_that_names_key_and_fix(tmp_path: Path, config: str, message: str) -> None:
    bag = bag_of(tmp_path / "dags", f'from airflow_provider_connect import ConnectorDag\nConnectorDag("orders", {config})\n')
    assert bag.dags == {}
    assert message in bag.import_errors["connectors.py"]


@pytest.mark.filterwarnings("always::UserWarning")
def test_a_secret_written_out_is_warned_of_where_the_user_wrote_it(tmp_path: Path) -> None:
    text = DAG_FILE.replace('"topic": "lines"', '"topic": "lines", "db.password": "hunter2"')
    warnings = bag_of(tmp_path / "dags", text).captured_warnings
    assert [text for found in warnings.values() for text in found if "connectors.py:4" in text and "db.password" in text]
    assert "hunter2" not in str(warnings)


def test_one_task_hosts_all_by_default() -> None:
    dag = ConnectorDag("orders", CONFIG)
    run = dag.get_task("run")
    assert dag.task_ids == ["run"]
    assert isinstance(dag, DAG)
    assert isinstance(run, ConnectTaskOperator)
    assert isinstance(run, SparkSubmitOperator)
    assert (dag.max_active_runs, dag.catchup, dag.is_paused_upon_creation) == (1, False, False)
    assert (run.retries, run.retry_delay) == (3, timedelta(seconds=10))
    assert isinstance(run.retry_policy, ConnectRetryPolicy)
    assert dag.tags == {"connector"}


def test_deploy_mode_and_durability_are_not_the_users() -> None:
    run = ConnectTaskOperator(task_id="run", connector="orders", deploy_mode="cluster", durable=True)
    assert (run._deploy_mode, run.durable) == ("client", False)


@pytest.mark.parametrize("argument", ["application", "application_args", "env_vars"])
def test_what_the_application_is_given_is_not_the_users(argument: str) -> None:
    with pytest.raises(ConfigException, match=f"does not take {argument}"):
        ConnectTaskOperator(task_id="run", connector="orders", **{argument: "x"})  # type: ignore[arg-type]


def test_groups_of_tasks_have_applications_of_their_own_when_asked_for() -> None:
    dag = ConnectorDag("orders", {**CONFIG, "tasks.per.application": "2"})
    assert dag.task_ids == ["plan", "run", "report"]
    assert dag.get_task("plan").downstream_task_ids == {"run"}
    assert dag.get_task("run").downstream_task_ids == {"report"}
    assert dag.get_task("run").is_mapped
    assert dag.get_task("plan").tasks_per_application == 2


def test_airflow_keys_steer_the_dag() -> None:
    keys = {
        "airflow.schedule": "30s",
        "airflow.tags": "shop",
        "airflow.owner": "shop team",
        "airflow.retries": "9",
        "airflow.retry.delay": "1m",
        "airflow.pool": "kafka",
        "airflow.description": "Orders",
        "airflow.max.duration": "1h",
    }
    dag = ConnectorDag("orders", {**CONFIG, **keys}, tags=["mine"])
    run = dag.get_task("run")
    assert (dag.schedule, dag.description, dag.tags) == (timedelta(seconds=30), "Orders", {"connector", "mine", "shop"})
    assert (run.owner, run.retries, run.retry_delay, run.pool) == ("shop team", 9, timedelta(minutes=1), "kafka")
    assert run.execution_timeout == timedelta(hours=1)


def test_a_keyword_schedule_wins_over_the_default_and_none_means_never() -> None:
    assert ConnectorDag("orders", CONFIG, schedule="@daily").schedule == "@daily"
    assert ConnectorDag("orders", CONFIG, schedule=None).schedule is None


@pytest.mark.parametrize(
    ("keys", "arguments", "message"),
    [
        ({"airflow.schedule": "@daily"}, {"schedule": "@hourly"}, "schedule is given twice"),
        ({}, {"max_active_runs": 3}, "max_active_runs: a connector's DAG always has 1"),
        ({}, {"catchup": True}, "catchup"),
        ({}, {"is_paused_upon_creation": True}, "is_paused_upon_creation"),
        ({}, {"default_args": {"depends_on_past": True}}, "depends_on_past: .*AlterOffsetsOperator"),
        ({}, {"default_args": {"wait_for_downstream": True}}, "wait_for_downstream: .*AlterOffsetsOperator"),
        ({}, {"allowed_run_types": ["backfill", "scheduled"]}, "allowed_run_types is always .*AlterOffsetsOperator"),
    ],
)
def test_arguments_that_contradict_are_refused(keys: dict[str, str], arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigException, match=message):
        ConnectorDag("orders", {**CONFIG, **keys}, **arguments)


@pytest.mark.parametrize("schedule", [None, "@daily", timedelta(minutes=1)])
def test_every_run_type_is_allowed_but_backfills(schedule: Any) -> None:
    for dag in (ConnectorDag("orders", CONFIG, schedule=schedule), StoredConnectorDag("a", "{}", file=__file__, is_paused=False)):
        read = DagSerialization.from_dict(DagSerialization.to_dict(dag))
        assert set(read.allowed_run_types) == set(DagRunType) - {DagRunType.BACKFILL_JOB}


@pytest.mark.parametrize("keys", [{}, {"tasks.per.application": "1"}, {"airflow.schedule": "45s"}])
def test_serialization_is_the_same_each_time_and_reads_back(keys: dict[str, str]) -> None:
    first = DagSerialization.to_dict(ConnectorDag("orders", {**CONFIG, **keys}))
    again = DagSerialization.to_dict(ConnectorDag("orders", dict(reversed({**CONFIG, **keys}.items()))))
    assert json.dumps(first, sort_keys=True) == json.dumps(again, sort_keys=True)
    read = DagSerialization.from_dict(first)
    assert sorted(read.task_dict) == sorted(tasks_of(first))
    assert read.max_active_runs == 1


@pytest.mark.parametrize("keys", [{}, {"tasks.per.application": "1"}])
def test_the_config_lies_in_one_attribute_of_the_first_task_and_nowhere_else(keys: dict[str, str]) -> None:
    dag = ConnectorDag("orders", {**CONFIG, **keys})
    serialized = DagSerialization.to_dict(dag)
    tasks = tasks_of(serialized)
    first = tasks["plan" if keys else "run"]
    assert json.loads(first.pop(ATTRIBUTE)) == {**CONFIG, **keys}
    assert "/canary" not in json.dumps(serialized)
    assert {task_id: task["template_fields"] for task_id, task in tasks.items()} == {task_id: [] for task_id in tasks}
    assert serialized["dag"]["params"] == []


def test_the_definition_names_its_file(tmp_path: Path) -> None:
    dag = bag_of(tmp_path / "dags", DAG_FILE).dags["connect.orders"]
    definition = dag.get_task("run").definition()
    assert definition == {
        "connector.class": "FileStreamSource",
        "file": "/in.txt",
        "topic": "lines",
        "name": "orders",
        "airflow.defined.in": "connectors.py",
    }


def test_the_examples_parse(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CONNECT_DEMO_DIR", str(tmp_path))
    folder = Path(__file__).resolve().parents[3] / "dags"
    bag = DagBag(folder, bundle_path=folder, bundle_name="dags-folder")
    assert bag.import_errors == {}
    assert {"connect.demo-file-source", "connect.demo-file-sink"} <= bag.dags.keys()
    assert all(dag.doc_md for dag in bag.dags.values())


ATTACK = "{{ macros.json.codecs.builtins.open('HIT', 'w') }}"


@pytest.mark.parametrize("keys", [{}, {"tasks.per.application": "1"}])
def test_nothing_of_a_name_or_a_config_is_a_template(keys: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    texts = dict.fromkeys(("airflow.description", "airflow.doc", "airflow.display.name", "airflow.owner", "airflow.pool"), ATTACK)
    mark = mark_of({**texts, "airflow.tags": ATTACK.replace(",", ";"), **keys})
    context = {"macros": macros, "run_id": ATTACK}
    for dag in (StoredConnectorDag(ATTACK, mark, file=__file__, is_paused=False), ConnectorDag(ATTACK, {**CONFIG, **texts, **keys})):
        for task in dag.tasks:
            if not task.is_mapped:
                task.render_template_fields(context)
            assert (task.partial_kwargs["connector"] if task.is_mapped else task.connector) == ATTACK
            assert list(task.template_fields) == []
    assert not (tmp_path / "HIT").exists()


def test_a_document_is_never_a_path(tmp_path: Path) -> None:
    file = tmp_path / "secret.md"
    file.write_text("canary")
    for path in (str(file), f"{tmp_path}/missing.md", str(tmp_path) + ".md", "a" * 5000 + ".md"):
        dag = StoredConnectorDag("orders", mark_of({"airflow.doc": path}), file=__file__, is_paused=False)
        assert dag.doc_md == f"{path}\n"


def test_a_long_name_is_kept_where_its_dag_id_is_short() -> None:
    name = "long/" * 60
    dag = StoredConnectorDag(name, mark_of({"tasks.per.application": "1"}), file=__file__, is_paused=False)
    assert (len(dag.dag_id) <= 248, dag.dag_display_name) == (True, name)
    serialized = DagSerialization.to_dict(dag)
    read = DagSerialization.from_dict(serialized)
    links = {task_id: ConnectorStatusLink().get_link(task, ti_key=_key(dag.dag_id)) for task_id, task in read.task_dict.items()}
    assert {url.partition("/connect/")[2] for url in links.values()} == {f"connectors/{quote(name, safe='')}/status"}
    run = ConnectTaskOperator(task_id="run", connector=name, tasks=[1])
    assert len(run.tasks_label) <= 250


def _key(dag_id: str) -> TaskInstanceKey:
    return TaskInstanceKey(dag_id, "run", "manual", 1, -1)


@pytest.mark.parametrize(
    ("config", "arguments", "seconds"),
    [
        ({"airflow.schedule": "@continuous"}, {}, 86_400.0),
        ({"airflow.run.max.duration": "1h"}, {"schedule": "@continuous"}, 3600.0),
        ({}, {"schedule": "@hourly"}, None),
        ({}, {}, None),
    ],
)
def test_a_run_stays_whether_dag_or_config_has_the_schedule(
    config: dict[str, str], arguments: dict[str, Any], seconds: float | None
) -> None:
    dag = ConnectorDag("orders", {**CONFIG, **config}, **arguments)
    assert dag.get_task("run").stays_seconds == seconds
    assert (type(dag.timetable).__name__ == "ContinuousTimetable") is (seconds is not None)


@pytest.mark.parametrize(("schedule", "expected"), [("@continuous", None), ("@hourly", timedelta(minutes=5))])
def test_a_default_timeout_of_tasks_ends_no_run_that_stays(schedule: str, expected: timedelta | None) -> None:
    dag = ConnectorDag("orders", CONFIG, schedule=schedule, default_args={"execution_timeout": timedelta(minutes=5)})
    assert dag.get_task("run").execution_timeout == expected


def test_what_only_a_run_that_ends_can_have_is_refused_with_the_schedule_of_the_dag() -> None:
    with pytest.raises(ConfigException, match=r"tasks\.per\.application"):
        ConnectorDag("orders", {**CONFIG, "tasks.per.application": "2"}, schedule="@continuous")
