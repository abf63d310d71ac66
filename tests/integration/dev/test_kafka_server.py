"""The development broker, started for real."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from airflow_provider_connect.dev.kafka_server import KafkaServer
from airflow_provider_connect.dev.own_server import is_listening
from airflow_provider_connect.errors import ConnectException
from tests.waiting import HANG_SECONDS, wait_until

FROZEN_SECONDS = 1.0

CACHE = Path(os.environ["AIRFLOW_PROVIDER_CONNECT_CACHE"])


def _send(bootstrap: str, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, value)
    assert producer.flush(HANG_SECONDS) == 0


def _first(bootstrap: str, topic: str) -> bytes | None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        message = consumer.poll(HANG_SECONDS)
        assert message is not None
        assert message.error() is None
        return message.value()
    finally:
        consumer.close()


@pytest.mark.soak
def test_records_survive_a_kill_and_a_start_on_the_same_ports(tmp_path: Path) -> None:
    server = KafkaServer(tmp_path, CACHE).start()
    try:
        port = server.port
        _send(server.bootstrap_servers, "lines", b"one")
        server.kill()
        assert not is_listening(port)
        server.start()
        assert server.port == port
        assert _first(server.bootstrap_servers, "lines") == b"one"
        server.stop()
        again = KafkaServer(tmp_path, CACHE)
        assert again.port == port
    finally:
        server.stop()


@pytest.mark.soak
def test_a_frozen_broker_answers_nothing_and_goes_on_when_resumed(tmp_path: Path) -> None:
    with KafkaServer(tmp_path, CACHE) as server:
        server.pause()
        with pytest.raises(KafkaException):
            AdminClient({"bootstrap.servers": server.bootstrap_servers}).list_topics(timeout=FROZEN_SECONDS)
        server.resume()
        assert AdminClient({"bootstrap.servers": server.bootstrap_servers}).list_topics(timeout=HANG_SECONDS).brokers


def test_the_broker_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    script = (
        "import pathlib, sys, time\n"
        "from airflow_provider_connect.dev.kafka_server import KafkaServer\n"
        "server = KafkaServer(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])).start()\n"
        "print(server.pid, server.port, flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path), str(CACHE)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        _, port = map(int, parent.stdout.readline().split())
        assert is_listening(port)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    wait_until(lambda: not is_listening(port))


def test_a_broker_that_cannot_start_reports_where_its_log_is(tmp_path: Path) -> None:
    server = KafkaServer(tmp_path, CACHE, {"num.partitions": "minus one"})
    with pytest.raises(ConnectException, match=r"num\.partitions"):
        server.start()


def test_the_shared_broker_serves_settings_of_a_test(worker_settings: object, bootstrap: str) -> None:
    assert callable(worker_settings)
    settings = worker_settings(exactly_once_source_support="disabled")
    assert settings["bootstrap.servers"] == bootstrap
    assert settings["exactly.once.source.support"] == "disabled"
