"""JdbcSink: records into tables of a relational database, with the settings of the well-known JDBC sinks.

Exactly once the offsets are committed with the rows, in a table of ours (``sink_offsets``). Rows are moved as whole columns.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Collection, Mapping
from typing import ClassVar, TypeVar

from airflow_provider_connect.connectors.jdbc.database_url import POSTGRESQL, DatabaseUrl, parse_url
from airflow_provider_connect.connectors.jdbc.dialect import Dialect, dialect_of
from airflow_provider_connect.connectors.jdbc.sink_check import check_database
from airflow_provider_connect.connectors.jdbc.sink_offsets import OffsetsTable
from airflow_provider_connect.connectors.jdbc.sink_postgresql import PostgresqlStore
from airflow_provider_connect.connectors.jdbc.sink_session import SinkSession
from airflow_provider_connect.connectors.jdbc.sink_settings import (
    CONFIG_DEF,
    MAX_RETRIES,
    OFFSETS_TABLE,
    PASSWORD,
    QUOTES,
    RETRY_MS,
    TIME_ZONE,
    URL,
    USER,
    SinkSettings,
    contradictions,
)
from airflow_provider_connect.connectors.jdbc.sink_sqlalchemy import RowStore
from airflow_provider_connect.connectors.jdbc.sink_store import RefusedException, SinkStore, table_name
from airflow_provider_connect.errors import ConfigException, ConnectException, RetriableException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config, ConfigValue
from airflow_provider_connect.sdk.connector import ExactlyOnceSupport, SinkConnector
from airflow_provider_connect.sdk.records import TopicPartition
from airflow_provider_connect.sdk.task import SinkTask

_Answer = TypeVar("_Answer")


def url_of(config: Config) -> DatabaseUrl:
    """Where the database is. Raises ConfigException for a URL that is none, or that could run code or read files."""
    password = config[PASSWORD]
    return parse_url(config[URL]).with_credentials(config[USER], None if password is None else password.value)


def open_store(config: Config) -> SinkStore:
    """Connect, to write."""
    url = url_of(config)
    kind = PostgresqlStore if url.dialect == POSTGRESQL else RowStore
    return kind(url, _dialect(config, url), config[TIME_ZONE])


def _dialect(config: Config, url: DatabaseUrl) -> Dialect:
    return dialect_of(url.dialect, is_quoting=config[QUOTES].lower() == "always")


class JdbcSinkTask(SinkTask):
    """Writes rows. ``put`` writes what has become enough for a statement, ``pre_commit`` the rest, and commits."""

    reads: ClassVar[frozenset[str]] = frozenset({"key"})

    def start(self, config: Config) -> None:
        context = self.context
        self._stopped = threading.Event()
        self._failures = 0
        self._most_failures: int = config[MAX_RETRIES]
        self._retry_ms: int = config[RETRY_MS]
        self._session = SinkSession(
            functools.partial(open_store, config),
            SinkSettings.of(config),
            self._report,
            offsets_table=config[OFFSETS_TABLE],
            connector=config.originals.get("name", ""),
            claim=(context.claim, context.claim_order) if context.exactly_once else None,
        )

    def open(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int] | None:
        return self._tried_again(lambda: self._session.open(partitions))

    def put(self, batch: Batch) -> None:
        try:
            self._session.put(batch)
        except RetriableException as error:
            self._count(error)
            self.context.timeout(self._retry_ms)
            raise
        if self._session.wants_commit:
            self.context.request_commit()

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        self._tried_again(lambda: self._session.commit(offsets))
        self._failures = 0
        return offsets

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.pre_commit(offsets)

    def close(self, partitions: Collection[TopicPartition]) -> None:
        self._session.close()

    def stop(self) -> None:
        """Ends what waits; the connection ends with ``close``, in the task's own thread."""
        if hasattr(self, "_stopped"):
            self._stopped.set()

    def _tried_again(self, call: Callable[[], _Answer]) -> _Answer:
        """What ``call`` answers; tried again, as often as ``max.retries`` says, where that may help."""
        while True:
            try:
                return call()
            except RetriableException as error:
                self._count(error)
                if self._stopped.wait(self._retry_ms / 1000):
                    raise

    def _count(self, error: RetriableException) -> None:
        self._failures += 1
        if self._failures > self._most_failures:
            raise ConnectException(f"Given up after {self._most_failures} tries again ({MAX_RETRIES}): {error}") from error

    def _report(self, record: Batch, error: Exception) -> None:
        """Hand over what cannot be written. Raises where nobody takes it."""
        reporter = self.context.errant_record_reporter
        if reporter is not None:
            reporter.report(record, error)
        elif isinstance(error, RefusedException):  # of an earlier batch, maybe
            raise ConnectException(str(error)) from error
        else:
            raise error


class JdbcSinkConnector(SinkConnector):
    """Takes the records of some topics into tables of a relational database, a table for each topic.

    PostgreSQL takes whole columns by COPY, staged and merged where rows are changed; SQLite, MySQL, MariaDB and others take rows. Values
    must be structs with a schema. Each task takes its share of the topics' partitions.
    """

    class_name = "io.confluent.connect.jdbc.JdbcSinkConnector"
    aliases = ("JdbcSink", "JdbcSinkConnector")
    task_class: ClassVar[type[SinkTask]] = JdbcSinkTask
    config_def = CONFIG_DEF

    def start(self, config: Config) -> None:
        super().start(config)
        SinkSettings.of(config)
        url_of(config)

    def task_configs(self, max_tasks: int) -> list[Mapping[str, str]]:
        return [self.config.originals] * max_tasks

    def validate(self, config: Mapping[str, str]) -> list[ConfigValue]:
        """Also looks at the database: may the user log in, are the tables there?"""
        values = super().validate(config)
        if any(value.errors for value in values):
            return values
        by_name = {value.name: value for value in values}
        parsed = self.config_def.parse(config)
        for name, value, reason in contradictions(parsed):
            by_name[name].errors.append(str(ConfigException.of(name, value, reason)))
        if not any(value.errors for value in values):
            try:
                self.check(config)
            except RetriableException:
                return values  # nobody answers now; a run will see
            except ConfigException as error:
                by_name.get(_key_of(error), by_name[URL]).errors.extend(error.errors)
        return values

    def check(self, config: Mapping[str, str]) -> None:
        parsed = self.config_def.parse(config)
        url = url_of(parsed)
        topics = [] if config.get("transforms") else [topic.strip() for topic in config.get("topics", "").split(",") if topic.strip()]
        check_database(url, _dialect(parsed, url), SinkSettings.of(parsed), topics)

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        return ExactlyOnceSupport.SUPPORTED

    def alter_offsets(self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Writes the offsets to the table of ours too, where they are there. A task that still writes is fenced by that."""
        parsed = self.config_def.parse(config)
        store = open_store(parsed)
        try:
            table = OffsetsTable(store, table_name(parsed[OFFSETS_TABLE], store.dialect), parsed.originals.get("name", ""))
            table.alter(offsets)
        finally:
            store.close()
        return True


def _key_of(error: ConfigException) -> str:
    """The setting that the text names: ``Invalid value … for configuration «name»: …``."""
    return error.message.partition(" for configuration ")[2].partition(":")[0]
