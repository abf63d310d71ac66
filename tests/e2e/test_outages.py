"""The broker goes away in the middle of a run, for 3 s and for 60: nothing is lost or doubled, nothing hangs, and the next run goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_connect.dev.kafka_server import KafkaServer
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings as Settings
from airflow_provider_connect.runtime.model.states import State
from airflow_provider_connect.runtime.stores.status_store import StatusStore
from tests.conftest import CACHE, worker_properties
from tests.e2e.chaos import status_outage
from tests.e2e.faults.environments import SinkEnvironment, SourceEnvironment
from tests.e2e.faults.outage import STATUS_STEP, RunEnvironment, announced, in_the_middle, live_through

MANY = 30_000  # more than one read of the sink takes


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """A broker of this module's own."""
    with KafkaServer(tmp_path_factory.mktemp("broker"), CACHE) as kafka:
        yield kafka


@pytest.fixture
def environments(server: KafkaServer, tmp_path: Path, unique: str) -> list[RunEnvironment]:
    """One of each direction."""
    settings = worker_properties(server.bootstrap_servers, unique)
    source, sink = (make(tmp_path, settings, "exactly_once") for make in (SourceEnvironment.make, SinkEnvironment.make))
    sink.add(MANY)
    return [source, sink]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("seconds", "kill"),
    [
        pytest.param(3, False, id="frozen 3 s"),
        pytest.param(3, True, id="killed 3 s"),
        pytest.param(60, True, id="killed 60 s"),
    ],
)
def test_a_broker_that_goes_away_loses_and_doubles_nothing(
    server: KafkaServer, environments: list[RunEnvironment], seconds: float, *, kill: bool
) -> None:
    outcomes = live_through(server, [(environment, in_the_middle(environment)) for environment in environments], seconds=seconds, kill=kill)
    for environment, outcome in zip(environments, outcomes, strict=True):
        print(f"{environment.runs.connector}: {outcome}")
        (task,) = outcome.result.tasks
        assert task.metrics["status-update-success-total"] >= 1, task
        environment.runs.until_done()
        verdict = environment.verdict()
        verdict.expect("exactly_once")


@pytest.mark.soak
def test_a_status_that_finds_no_broker_is_written_later(server: KafkaServer, environments: list[RunEnvironment]) -> None:
    """An attempt takes ten seconds at most: so one of them at least fails, is counted, and made again."""
    outcomes = live_through(server, [(environment, announced(STATUS_STEP, 1)) for environment in environments], seconds=14, kill=False)
    for environment, outcome in zip(environments, outcomes, strict=True):
        print(f"{environment.runs.connector}: {outcome}")
        (task,) = outcome.result.tasks
        assert task.metrics["status-update-retry-total"] >= 1, task
        assert task.metrics["status-update-success-total"] >= 1, task
        assert task.metrics["status-update-failure-total"] == 0, task
        environment.runs.until_done()
        environment.verdict().expect("exactly_once")
        with StatusStore(Settings.of(environment.runs.settings)) as statuses:
            status = statuses.read().task(environment.runs.connector, 0)
        assert status is not None
        assert status.state is State.RUNNING


@pytest.mark.soak
def test_statuses_that_change_while_the_broker_is_away(server: KafkaServer, unique: str) -> None:
    """No caller waits for them; each is on the topic, replaced by a newer one, or in the log, and is counted as what it is."""
    assert status_outage.problems_of(status_outage.live_through(server, unique, 20)) == []
