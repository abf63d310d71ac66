"""Connectors made for these tests: they fail, wait or lie when their config asks for it. Installed as a distribution with entry points."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.errors import ConnectException, DataException, RetriableException
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
    Transformation,
    Type,
)

log = logging.getLogger(__name__)
DISTRIBUTION = "connect_test_plugins"
ENTRY_POINTS = """\
[airflow_provider_connect.plugins]
source:tests.NumbersSourceConnector = tests.integration.worker.plugins:NumbersSourceConnector
source:tests.TransactionsSourceConnector = tests.integration.worker.plugins:TransactionsSourceConnector
source:tests.SpySourceConnector = tests.integration.worker.plugins:SpySourceConnector
sink:tests.SlowSinkConnector = tests.integration.worker.plugins:SlowSinkConnector
sink:tests.PickySinkConnector = tests.integration.worker.plugins:PickySinkConnector
source:tests.CopySourceConnector = tests.integration.worker.plugins:CopySourceConnector
source:tests.AwaySourceConnector = tests.integration.worker.plugins:AwaySourceConnector
sink:tests.AwaySinkConnector = tests.integration.worker.plugins:AwaySinkConnector
transformation:tests.Fragile = tests.integration.worker.plugins:Fragile
"""


def install(folder: Path) -> None:
    """Make ``folder`` one that, on ``sys.path``, brings these plugins as version 1.2.3."""
    metadata = folder / f"{DISTRIBUTION}-1.2.3.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {DISTRIBUTION}\nVersion: 1.2.3\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)


class SpyTask(SourceTask):
    """One record: the word of the config, and all that the process finds in its environment."""

    def start(self, config: Config) -> None:
        self.left = [f"{config['word']}: {dict(os.environ)}"]

    def poll(self) -> Batch | None:
        found, self.left = self.left, []
        return Batch.of("spied", value=pa.array(found)) if found else None

    def stop(self) -> None:
        """Nothing is open."""


class SpySourceConnector(SourceConnector):
    task_class = SpyTask
    config_def = ConfigDef(ConfigKey("word", Type.STRING))

    def task_configs(self, max_tasks: int) -> list[Mapping[str, str]]:
        return [self.config.originals]


class CopyTask(SourceTask):
    """The records of partition 0 of a topic up to the offset ``until``, byte for byte."""

    def start(self, config: Config) -> None:
        self.topic, self.partition = config["to"], {"topic": config["from"]}
        begin = self.context.offset(self.partition, {"next": 0})["next"]
        ranges = {TopicPartition(config["from"], 0): (begin, config["until"])}
        self.reader = self.context.read_ranges({"bootstrap.servers": config["bootstrap"], "group.id": "copy"}, ranges)

    def poll(self) -> list[Batch] | None:
        if self.reader.exhausted:
            return None
        read = self.reader.read(1.0)
        return [
            Batch(
                self.topic,
                batch.value,
                batch.key,
                batch.value_schema,
                batch.key_schema,
                source_partition=self.partition,
                source_offset={"next": batch.next_offset},
            )
            for batch in read
        ]

    def stop(self) -> None:
        self.reader.close()


class CopySourceConnector(SourceConnector):
    task_class = CopyTask
    default_settings = dict.fromkeys(("key.converter", "value.converter"), "org.apache.kafka.connect.converters.ByteArrayConverter")
    config_def = ConfigDef(
        *(ConfigKey(name, Type.STRING) for name in ("from", "to", "bootstrap")), ConfigKey("until", Type.LONG, doc="An end offset.")
    )

    def task_configs(self, max_tasks: int) -> list[Mapping[str, str]]:
        if reason := self.refusal_of_topic(self.config["from"]):
            raise ConnectException(reason)
        return [self.config.originals]


class NumbersTask(SourceTask):
    """Numbers as text, ``size`` a poll, to each of ``topics`` in turn; each task has a source partition of its own."""

    def start(self, config: Config) -> None:
        self.config, self.number = config, int(config.originals["task"])
        self.partition = {"task": self.number}
        self.next: int = self.context.offset(self.partition, {"next": 0})["next"]
        self.topics = str(config["topics.to"]).split(",")
        log.debug("task %d starts at %d", self.number, self.next)
        log.info("task %d reads %d numbers", self.number, self.config["until"])

    def poll(self) -> Batch | None:
        if str(self.number) in str(self.config["fail.tasks"]).split(",") and not Path(self.config["unless"]).exists():
            raise ConnectException(f"task {self.number} cannot go on: {self.config['password']}")
        if self.next >= self.config["until"]:
            return None
        time.sleep(self.config["poll.ms"] / 1000)
        first, self.next = self.next, min(self.next + self.config["size"], self.config["until"])
        log.debug("task %d polls at %d", self.number, first)
        values = [f"{self.number}-{number}" for number in range(first, self.next)]
        topic = self.topics[first // self.config["size"] % len(self.topics)]
        return Batch.of(topic, value=pa.array(values), source_partition=self.partition, source_offset={"next": self.next})

    def commit(self) -> None:
        if self.config["fail.commit"] == "true":
            raise ConnectException(f"commit cannot be done: {self.config['password']}")

    def stop(self) -> None:
        pass


class NumbersSourceConnector(SourceConnector):
    """Has ``tasks`` tasks whatever ``tasks.max`` is."""

    config_def = ConfigDef(
        ConfigKey("topics.to", Type.STRING),
        ConfigKey("until", Type.INT, 1000),
        ConfigKey("size", Type.INT, 100),
        ConfigKey("poll.ms", Type.INT, 0),
        ConfigKey("tasks", Type.INT, 1),
        ConfigKey("fail.tasks", Type.STRING, ""),
        ConfigKey("unless", Type.STRING, "/nowhere"),
        ConfigKey("fail.start", Type.STRING, ""),
        ConfigKey("hang.seconds", Type.INT, 0),
        ConfigKey("fail.commit", Type.STRING, ""),
        ConfigKey("password", Type.STRING, ""),
    )
    task_class = NumbersTask

    def start(self, config: Config) -> None:
        super().start(config)
        time.sleep(config["hang.seconds"])
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
    """Appends values to a file, ``put.ms`` a batch. The first put creates the file ``asks`` and goes on when the file ``gate`` is there."""

    def start(self, config: Config) -> None:
        self.config, self.has_passed = config, False
        self.file = Path(config["file"]).open("ab")  # noqa: SIM115  (closed by stop)

    def open(self, partitions: Collection[TopicPartition]) -> None:
        return None

    def put(self, batch: Batch) -> None:
        if self.config["gate"] and not self.has_passed:
            Path(self.config["asks"]).touch()
            while not Path(self.config["gate"]).exists():
                time.sleep(0.02)
        else:
            time.sleep(self.config["put.ms"] / 1000)
        self.has_passed = True
        if self.config["fail.put"] == "retriable":
            raise RetriableException("the destination is busy")
        if self.config["fail.put"] == "true":
            raise ConnectException(f"writing is refused: {self.config['password']}")
        assert batch.value is not None
        self.file.write(b"".join(str(value).encode() + b"\n" for value in batch.value.to_pylist()))

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.file.flush()

    def stop(self) -> None:
        self.file.close()


class SlowSinkConnector(SinkConnector):
    config_def = ConfigDef(
        ConfigKey("file", Type.STRING),
        ConfigKey("put.ms", Type.INT, 0),
        ConfigKey("gate", Type.STRING, ""),
        ConfigKey("asks", Type.STRING, ""),
        ConfigKey("fail.put", Type.STRING, ""),
        ConfigKey("password", Type.STRING, ""),
    )
    task_class = SlowSinkTask

    def task_configs(self, max_tasks: int) -> list[Mapping[str, str]]:
        return [self.config.originals] * max_tasks


class PickySinkTask(SinkTask):
    """Appends values to a file when it commits, but for those that hold the word ``bad``. ``refuse`` names how these are refused: ``raise``
    in put, ``report`` in put, ``late``: report when it commits. A value that holds ``broken`` breaks the task unless ``unless`` exists."""

    def start(self, config: Config) -> None:
        self.config = config
        self.waiting: list[Batch] = []

    def put(self, batch: Batch) -> None:
        if batch.value is None:
            return
        if pc.any(pc.match_substring(batch.value, "broken")).as_py() and not Path(self.config["unless"]).exists():
            raise ConnectException("the destination is gone")
        bad = pc.match_substring(batch.value, "bad")
        if self.config["refuse"] == "late" or not pc.any(bad).as_py():
            self.waiting.append(batch)
            return
        error = DataException("bad is not wanted here")
        if self.config["refuse"] == "raise":
            raise error
        assert self.context.errant_record_reporter is not None
        self.context.errant_record_reporter.report(batch.filter(bad), error)
        self.waiting.append(batch.filter(pc.invert(bad)))

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        with Path(self.config["file"]).open("a") as file:
            for batch in self.waiting:
                for record in batch.sink_records():
                    if "bad" in record.value:
                        assert self.context.errant_record_reporter is not None
                        self.context.errant_record_reporter.report(record, DataException("bad is not wanted here"))
                    else:
                        file.write(f"{record.value}\n")
        self.waiting.clear()
        return offsets

    def stop(self) -> None:
        self.waiting.clear()


class PickySinkConnector(SinkConnector):
    config_def = ConfigDef(
        ConfigKey("file", Type.STRING), ConfigKey("refuse", Type.STRING, "report"), ConfigKey("unless", Type.STRING, "/nowhere")
    )
    task_class = PickySinkTask

    def task_configs(self, max_tasks: int) -> list[Mapping[str, str]]:
        return [self.config.originals] * max_tasks


def answer(config: Mapping[str, object], call: str) -> None:
    """Raise RetriableException in the ``call`` that the config names."""
    if config["away.in"] == call:
        raise RetriableException(f"the service is away in {call}")


class AwayRecommender:
    def valid_values(self, name: str, parsed: Mapping[str, object]) -> list[object]:
        answer(parsed, "recommender")
        return []

    def visible(self, name: str, parsed: Mapping[str, object]) -> bool:
        return True


AWAY = ConfigDef(ConfigKey("away.in", Type.STRING, "", recommender=AwayRecommender()))


class AwaySourceTask(SourceTask):
    """One record in each run; the call that the config names raises RetriableException."""

    def start(self, config: Config) -> None:
        self.config, self.left = config, ["one"]
        answer(config, "start")

    def poll(self) -> Batch | None:
        answer(self.config, "poll")
        found, self.left = self.left, []
        if not found:
            return None
        topic, value = self.config.originals["topic"], pa.array(found)
        return Batch.of(topic, value=value, source_partition={"only": "one"}, source_offset={"read": 1})

    def commit(self) -> None:
        answer(self.config, "commit")

    def stop(self) -> None:
        answer(self.config, "stop")


class AwaySourceConnector(SourceConnector):
    task_class = AwaySourceTask
    config_def = AWAY

    def start(self, config: Config) -> None:
        super().start(config)
        answer(config, "connector.start")

    def task_configs(self, max_tasks: int) -> list[Mapping[str, str]]:
        answer(self.config, "task_configs")
        return [self.config.originals]


class AwaySinkTask(SinkTask):
    """Takes everything; the call that the config names raises RetriableException."""

    def start(self, config: Config) -> None:
        self.config = config
        answer(config, "start")

    def open(self, partitions: Collection[TopicPartition]) -> None:
        answer(self.config, "open")

    def put(self, batch: Batch) -> None:
        answer(self.config, "put")

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        answer(self.config, "pre_commit")
        return super().pre_commit(offsets)

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        answer(self.config, "flush")

    def close(self, partitions: Collection[TopicPartition]) -> None:
        answer(self.config, "close")

    def stop(self) -> None:
        answer(self.config, "stop")


class AwaySinkConnector(SinkConnector):
    task_class = AwaySinkTask
    config_def = AWAY

    def task_configs(self, max_tasks: int) -> list[Mapping[str, str]]:
        return [self.config.originals]


class Fragile(Transformation):
    """Cannot stand values that hold the word ``poison``: they are an error, or one that may pass until the file ``unless`` exists. The
    second try makes that file if ``fix`` is set."""

    config_def = ConfigDef(
        ConfigKey("retriable", Type.BOOLEAN, False), ConfigKey("unless", Type.STRING, "/nowhere"), ConfigKey("fix", Type.BOOLEAN, False)
    )

    def configure(self, config: Config) -> None:
        self.config = config
        self.tries = 0

    def apply_batch(self, batch: Batch) -> Batch:
        if batch.value is None or Path(self.config["unless"]).exists() or not pc.any(pc.match_substring(batch.value, "poison")).as_py():
            return batch
        self.tries += batch.num_records == 1
        if self.config["fix"] and self.tries == 2:
            Path(self.config["unless"]).touch()
        if self.config["retriable"]:
            raise RetriableException("poison may be harmless later")
        raise ValueError("poison")
