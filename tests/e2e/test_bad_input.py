"""Mistakes of a user: reported before anything moves, by a text that names the key and the way out. No Spark is started for it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from airflow_provider_connect.errors import ConfigException, StoreTimeoutException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.worker.application.readiness import check_readiness
from tests.conftest import WorkerSettings as MakeSettings
from tests.kafka_topics import create_topic
from tests.waiting import HANG_SECONDS

SINK = {"connector.class": "FileStreamSink", "topics": "orders", "file": "/tmp/orders.txt"}
SOURCE = {"connector.class": "FileStreamSource", "topic": "orders", "file": "/tmp/orders.txt"}
NOBODY = 65_534


def refused(properties: dict[str, str], config: dict[str, str]) -> str:
    """The operator's error for ``config`` before it submits anything."""
    with pytest.raises(ConfigException) as caught:
        check_readiness(WorkerSettings.of(properties), "orders-file", define=config, secrets_of=lambda _: {})
    print(caught.value.message)
    return caught.value.message


@pytest.mark.parametrize(
    ("change", "key", "fix"),
    [
        ({"connector.class": "FileStreamSnik"}, "connector.class", "available connectors are: "),
        ({"connector.class": ""}, "connector.class", "set 'connector.class'"),
        ({"file": None}, "configuration file", "Set it to the path of the file"),
        ({"file": ""}, "configuration file", "Set it to the path of the file"),
        ({"tasks.max": "0"}, "tasks.max", "Value must be at least 1"),
        ({"tasks.max": "many"}, "tasks.max", "Not a number of type INT"),
        (
            {"value.converter": "org.apache.kafka.connect.json.JsonKonverter"},
            "value.converter",
            "org.apache.kafka.connect.json.JsonConverter",
        ),
        ({"header.converter": "no.such.Converter"}, "header.converter", "there are: "),
        ({"delivery.guarantee": "twice"}, "delivery.guarantee", "exactly_once"),
        ({"batch.max.records": "-1"}, "batch.max.records", "at least"),
        ({"producer.override.sasl.mechanism": "PLAIN", "consumer.override.sasl.mechanism": "PLAIN"}, "override.sasl.mechanism", "policy"),
    ],
    ids=lambda value: ",".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else "",
)
@pytest.mark.parametrize("base", [SOURCE, SINK], ids=["source", "sink"])
def test_config_is_refused(worker_settings: MakeSettings, base: dict[str, str], change: dict[str, str | None], key: str, fix: str) -> None:
    properties = worker_settings() | {"connector.client.config.override.policy": "None"}
    config = {name: value for name, value in (base | change).items() if value is not None}
    message = refused(properties, config)
    assert key in message
    assert fix in message


@pytest.mark.parametrize(
    ("change", "key", "fix"),
    [
        ({"topics": ""}, "topics", "Must configure one of topics or topics.regex"),
        ({"topics.regex": ".*"}, "topics.regex", "mutually exclusive"),
        ({"file": "/no/such/folder/out.txt"}, "configuration file", "There is no folder /no/such/folder. Create it, or set another path"),
        ({"file": "/tmp"}, "configuration file", "This is a folder"),
        ({"file": "/dev/null", "delivery.guarantee": "exactly_once"}, "delivery.guarantee", "does not support exactly-once"),
    ],
    ids=lambda value: ",".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else "",
)
def test_config_of_a_sink_is_refused(worker_settings: MakeSettings, change: dict[str, str], key: str, fix: str) -> None:
    message = refused(worker_settings(), SINK | change)
    assert key in message
    assert fix in message


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root may write anywhere; the account ``nobody`` may not."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.mark.parametrize("exists", [True, False])
def test_unwritable_output_is_refused(worker_settings: MakeSettings, tmp_path: Path, exists: bool) -> None:
    tmp_path.chmod(0o555)
    for folder in tmp_path.parents:
        if folder.stat().st_uid == os.getuid() and folder != Path("/tmp") and folder.is_relative_to("/tmp"):
            folder.chmod(0o755)
    file = tmp_path / "out.txt"
    if exists:
        tmp_path.chmod(0o755)
        file.touch(mode=0o444)
    properties = worker_settings()
    with as_nobody():
        message = refused(properties, SINK | {"file": str(file)})
    assert f"Invalid value {file} for configuration file: User " in message
    assert f"may not write to {file if exists else tmp_path}. Grant write access, or set another path." in message


def test_unreachable_broker_is_reported_in_time(worker_settings: MakeSettings, free_port: int) -> None:
    """No process listens; or one does and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor() as pool:
        ports = (free_port, silent.getsockname()[1])
        for _ in pool.map(check_unreachable, [worker_settings() | {"bootstrap.servers": f"127.0.0.1:{port}"} for port in ports]):
            pass


def check_unreachable(properties: dict[str, str]) -> None:
    begun = time.monotonic()
    with pytest.raises(StoreTimeoutException) as caught:
        check_readiness(WorkerSettings.of(properties), "orders-file", define=SINK, secrets_of=lambda _: {})
    seconds = time.monotonic() - begun
    print(f"after {seconds:.1f} s: {caught.value.message}")
    assert seconds < 40  # ten are meant; Kafka clients go on for a minute
    assert caught.value.retriable
    assert f"is a broker running at bootstrap.servers={properties['bootstrap.servers']}?" in caught.value.message


@pytest.mark.parametrize(
    ("setting", "partitions", "policy", "fix"),
    [
        ("config.storage.topic", 3, "compact", "single partition"),
        ("config.storage.topic", 1, "delete", "cleanup.policy=compact"),
        ("offset.storage.topic", 5, "delete", "cleanup.policy=compact"),
        ("status.storage.topic", 2, "compact,delete", "cleanup.policy=compact"),
        ("batch.storage.topic", 1, "delete", "cleanup.policy=compact"),
    ],
)
def test_wrong_internal_topic_is_refused(worker_settings: MakeSettings, setting: str, partitions: int, policy: str, fix: str) -> None:
    properties = worker_settings()
    topic = create_topic(properties["bootstrap.servers"], properties[setting], partitions, cleanup_policy=policy)
    message = refused(properties, SOURCE)
    assert f"Topic '{topic}' supplied via the '{setting}' property is required to have" in message
    assert fix in message


def test_status_retry_that_cannot_be_is_refused(worker_settings: MakeSettings) -> None:
    retry = {"status.storage.retry.initial.backoff.ms": "20000", "status.storage.retry.max.backoff.ms": "10000"}
    with pytest.raises(ConfigException) as caught:
        WorkerSettings.of(worker_settings() | retry)
    print(caught.value.message)
    assert "Invalid value 20000 for configuration status.storage.retry.initial.backoff.ms" in caught.value.message
    assert "no more than status.storage.retry.max.backoff.ms, which is 10000" in caught.value.message


AIRFLOW = """
import json, os, sys
from airflow_provider_connect.dag_files.connector_dag import ConnectorDag
from airflow_provider_connect.operators.spark_submit import ApplicationOperator

def submitted(*_: object) -> None:
    raise AssertionError("Spark was started")

ApplicationOperator.submit_application = submitted

class Instance:
    dag_id, task_id, run_id, map_index, try_number = "connect.c", "run", "r", -1, 1

for variable, config in json.load(sys.stdin):
    os.environ["AIRFLOW_VAR_CONNECT_WORKER_CONFIG"] = variable
    try:
        ConnectorDag("c", config).get_task("run").execute({"ti": Instance(), "run_id": "r"})
        message = "nothing"
    except Exception as error:
        message = f"{type(error).__name__} {error}"
    print("message:", json.dumps(message))
"""


def test_task_reports_what_is_wrong(tmp_path: Path, worker_settings: MakeSettings, free_port: int) -> None:
    """The task of a connector's DAG, in a process with an Airflow of its own. An AirflowFailException is not tried again."""
    good = json.dumps(worker_settings())
    retry = json.dumps(worker_settings() | {"status.storage.retry.initial.backoff.ms": "20000"})
    away = json.dumps(worker_settings() | {"bootstrap.servers": f"127.0.0.1:{free_port}"})
    failed = "AirflowFailException Connector c: "
    cases = [
        (
            '{"bootstrap.servers": kafka:9092}',
            SINK,
            "AirflowException Connector c: Variable connect_worker_config is not JSON (Expecting value",
            "write an object such as",
        ),
        (good, SINK | {"value.converter": "NoConverter"}, failed, "Invalid value NoConverter for configuration value.converter"),
        (retry, SINK, "AssertionError Spark was started", ""),  # the last good value of a wrong worker setting stays in force
        (away, SINK, "AirflowException Connector c: No answer from Kafka within 10 s", "is a broker running at bootstrap.servers="),
        (good, {**SINK, "tasks.max": "0"}, "ConfigException Invalid value 0 for configuration tasks.max", "give a whole number from 1"),
        (good, {"topics": "orders"}, 'ConfigException Missing required configuration "connector.class"', "for instance FileStreamSource"),
        (good, {**SINK, "topics.regex": ".*"}, "ConfigException topics and topics.regex are mutually exclusive", "omit one"),
        (good, {**SINK, "airflow.retires": "3"}, "ConfigException Unknown configuration airflow.retires", "did you mean airflow.retries?"),
    ]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW_")}
    environment |= {"AIRFLOW_HOME": str(tmp_path / "airflow"), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    environment["AIRFLOW__CONNECT__RUN_DIRECTORY"] = str(tmp_path / "runs")  # keeps the last good settings by AIRFLOW_HOME
    given = json.dumps([case[:2] for case in cases])
    done = subprocess.run(
        [sys.executable, "-c", AIRFLOW], input=given, env=environment, capture_output=True, text=True, timeout=HANG_SECONDS, check=False
    )
    messages = [json.loads(line.removeprefix("message:")) for line in done.stdout.splitlines() if line.startswith("message:")]
    assert len(messages) == len(cases), done.stderr
    for text, (_, _, what, fix) in zip(messages, cases, strict=True):
        print(text)
        assert text.startswith(what)
        assert fix in text
