"""``airflow connect … --wait`` and ``top`` on the Connect of this Airflow: real runs, followed to their ends."""

from pathlib import Path

import pytest

from tests.integration.airflow.conftest import Airflow
from tests.integration.client.commands import run_commands

JSON = "org.apache.kafka.connect.json.JsonConverter"


@pytest.mark.soak
def test_a_command_waits_for_the_end_of_its_run(
    airflow: Airflow, unique: str, file_source: tuple[Path, dict[str, str]], file_sink: tuple[Path, dict[str, str]]
) -> None:
    good, bad = f"good-{unique}", f"bad-{unique}"
    file_source[0].write_text("one\ntwo\n")
    source, sink = (
        [f"{key}={value}" for key, value in {**config, "airflow.schedule": "none"}.items()] for _, config in (file_source, file_sink)
    )
    refused = [f"value.converter={JSON}", "value.converter.schemas.enable=false"]
    assert airflow.stack.airflow is not None
    environment = airflow.stack.airflow.variables
    (done,) = run_commands(environment, [["create", good, *source, "--wait", "--timeout", "230"]])
    assert (done.code, f"of connector {good} has succeeded" in done.out) == (0, True), done
    assert f"{good}: its run is " in done.err
    failed, top, deleted = run_commands(
        environment, [["create", bad, *sink, *refused, "--wait", "--timeout", "230"], ["top", good, bad], ["delete", good, bad]]
    )
    assert (failed.code, f"of connector {bad} has failed: " in failed.err, "serialization error" in failed.err) == (1, True, True), failed
    _, head, first, second = top.out.splitlines()
    assert (head.split()[0], head.split()[-1]) == ("NAME", "REASON")
    assert first.split()[:4] == [bad, "RUNNING", "failing", "0/1"]
    assert second.split()[:4] == [good, "RUNNING", "healthy", "1/1"]
    assert deleted.code == 0, deleted.err


@pytest.mark.soak
def test_a_command_waits_until_the_tasks_of_a_run_that_stays_are_running(
    airflow: Airflow, unique: str, file_source: tuple[Path, dict[str, str]], file_sink: tuple[Path, dict[str, str]]
) -> None:
    good, bad, waits = f"good-{unique}", f"bad-{unique}", ["--wait", "--timeout", "230"]
    file_source[0].write_text("one\ntwo\n")
    source, sink = (
        [f"{key}={value}" for key, value in {**config, "airflow.schedule": "@continuous"}.items()] for _, config in (file_source, file_sink)
    )
    refused = [f"value.converter={JSON}", "value.converter.schemas.enable=false"]
    assert airflow.stack.airflow is not None
    commands = {
        "created": ["create", good, *source, *waits],
        "restarted": ["restart", good, "--include-tasks", *waits],
        "stopped": ["stop", good],
        "resumed": ["resume", good, *waits],
        "failed": ["create", bad, *sink, *refused, *waits],
        "deleted": ["delete", good, bad],
    }
    done = dict(zip(commands, run_commands(airflow.stack.airflow.variables, list(commands.values())), strict=True))
    for each in ("created", "restarted", "resumed"):
        assert (done[each].code, f"Connector {good} is RUNNING, its tasks 1 RUNNING" in done[each].out) == (0, True), done[each]
    assert (done["failed"].code, "serialization error" in done["failed"].err) == (1, True), done["failed"]
    assert done["deleted"].code == 0, done["deleted"].err
