"""Sinks whose topics were quiet for longer than the broker keeps the offsets of groups without members. A minute stands for the weeks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_connect.dev.kafka_server import KafkaServer
from airflow_provider_connect.runtime.model.run import RunState
from tests.conftest import CACHE, worker_properties
from tests.integration.worker.environment import PLAIN, RunEnvironment, make_topic, send
from tests.integration.worker.test_runs import text
from tests.waiting import wait_until

pytestmark = pytest.mark.soak

FORGETFUL = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "1000"}


@pytest.fixture
def forgetful(tmp_path: Path) -> Iterator[str]:
    """The address of a broker that keeps such offsets for a minute."""
    with KafkaServer(tmp_path / "kafka", CACHE, FORGETFUL) as server:
        yield server.bootstrap_servers


def quiet_sinks(bootstrap: str, topic: str, folder: Path) -> dict[tuple[str, str], RunEnvironment]:
    """Sinks of the topic, by ``auto.offset.reset`` and guarantee, that have run once: those from the beginning have delivered all."""
    environments = {}
    for guarantee in ("exactly_once", "at_least_once"):
        for reset in ("earliest", "latest"):
            environment = RunEnvironment(worker_properties(bootstrap, "quiet") | PLAIN, f"{guarantee}-{reset}", folder)
            more = {"delivery.guarantee": guarantee, "consumer.override.auto.offset.reset": reset}
            environment.run(environment.file_sink(topic, **more))
            assert len(environment.lines()) == (100 if reset == "earliest" else 0)
            assert environment.readiness().state == "no-work"
            environments[reset, guarantee] = environment
    return environments


def test_forgotten_groups_get_nothing_twice_and_miss_nothing(forgetful: str, tmp_path: Path) -> None:
    """Exactly and at least once, from the beginning and from the end; the first two run before there is anything new, the others after."""
    topic = make_topic(forgetful, "quiet", 2)
    send(forgetful, topic, text(100), partitions=2)
    environments = quiet_sinks(forgetful, topic, tmp_path)
    begun = time.monotonic()
    wait_until(lambda: not any(environment.group_offsets() for environment in environments.values()))
    print(f"waited {time.monotonic() - begun:.0f} s until the broker had forgotten the groups")
    for reset in ("earliest", "latest"):
        environment = environments[reset, "exactly_once"]
        assert environment.readiness().state == "work"
        result = environment.run()
        assert (result.state, result.tasks[0].records) == (RunState.DONE, 0)
        assert environment.readiness().state == "no-work"
        assert {p.partition: known.offset for p, known in environment.group_offsets().items()} == {0: 50, 1: 50}
    send(forgetful, topic, text(10, 100), partitions=2)
    for (reset, _), environment in environments.items():
        assert environment.run().state is RunState.DONE
        assert sorted(environment.lines()) == sorted(text(110) if reset == "earliest" else text(10, 100))
