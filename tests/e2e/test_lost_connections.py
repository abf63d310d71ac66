"""A run loses its connections to the broker, or the database its backends, between any two steps of a commit, tables on either side.

``make chaos`` does so to runs of Spark; here runs are in this process.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from airflow_provider_connect.dev.postgres_server import PostgresServer
from airflow_provider_connect.runtime.model.run import RunState
from airflow_provider_connect.runtime.worker.delivery.commit_steps import StepHook, unobserved
from airflow_provider_connect.runtime.worker.task import sink_runner
from tests.conftest import WorkerSettings
from tests.e2e.faults import connections
from tests.e2e.faults.runs import INJECTED, Fault, ending
from tests.e2e.faults.steps import each_step_loses_connections
from tests.e2e.faults.table_environments import TableSinkEnvironment, TableSourceEnvironment
from tests.integration.worker.environment import RunEnvironment

TRIES = 6  # on a busy machine an answer may take longer than the two seconds that a run waits here
SOON_SECONDS = 2.0


def faults(kind: str) -> Iterator[object]:
    """Each step loses the connections of one sort, by turns; ``make soak`` has both."""
    for number, fault in enumerate(each_step_loses_connections(kind)):
        yield pytest.param(fault, marks=[] if number % 4 in (0, 3) else pytest.mark.soak)


@pytest.fixture(scope="module")
def own_postgres() -> Iterator[PostgresServer]:
    """A server of this module's own: it ends all its connections when a backend is killed."""
    with PostgresServer() as server:
        yield server


@pytest.mark.parametrize("fault", faults("table source"), ids=str)
def test_table_source(
    fault: Fault, tmp_path: Path, worker_settings: WorkerSettings, own_postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(TableSourceEnvironment.make(tmp_path, worker_settings(), own_postgres.url()), fault, monkeypatch)


@pytest.mark.parametrize("fault", faults("table sink"), ids=str)
def test_table_sink(
    fault: Fault, tmp_path: Path, worker_settings: WorkerSettings, own_postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(TableSinkEnvironment.make(tmp_path, worker_settings(), own_postgres.url()), fault, monkeypatch)


def check(environment: TableSourceEnvironment | TableSinkEnvironment, fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    for timeout in ("ANSWER_SECONDS", "COMMIT_SECONDS"):  # librdkafka may wait in vain for a coordinator's connection that was lost
        monkeypatch.setattr(sink_runner, timeout, SOON_SECONDS)
    runs, token = environment.runs, environment.runs.folder / "struck"
    hook = inject(runs.fault_request(fault, token), fault.step, monkeypatch)
    here = RunEnvironment(dict(runs.settings), runs.connector, runs.folder, step=hook)
    results = [here.run(runs.config)]
    connections.wait_until_calm()
    assert token.exists(), f"not struck, {ending(results[0])}"
    while results[-1].state is not RunState.DONE and len(results) < TRIES:
        assert results[-1].retriable, ending(results[-1])
        results.append(here.run(runs.config))
    verdict = environment.verdict()
    print(f"{fault}: {[ending(result) for result in results]}, {verdict}")
    assert results[-1].state is RunState.DONE
    verdict.expect("exactly_once")


def inject(request: str, step: str, monkeypatch: pytest.MonkeyPatch) -> StepHook:
    """What a process of a run does by itself, done to this one until the test ends; the hook for the deliveries."""
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.setenv("FAULT", request)
    spec = spec_from_file_location("injected_fault", INJECTED / "sitecustomize.py")
    assert spec is not None
    assert spec.loader is not None
    injected = module_from_spec(spec)
    spec.loader.exec_module(injected)
    module_name, colon, method = step.partition(":")
    if not colon:
        hook: StepHook = injected.around
        return hook
    owner_name, _, method_name = method.rpartition(".")
    module = import_module(module_name)
    owner = getattr(module, owner_name)
    monkeypatch.setattr(owner, method_name, getattr(owner, method_name))  # to be put back
    injected.wrap(module)
    return unobserved
