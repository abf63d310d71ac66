"""Some of the recorded sessions against the whole product, with real runs in processes. ``make contract`` replays all, with Spark."""

import base64
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.contract.rest.__main__ import TIMEOUT_FACTOR
from tests.contract.rest.profiles import worker_settings
from tests.contract.rest.replay import replay
from tests.contract.rest.scenarios import scenarios
from tests.contract.rest.server import Server
from tests.contract.rest.to_come import IN_AIRFLOW_ONLY, TO_COME, unexpected
from tests.integration.airflow.conftest import Airflow

SESSIONS = ("source-lifecycle", "sink-lifecycle", "stop-resume")
OF_THE_STACK = ("group.id", "connectors.allowed.paths", "config.", "offset.storage.", "status.storage.", "batch.storage.")


@pytest.fixture
def server(airflow: Airflow, tmp_path: Path) -> Iterator[Server]:
    """The API for an administrator by Basic auth, with the worker settings of the recordings but for the stack's topics."""
    recorded = worker_settings("default", tmp_path) | {"airflow.engine": "process"}
    ours = {name: value for name, value in recorded.items() if not name.startswith(OF_THE_STACK)}
    state = airflow.stack.state() or {}
    credentials = base64.b64encode(f"{state['username']}:{state['password']}".encode()).decode()
    airflow.set_variable("connect_worker_config", json.dumps(ours))
    yield Server(str(state["rest_url"]), str(state["bootstrap_servers"]), tmp_path, headers={"Authorization": f"Basic {credentials}"})
    airflow.set_variable("connect_worker_config", None)


@pytest.mark.timeout(1200)
def test_sessions_are_as_with_kafka_connect(server: Server) -> None:
    chosen = [one for one in scenarios() if one.name in SESSIONS]
    assert {one.name for one in chosen} == set(SESSIONS)
    assert all(one.needs_runs for one in chosen)
    with ThreadPoolExecutor(len(chosen)) as sessions:
        # Each session has connectors, topics and files of its own, and mostly waits.
        replayed = list(sessions.map(lambda scenario: list(replay(scenario, server, timeout_factor=TIMEOUT_FACTOR)), chosen))
    for scenario, outcomes in zip(chosen, replayed, strict=True):
        assert unexpected(outcomes, TO_COME, IN_AIRFLOW_ONLY) == []
        assert len(outcomes) == scenario.answered
