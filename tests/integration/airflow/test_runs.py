"""Runs of connectors in a real Airflow: what they move, what they leave behind, what they show of a config."""

import json
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from sqlalchemy import create_engine

from airflow_provider_connect.runtime.model.ids import dag_id_for
from tests.integration.airflow.conftest import SECRET, Airflow, long_input
from tests.integration.client.commands import Done, run_commands
from tests.kafka_topics import create_topic, end_offsets
from tests.waiting import wait_until

Connector = tuple[Path, dict[str, str]]
_MIRROR = (Path(__file__).resolve().parents[3] / "docs" / "sql-mirror.md").read_text()
INTERVALS_AND_OFFSETS = re.findall(r"```sql\n(.*?)```", _MIRROR.partition("### Intervals and offsets")[2].partition("\n## ")[0], re.DOTALL)
"""The queries that the page shows: by the run, by the offset (PostgreSQL), and how far a sink was behind."""
ENGINES = pytest.mark.parametrize("engine", [pytest.param("spark", marks=pytest.mark.soak), "process"])  # Spark: e2e/test_processes_end


def test_lines_go_from_a_file_to_a_topic_and_on_into_a_file_and_then_no_spark_starts(
    airflow: Airflow, unique: str, file_source: Connector, file_sink: Connector
) -> None:
    source, sink = f"source-{unique}", f"sink-{unique}"
    (read, source_config), (written, sink_config) = file_source, file_sink
    read.write_text("".join(f"line {number}\n" for number in range(1000)))
    airflow.write_dag(source, source_config)
    airflow.write_dag(sink, {**sink_config, "airflow.engine": "process"})
    run = airflow.run(source)
    assert airflow.xcoms(source, run)["return_value"]["0"]["records"] == 1000
    run = airflow.run(sink)
    assert airflow.xcoms(sink, run)["return_value"]["0"]["records"] == 1000
    assert "Spark" not in airflow.log(sink, run)
    assert written.read_text() == read.read_text()
    for connector in (source, sink):
        run = airflow.run(connector)
        assert "has nothing to do" in airflow.log(connector, run)
        assert "Spark" not in airflow.log(connector, run)
        assert "return_value" not in airflow.xcoms(connector, run)
        assert list((airflow.stack.folder / "runs").glob(f"{dag_id_for(connector)}-*/*")) == []


@pytest.mark.soak
def test_what_a_sink_has_delivered_is_an_asset_event(airflow: Airflow, unique: str, file_source: Connector, file_sink: Connector) -> None:
    source, sink = f"source-{unique}", f"sink-{unique}"
    file_source[0].write_text("one\ntwo\n")
    airflow.write_dag(source, file_source[1])
    airflow.write_dag(sink, file_sink[1])
    airflow.run(source)
    run = airflow.run(sink)
    events = airflow.api("GET", f"/assets/events?source_dag_id={dag_id_for(sink)}")["asset_events"]
    servers = airflow.settings().bootstrap_servers
    assert [event["uri"] for event in events] == [f"kafka://{servers}/lines-{unique}?group=connect-{sink}"]
    assert events[0]["extra"]["connector"] == sink
    ((first, end),) = events[0]["extra"]["ranges"]["0"]
    assert first == 0
    assert end >= 2

    by_run, by_offset, behind = INTERVALS_AND_OFFSETS
    (of_run,) = answer(airflow, by_run.replace("connect.orders-source", dag_id_for(sink)))
    assert (of_run.run_id, of_run.uri) == (run, events[0]["uri"])
    assert of_run.run_after is not None
    wait_until(lambda: answer(airflow, behind.replace("orders-sink", sink)), "the sink's lag is measured, once a minute")
    if not airflow.database_url.startswith("sqlite"):
        asked = by_offset.replace("orders-sink", sink).replace("'orders'", f"'lines-{unique}'").replace("4711", str(end - 1))
        (of_offset,) = wait_until(lambda: answer(airflow, asked), "the mirror has the run's ranges")
        assert (of_offset.run, of_offset.task) == (run, 0)
        assert answer(airflow, asked.replace(str(end - 1), str(end))) == []


def answer(airflow: Airflow, query: str) -> list[Any]:
    """The rows of a query in Airflow's database; Any: rows have the query's columns."""
    engine = create_engine(airflow.database_url)
    with engine.connect() as connection:
        rows = list(connection.exec_driver_sql(query))
    engine.dispose()
    return rows


@pytest.mark.soak
def test_groups_of_tasks_run_in_applications_of_their_own(
    airflow: Airflow, unique: str, file_source: Connector, file_sink: Connector
) -> None:
    source, sink = f"source-{unique}", f"sink-{unique}"
    file_source[0].write_text("one\ntwo\n")
    airflow.write_dag(source, file_source[1])
    airflow.run(source)
    airflow.write_dag(sink, {**file_sink[1], "tasks.max": "3", "tasks.per.application": "2"})
    run = airflow.run(sink)
    tasks = {(task["task_id"], task["map_index"]): task for task in airflow.tasks(sink, run)}
    assert tasks.keys() == {("plan", -1), ("run", 0), ("run", 1), ("report", -1)}
    assert [tasks["run", index]["rendered_map_index"] for index in (0, 1)] == [f"{sink} 0-1", f"{sink} 2"]
    assert airflow.xcoms(sink, run, "report")["return_value"]["records"] == 2
    assert file_sink[0].read_text() == "one\ntwo\n"
    next_run = airflow.trigger(sink)
    all_lines, of_a_task, last, followed = logs_of(
        airflow, [sink, "--run", run], [sink, "--run", run, "--task", "2"], [sink, "--run", run, "--lines", "3"], [sink, "--follow"]
    )
    assert airflow.run_state(sink, next_run) == "success"
    assert {task["task_id"]: task["state"] for task in airflow.tasks(sink, next_run)} == {
        "plan": "success",
        "run": "skipped",
        "report": "success",
    }
    of_group = {index: f"==> run[{index}] {sink} {tasks}, try 1 <==" for index, tasks in enumerate(["0-1", "2"])}
    heads = [line for line in all_lines.out.splitlines() if line.startswith("==>")]
    assert (heads[0], heads[-1], set(heads[1:-1])) == ("==> plan, try 1 <==", "==> report, try 1 <==", set(of_group.values()))
    assert f"Connector {sink} task 2: " in all_lines.out
    assert [line for line in of_a_task.out.splitlines() if line.startswith("==>")] == [of_group[1]]
    assert last.out.splitlines()[-3:] == all_lines.out.splitlines()[-3:]
    assert len([line for line in last.out.splitlines() if line[:1].isdigit()]) <= 3
    assert followed.out.startswith(f"Run {next_run}\n")
    assert f"Connector {sink} has nothing to do" in followed.out
    refusals = [done.err for done in logs_of(airflow, [sink, "--run", "gone"], [f"no-{sink}"], [sink, "--task", "3"], code=1)]
    assert refusals[0].startswith(f"Connector {sink} has no run gone, or Airflow has removed it")
    assert refusals[1:] == [f"Connector no-{sink} not found", f"Connector {sink} has no task 3; its tasks: 0, 1, 2"]


def logs_of(airflow: Airflow, *commands: list[str], code: int = 0) -> list[Done]:
    """``airflow connect logs`` with each of the arguments."""
    assert airflow.stack.airflow is not None
    done = run_commands(airflow.stack.airflow.variables, [["logs", *arguments] for arguments in commands])
    assert {each.code for each in done} == {code}, done
    return done


def command_lines() -> str:
    return "\n".join(text for file in Path("/proc").glob("[0-9]*/cmdline") if (text := read_or_nothing(file)))


def read_or_nothing(file: Path) -> str:
    try:
        return file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def texts_of(value: Any) -> str:
    return json.dumps(value)


def test_no_config_value_and_no_secret_shows_anywhere(airflow: Airflow, unique: str, file_source: Connector) -> None:
    canary, connector = f"canary-{unique}", f"shown-{unique}"
    file_source[0].write_text("".join(f"line {number}\n" for number in range(100_000)))
    airflow.write_dag(connector, {**file_source[1], "my.setting": canary, "my.login": "${airflow:shop:password}"})
    run, seen = airflow.trigger(connector), []
    while airflow.run_state(connector, run) not in ("success", "failed"):
        seen.append(command_lines())
        time.sleep(0.05)
    assert airflow.run_state(connector, run) == "success", airflow.log(connector, run)
    assert any("run_connector.py --run-dir" in text for text in seen)
    runs = airflow.stack.folder / "runs"
    left = [file for file in runs.rglob("*") if file.is_file() and not file.match("runs/config-topic-*")]
    caches = list(runs.glob("config-topic-*.sqlite"))  # configs as on the topic (docs/security.md): this one's if it was the first
    shown = {
        "ps": "\n".join(seen),
        "xcom": texts_of(airflow.xcoms(connector, run)),
        "rendered templates": texts_of([task["rendered_fields"] for task in airflow.tasks(connector, run)]),
        "task log": airflow.log(connector, run),
        "dag": texts_of(airflow.api("GET", f"/dags/{dag_id_for(connector)}/details")),
        "tasks": texts_of(airflow.api("GET", f"/dags/{dag_id_for(connector)}/tasks")),
        "left files": "".join(read_or_nothing(file) for file in left),
    }
    assert [where for where, text in shown.items() if canary in text or SECRET in text] == []
    assert {(file.stat().st_mode & 0o077, SECRET in read_or_nothing(file)) for file in caches} == {(0, False)}
    assert airflow.config(connector)["my.login"] == "${airflow:shop:password}"  # type: ignore[index]


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        ("{no json", "Variable connect_worker_config is not JSON"),
        pytest.param('{"group.id": ""}', "group.id", marks=pytest.mark.soak),
        pytest.param(
            '{"status.storage.retry": {"initial.backoff.ms": 99999}}', "status.storage.retry.initial.backoff.ms", marks=pytest.mark.soak
        ),
    ],
)
def test_a_variable_that_is_wrong_stops_no_run_and_is_named(
    airflow: Airflow, unique: str, file_source: Connector, variable: str, message: str
) -> None:
    connector = f"source-{unique}"
    airflow.write_dag(connector, file_source[1])
    airflow.set_variable("connect_worker_config", variable)
    try:
        run = airflow.trigger(connector)
        assert airflow.wait_for_run(connector, run) == "success"
    finally:
        airflow.set_variable("connect_worker_config", None)
    (task,) = airflow.tasks(connector, run)
    assert task["try_number"] == 1
    log = airflow.log(connector, run)
    assert "is ignored" in log
    assert message in log


@pytest.mark.soak
def test_a_missing_spark_connection_is_refused_with_a_notice_and_nothing_goes_to_yarn(
    airflow: Airflow, unique: str, file_source: Connector
) -> None:
    connector = f"source-{unique}"
    file_source[0].write_text("one\n")
    config = {**file_source[1], "airflow.on.failure": "canary"}
    file = airflow.write_dag(connector, config)
    file.write_text(file.read_text().replace("})", "}, spark_conn_id='spark_nowhere')"))
    wait_until(
        lambda: "spark_nowhere" in airflow.client.get(f"/api/v2/dagSources/{dag_id_for(connector)}").text, "the file is parsed again"
    )
    run = airflow.trigger(connector)
    assert airflow.wait_for_run(connector, run) == "failed"
    reason = "Spark connection spark_nowhere does not exist: create it"
    assert reason in airflow.log(connector, run)
    sent = wait_until(lambda: [line for line in read_or_nothing(airflow.notices).splitlines() if connector in line], "the notice is sent")
    assert [line.startswith(f"{connector} {run} run failed: Connector {connector}: {reason}") for line in sent] == [True], sent
    refused = airflow.client.put(
        f"/connect/connector-plugins/{config['connector.class']}/config/validate",
        json={**config, "name": connector, "airflow.on.failure": "canary,os.system"},
    ).json()
    errors = [error for each in refused["configs"] if each["value"]["name"] == "airflow.on.failure" for error in each["value"]["errors"]]
    assert [error.partition(": ")[2] for error in errors] == [
        "no notifier has this name; the worker settings airflow.notifiers.… define canary"
    ]


def processes_of(marker: str) -> dict[int, str]:
    found = {}
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        text = read_or_nothing(file)
        if marker in text:
            found[int(file.parent.name)] = text
    return found


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def slow_source(airflow: Airflow, unique: str, file_source: Connector, engine: str) -> tuple[str, str, dict[int, str]]:
    """A run whose application lives long enough to be killed, and its processes."""
    connector = f"slow-{unique}"
    long_input(file_source[0])
    airflow.write_dag(connector, {**file_source[1], "airflow.retry.delay": "1s", "airflow.engine": engine})
    run = airflow.trigger(connector)
    wait_until(
        lambda: list((airflow.stack.folder / "runs").glob(f"{dag_id_for(connector)}-*/*/try-*/claim.json")),
        "the application has claimed",
    )
    return connector, run, processes_of(f"{dag_id_for(connector)}-")


def moved(airflow: Airflow, connector: str, run: str) -> int:
    """How many records the last try of a run has moved."""
    return int(airflow.xcoms(connector, run).get("return_value", {}).get("0", {}).get("records", 0))


@ENGINES
def test_a_killed_task_process_takes_its_application_along_and_the_retry_does_the_rest(
    airflow: Airflow, unique: str, file_source: Connector, engine: str
) -> None:
    connector, run, processes = slow_source(airflow, unique, file_source, engine)
    submit = next(pid for pid in processes if parent_of(pid) not in processes)
    os.kill(parent_of(submit), signal.SIGKILL)
    wait_until(lambda: not processes.keys() & processes_of(f"{dag_id_for(connector)}-").keys(), "the application is gone")
    assert airflow.wait_for_run(connector, run) == "success", airflow.log(connector, run)
    (task,) = airflow.tasks(connector, run)
    assert task["try_number"] >= 2
    assert moved(airflow, connector, run) > 0, "the application was killed before its end"


@pytest.mark.soak  # a run that is to end: test_reconciler
@ENGINES
def test_a_run_marked_failed_ends_after_its_batch(airflow: Airflow, unique: str, file_source: Connector, engine: str) -> None:
    admin, topic = AdminClient({"bootstrap.servers": airflow.settings().bootstrap_servers}), file_source[1]["topic"]
    create_topic(airflow.settings().bootstrap_servers, topic)
    connector, run, processes = slow_source(airflow, unique, file_source, engine)
    wait_until(lambda: end_offsets(admin, topic, 1)[0] > 0, "it delivers: an application that starts is killed after four seconds")
    airflow.api("PATCH", f"/dags/{dag_id_for(connector)}/dagRuns/{run.replace('+', '%2B')}", json={"state": "failed"})
    wait_until(lambda: not processes.keys() & processes_of(f"{dag_id_for(connector)}-").keys(), "the application has ended")
    end = re.compile(rf"Connector {connector} task 0: (\d+) records|ended with exit code -9 and without a result")
    ended = wait_until(lambda: end.search(airflow.log(connector, run)), "the task has ended its application itself")
    rest = moved(airflow, connector, airflow.run(connector))
    assert 0 < rest <= 3_000_000 - int(ended[1] or 0), "it had not reached the end of the file, and what it delivered is committed"
