"""``airflow connect … --wait`` and ``top`` on the Connect of this Airflow: real runs, followed to their ends."""

from pathlib import Path

from tests.integration.airflow.conftest import Airflow
from tests.integration.client.commands import run_commands

JSON = "org.apache.kafka.connect.json.JsonConverter"


def test_a_command_waits_for_the_end_of_its_run(
    airflow: Airflow, unique: str, file_source: tuple[Path, dict[str, str]], file_sink: tuple[Path, dict[str, str]]
) -> None:
    good, bad = f"good-{unique}", f"bad-{unique}"
    file_source[0].write_text("one\ntwo\n")
    source, sink = (
        [f"{key}={value}" for key, value in {**config, "airflow.schedule": "none"}.items()] for _, config in (file_source, file_sink)
    )
    wait = ["--wait", "--timeout", "240"]
    commands = {
        "good": ["create", good, *source, *wait],
        "bad": ["create", bad, *sink, f"value.converter={JSON}", "value.converter.schemas.enable=false", *wait],
        "top": ["top", good, bad],
        "pause": ["pause", good],
        "refused": ["restart", good],
        "resume": ["resume", good, *wait],
        "delete": ["delete", good, bad],
    }
    assert airflow.stack.airflow is not None
    done = dict(zip(commands, run_commands(airflow.stack.airflow.variables, list(commands.values())), strict=True))
    assert (done["good"].code, f"of connector {good} has succeeded" in done["good"].out) == (0, True), done["good"]
    assert f"{good}: its run is " in done["good"].err
    assert (done["bad"].code, f"of connector {bad} has failed: " in done["bad"].err, "JSON" in done["bad"].err) == (1, True, True), done[
        "bad"
    ]
    failed, runs = done["top"].out.splitlines()[2:]
    assert (failed.split()[:3], runs.split()[:3]) == ([bad, "RUNNING", "0/1"], [good, "RUNNING", "1/1"])
    assert "JSON" in failed
    assert (done["refused"].code, f"airflow connect resume {good}" in done["refused"].err) == (1, True), done["refused"]
    assert (done["resume"].code, "has succeeded" in done["resume"].out) == (0, True), done["resume"]
    assert done["delete"].code == 0, done["delete"].err
