"""A sink's task on a real database, without Kafka: batches go in, rows are read back."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider_connect.connectors.jdbc.database.database import open_database
from airflow_provider_connect.connectors.jdbc.database.database_url import parse_url
from airflow_provider_connect.connectors.jdbc.sink.connector import JdbcSinkConnector, JdbcSinkTask, open_store
from airflow_provider_connect.connectors.jdbc.sink.store import SinkStore
from airflow_provider_connect.data.columns import column_of
from airflow_provider_connect.data.records import SinkRecord, TopicPartition
from airflow_provider_connect.data.schema import INT64_SCHEMA, STRING_SCHEMA, Schema
from airflow_provider_connect.runtime.worker.errors.failures import PUT, ConsumedRecord, Failure
from airflow_provider_connect.runtime.worker.errors.sink_transaction import SinkTransaction
from airflow_provider_connect.runtime.worker.errors.tolerance import STRICT, Tolerance
from airflow_provider_connect.sdk.allowed_paths import ALL_ALLOWED
from airflow_provider_connect.sdk.batch import Batch, KafkaBatch
from airflow_provider_connect.sdk.testing.contexts import MemorySinkContext
from tests.reaching import reaching

NOTE = Schema.struct({"id": INT64_SCHEMA, "text": STRING_SCHEMA.as_optional()})
KEY = Schema.struct({"id": INT64_SCHEMA})
UPSERT = {"insert.mode": "upsert", "pk.mode": "record_key", "auto.create": "true"}


class Reported:
    """An errant-record reporter that remembers."""

    def __init__(self) -> None:
        self.errors: dict[int, str] = {}

    def report(self, records: SinkRecord | Batch, error: Exception) -> None:
        for offset in records.kafka_offsets.to_pylist() if isinstance(records, Batch) else [records.kafka_offset]:
            assert offset not in self.errors, "reported twice"
            self.errors[offset] = str(error)

    def report_all(self, failures: Iterable[tuple[SinkRecord | Batch, Exception]]) -> None:
        for records, error in failures:
            self.report(records, error)


class SinkContext(MemorySinkContext):
    """As the framework's own, which its transaction asks how long to wait."""

    def take_retry_ms(self) -> int | None:
        return self.timeouts_ms.pop() if self.timeouts_ms else None


def refuse_all(tolerance: Tolerance, failures: Iterable[tuple[SinkRecord | Batch, Exception]]) -> None:
    """A report that tolerates no record."""
    for records, error in failures:
        assert isinstance(records, Batch)
        tolerance.failed(Failure(PUT, error, ConsumedRecord(*records.topic_partition, int(records.kafka_offsets[0].as_py()))))


@dataclass(slots=True)
class TargetDatabase:
    """A database, or a schema of one, that belongs to one test alone."""

    url: str
    dialect: str

    @property
    def schema(self) -> str | None:
        """The schema that connections start in, where the URL names one."""
        return parse_url(self.url).schema

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with closing(open_database(parse_url(self.url).within(ALL_ALLOWED))) as database:
            return database.rows(sql)

    def run(self, *statements: str) -> None:
        with closing(open_database(parse_url(self.url).within(ALL_ALLOWED))) as database:
            for statement in statements:
                database.execute(statement)


def opened(target: TargetDatabase) -> SinkStore:
    """A connection as sinks have it."""
    return open_store(JdbcSinkConnector.config_def.parse({"connection.url": target.url}), ALL_ALLOWED)


@dataclass(slots=True)
class Sink:
    """A task of JdbcSink behind the framework's transaction, started and open for partition 0 of ``topics``. Records
    get their offsets one after the other."""

    target: TargetDatabase
    settings: dict[str, str]
    topics: tuple[str, ...] = ("notes",)
    claim_epoch: int = 1
    exactly_once: bool = True
    guarantee: str | None = None
    reported: Reported | None = None
    topic_ids: Mapping[str, str] | None = None
    offsets: dict[str, int] = field(default_factory=dict)
    task: SinkTransaction = field(init=False)
    context: SinkContext = field(init=False)

    def __post_init__(self) -> None:
        config = {
            "name": "sink",
            "connection.url": self.target.url,
            "topics": ",".join(self.topics),
            "retry.backoff.ms": "50",
            **self.settings,
        }
        partitions = [TopicPartition(topic, 0) for topic in self.topics]
        task = reaching(JdbcSinkTask())
        self.context = SinkContext(
            config,
            partitions,
            claim_epoch=self.claim_epoch,
            exactly_once=self.exactly_once,
            guarantee=self.guarantee,
            topic_ids=self.topic_ids,
        )
        task.initialize(self.context)
        task.start(JdbcSinkConnector.task_config(config))
        tolerance = Tolerance(replace(STRICT, tolerates_all=self.reported is not None))
        report = self.reported.report_all if self.reported is not None else functools.partial(refuse_all, tolerance)
        self.task = SinkTransaction(task, self.context, tolerance, report)
        for partition, offset in (self.task.open(partitions) or {}).items():
            self.offsets[partition.topic] = offset

    def put(
        self,
        values: Sequence[Any],
        schema: Schema | None = NOTE,
        *,
        keys: Sequence[Any] | None = None,
        key_schema: Schema | None = KEY,
        topic: str = "notes",
    ) -> None:
        """Values of ``schema``, as mappings; None is a record without a value."""
        first = self.offsets.get(topic, 0)
        is_empty = all(value is None for value in values)
        self.task.put(
            KafkaBatch(
                topic,
                value=None if is_empty else column_of(values, schema.as_optional() if schema is not None else None),
                value_schema=None if is_empty else schema,
                key=None if keys is None else column_of(keys, key_schema),
                key_schema=None if keys is None else key_schema,
                kafka_partition=0,
                first_offset=first,
                next_offset=first + len(values),
            )
        )
        self.offsets[topic] = first + len(values)

    def put_notes(self, *notes: tuple[int, str | None]) -> None:
        """Notes by their id, which is their key as well."""
        self.put([{"id": id, "text": text} for id, text in notes], keys=[{"id": id} for id, _ in notes])

    def put_deletes(self, *ids: int) -> None:
        self.put([None] * len(ids), keys=[{"id": id} for id in ids])

    def commit(self) -> None:
        offsets = {TopicPartition(topic, 0): offset for topic, offset in self.offsets.items()}
        assert self.task.pre_commit(offsets) == offsets

    def end(self) -> None:
        self.task.close([])
        self.task.stop()

    def notes(self) -> list[tuple[Any, ...]]:
        return self.target.rows("SELECT id, text FROM notes ORDER BY id, text")
