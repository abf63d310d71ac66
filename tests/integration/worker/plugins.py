"""Connectors made for these tests: they fail, wait or lie when their config says so. Installed as a distribution with entry points."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from pathlib import Path

from airflow_provider_connect.errors import ConnectException, RetriableException
from airflow_provider_connect.sdk import (
    Batch,
    Config,
    ConfigDef,
    ConfigKey,
    ExactlyOnceSupport,
    SinkConnector,
    SinkTask,
    SourceConnector,
    SourceTask,
    TopicPartition,
    Type,
)
from airflow_provider_connect.sdk.arrow import pa

DISTRIBUTION = "connect_test_plugins"
ENTRY_POINTS = """\
[airflow_provider_connect.plugins]
source:tests.NumbersSourceConnector = tests.integration.worker.plugins:NumbersSourceConnector
source:tests.TransactionsSourceConnector = tests.integration.worker.plugins:TransactionsSourceConnector
sink:tests.SlowSinkConnector = tests.integration.worker.plugins:SlowSinkConnector
"""


def install(folder: Path) -> None:
    """Make ``folder`` one that, on ``sys.path``, brings these plugins as version 1.2.3."""
    metadata = folder / f"{DISTRIBUTION}-1.2.3.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {DISTRIBUTION}\nVersion: 1.2.3\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)


class NumbersTask(SourceTask):
    """Numbers as text, ``size`` a poll, to each of ``topics`` in turn; each task has a source partition of its own."""

    def start(self, config: Config) -> None:
        self.config, self.number = config, int(config.originals["task"])
        self.partition = {"task": self.number}
        self.next: int = self.context.offset(self.partition, {"next": 0})["next"]
        self.topics = str(config["topics.to"]).split(",")

    def poll(self) -> Batch | None:
        if str(self.number) in str(self.config["fail.tasks"]).split(",") and not Path(self.config["unless"]).exists():
            raise ConnectException(f"task {self.number} cannot go on: {self.config['password']}")
        if self.next >= self.config["until"]:
            return None
        time.sleep(self.config["poll.ms"] / 1000)
        first, self.next = self.next, min(self.next + self.config["size"], self.config["until"])
        values = [f"{self.number}-{number}" for number in range(first, self.next)]
        topic = self.topics[first // self.config["size"] % len(self.topics)]
        return Batch.of(topic, value=pa.array(values), source_partition=self.partition, source_offset={"next": self.next})

    def commit(self) -> None:
        if self.config["fail.commit"] == "true":
            raise ConnectException(f"commit cannot be done: {self.config['password']}")

    def stop(self) -> None:
        pass


class NumbersSourceConnector(SourceConnector):
    """Has ``tasks`` tasks whatever ``tasks.max`` says."""

    config_def = ConfigDef(
        ConfigKey("topics.to", Type.STRING),
        ConfigKey("until", Type.INT, 1000),
        ConfigKey("size", Type.INT, 100),
        ConfigKey("poll.ms", Type.INT, 0),
        ConfigKey("tasks", Type.INT, 1),
        ConfigKey("fail.tasks", Type.STRING, ""),
        ConfigKey("unless", Type.STRING, "/nowhere"),
        ConfigKey("fail.start", Type.STRING, ""),
        ConfigKey("fail.commit", Type.STRING, ""),
        ConfigKey("password", Type.STRING, ""),
    )
    task_class = NumbersTask

    def start(self, config: Config) -> None:
        super().start(config)
        if config["fail.start"] == "true":
            raise ConnectException(f"login refused for password {config['password']}")

    def task_configs(self, max_tasks: int) -> list[Mapping[str, str]]:
        return [{**self.config.originals, "task": str(number)} for number in range(self.config["tasks"])]

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        return ExactlyOnceSupport.SUPPORTED


class TransactionsTask(NumbersTask):
    """The same numbers, with an offset for each; its transactions end behind the numbers in ``commit.after`` and ``abort.after``."""

    def poll(self) -> Batch | None:
        first = self.next
        batch = super().poll()
        if batch is None:
            return None
        numbers = range(first, self.next)
        batch.source_offsets = [{"next": number + 1} for number in numbers]
        transactions = self.context.transaction_context
        for end, act in (("commit.after", "commit_transaction"), ("abort.after", "abort_transaction")):
            for number in map(int, self.config[end]):
                if number in numbers and transactions is not None:
                    getattr(transactions, act)(number - first)
        return batch


class TransactionsSourceConnector(NumbersSourceConnector):
    config_def = NumbersSourceConnector.config_def.with_keys(
        ConfigKey("commit.after", Type.LIST, ""), ConfigKey("abort.after", Type.LIST, "")
    )
    task_class = TransactionsTask

    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> bool:
        return True


class SlowSinkTask(SinkTask):
    """Appends values to a file, ``put.ms`` a batch."""

    def start(self, config: Config) -> None:
        self.config = config
        self.file = Path(config["file"]).open("ab")  # noqa: SIM115  (closed by stop)

    def open(self, partitions: Collection[TopicPartition]) -> None:
        return None

    def put(self, batch: Batch) -> None:
        time.sleep(self.config["put.ms"] / 1000)
        if self.config["fail.put"] == "retriable":
            raise RetriableException("the destination is busy")
        if self.config["fail.put"] == "true":
            raise ConnectException(f"writing is refused: {self.config['password']}")
        self.file.write(b"".join(str(value).encode() + b"\n" for value in batch.value.to_pylist()))

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.file.flush()

    def stop(self) -> None:
        self.file.close()


class SlowSinkConnector(SinkConnector):
    config_def = ConfigDef(
        ConfigKey("file", Type.STRING),
        ConfigKey("put.ms", Type.INT, 0),
        ConfigKey("fail.put", Type.STRING, ""),
        ConfigKey("password", Type.STRING, ""),
    )
    task_class = SlowSinkTask

    def task_configs(self, max_tasks: int) -> list[Mapping[str, str]]:
        return [self.config.originals] * max_tasks
