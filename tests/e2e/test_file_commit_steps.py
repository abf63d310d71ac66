"""A run between a topic and files, a lake or logs is killed at each step of a commit: afterwards no record is lost or doubled, and no
temporary file is left. A frozen run that wakes up after a newer one writes nothing.

A kill of some pairs and two zombies run with every test, all of them with ``make soak``; ``make chaos`` chooses at random, with Spark too.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from airflow_provider_connect.runtime.worker.delivery.commit_steps import CommitStep
from tests.conftest import WorkerSettings
from tests.e2e.faults.file_environments import GUARANTEE, PairEnvironment
from tests.e2e.faults.pairs import Pairs
from tests.e2e.faults.process_runs import ProcessRuns
from tests.e2e.faults.runs import Fault, ending, frozen
from tests.e2e.faults.steps import PAIRS, STEPS

Make = Callable[[str], PairEnvironment]
SAMPLE = {
    "local sink": ("after", "CommitChain._append"),
    "moto sink": ("after", "ObjectStore.move"),
    "iceberg sink": ("after", "SqlCatalog.commit_table"),
    "files source": ("after", "FileSystemSourceTask._clean"),
    "logs source": ("after", "commit transaction"),
}
TRIES = 3
ONCE = {CommitStep.COMMIT_GROUP, "TableWriter.flush", "DeltaSession._commit_rows"}  # in a short run of a task
FROZEN = {
    "local sink": "CommitChain._append",
    "moto delta sink": "DeltaSession._commit_rows",
}


def faults(signal: str, sample: dict[str, tuple[str, str]]) -> Iterator[object]:
    for kind in PAIRS:
        for step in STEPS[kind][GUARANTEE]:
            for side in ("before", "after"):
                name = step.rpartition(":")[2]
                marks = [] if sample.get(kind) == (side, name) else [pytest.mark.soak]
                nth = 1 if name in ONCE else 2
                yield pytest.param(kind, Fault(step, side, nth, signal), marks=marks, id=f"{kind}: {side} {name}")


@pytest.fixture(scope="module")
def pairs() -> Iterator[Pairs]:
    with ExitStack() as servers:
        yield Pairs(servers)


@pytest.fixture
def make(tmp_path: Path, worker_settings: WorkerSettings, pairs: Pairs) -> Make:
    def made(kind: str) -> PairEnvironment:
        if not pairs.can_be_had(kind):
            pytest.skip("what its server runs on is not there, or its packages are not to be had")
        environment = pairs.make(kind, tmp_path, worker_settings())
        environment.runs.config = {**environment.runs.config, "tasks.max": "1"}  # calls of two threads cannot be counted apart
        return environment

    return made


@pytest.mark.parametrize(("kind", "fault"), faults("SIGKILL", SAMPLE))
def test_a_kill_loses_and_doubles_nothing(make: Make, kind: str, fault: Fault) -> None:
    environment = make(kind)
    runs = ProcessRuns.of(environment.runs)
    killed = runs.submit(fault)
    while killed.wait() is not None and runs.count < TRIES:  # logs that were renamed while it listed them are left for the next run
        killed = runs.submit(fault)
    assert killed.struck, killed.output()
    environment.settle(runs)
    runs.until_done()
    environment.verdict().expect(GUARANTEE)


@pytest.mark.parametrize(("kind", "fault"), faults("SIGSTOP", {kind: ("before", name) for kind, name in FROZEN.items()}))
def test_a_zombie_writes_nothing(make: Make, kind: str, fault: Fault) -> None:
    environment = make(kind)
    runs = ProcessRuns.of(environment.runs)
    with frozen(runs, fault) as (zombie, wake):
        environment.add(300)
        runs.until_done()
        before = environment.seen()
        wake()
        result = zombie.wait()
    assert environment.seen() == before, ending(result)
    environment.add(300)
    environment.settle(runs)
    runs.until_done()
    environment.verdict().expect(GUARANTEE)
