"""``airflow connect`` on both kinds of Connect: a real one by its REST API, and ours by a herder in the command's own process."""

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.integration.client.commands import run_commands
from tests.kafka_topics import create_topic
from tests.waiting import HANG_SECONDS


@pytest.mark.soak
def test_a_foreign_cluster(home: dict[str, str], connect_url: str, unique: str, file_source: dict[str, str], tmp_path: Path) -> None:
    where = ["--url", connect_url]
    config = tmp_path / "connector.json"
    config.write_text(json.dumps({"name": unique, "config": {**file_source, "db.password": "geheim"}}))
    started, broken = f"started-{unique}", f"broken-{unique}"
    pairs = [f"{key}={value}" for key, value in file_source.items()]
    of_sink = ["connector.class=FileStreamSink", "tasks.max=1", f"topics={file_source['topic']}", f"file={tmp_path}/no-folder/out.txt"]
    commands = {
        "wrong": ["validate", unique, "connector.class=FileStreamSource", "topic=t", "tasks.max=0", *where],
        "right": ["validate", "-f", str(config), *where],
        "create": ["create", "-f", str(config), "--initial-state", "stopped", *where],
        "again": ["create", "-f", str(config), *where],
        "get": ["get", unique, *where],
        "json": ["get", unique, "-o", "json", *where],
        "patch": ["patch", unique, "batch.size=7", "db.password=[hidden]", "--remove", "tasks.max", *where],
        "list": ["list", "-o", "json", *where],
        "alter": ["offsets", "alter", unique, "--partition", '{"filename": "f"}', "--offset", '{"position": 4}', *where],
        "offsets": ["offsets", "get", unique, "-o", "json", *where],
        "reset": ["offsets", "reset", unique, *where],
        "resume": ["resume", unique, "--conn-id", "foreign"],
        "topics": ["topics", unique, "-o", "yaml", *where],
        "plugins": ["plugins", "list", "--all", "-o", "json", *where],
        "keys": ["plugins", "config", "FileStreamSource", *where],
        "loggers": ["loggers", "list", "-o", "json", *where],
        "workers": ["workers", *where],
        "restart": ["restart", unique, "--include-tasks", "--only-failed", *where],
        "waited": ["create", started, *pairs, "--wait", "--timeout", "240", *where],
        "failed": ["create", broken, *of_sink, "--wait", "--timeout", "240", *where],
        "top": ["top", started, broken, *where],
        "resume-waited": ["resume", unique, "--wait", *where],
        "delete": ["delete", unique, started, broken, *where],
        "gone": ["get", unique, *where],
        "both": ["list", *where, "--conn-id", "foreign"],
        "away": ["list", "--url", "http://127.0.0.1:1"],
        "nowhere": ["list", "--conn-id", "nowhere"],
        "no-url": ["list", "--url", "connect:8083"],
        "new": ["new", "my-connector", "--sink", "--directory", str(tmp_path)],
    }
    done = dict(zip(commands, run_commands(home, list(commands.values())), strict=True))
    assert (done["wrong"].code, "tasks.max" in done["wrong"].out) == (1, True)
    assert (done["right"].code, done["right"].out) == (0, "valid\n"), done["right"]
    assert done["create"].code == 0, done["create"].err
    assert (done["again"].code, done["again"].err) == (1, f"Connector {unique} already exists")
    assert "db.password=[hidden]" in done["get"].out
    assert f"topic={file_source['topic']}" in done["get"].out
    assert done["json"].json["config"]["name"] == unique
    assert "batch.size=7" in done["patch"].out
    assert "tasks.max" not in done["patch"].out
    assert unique in [row["name"] for row in done["list"].json]
    assert "altered" in done["alter"].out, done["alter"].err
    assert done["offsets"].json in ([{"partition": {"filename": "f"}, "offset": {"position": 4}}], [])  # Connect may be late with its first
    assert "reset" in done["reset"].out
    assert done["resume"].code == 0, done["resume"].err
    assert done["topics"].code == 0
    assert {"class", "type", "version"} == set(done["plugins"].json[0])
    assert "batch.size" in done["keys"].out
    assert "root" in [row["logger"] for row in done["loggers"].json]
    assert (done["workers"].code, "/workers" in done["workers"].err) == (1, True)
    assert done["restart"].code in (0, 1)  # 1: the resumed connector has no status yet
    assert (done["waited"].code, done["waited"].out.splitlines()[1:]) == (0, [f"Connector {started} is RUNNING, its tasks 1 RUNNING"])
    assert (done["failed"].code, f"Connector {broken} is FAILED: " in done["failed"].err) == (1, True), done["failed"]
    assert "Exception" in done["failed"].err
    assert [line.split()[:2] for line in done["top"].out.splitlines()[2:]] == [[broken, "RUNNING"], [started, "RUNNING"]]
    assert (done["resume-waited"].code, "without --url" in done["resume-waited"].err) == (1, True)
    assert done["delete"].code == 0
    assert (done["gone"].code, unique in done["gone"].err) == (1, True)
    assert (done["both"].code, "not both" in done["both"].err) == (1, True)
    assert (done["away"].code, "http://127.0.0.1:1" in done["away"].err) == (1, True)
    assert (done["nowhere"].code, "Connection nowhere does not exist" in done["nowhere"].err) == (1, True)
    assert (done["no-url"].code, "http://connect:8083" in done["no-url"].err) == (1, True)
    assert "src/my_connector/sink.py" in done["new"].out, done["new"].err
    assert not any("geheim" in each.out + each.err for each in done.values())


@pytest.mark.soak
def test_the_live_view_is_drawn_until_a_key_ends_it(home: dict[str, str], connect_url: str, tmp_path: Path) -> None:
    keyboard, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    before = termios.tcgetattr(terminal)
    command = [sys.executable, "-W", "ignore", "-m", "airflow", "connect", "top", "--interval", "0.2", "--url", connect_url]
    errors = tmp_path / "errors.log"
    with errors.open("wb") as log:
        process = subprocess.Popen(command, env={**home, "TERM": "xterm"}, stdin=terminal, stdout=terminal, stderr=log)
    try:
        screen = drawn(keyboard, process, lambda seen: seen.count(b"q quits") >= 2)
        os.write(keyboard, b"q")
        screen += drawn(keyboard, process, lambda seen: process.poll() is not None)
    finally:
        process.kill()
        process.wait(HANG_SECONDS)
        after = termios.tcgetattr(terminal)
        os.close(keyboard)
        os.close(terminal)
    assert process.returncode == 0, (errors.read_text(), screen)
    assert (b"\x1b[?1049h" in screen, b"\x1b[?1049l" in screen, after == before) == (True, True, True)


def drawn(keyboard: int, process: subprocess.Popen[bytes], is_enough: Callable[[bytes], bool]) -> bytes:
    """What the process draws until it is enough, or the process has ended."""
    seen, until = b"", time.monotonic() + HANG_SECONDS
    while not is_enough(seen) and (process.poll() is None or select.select([keyboard], [], [], 0)[0]):
        assert time.monotonic() < until, seen
        if select.select([keyboard], [], [], 0.1)[0]:
            seen += os.read(keyboard, 65536)
    return seen


def with_dead_letters(bootstrap: str, topic: str, letters: str, connector: str) -> None:
    """A topic of three records, and a queue with one record of another connector, one of this, one that is of any, and many of another."""
    producer = Producer({"bootstrap.servers": bootstrap})
    create_topic(bootstrap, topic)
    create_topic(bootstrap, letters, message_timestamp_after_max_ms=str(2**63 - 1))
    for number in range(3):
        producer.produce(topic, str(number).encode(), partition=0)
    about = {"connector.name": connector, "task.id": "0", "exception.message": "no geheim"}
    headers: list[tuple[str, str | bytes | None]] = [
        ("trace", b"7"),
        *((f"__connect.errors.{name}", text.encode()) for name, text in about.items()),
    ]
    others: list[tuple[str, str | bytes | None]] = [("__connect.errors.connector.name", b"other")]
    producer.produce(letters, b"other", partition=0, headers=others)
    producer.produce(letters, b"bad geheim verborgen", partition=0, headers=headers)
    producer.produce(letters, b"\xff\x00", partition=0, timestamp=9 * 10**17)
    for _ in range(50):
        producer.produce(letters, b"other", partition=0, headers=others)
    assert producer.flush(HANG_SECONDS) == 0


def test_the_cluster_of_this_airflow(
    home: dict[str, str],
    worker_settings: Callable[..., dict[str, str]],
    unique: str,
    file_source: dict[str, str],
    file_sink: dict[str, str],
) -> None:
    settings = worker_settings(config_providers_variable_param_allowlist_pattern="hidden")
    environment = home | {"AIRFLOW_VAR_CONNECT_WORKER_CONFIG": json.dumps(settings), "AIRFLOW_VAR_HIDDEN": "verborgen"}
    pairs, sink_pairs = ([f"{key}={value}" for key, value in config.items()] for config in (file_source, file_sink))
    sink, letters, stopped = f"sink-{unique}", f"letters-{unique}", ["--initial-state", "stopped"]
    queue = f"errors.deadletterqueue.topic.name={letters}"
    partition = {"kafka_topic": file_sink["topics"], "kafka_partition": 0}
    with_dead_letters(settings["bootstrap.servers"], file_sink["topics"], letters, sink)
    commands = {
        "empty": ["list", "-o", "json"],
        "none": ["list"],
        "wrong": ["create", unique, *pairs, "tasks.max=0"],
        "misspelt": ["put", unique, "connector.class=FileStreamSource", f"file={file_source['file']}", "topik=t"],
        "create": ["create", unique, *pairs, "db.password=geheim", "airflow.owner=me", "--initial-state", "paused"],
        "list": ["list", "-o", "json"],
        "get": ["get", unique, "-o", "json"],
        "put": ["put", unique, *pairs, "db.password=[hidden]", "batch.size=7"],
        "top": ["top"],
        "restart": ["restart", unique],
        "status": ["status", unique, "-o", "json"],
        "running": ["offsets", "reset", unique],
        "stop": ["stop", unique],
        "alter": ["offsets", "alter", unique, "--partition", json.dumps({"filename": file_source["file"]}), "--offset", '{"position": 4}'],
        "offsets": ["offsets", "get", unique, "-o", "json"],
        "preview": ["preview", unique, "--records", "1"],
        "preview-json": ["preview", unique, "--records", "1", "-o", "json"],
        "no-upgrade": ["upgrade", unique],
        "no-version": ["upgrade", unique, "--to", "[98,99)"],
        "no-lag": ["lag", unique],
        "sink": ["create", sink, *sink_pairs, queue, "db.password=geheim", "db.token=${variable:hidden}", *stopped],
        "sink-offset": ["offsets", "alter", sink, "--partition", json.dumps(partition), "--offset", '{"kafka_offset": 1}'],
        "lag": ["lag", "-o", "json"],
        "lag-table": ["lag", sink],
        "dlq": ["dlq", "get", sink, "-o", "json"],
        "dlq-table": ["dlq", "get", sink, "--limit", "1"],
        "dlq-source": ["dlq", "get", unique],
        "plugins": ["plugins", "list", "-o", "json"],
        "workers": ["workers", "-o", "json"],
        "loggers": ["loggers", "list"],
        "cost": ["cost", unique, "-o", "json"],
        "cost-table": ["cost", unique, "--runs"],
        "unrecorded": ["offsets", "undo", unique, "--entry", "1", "--yes"],
        "revisions": ["config", "history", unique],
        "delete": ["delete", unique],
        "gone": ["get", unique],
    }
    done = dict(zip(commands, run_commands(environment, list(commands.values())), strict=True))
    assert done["empty"].json == []
    assert done["none"].out.startswith("No connectors yet: ")
    assert (done["wrong"].code, "tasks.max" in done["wrong"].err) == (1, True)
    assert (done["misspelt"].code, done["misspelt"].err.splitlines()[-1:]) == (1, ["Unknown setting 'topik': did you mean 'topic'?"])
    assert done["create"].code == 0, done["create"].err
    assert [row["name"] for row in done["list"].json] == [unique]
    assert done["get"].json["config"] == {**file_source, "db.password": "[hidden]", "airflow.owner": "me", "name": unique}
    assert done["put"].code == 0, done["put"].err
    assert done["status"].json["connector"]["state"] == "PAUSED"
    assert (done["running"].code, "STOPPED" in done["running"].err) == (1, True)
    assert [line.split()[:2] for line in done["top"].out.splitlines()[1:]] == [["NAME", "STATE"], [unique, "PAUSED"]]
    assert (
        done["restart"].code,
        f"is PAUSED, and a restart would not start it: airflow connect resume {unique}" in done["restart"].err,
    ) == (
        1,
        True,
    )
    assert done["stop"].code == 0, done["stop"].err
    assert "altered" in done["alter"].out, done["alter"].err
    assert done["offsets"].json == [{"partition": {"filename": file_source["file"]}, "offset": {"position": 4}}]
    assert ("1 records read" in done["preview"].out, "two" in done["preview"].out) == (True, True), done["preview"].err
    assert [record["value"] for record in done["preview-json"].json["records"]] == ["two"]
    assert (done["no-upgrade"].code, done["no-upgrade"].err) == (1, f"No upgrade of connector {unique} was requested")
    assert (done["no-version"].code, "available versions" in done["no-version"].err) == (1, True)
    assert (done["no-lag"].code, "Only a sink has a lag" in done["no-lag"].err) == (1, True)
    assert done["sink"].code == 0, done["sink"].err
    assert done["sink-offset"].code == 0, done["sink-offset"].err
    assert done["lag"].json == [{"name": sink, "lag": 2, "partitions": [{"topic": file_sink["topics"], "partition": 0, "lag": 2}]}]
    assert [line.split() for line in done["lag-table"].out.splitlines()[1:]] == [
        [sink, file_sink["topics"], "0", "2"],
        [sink, "all", "-", "2"],
    ]
    first, second = done["dlq"].json
    assert done["dlq"].err == ""
    assert (first["offset"], first["value"], first["headers"]) == (1, "bad [hidden] [hidden]", {"trace": "7"})
    assert (first["errors"]["exception.message"], first["errors"]["task.id"]) == ("no [hidden]", "0")
    assert (second["offset"], second["value"], second["errors"]) == (2, "0xff00", {})
    assert len(done["dlq-table"].out.splitlines()) == 2, done["dlq-table"]
    assert done["dlq-table"].out.splitlines()[1].split() == [str(9 * 10**17), "0:2", "-", "-", "-", "-", "0xff00"]
    assert (done["dlq-source"].code, "has no dead letter queue" in done["dlq-source"].err) == (1, True)
    assert "FileStreamSource" in str(done["plugins"].json)
    assert done["workers"].json == []
    assert (done["cost"].json["total"]["runs"], done["cost-table"].out.split()[0]) == (0, "run")  # no API server follows the topics
    assert (done["loggers"].code, "--url" in done["loggers"].err) == (1, True)
    assert (done["unrecorded"].code, "no change of offsets 1" in done["unrecorded"].err) == (1, True)  # no API server follows the topics
    assert (done["revisions"].code, done["revisions"].out) == (0, ""), done["revisions"]
    assert done["delete"].code == 0, done["delete"].err
    assert (done["gone"].code, done["gone"].err) == (1, f"Connector {unique} not found")
    assert not any(secret in each.out + each.err for each in done.values() for secret in ("geheim", "verborgen"))


def test_the_lag_of_an_offset_beyond_the_end_is_unknown(
    home: dict[str, str], worker_settings: Callable[..., dict[str, str]], unique: str, file_sink: dict[str, str]
) -> None:
    settings, topic = worker_settings(), file_sink["topics"]
    create_topic(settings["bootstrap.servers"], topic)
    partition, offset = json.dumps({"kafka_topic": topic, "kafka_partition": 0}), '{"kafka_offset": 100}'
    pairs = [f"{key}={value}" for key, value in file_sink.items()]
    commands = [
        ["create", unique, *pairs, "--initial-state", "stopped"],
        ["offsets", "alter", unique, "--partition", partition, "--offset", offset],
        ["lag", "-o", "json"],
        ["lag", unique],
    ]
    created, altered, lag, table = run_commands(home | {"AIRFLOW_VAR_CONNECT_WORKER_CONFIG": json.dumps(settings)}, commands)
    assert (created.code, altered.code) == (0, 0), (created.err, altered.err)
    assert json.loads(lag.out) == [{"name": unique, "lag": None, "partitions": [{"topic": topic, "partition": 0, "lag": None}]}]
    assert (lag.code, f"is unknown in {topic}-0: the committed offset is beyond the end" in lag.err) == (1, True)
    assert [line.split()[-1] for line in table.out.splitlines()[1:]] == ["-", "-"]
