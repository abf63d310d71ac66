"""``dag.test()``: a connector's DAG run by its author, in one process, with a database and a broker but no Airflow servers."""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.dag_files.connector_files import mark_of
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.ids import dag_id_for
from airflow_provider_connect.runtime.model.states import State, TargetState
from airflow_provider_connect.runtime.stores.config_store import ConfigStore
from airflow_provider_connect.runtime.stores.status_store import StatusStore
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from tests.airflow_home import airflow_home
from tests.integration.client.commands import Done, run_commands
from tests.waiting import HANG_SECONDS

_TEMPLATE = (files("airflow_provider_connect.skeleton") / "templates" / "dag_source.py.tmpl").read_text()
_SCRIPT = f"""
import json, sys
from airflow_provider_connect import ConnectorDag

dag = ConnectorDag(sys.argv[1], json.loads(sys.argv[2]))
if __name__ == {_TEMPLATE.partition("if __name__ ==")[2]}"""
"""A DAG file that ends as those of ``connect-new`` and of the tutorial do."""

_STORED = """
import json, sys
from airflow_provider_connect.dag_files.connector_dag import StoredConnectorDag

dag = StoredConnectorDag(sys.argv[1], sys.argv[2], file=__file__, is_paused=False)
if __name__ == "__main__":
    print("STATES", json.dumps({"run": dag.test().state}))
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of an Airflow with an empty database."""
    path = tmp_path_factory.mktemp("airflow")
    (path / "dags").mkdir()
    return airflow_home(
        path,
        {
            "AIRFLOW__CORE__DAGS_FOLDER": str(path / "dags"),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[1]"}),
        },
    )


@pytest.fixture
def author(home: dict[str, str], worker_settings: Callable[..., dict[str, str]]) -> Callable[..., tuple[dict[str, Any], str]]:
    """Runs a connector's DAG file and returns the states of run and tasks, and what was printed. Its exit code is that of the run."""

    def test(connector: str, config: dict[str, str], **settings: str) -> tuple[dict[str, Any], str]:
        file = Path(home["AIRFLOW_HOME"]) / "dags" / f"{connector}.py"
        file.write_text(_SCRIPT)
        environment = home | {"AIRFLOW_VAR_CONNECT_WORKER_CONFIG": json.dumps(worker_settings() | settings)}
        command = [sys.executable, str(file), connector, json.dumps(config)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=HANG_SECONDS)
        file.unlink()
        output = done.stdout + done.stderr
        found = states_of(Path(home["AIRFLOW_HOME"]) / "airflow.db", dag_id_for(connector))
        assert done.returncode == (found["run"] != "success"), output
        return found, output

    return test


Author = Callable[..., tuple[dict[str, Any], str]]


def states_of(database: Path, dag_id: str) -> dict[str, Any]:
    """Those of the newest run and its tasks, in Airflow's database."""
    with closing(sqlite3.connect(database)) as opened:
        run_id, state = opened.execute("SELECT run_id, state FROM dag_run WHERE dag_id = ? ORDER BY id DESC", [dag_id]).fetchone()
        rows = "SELECT task_id, state FROM task_instance WHERE dag_id = ? AND run_id = ?"
        return {"run": state, "tasks": dict(opened.execute(rows, [dag_id, run_id]).fetchall())}


@pytest.fixture
def config(tmp_path: Path, unique: str) -> dict[str, str]:
    (tmp_path / "input.txt").write_text("one\ntwo\n")
    return {"connector.class": "FileStreamSource", "file": str(tmp_path / "input.txt"), "topic": f"lines-{unique}"}


@pytest.mark.soak
def test_a_connector_that_the_topic_does_not_know_is_defined_and_runs(
    author: Author, config: dict[str, str], unique: str, worker_settings: Callable[..., dict[str, str]]
) -> None:
    states, output = author(unique, config)
    assert states == {"run": "success", "tasks": {"run": "success"}}, output
    with ConfigStore(WorkerSettings.of(worker_settings())) as store:
        known = store.read().connector_config(unique)
    assert known is not None
    assert config.items() <= known.items()


def test_a_paused_connector_is_skipped(
    author: Author, config: dict[str, str], unique: str, worker_settings: Callable[..., dict[str, str]]
) -> None:
    settings = WorkerSettings.of(worker_settings())
    TopicAdmin(settings).ensure_internal_topics()
    with ConfigStore(settings) as store:
        store.put_connector(unique, {**config, "name": unique})
        store.put_target_state(unique, TargetState.PAUSED)
    states, output = author(unique, config)
    assert states["tasks"] == {"run": "skipped"}, output
    assert "target state is PAUSED" in output


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "keys", [pytest.param({}, marks=pytest.mark.soak), {"tasks.per.application": "1"}], ids=["one-application", "plan-run-report"]
)
def test_a_name_that_is_a_template_runs_no_code(
    home: dict[str, str],
    config: dict[str, str],
    keys: dict[str, str],
    unique: str,
    worker_settings: Callable[..., dict[str, str]],
) -> None:
    """As a stored connector's DAG, whose name and texts come over REST."""
    folder, file = Path(config["file"]).parent / "run", Path(home["AIRFLOW_HOME"]) / "dags" / f"stored{len(keys)}.py"
    folder.mkdir()
    name = f"{{{{ macros.json.codecs.builtins.open('hit-{unique}', 'w') }}}}"
    settings = WorkerSettings.of(worker_settings())
    TopicAdmin(settings).ensure_internal_topics()
    with ConfigStore(settings) as store:
        store.put_connector(name, {**config, **keys, "name": name})
    mark = mark_of({**keys, "airflow.description": name, "airflow.doc": name, "airflow.display.name": name})
    file.write_text(_STORED)
    environment = home | {"AIRFLOW_VAR_CONNECT_WORKER_CONFIG": json.dumps(worker_settings())}
    command = [sys.executable, str(file), name, mark]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=2 * HANG_SECONDS, cwd=folder)
    file.unlink()
    output = done.stdout + done.stderr
    assert '"run": "success"' in done.stdout, output
    assert name in output  # the connector's name in the log, as it is
    assert list(folder.iterdir()) == []


@pytest.mark.soak
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"connector.class": "NoSuchSource"}, "NoSuchSource"),
        pytest.param({"value.converter": "no.such.Converter"}, "value.converter"),
        pytest.param({"topic": ""}, "topic"),
        ({"file": "${airflow:nowhere:password}"}, "no config.providers.airflow.access setting"),
    ],
)
def test_a_config_that_cannot_run_fails_before_anything_moves(
    author: Author,
    config: dict[str, str],
    unique: str,
    *,
    home: dict[str, str],
    changes: dict[str, str],
    message: str,
    worker_settings: Callable[..., dict[str, str]],
) -> None:
    """Its run has a log, which the command line finds."""
    states, output = author(unique, config | changes)
    assert states == {"run": "failed", "tasks": {"run": "failed"}}, output
    assert message in output
    assert "spark-submit" not in output

    run = written_log(home, unique, "no canary-of-logs \x1b[2J\n==> run, try 1 <==", "the end")
    settings = WorkerSettings.of(worker_settings())
    TopicAdmin(settings).ensure_internal_topics()
    with ConfigStore(settings) as store:
        store.put_connector(unique, {**config, "name": unique, "db.password": "canary-of-logs"})
        store.put_connector(f"new-{unique}", {**config, "name": f"new-{unique}"})
    whole, last, followed = logs_of(home, worker_settings(), [unique], [unique, "--run", run, "--lines", "1"], [unique, "--follow"])
    head, *lines = whole.out.splitlines()
    assert (head, lines[:2]) == (f"Run {run}", ["", "==> run, try 1 <=="])
    assert lines[2].endswith("INFO a.logger: no [hidden] \ufffd[2J")
    assert lines[3:4] == ["    ==> run, try 1 <=="]
    assert lines[4].endswith("INFO a.logger: the end")
    assert last.out.splitlines() == [head, *lines[:2], lines[4]]
    assert followed.out == whole.out
    refused = logs_of(
        home, worker_settings(), [unique, "--run", "gone"], [f"no-{unique}"], [f"new-{unique}"], [unique, "--task", "7"], code=1
    )
    assert [done.err.partition(":")[0] for done in refused] == [
        f"Connector {unique} has no run gone, or Airflow has removed it",
        f"Connector no-{unique} not found",
        f"Connector new-{unique} has not run yet, or Airflow has removed its runs",
        f"Connector {unique} has no task 7; its tasks",
    ]


@pytest.mark.soak
def test_a_config_that_cannot_run_is_in_the_statuses_with_its_reason(
    author: Author, config: dict[str, str], home: dict[str, str], unique: str, worker_settings: Callable[..., dict[str, str]]
) -> None:
    home["AIRFLOW_VAR_HIDDEN"] = "canary-of-statuses"
    refused = {**config, "batch.size": "${variable:hidden}", "name": unique}
    allowlist = {"config.providers.variable.param.allowlist.pattern": "hidden"}
    settings = WorkerSettings.of(worker_settings() | allowlist)
    TopicAdmin(settings).ensure_internal_topics()
    with ConfigStore(settings) as store:
        store.put_connector(unique, refused)
        store.put_tasks(unique, [{"file": config["file"]}], store.claim(unique))
    states, output = author(unique, refused, **allowlist)
    assert states == {"run": "failed", "tasks": {"run": "failed"}}, output
    with StatusStore(settings) as statuses:
        known = statuses.read()
    connector, tasks = known.connector(unique), known.tasks_of(unique)
    assert connector is not None
    assert connector.state is State.FAILED
    assert [(task.state, task.trace) for task in tasks] == [(State.FAILED, connector.trace)]
    lines = (connector.trace or "").splitlines()
    assert lines[0] == (
        "airflow_provider_connect.errors.ConfigException: "
        f"Connector configuration of {unique} is invalid and contains the following 1 error(s):"
    )
    assert lines[1] == "Invalid value [hidden] for configuration batch.size: Not a number of type INT"
    assert "canary" not in f"{connector.trace}{output}"


def written_log(home: dict[str, str], connector: str, *texts: str) -> str:
    """Puts a log, as Airflow's supervisor writes it, where the only run of the connector has it: ``dag.test()`` prints its own. Returns the
    run's id."""
    dag_id = dag_id_for(connector)
    with closing(sqlite3.connect(Path(home["AIRFLOW_HOME"]) / "airflow.db")) as database:
        ((run, number),) = database.execute("SELECT run_id, try_number FROM task_instance WHERE dag_id = ?", [dag_id]).fetchall()
    assert number == 1
    file = Path(home["AIRFLOW_HOME"]) / "logs" / f"dag_id={dag_id}" / f"run_id={run}" / "task_id=run" / "attempt=1.log"
    file.parent.mkdir(parents=True)
    lines = [
        {"timestamp": f"2026-01-02T03:04:0{at}Z", "level": "info", "logger": "a.logger", "event": text} for at, text in enumerate(texts)
    ]
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return str(run)


def logs_of(home: dict[str, str], settings: dict[str, str], *commands: list[str], code: int = 0) -> list[Done]:
    """``airflow connect logs`` with each of the arguments."""
    environment = home | {"AIRFLOW_VAR_CONNECT_WORKER_CONFIG": json.dumps(settings)}
    done = run_commands(environment, [["logs", *arguments] for arguments in commands])
    assert {each.code for each in done} == {code}, done
    return done


@pytest.mark.soak
def test_a_broker_that_does_not_answer_is_named_and_the_run_may_be_tried_again(author: Author, config: dict[str, str], unique: str) -> None:
    states, output = author(unique, {**config, "airflow.retries": "0"}, **{"bootstrap.servers": "127.0.0.1:1"})
    assert states == {"run": "failed", "tasks": {"run": "failed"}}, output
    assert "127.0.0.1:1" in output
    assert "AirflowFailException" not in output


@pytest.mark.soak
def test_an_internal_topic_of_the_wrong_kind_is_refused(
    author: Author, config: dict[str, str], unique: str, worker_settings: Callable[..., dict[str, str]], kafka: Any
) -> None:
    settings = worker_settings()
    topics = TopicAdmin(WorkerSettings.of(settings))
    topics.ensure_internal_topics()
    states, output = author(unique, config, **{"config.storage.topic": settings["offset.storage.topic"], "offset.storage.topic": "other"})
    assert states == {"run": "failed", "tasks": {"run": "failed"}}, output
    assert "config.storage.topic" in output
