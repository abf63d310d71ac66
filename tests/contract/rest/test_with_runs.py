"""Some of the recorded sessions against the whole product, with real runs in processes. ``make contract`` replays all, with Spark."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.contract.rest.__main__ import TIMEOUT_FACTOR
from tests.contract.rest.replay import replay
from tests.contract.rest.scenarios import scenarios
from tests.contract.rest.stacks import product
from tests.contract.rest.to_come import IN_AIRFLOW_ONLY, TO_COME, unexpected

SESSIONS = ("source-lifecycle", "sink-lifecycle", "stop-resume")


@pytest.mark.timeout(1200)
def test_sessions_are_as_with_kafka_connect(tmp_path: Path) -> None:
    chosen = [one for one in scenarios() if one.name in SESSIONS]
    assert {one.name for one in chosen} == set(SESSIONS)
    assert all(one.needs_runs for one in chosen)
    cache = Path(os.environ["AIRFLOW_PROVIDER_CONNECT_CACHE"])
    with product("default", tmp_path, cache, engine="process") as server, ThreadPoolExecutor(len(chosen)) as sessions:
        # Each session has connectors, topics and files of its own, and mostly waits.
        replayed = list(sessions.map(lambda scenario: list(replay(scenario, server, timeout_factor=TIMEOUT_FACTOR)), chosen))
    for scenario, outcomes in zip(chosen, replayed, strict=True):
        assert unexpected(outcomes, TO_COME, IN_AIRFLOW_ONLY) == []
        assert len(outcomes) == scenario.answered
