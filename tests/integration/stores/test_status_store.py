import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.dev.kafka_server import KafkaServer
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.model.states import State
from airflow_provider_connect.runtime.model.status import ConnectorStatus, TaskStatus, TopicStatus
from airflow_provider_connect.runtime.stores import status_store
from airflow_provider_connect.runtime.stores.status_store import StatusStore, StatusWriter
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from airflow_provider_connect.runtime.stores.topic_reader import TopicReader, raw
from airflow_provider_connect.runtime.wire import status_topic
from tests.conftest import CACHE, worker_properties
from tests.integration.stores.conftest import Produce
from tests.waiting import HANG_SECONDS, wait_until

RETRY, FAILURE, SUCCESS = "status-update-retry-total", "status-update-failure-total", "status-update-success-total"


@pytest.fixture(scope="module")
def own_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """A broker that the tests of this module freeze and kill."""
    with KafkaServer(tmp_path_factory.mktemp("kafka"), CACHE) as server:
        yield server


@pytest.fixture
def own_settings(own_kafka: KafkaServer, unique: str) -> WorkerSettings:
    retry = {"status.storage.retry.max.retries": "8", "status.storage.retry.max.backoff.ms": "1000"}
    settings = WorkerSettings.of(worker_properties(own_kafka.bootstrap_servers, unique) | retry)
    TopicAdmin(settings).ensure_internal_topics()
    return settings


def test_statuses_carry_claim_and_version_and_are_read_back(settings: WorkerSettings) -> None:
    claim = Claim(42, "topic-id")
    with StatusWriter(settings, claim) as writer:
        writer.put_connector(ConnectorStatus("c", State.RUNNING, "h:1", version="1.0"))
        writer.put_task(TaskStatus("c", 0, State.FAILED, "h:1", trace="boom", version="1.0"))
        writer.put_topic(TopicStatus("t", "c", 0, 1700000000000))
        assert writer.flush(HANG_SECONDS)
        assert writer.metrics() == {RETRY: 0.0, FAILURE: 0.0, SUCCESS: 3.0}
    with StatusStore(settings) as store:
        state = store.read()
        assert state.connector("c") == ConnectorStatus("c", State.RUNNING, "h:1", version="1.0", claim=claim)
        assert state.tasks_of("c") == [TaskStatus("c", 0, State.FAILED, "h:1", "boom", 0, "1.0", claim)]
        assert state.topics_of("c") == ["t"]
        with StatusWriter(settings, claim) as writer:
            writer.delete_task("c", 0)
            writer.delete_topic("c", "t")
            writer.delete_connector("c")
        state = store.read()
        assert (state.connector("c"), state.tasks_of("c"), state.topics_of("c")) == (None, [], [])


def test_a_reader_of_one_connector_decodes_no_others_statuses(settings: WorkerSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    with StatusWriter(settings) as writer:
        for number in range(300):
            writer.put_connector(ConnectorStatus(f"c{number}", State.RUNNING, "h:1"))
            writer.put_task(TaskStatus(f"c{number}", 0, State.FAILED, "h:1", trace="boom", failures=2))
            writer.put_topic(TopicStatus("t", f"c{number}", 0, 1700000000000))
        assert writer.flush(HANG_SECONDS)
    decode, read = status_topic.decode, list[bytes]()

    def noted(*arguments: Any, **named: Any) -> object:
        read.append(arguments[0])
        return decode(*arguments, **named)

    monkeypatch.setattr(status_topic, "decode", noted)
    with StatusStore(settings, only="c29") as store, StatusStore(settings) as whole:
        found = store.read()
        alike = ["c29", *(f"c29{digit}" for digit in range(10))]
        keys = ["topic-t:connector-c29", *(f"connector-{name}" for name in alike), *(f"task-{name}-0" for name in alike)]
        assert sorted(read) == sorted(f"status-{key}".encode() for key in keys)
        every = whole.read()
        assert (found.connector("c29"), found.tasks_of("c29"), found.topics_of("c29")) == (
            every.connector("c29"),
            every.tasks_of("c29"),
            every.topics_of("c29"),
        )
        assert len(every.connectors) == 300


def test_bytes_are_connects_but_for_the_header(settings: WorkerSettings) -> None:
    with StatusWriter(settings, Claim(7, "id")) as writer:
        writer.put_connector(ConnectorStatus("c", State.RUNNING, "h:8083"))
    from airflow_provider_connect.runtime.config.client_settings import internal_client_config

    with TopicReader(settings.status_topic, internal_client_config(settings, "consumer", "x"), raw) as log:
        (record,) = log.read_to_end()
    assert record.key == b"status-connector-c"
    assert record.value == b'{"state":"RUNNING","trace":null,"worker_id":"h:8083","generation":0,"version":null}'
    assert record.headers == [("claim", b"id:7")]


def test_older_claim_cannot_replace_a_status(settings: WorkerSettings) -> None:
    with StatusWriter(settings, Claim(9, "id")) as newer, StatusWriter(settings, Claim(3, "id")) as zombie:
        newer.put_task(TaskStatus("c", 0, State.RUNNING, "new:1"))
        assert newer.flush(HANG_SECONDS)
        zombie.put_task(TaskStatus("c", 0, State.FAILED, "old:1", trace="x"))
        assert zombie.flush(HANG_SECONDS)
    with StatusStore(settings) as store:
        task = store.read().task("c", 0)
        assert task is not None
        assert (task.state, task.worker_id) == (State.RUNNING, "new:1")


def test_bad_statuses_do_not_stop_the_reader(settings: WorkerSettings, produce: Produce) -> None:
    produce(
        settings.status_topic,
        [
            (b"\xff", b"{}"),
            (b"status-connector-c", b"no json"),
            (b"status-task-c-0", b'{"state":"LOUD"}'),
            (b"status-topic-t", b"{}"),
            (b"status-connector-d", b'{"state":"RUNNING","trace":null,"worker_id":"h:1","generation":3}'),
        ],
    )
    with StatusStore(settings) as store:
        assert list(store.read().connectors) == ["d"]
        assert store.skipped.count == 4


def test_writer_costs_nothing_until_it_is_used(settings: WorkerSettings) -> None:
    threads = len(os.listdir("/proc/self/task"))
    started = time.perf_counter()
    writer = StatusWriter(settings)
    assert writer.flush(0)
    writer.close()
    assert time.perf_counter() - started < HANG_SECONDS
    assert len(os.listdir("/proc/self/task")) <= threads


def test_a_writer_without_statuses_keeps_no_thread_and_writes_the_next_one(
    settings: WorkerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_store, "UNUSED_SECONDS", 0.1)
    threads = len(os.listdir("/proc/self/task"))
    with StatusWriter(settings) as writer:
        for number in range(2):
            writer.put_task(TaskStatus("c", number, State.RUNNING, "h:1"))
            assert writer.flush(HANG_SECONDS)
            wait_until(lambda: len(os.listdir("/proc/self/task")) <= threads, "the writer's threads have ended")
        assert writer.metrics() == {RETRY: 0.0, FAILURE: 0.0, SUCCESS: 2.0}
    with StatusStore(settings) as store:
        assert [task.task for task in store.read().tasks_of("c")] == [0, 1]


def test_status_that_can_never_be_written_fails_at_once(settings: WorkerSettings, caplog: pytest.LogCaptureFixture) -> None:
    with StatusWriter(settings) as writer:
        writer.put_task(TaskStatus("c", 0, State.FAILED, "canary" + "x" * 3_000_000))
        writer.put_task(TaskStatus("c", 1, State.RUNNING, "h:1"))
        assert writer.flush(HANG_SECONDS)
        assert writer.metrics() == {RETRY: 0.0, FAILURE: 1.0, SUCCESS: 1.0}
    (line,) = [line for line in caplog.records if line.levelno == logging.ERROR]
    assert "status-task-c-0" in line.getMessage()
    assert "canary" in line.getMessage()


@pytest.mark.parametrize("how", [pytest.param("frozen", marks=pytest.mark.soak), "killed"])
def test_statuses_outlive_a_broker_that_is_away(own_kafka: KafkaServer, own_settings: WorkerSettings, how: str) -> None:
    with StatusWriter(own_settings) as writer:
        writer.put_task(TaskStatus("c", 0, State.UNASSIGNED, "h:1"))
        assert writer.flush(HANG_SECONDS)
        if how == "frozen":
            own_kafka.pause()
        else:
            own_kafka.kill()
        started = time.monotonic()
        for task in range(3):
            writer.put_task(TaskStatus("c", task, State.RUNNING, "h:1"))
        writer.put_task(TaskStatus("c", 0, State.FAILED, "h:1", trace="later"))
        assert time.monotonic() - started < HANG_SECONDS  # the broker is away for longer
        wait_until(lambda: writer.metrics()[RETRY] >= 3)
        assert not writer.flush(0)
        if how == "frozen":
            own_kafka.resume()
        else:
            own_kafka.restart()
        assert writer.flush(HANG_SECONDS)
        assert writer.metrics()[FAILURE] == 0
        assert writer.metrics()[SUCCESS] >= 4
    with StatusStore(own_settings) as store:
        states = [(status.task, status.state, status.trace) for status in store.read().tasks_of("c")]
    assert states == [(0, State.FAILED, "later"), (1, State.RUNNING, None), (2, State.RUNNING, None)]


def test_latest_value_only_is_sent_to_a_broker_that_comes_back(own_kafka: KafkaServer, own_settings: WorkerSettings) -> None:
    with StatusWriter(own_settings) as writer:
        own_kafka.pause()
        for number in range(100):
            writer.put_connector(ConnectorStatus("c", State.RUNNING, f"h:{number}"))
        own_kafka.resume()
        assert writer.flush(HANG_SECONDS)
        assert writer.metrics()[SUCCESS] <= 3
    with StatusStore(own_settings) as store:
        status = store.read().connector("c")
        assert status is not None
        assert status.worker_id == "h:99"


def test_what_is_given_up_is_counted_and_logged_with_its_value(free_port: int, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    settings = WorkerSettings.of({"bootstrap.servers": f"127.0.0.1:{free_port}"})
    writer = StatusWriter(settings)
    writer.put_connector(ConnectorStatus("c", State.FAILED, "h:1", trace="canary"))
    started = time.monotonic()
    writer.close(1)
    assert time.monotonic() - started < HANG_SECONDS
    assert writer.metrics()[FAILURE] == 1
    (line,) = [line for line in caplog.records if line.levelno == logging.ERROR]
    assert "status-connector-c" in line.getMessage()
    assert "canary" in line.getMessage()
