"""Runs of a lake's sink that write notes: JSON texts with the fields ``id`` and ``text``."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping

from airflow_provider_connect.runtime.model.run import RunState
from tests.integration.herder.killed_change import KillPoint
from tests.integration.worker.environment import RunEnvironment, make_topic, send
from tests.integration.worker.killed_run import run_and_kill

JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "true"}
FIELDS = [{"field": "id", "type": "int64", "optional": False}, {"field": "text", "type": "string", "optional": True}]


def notes(count: int, first: int = 0) -> list[str]:
    """Notes with the ids from ``first`` up."""
    schema = {"type": "struct", "optional": False, "fields": FIELDS}
    return [json.dumps({"schema": schema, "payload": {"id": id, "text": f"note {id}"}}) for id in range(first, first + count)]


def run(environment: RunEnvironment, config: Mapping[str, str] | None = None) -> None:
    result = environment.run(config)
    assert (result.state, result.error) == (RunState.DONE, None)


def write_around_a_kill(
    environment: RunEnvironment, topic: str, config: dict[str, str], kill_point: KillPoint, next_tasks: str = "1"
) -> None:
    """500 notes to a run that is killed, 500 more to the next one, which has ``next_tasks``."""
    make_topic(environment.bootstrap, topic, 2)
    send(environment.bootstrap, topic, notes(500), partitions=2)
    run_and_kill(environment, config, kill_point)
    send(environment.bootstrap, topic, notes(500, 500), partitions=2)
    environment.put_config(config | {"tasks.max": next_tasks})
    run(environment)


def write_changes(environment: RunEnvironment, configs: Mapping[str, Mapping[str, str]]) -> None:
    """Five notes, and in another run the first three again, to the only one of ``configs``."""
    [(name, config)] = configs.items()
    make_topic(environment.bootstrap, topic := f"{name}-orders")
    for count in (5, 3):
        send(environment.bootstrap, topic, notes(count))
        run(dataclasses.replace(environment, connector=name), {**config, "topics": topic})
