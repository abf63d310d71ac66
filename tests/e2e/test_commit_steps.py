"""A process of the run is killed between any two steps of a commit; afterwards nothing is lost or doubled that must not be.

At each step the run is one process without Spark. One step of each kind has a Spark application, in which another process is killed;
``make soak`` has one for each step.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_connect.dev.postgres_server import PostgresServer
from airflow_provider_connect.model.run import RunState
from tests.conftest import WorkerSettings
from tests.e2e.faults.runs import Fault
from tests.e2e.faults.scenes import SinkScene, SourceScene
from tests.e2e.faults.steps import each_step_once
from tests.e2e.faults.table_scenes import TableSinkScene, TableSourceScene
from tests.integration.herder.killed_change import Moment
from tests.integration.worker.killed_run import run_and_kill
from tests.integration.worker.scene import Scene

AnyScene = SourceScene | SinkScene | TableSourceScene | TableSinkScene
MakeScene = Callable[[str, str], AnyScene]
TRIES = 3
ON_SPARK = {"source": 2, "sink": 3, "table sink": 1}  # a JVM, a worker, a driver
FAULTS = {kind: list(each_step_once(kind)) for kind in (*ON_SPARK, "table source")}
ON_SPARK["table source"] = len(FAULTS["table source"]) - 2  # its transaction; all its steps are those of any source


@pytest.fixture
def make(tmp_path: Path, worker_settings: WorkerSettings, request: pytest.FixtureRequest) -> MakeScene:
    """Makes the scene of a kind under a guarantee."""

    def made(kind: str, guarantee: str) -> AnyScene:
        if kind in ("source", "sink"):
            return (SourceScene if kind == "source" else SinkScene).make(tmp_path, worker_settings(), guarantee)
        postgres: PostgresServer = request.getfixturevalue("postgres")
        return (TableSourceScene if kind == "table source" else TableSinkScene).make(tmp_path, worker_settings(), postgres.url())

    return made


@pytest.mark.parametrize(
    ("kind", "guarantee", "fault"),
    [
        pytest.param(kind, guarantee, fault, id=f"{kind}, {guarantee}: {fault.when} {fault.step.rpartition(':')[2]}, call {fault.nth}")
        for kind in FAULTS
        for guarantee, fault in FAULTS[kind]
    ],
)
def test_a_process_without_spark(make: MakeScene, kind: str, guarantee: str, fault: Fault) -> None:
    scene = make(kind, guarantee)
    here = Scene(dict(scene.runs.settings), scene.runs.connector, scene.runs.folder)
    run_and_kill(here, scene.runs.config, Moment(fault.step.removeprefix("airflow_provider_connect."), fault.when, fault.nth))
    results = [here.run(scene.runs.config)]
    while results[-1].state is not RunState.DONE and len(results) < TRIES:
        results.append(here.run(scene.runs.config))
    assert results[-1].state is RunState.DONE, results
    assert scene.verdict().holds_for(guarantee), scene.verdict()


@pytest.mark.parametrize(
    ("kind", "guarantee", "fault"),
    [
        pytest.param(*case, id="{}, {}: {}".format(*case), marks=[] if number == ON_SPARK[kind] else pytest.mark.soak)
        for kind in FAULTS
        for number, case in enumerate((kind, *fault) for fault in FAULTS[kind])
    ],
)
def test_a_process_of_spark(make: MakeScene, kind: str, guarantee: str, fault: Fault) -> None:
    scene = make(kind, guarantee)
    first = scene.runs.submit(fault)
    first.wait()
    assert first.struck, first.output()[-4000:]
    scene.runs.until_done()
    verdict = scene.verdict()
    print(f"{guarantee}: {fault}: {verdict}")
    assert verdict.holds_for(guarantee), verdict
