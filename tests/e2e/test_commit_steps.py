"""A process of the run is killed between any two steps of a commit; afterwards nothing is lost or doubled that must not be.

At each step the run is one process without Spark. One step of a source and one of a sink have a Spark application, in which another process
is killed; ``make soak`` has one for each step, and all databases.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_connect.dev.postgres_server import PostgresServer
from airflow_provider_connect.runtime.model.run import RunState
from tests.conftest import WorkerSettings
from tests.e2e.faults.environments import MirrorEnvironment, SinkEnvironment, SourceEnvironment
from tests.e2e.faults.runs import Fault
from tests.e2e.faults.steps import each_step_once
from tests.e2e.faults.table_environments import SqlSinkEnvironment, TableSinkEnvironment, TableSourceEnvironment
from tests.integration.herder.killed_change import KillPoint
from tests.integration.worker.environment import RunEnvironment
from tests.integration.worker.killed_run import run_and_kill

AnyEnvironment = MirrorEnvironment | SourceEnvironment | SinkEnvironment | TableSourceEnvironment | TableSinkEnvironment
MakeEnvironment = Callable[[str, str], AnyEnvironment]
TRIES = 3
ON_SPARK = {"source": 2, "sink": 3}  # a JVM, a worker
FAULTS = {
    kind: list(each_step_once(kind)) for kind in (*ON_SPARK, "table sink", "engine sink", "driver sink", "table source", "mirror source")
}
IN_SOAK = ("engine sink", "driver sink")  # what is shown of a table is shown of PostgreSQL's
OWN_STEPS = {"table sink": (1, 2), "table source": (2,), "mirror source": (2,)}  # the others are those of any sink and source


@pytest.fixture
def make(tmp_path: Path, worker_settings: WorkerSettings, request: pytest.FixtureRequest) -> MakeEnvironment:
    """Makes the environment of a kind under a guarantee."""

    def made(kind: str, guarantee: str) -> AnyEnvironment:
        if kind in ("source", "sink"):
            return (SourceEnvironment if kind == "source" else SinkEnvironment).make(tmp_path, worker_settings(), guarantee)
        if kind == "mirror source":
            return MirrorEnvironment.make(tmp_path, worker_settings())
        if kind == "driver sink":
            return SqlSinkEnvironment.make(tmp_path, worker_settings(), f"sqlite:///{tmp_path / 'rows.db'}")
        postgres: PostgresServer = request.getfixturevalue("postgres")
        if kind == "table source":
            return TableSourceEnvironment.make(tmp_path, worker_settings(), postgres.url())
        return (SqlSinkEnvironment if kind == "engine sink" else TableSinkEnvironment).make(tmp_path, worker_settings(), postgres.url())

    return made


@pytest.mark.parametrize(
    ("kind", "guarantee", "fault"),
    [
        pytest.param(
            *(kind, guarantee, fault),
            id=f"{kind}, {guarantee}: {fault.when} {fault.step.rpartition(':')[2]}, call {fault.nth}",
            marks=pytest.mark.soak if kind in IN_SOAK or number not in OWN_STEPS.get(kind, (number,)) else [],
        )
        for kind in FAULTS
        for number, (guarantee, fault) in enumerate(FAULTS[kind])
    ],
)
def test_a_process_without_spark(make: MakeEnvironment, kind: str, guarantee: str, fault: Fault) -> None:
    environment = make(kind, guarantee)
    here = RunEnvironment(dict(environment.runs.settings), environment.runs.connector, environment.runs.folder)
    run_and_kill(here, environment.runs.config, KillPoint(fault.step.removeprefix("airflow_provider_connect."), fault.when, fault.nth))
    results = [here.run(environment.runs.config)]
    while results[-1].state is not RunState.DONE and len(results) < TRIES:
        results.append(here.run(environment.runs.config))
    assert results[-1].state is RunState.DONE, results
    environment.verdict().expect(guarantee)


@pytest.mark.parametrize(
    ("kind", "guarantee", "fault"),
    [
        pytest.param(*case, id="{}, {}: {}".format(*case), marks=[] if number == ON_SPARK.get(kind) else pytest.mark.soak)
        for kind in FAULTS
        for number, case in enumerate((kind, *fault) for fault in FAULTS[kind])
    ],
)
def test_a_process_of_spark(make: MakeEnvironment, kind: str, guarantee: str, fault: Fault) -> None:
    environment = make(kind, guarantee)
    first = environment.runs.submit(fault)
    first.wait()
    assert first.struck, first.output()[-4000:]
    environment.runs.until_done()
    verdict = environment.verdict()
    print(f"{guarantee}: {fault}: {verdict}")
    verdict.expect(guarantee)
