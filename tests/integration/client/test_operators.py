"""Operators and sensors, done twice and on what has FAILED, against a real Kafka Connect; waiting themselves, and by their trigger.

They run in a process of their own, whose Airflow has a Connection to the worker.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.client.rest_client import ConnectClient
from tests.waiting import HANG_SECONDS

_SCRIPT = """
import asyncio, json, sys

from airflow.sdk.exceptions import TaskDeferred

from airflow_provider_connect.operators.config import CreateConnectorOperator, UpdateConnectorOperator, ValidateConfigOperator
from airflow_provider_connect.operators.control import (
    AlterOffsetsOperator, DeleteConnectorOperator, PauseConnectorOperator, ResetOffsetsOperator, RestartConnectorOperator,
    ResumeConnectorOperator, StopConnectorOperator,
)
from airflow_provider_connect.sensors.connect import ConnectorStateSensor, OffsetSensor, SinkLagSensor, TaskStateSensor, TopicActiveSensor

async def fired(trigger):
    async for event in trigger.run():
        return event.payload

def carried_out(kind, arguments):
    pace = {"poke_interval" if kind.endswith("Sensor") else "poll_seconds": 0.3}
    operator = globals()[kind](task_id="t", connect_conn_id="foreign", **pace, **arguments)
    try:
        result, method, more = None, "execute", {}
        while True:
            try:
                return ["done", getattr(operator, method)({}, **more)]
            except TaskDeferred as deferred:
                path, given = deferred.trigger.serialize()
                event = asyncio.run(fired(type(deferred.trigger)(**json.loads(json.dumps(given)))))
                method, more = deferred.method_name, {**(deferred.kwargs or {}), "event": event}
    except Exception as error:
        return [type(error).__name__, str(error)]

print("DONE" + json.dumps([carried_out(*step) for step in json.loads(sys.argv[1])]))
"""

Step = tuple[str, dict[str, Any]]


def carry_out(home: dict[str, str], steps: list[Step]) -> list[list[Any]]:
    """The result of each step: ``["done", result]``, or the exception's name and text."""
    command = [sys.executable, "-W", "ignore", "-c", _SCRIPT, json.dumps(steps)]
    done = subprocess.run(command, env=home, capture_output=True, text=True, check=False, timeout=HANG_SECONDS)
    answers = [line.removeprefix("DONE") for line in done.stdout.splitlines() if line.startswith("DONE")]
    assert answers, done.stdout + done.stderr
    return list(json.loads(answers[-1]))


@pytest.mark.parametrize("deferrable", [False, True])
def test_what_is_done_already_is_not_done_again(
    home: dict[str, str], connect: ConnectClient, unique: str, file_source: dict[str, str], deferrable: bool
) -> None:
    one: dict[str, Any] = {"connector": unique, "deferrable": deferrable}
    partition = {"filename": file_source["file"]}
    other = {**file_source, "batch.size": 5}
    expected: list[tuple[Step, list[Any]]] = [
        (("ValidateConfigOperator", one | {"config": file_source}), ["done", None]),
        (("CreateConnectorOperator", one | {"config": file_source}), ["done", True]),
        (("CreateConnectorOperator", one | {"config": file_source}), ["done", False]),
        (("CreateConnectorOperator", one | {"config": other, "if_exists": "keep"}), ["done", False]),
        (("UpdateConnectorOperator", one | {"config": other, "wait": True}), ["done", True]),
        (("UpdateConnectorOperator", one | {"config": other}), ["done", False]),
        (("UpdateConnectorOperator", one | {"config": {"batch.size": None}, "merge": True}), ["done", True]),
        (("UpdateConnectorOperator", one | {"config": {"batch.size": None}, "merge": True}), ["done", False]),
        (("TopicActiveSensor", one | {"topic": file_source["topic"], "timeout": 120}), ["done", None]),
        (("OffsetSensor", one | {"partition": partition, "offset": {"position": 8}, "timeout": 120}), ["done", None]),
        (("TaskStateSensor", one | {"connector_task": 0, "timeout": 120}), ["done", None]),
        (("PauseConnectorOperator", one), ["done", None]),
        (("PauseConnectorOperator", one), ["done", None]),
        (("ConnectorStateSensor", one | {"states": "paused", "timeout": 120}), ["done", None]),
        (("ResumeConnectorOperator", one), ["done", None]),
        (("RestartConnectorOperator", one | {"only_failed": True}), ["done", {"connector": False, "tasks": []}]),
        (
            ("AlterOffsetsOperator", one | {"offsets": [{"partition": partition, "offset": {"position": 4}}], "stop": True}),
            ["done", "The offsets for this connector have been altered successfully"],
        ),
        (("ResetOffsetsOperator", one), ["done", "The offsets for this connector have been reset successfully"]),
        (("StopConnectorOperator", one), ["done", None]),
        (("DeleteConnectorOperator", one), ["done", True]),
        (("DeleteConnectorOperator", one), ["done", False]),
    ]
    came = carry_out(home, [step for step, _ in expected])
    assert [(step[0], answer) for (step, _), answer in zip(expected, came, strict=True)] == [(step[0], want) for step, want in expected]
    assert unique not in connect.connectors()


@pytest.mark.soak
def test_what_cannot_come_is_reported_and_not_waited_for(
    home: dict[str, str], connect: ConnectClient, unique: str, file_sink: dict[str, str], tmp_path: Path
) -> None:
    config = {**file_sink, "file": str(tmp_path / "missing" / "output.txt")}
    one: dict[str, Any] = {"connector": unique, "failure_timeout_seconds": 1}
    sensor: dict[str, Any] = {"connector": unique, "timeout": 60}
    steps: list[Step] = [
        ("ValidateConfigOperator", one | {"config": config | {"tasks.max": 0, "key.converter": "NoSuch"}}),
        ("CreateConnectorOperator", one | {"config": config, "failure_timeout_seconds": 10}),
        ("CreateConnectorOperator", one | {"config": config | {"tasks.max": 2}}),
        ("RestartConnectorOperator", one | {"only_failed": True, "deferrable": True}),
        ("ConnectorStateSensor", sensor),
        ("TaskStateSensor", sensor | {"connector_task": 0, "deferrable": True}),
        ("ConnectorStateSensor", sensor | {"states": "FAILED", "with_tasks": False, "timeout": 1}),
        ("ResetOffsetsOperator", one),
        ("SinkLagSensor", sensor),
        ("PauseConnectorOperator", {"connector": f"no-{unique}"}),
    ]
    came = carry_out(home, steps)
    connect.delete_connector(unique)
    expected = [
        ("AirflowFailException", "tasks.max: "),
        ("AirflowFailException", f"1 FAILED: NoSuchFileException: {config['file']}"),
        ("AlreadyExistsException", "(tasks.max)"),
        ("AirflowFailException", "1 FAILED"),
        ("AirflowFailException", "1 FAILED"),
        ("AirflowFailException", f"Task {unique}-0 is FAILED"),
        ("AirflowSensorTimeout", ""),
        ("BadRequestException", "STOPPED"),
        ("done", ""),
        ("NotFoundException", f"no-{unique}"),
    ]
    assert [kind for kind, _ in came] == [kind for kind, _ in expected], came
    assert [text for (_, message), (_, text) in zip(came, expected, strict=True) if text not in str(message)] == [], came
