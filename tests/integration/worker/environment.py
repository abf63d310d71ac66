"""One connector on a worker group of its own: runs of it in this process, and what they leave on the topics."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self

from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka import TopicPartition as ClientPartition

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.batches import BatchRecord
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.ids import consumer_group
from airflow_provider_connect.runtime.model.run import Claim, RunResult, RunSpec, TaskResult
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.model.status import StatusState
from airflow_provider_connect.runtime.stores.batch_log import BatchLog
from airflow_provider_connect.runtime.stores.config_store import ConfigStore
from airflow_provider_connect.runtime.stores.group_offsets import GroupOffsets
from airflow_provider_connect.runtime.stores.kafka_errors import TopicMissingException
from airflow_provider_connect.runtime.stores.log_consumer import CommittedOffset, LogRecord
from airflow_provider_connect.runtime.stores.offset_store import OffsetStore, SourceOffsets
from airflow_provider_connect.runtime.stores.status_store import StatusStore
from airflow_provider_connect.runtime.stores.topic_reader import TopicReader, raw
from airflow_provider_connect.runtime.worker.application.application import Application
from airflow_provider_connect.runtime.worker.application.handover import Leave
from airflow_provider_connect.runtime.worker.application.readiness import LEFT_OPEN, Readiness, check_readiness
from airflow_provider_connect.runtime.worker.application.task_body import run_task
from airflow_provider_connect.runtime.worker.delivery.commit_steps import StepHook, unobserved
from airflow_provider_connect.runtime.worker.task.task_payload import TaskPayload
from tests.kafka_topics import create_topic
from tests.waiting import HANG_SECONDS, wait_until

STRING = "org.apache.kafka.connect.storage.StringConverter"
PLAIN = {"key.converter": STRING, "value.converter": STRING, "header.converter": STRING}


@dataclass(slots=True)
class RunEnvironment:
    """``properties`` are the worker's, ``folder`` takes the connector's files, ``step`` surrounds the steps of commits."""

    properties: dict[str, str]
    connector: str
    folder: Path
    secrets: dict[str, str] = field(default_factory=dict)
    step: StepHook = unobserved
    runs: int = 0

    @property
    def bootstrap(self) -> str:
        return self.properties["bootstrap.servers"]

    @property
    def settings(self) -> WorkerSettings:
        return WorkerSettings.of(self.properties, self.secrets)

    @property
    def group(self) -> str:
        return consumer_group(self.connector, {}, {})

    @property
    def file(self) -> Path:
        return self.folder / f"{self.connector}.txt"

    # ── configs ──

    def file_source(self, topic: str, **more: str) -> dict[str, str]:
        return self._config("FileStreamSource", {"file": str(self.file), "topic": topic}, more)

    def file_sink(self, topic: str, **more: str) -> dict[str, str]:
        return self._config("FileStreamSink", {"file": str(self.file), "topics": topic}, more)

    def numbers(self, topics: str, **more: str) -> dict[str, str]:
        return self._config("tests.NumbersSourceConnector", {"topics.to": topics}, more)

    def transactions(self, topic: str, **more: str) -> dict[str, str]:
        return self._config("tests.TransactionsSourceConnector", {"topics.to": topic, "transaction.boundary": "connector"}, more)

    def slow_sink(self, topic: str, **more: str) -> dict[str, str]:
        return self._config("tests.SlowSinkConnector", {"file": str(self.file), "topics": topic}, more)

    def picky_sink(self, topic: str, **more: str) -> dict[str, str]:
        return self._config("tests.PickySinkConnector", {"file": str(self.file), "topics": topic}, more)

    def copy_source(self, topic: str, to: str, until: int) -> dict[str, str]:
        own = {"from": topic, "to": to, "until": str(until), "bootstrap": self.bootstrap}
        return self._config("tests.CopySourceConnector", own, {})

    def away_source(self, topic: str, **more: str) -> dict[str, str]:
        return self._config("tests.AwaySourceConnector", {"topic": topic}, more)

    def away_sink(self, topic: str, **more: str) -> dict[str, str]:
        return self._config("tests.AwaySinkConnector", {"topics": topic}, more)

    def _config(self, kind: str, own: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
        return {"name": self.connector, "connector.class": kind, **own, **{key.replace("_", "."): value for key, value in more.items()}}

    # ── runs ──

    def run(
        self,
        define: Mapping[str, str] | None = None,
        *,
        tasks: list[int] | None = None,
        claim: Claim | None = None,
        on_claim: Callable[[Claim], None] = lambda _: None,
    ) -> RunResult:
        """One run of the connector, as the driver makes it."""
        return self.application(define, tasks=tasks, claim=claim, on_claim=on_claim).run()

    def application(
        self,
        define: Mapping[str, str] | None = None,
        *,
        tasks: list[int] | None = None,
        claim: Claim | None = None,
        on_claim: Callable[[Claim], None] = lambda _: None,
        engine: Callable[[TaskPayload], TaskResult] | None = None,
        on_progress: Callable[[RunResult], None] = lambda _: None,
        on_failures: Callable[[Sequence[str]], None] = lambda _: None,
        stays_seconds: float | None = None,
        idle_seconds: float | None = None,
        leave: Leave | None = None,
    ) -> Application:
        """The driver's part; ``engine`` replaces Spark."""
        self.runs += 1
        spec = RunSpec(
            self.connector,
            self.properties,
            f"run-{self.runs}",
            tasks=tasks,
            claim=claim,
            define=define,
            secrets=self.secrets,
            stays_seconds=stays_seconds,
            idle_seconds=idle_seconds,
        )
        run = engine or partial(run_task, step=self.step)
        return Application(
            spec, lambda: run, host="127.0.0.1", on_claim=on_claim, on_progress=on_progress, on_failures=on_failures, leave=leave
        )

    def start(self, define: Mapping[str, str] | None = None) -> UnderWay:
        """A run in a thread of its own."""
        return UnderWay(self.application(define))

    def readiness(self, define: Mapping[str, str] | None = None) -> Readiness:
        """A transaction that is open for now, while the markers of its commit are under way, is waited for."""

        def settled() -> Readiness | None:
            found = check_readiness(self.settings, self.connector, define=define, secrets_of=lambda _: self.secrets)
            return None if found.reason == LEFT_OPEN else found

        readiness: Readiness = wait_until(settled, LEFT_OPEN)
        return readiness

    # ── what there is on the topics ──

    def configs(self) -> ClusterConfigState:
        with ConfigStore(self.settings) as store:
            return store.read()

    def put_config(self, config: Mapping[str, str]) -> None:
        with ConfigStore(self.settings) as store:
            store.put_connector(self.connector, config)

    def put_target_state(self, state: TargetState) -> None:
        with ConfigStore(self.settings) as store:
            store.put_target_state(self.connector, state)

    def config_log(self) -> list[LogRecord]:
        return read_topic(self.bootstrap, self.settings.config_topic)

    def status_log(self) -> list[LogRecord]:
        return read_topic(self.bootstrap, self.settings.status_topic)

    def statuses(self) -> StatusState:
        with StatusStore(self.settings) as store:
            return store.read()

    def states(self) -> dict[int, str]:
        """The state of each task, as in its status; none before the first status."""
        try:
            found = self.statuses()
        except TopicMissingException:
            return {}
        return {status.task: str(status.state) for status in found.tasks_of(self.connector)}

    def offsets(self) -> SourceOffsets:
        with OffsetStore(self.settings) as store:
            return store.read(self.connector)

    def group_offsets(self) -> dict[TopicPartition, CommittedOffset]:
        return GroupOffsets(self.settings).committed(self.group)

    def batch_log(self) -> list[BatchRecord]:
        with BatchLog(self.settings) as store:
            return store.entries(self.connector)

    def lines(self) -> list[str]:
        return self.file.read_text().splitlines() if self.file.exists() else []


class UnderWay:
    """A run that goes on while the test does something else."""

    def __init__(self, application: Application) -> None:
        self.application = application
        self._results: list[RunResult] = []
        self._thread = threading.Thread(target=lambda: self._results.append(application.run()), name="run")
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def wait(self) -> RunResult:
        self._thread.join(HANG_SECONDS)
        assert self._results, f"the run has not ended after {HANG_SECONDS:g} s"
        return self._results[0]


class Pauses:
    """Watches how long a file does not grow."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.longest = 0.0
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join()

    def _watch(self) -> None:
        size, since = self._file.stat().st_size, time.monotonic()
        while not self._enough.wait(0.01):
            now, new = time.monotonic(), self._file.stat().st_size
            if new != size:
                self.longest, size, since = max(self.longest, now - since), new, now


def make_topic(bootstrap: str, topic: str, partitions: int = 1, **configs: str) -> str:
    """Make a topic; returns its name."""
    return create_topic(bootstrap, topic, partitions, **configs)


def send(bootstrap: str, topic: str, values: Iterable[str | None], *, partitions: int = 1, first: int = 0) -> None:
    """Values to a topic, to its partitions in turn; None is a tombstone."""
    _send(bootstrap, topic, ((None, value, number % partitions) for number, value in enumerate(values, first)))


def send_until(enough: threading.Event, bootstrap: str, topic: str, sent: list[str]) -> None:
    """A record each 50 ms, without a pause in which a sink would commit what it has written. Adds what it sends to ``sent``."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "enable.idempotence": True})
    while not enough.wait(0.05):
        sent.append(str(len(sent)))
        producer.produce(topic, sent[-1].encode())
        producer.poll(0)
    assert producer.flush(HANG_SECONDS) == 0


def send_pairs(bootstrap: str, topic: str, records: Iterable[tuple[str, str | None]]) -> None:
    """Keys with values to the first partition of a topic; None is a tombstone."""
    _send(bootstrap, topic, ((key, value, 0) for key, value in records))


def _send(bootstrap: str, topic: str, records: Iterable[tuple[str | None, str | None, int]]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "enable.idempotence": True})  # in order, and once
    for key, value, partition in records:
        data, name = (None if part is None else part.encode() for part in (value, key))
        producer.produce(topic, data, name, partition)
    assert producer.flush(HANG_SECONDS) == 0


def read_topic(bootstrap: str, topic: str, *, read_committed: bool = True, start: int | None = None) -> list[LogRecord]:
    """Every record of a topic, by partition and offset; from offset ``start`` on, of a long topic of one partition."""
    with TopicReader(topic, {"bootstrap.servers": bootstrap, "group.id": "reader"}, raw, read_committed=read_committed) as log:
        if start is not None:
            log.start_at({0: start})
        records = log.read_to_end(HANG_SECONDS)
    return sorted(records, key=lambda record: (record.partition, record.offset))


def values_of(bootstrap: str, topic: str, *, start: int | None = None) -> list[str]:
    """The committed values of a topic as text; ``start`` as for ``read_topic``."""
    return [(record.value or b"").decode() for record in read_topic(bootstrap, topic, start=start)]


def commit_by_hand(bootstrap: str, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit a group's offsets as a consumer does that is none of ours."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
    try:
        asked = [ClientPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        for done in consumer.commit(offsets=asked, asynchronous=False) or []:
            assert done.error is None or done.error.code() == KafkaError.NO_ERROR
    finally:
        consumer.close()
