"""Connectors from functions in a file of ``plugin.path``: previews, runs with and without Spark, and processes that are killed between two
steps of a commit. Afterwards no record is lost, and none of a source is doubled."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.run import RunState
from airflow_provider_connect.runtime.worker.preview.runner import PreviewRunner
from tests.conftest import WorkerSettings as MakeSettings
from tests.e2e.faults.environments import make_topic
from tests.e2e.faults.oracle import judge, topic_records
from tests.e2e.faults.runs import Fault, Runs
from tests.e2e.faults.steps import each_step_once
from tests.integration.herder.killed_change import KillPoint
from tests.integration.worker.environment import RunEnvironment
from tests.integration.worker.killed_run import run_and_kill
from tests.samples import sample

UNTIL, PARTITIONS = 1_500, ("east", "west", "north")
NUMBERS = """\
from airflow_provider_connect.sdk import sink, source


@source(partitions=lambda regions: regions, cursor="n", key="n")
def numbers(regions: list[str], until: int, partition: str, cursor: int = -1):
    for first in range(cursor + 1, until, 100):
        yield [{"n": n, "region": partition} for n in range(first, min(first + 100, until))]


@sink
def lines(rows: list[dict], to: str):
    with open(to, "a") as file:
        file.writelines(f"{row['n']} {row['region']}\\n" for row in rows)
"""
TRIES = 4
FAULTS = [fault for guarantee, fault in each_step_once("source") if guarantee == "exactly_once"]
JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}


@pytest.fixture
def runs(tmp_path: Path, worker_settings: MakeSettings, unique: str) -> Runs:
    """Of the function, three partitions in two tasks, with a commit after each page."""
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "shop.py").write_text(NUMBERS)
    settings = {**worker_settings(), "plugin.path": str(tmp_path / "plugins"), "transaction.boundary.poll.linger.ms": "0"}
    make_topic(settings["bootstrap.servers"], unique)
    config = {"name": unique, "connector.class": "shop.numbers", "topic": unique, "tasks.max": "2", **JSON}
    return Runs(tmp_path, unique, settings, config | {"regions": ",".join(PARTITIONS), "until": str(UNTIL)})


def assert_each_number_is_there_once(runs: Runs, topic: str) -> None:
    sent = [b'{"n":%d,"region":"%b"}' % (n, region.encode()) for region in PARTITIONS for n in range(UNTIL)]
    verdict = judge(sent, topic_records(runs.settings["bootstrap.servers"], topic))
    verdict.expect("exactly_once")


@pytest.mark.soak
@pytest.mark.parametrize("fault", [pytest.param(fault, id=f"{fault}") for fault in FAULTS])
def test_a_run_with_spark_is_killed_and_the_next_one_goes_on(runs: Runs, unique: str, fault: Fault) -> None:
    submission = runs.submit(fault)
    submission.wait()
    assert submission.struck, submission.output()[-4000:]
    result = runs.until_done()
    assert result.versions["connector"].startswith("0-")
    assert_each_number_is_there_once(runs, unique)


@pytest.mark.parametrize("fault", sample(FAULTS, 2), ids=lambda fault: f"{fault.when} {fault.step.rpartition(':')[2]}")
def test_a_run_without_spark_is_killed_at_each_step(runs: Runs, unique: str, fault: Fault) -> None:
    here = RunEnvironment(dict(runs.settings), runs.connector, runs.folder)
    run_and_kill(here, runs.config, KillPoint(fault.step.removeprefix("airflow_provider_connect."), fault.when, fault.nth))
    results = [here.run(runs.config)]
    while results[-1].state is not RunState.DONE and len(results) < TRIES:
        results.append(here.run(runs.config))
    assert results[-1].state is RunState.DONE, results
    assert_each_number_is_there_once(runs, unique)


def test_a_sink_that_is_killed_loses_nothing(runs: Runs, unique: str) -> None:
    """It is at least once: each record is there, some of them twice."""
    here = RunEnvironment(dict(runs.settings), runs.connector, runs.folder)
    assert here.run(runs.config).state is RunState.DONE
    for number, (guarantee, fault) in enumerate(each_step_once("sink")):
        if guarantee != "at_least_once":
            continue
        to = runs.folder / f"lines-{number}"
        config = {"name": f"{unique}-{number}", "connector.class": "lines", "topics": unique, "to": str(to), "tasks.max": "2", **JSON}
        there = RunEnvironment(dict(runs.settings), config["name"], runs.folder)
        run_and_kill(there, config, KillPoint(fault.step.removeprefix("airflow_provider_connect."), fault.when, 1))
        assert there.run(config).state is RunState.DONE
        assert set(to.read_text().splitlines()) == {f"{n} {region}" for region in PARTITIONS for n in range(UNTIL)}


def test_a_preview_shows_what_a_run_would_write(runs: Runs, unique: str) -> None:
    settings = WorkerSettings.of(runs.settings)
    found = PreviewRunner(settings).preview(unique, runs.config, records=3)
    assert [record.value for record in found.records] == [
        {"n": 0, "region": "east"},
        {"n": 1, "region": "east"},
        {"n": 0, "region": "west"},
    ]
    assert found.offsets == {"partition": "object", "partition.partition": "string", "offset": "object", "offset.cursor": "number"}
    with pytest.raises(ConfigException, match="Invalid value soon for configuration until: Not a number of type LONG"):
        PreviewRunner(settings).preview(unique, {**runs.config, "until": "soon"}, records=3)
