"""JdbcSink: writes records to tables of a relational database. Has the settings of the well-known JDBC sinks.

With exactly once, offsets are committed with the rows, in a table of our own (``offsets.table``). Rows are converted as whole columns.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import ClassVar

from airflow_provider_connect.connectors.jdbc.catalog.column import Column, TableName
from airflow_provider_connect.connectors.jdbc.database.database import add_driver_errors, open_database, read_columns, require_driver
from airflow_provider_connect.connectors.jdbc.database.database_files import add_path_errors
from airflow_provider_connect.connectors.jdbc.database.database_url import DatabaseUrl, parse_url
from airflow_provider_connect.connectors.jdbc.database.datasets import table_dataset
from airflow_provider_connect.connectors.jdbc.dialects.dialect import Dialect
from airflow_provider_connect.connectors.jdbc.sink.offsets import OffsetsTable
from airflow_provider_connect.connectors.jdbc.sink.postgresql_store import PostgresqlStore
from airflow_provider_connect.connectors.jdbc.sink.rounded_numbers import RoundedNumbers
from airflow_provider_connect.connectors.jdbc.sink.session import SinkSession
from airflow_provider_connect.connectors.jdbc.sink.settings import (
    AUTO_CREATE,
    AUTO_EVOLVE,
    CONFIG_DEF,
    FIELDS,
    KAFKA_FIELDS,
    MAX_RETRIES,
    OFFSETS_TABLE,
    PASSWORD,
    PK_FIELDS,
    PK_MODE,
    QUOTES,
    RETRY_MS,
    TABLE_FORMAT,
    TIME_ZONE,
    URL,
    USER,
    InsertMode,
    PkMode,
    SinkSettings,
    contradictions,
)
from airflow_provider_connect.connectors.jdbc.sink.sqlalchemy_store import RowStore
from airflow_provider_connect.connectors.jdbc.sink.store import SinkStore, table_name
from airflow_provider_connect.connectors.jdbc.sink.target import TargetTable
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import ConfigException, RetriableException
from airflow_provider_connect.sdk.allowed_paths import AllowedPaths
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config, ConfigValue, add_errors
from airflow_provider_connect.sdk.datasets import Dataset
from airflow_provider_connect.sdk.offset_row import OffsetRow
from airflow_provider_connect.sdk.task import Refusal, SinkTask
from airflow_provider_connect.sdk.transactional_sink import TransactionalSink, TransactionalSinkTask


def database_url(config: Config, allowed: AllowedPaths) -> DatabaseUrl:
    """The database's URL, limited to the local files that the connector may open. Raises ConfigException for a malformed URL, and for a URL
    that could run code or read files."""
    password = config[PASSWORD]
    url = parse_url(config[URL]).with_credentials(config[USER], None if password is None else password.value)
    return url.within(allowed)


def write_dialect(config: Config, url: DatabaseUrl) -> Dialect:
    return replace(url.dialect, is_quoting=config[QUOTES].lower() == "always")


def open_store(config: Config, allowed: AllowedPaths) -> SinkStore:
    """Connect to the database for writing."""
    url = database_url(config, allowed)
    require_driver(url)
    kind = PostgresqlStore if url.dialect.has_copy else RowStore
    return kind(url, write_dialect(config, url), config[TIME_ZONE])


class JdbcSinkTask(TransactionalSinkTask):
    """Writes rows. ``put`` writes as soon as there are enough records for a statement. ``pre_commit`` writes the rest and commits."""

    required_columns: ClassVar[frozenset[str]] = frozenset({"key"})
    allows_mixed_nulls = True

    def put(self, batch: Batch) -> None:
        if batch.num_records:
            self._run(lambda: self._sink.write(self._begun(), batch))
            if self._connection.blocks_writers:
                self.context.request_commit()

    def put_accepted(self, batch: Batch) -> list[Refusal] | None:
        def write() -> list[Refusal] | None:
            session: SinkSession = self._begun()
            return session.put_accepted(batch)

        return self._run(write)


class JdbcSinkConnector(TransactionalSink):
    """Writes the records of topics to tables of a relational database, one table for each topic.

    PostgreSQL receives whole columns with COPY. If existing rows are changed, the columns are staged and merged. SQLite, MySQL, MariaDB and
    others receive rows. Values must be structs with a schema. Each task writes its share of the topics' partitions.
    """

    class_name = "io.confluent.connect.jdbc.JdbcSinkConnector"
    aliases = ("JdbcSink", "JdbcSinkConnector", "io.aiven.connect.jdbc.JdbcSinkConnector")
    task_class: ClassVar[type[SinkTask]] = JdbcSinkTask
    retries_setting = MAX_RETRIES
    stores_offsets_separately = True
    config_def = CONFIG_DEF
    _written: Mapping[TableName, TargetTable] = MappingProxyType({})  # with commits, over all connections of a task

    def start(self, config: Config) -> None:
        super().start(config)
        SinkSettings.of(config)
        database_url(config, self.allowed_paths)

    def validate(self, config: Mapping[str, str]) -> list[ConfigValue]:
        """Also checks for contradictory settings. Does not connect, because the validating process may be unable to reach the database."""
        values = super().validate(config)
        add_path_errors(values, self.allowed_paths)
        add_driver_errors(values)
        if not any(value.errors for value in values):
            add_errors(values, (ConfigException.of(*each) for each in contradictions(self.config_def.parse(config))))
        return values

    def check(self, config: Mapping[str, str]) -> None:
        parsed = self.config_def.parse(config)
        url = database_url(parsed, self.allowed_paths)
        topics = [] if config.get("transforms") else [topic.strip() for topic in config.get("topics", "").split(",") if topic.strip()]
        check_database(url, write_dialect(parsed, url), SinkSettings.of(parsed), topics)

    # The destination of a TransactionalSink

    @property
    def max_retries(self) -> int:  # type: ignore[override]  # from the config
        return int(self.config[MAX_RETRIES])

    def open(self) -> SinkSession:
        store = open_store(self.config, self.allowed_paths)
        offsets_table = table_name(self.config[OFFSETS_TABLE], store.url, store.dialect, OFFSETS_TABLE)
        self._offsets = OffsetsTable(store, offsets_table, self.config.originals.get("name", ""))
        return SinkSession(store, SinkSettings.of(self.config), self.check_claims, self.rounded)

    @functools.cached_property
    def rounded(self) -> RoundedNumbers:
        """The numbers that columns have rounded. All connections of a task share it."""
        return RoundedNumbers(self.config.originals.get("name", ""))

    def lost_values(self) -> int:
        return self.rounded.values

    def write(self, transaction: SinkSession, batch: Batch) -> None:
        """Write with the task's ``put``. The transaction lasts until the commit."""
        transaction.put(batch)

    def flush(self, transaction: SinkSession) -> None:
        transaction.flush()

    def commit(self, connection: SinkSession) -> None:
        connection.commit()
        self._written = {**self._written, **{table.name: table for table in connection.tables}}

    def datasets(self) -> Iterable[Dataset]:
        url = database_url(self.config, self.allowed_paths)
        return [table_dataset(url, table.name, table.columns.values()) for table in self._written.values()]

    def close(self, connection: SinkSession) -> None:
        connection.store.close()

    def create_offsets(self, connection: SinkSession) -> None:
        connection.store.needs_transactions = True
        self._offsets.create()

    def end_older_sessions(self, connection: SinkSession, connector: str, partitions: Collection[TopicPartition], claim: OffsetRow) -> None:
        self._offsets.end_older_sessions(partitions, claim)

    def read_offsets(
        self, transaction: SinkSession, connector: str, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, OffsetRow]:
        transaction.begin()
        return self._offsets.read(partitions)

    def write_offsets(self, transaction: SinkSession, connector: str, rows: Mapping[TopicPartition, OffsetRow | None]) -> None:
        self._offsets.write(rows)

    def check_new_topic(self, partition: TopicPartition, former: OffsetRow) -> None:
        """With ``pk.mode=kafka``, a row's key is the record's position in Kafka. Records of the former topic had the same positions.
        Offsets that an admin has altered are accepted."""
        settings = SinkSettings.of(self.config)
        if settings.pk_mode is PkMode.KAFKA and settings.insert_mode is not InsertMode.INSERT and not former.is_altered:
            reason = (
                f"{partition} was another topic (id {former.topic_id}; it was created anew), whose rows have the same positions: records "
                f"would replace them. Set {TABLE_FORMAT} to another table, or delete those rows; then reset the connector's offsets"
            )
            raise ConfigException.of(PK_MODE, settings.pk_mode, reason)

    def translate_error(self, error: Exception) -> Exception:
        """The error with the delay ``retry.backoff.ms``, after which a lost connection is reopened."""
        if isinstance(error, RetriableException) and error.retry_after_ms is None:
            error.retry_after_ms = self.config[RETRY_MS]
        return error


def check_database(url: DatabaseUrl, dialect: Dialect, settings: SinkSettings, topics: list[str]) -> None:
    """Raise ConfigException, which names the setting and the fix, if a run could not write. ``topics`` are the topics whose tables are
    checked. It is empty if transformations may rename topics."""
    with contextlib.closing(open_database(url)) as database:
        for topic in topics:
            name = table_name(settings.table_of(topic), url, dialect)
            columns = {column.name: column for column in read_columns(database, url, name)}
            if columns:
                _refuse_missing(name, columns, settings, dialect)
            elif not settings.auto_create:
                reason = f"There is no table {name} for topic {topic}. Create it, or set {AUTO_CREATE} to true."
                raise ConfigException.of(AUTO_CREATE, "false", reason)


def _refuse_missing(name: TableName, columns: dict[str, Column], settings: SinkSettings, dialect: Dialect) -> None:
    known = set(map(dialect.folded, columns))

    def is_missing(field: str) -> bool:
        return dialect.folded(dialect.stored_name(field)) not in known

    keys = settings.pk_fields or (KAFKA_FIELDS if settings.pk_mode is PkMode.KAFKA else ())
    for field in keys if settings.pk_mode is not PkMode.NONE else ():
        if is_missing(field):
            reason = f"Table {name} has no column {field}. It has: {', '.join(columns)}."
            raise ConfigException.of(PK_FIELDS, ",".join(keys), reason)
    for field in sorted(settings.fields) if not settings.auto_evolve else ():
        if is_missing(field):
            reason = f"Table {name} has no column {field}. Add it, take it out, or set {AUTO_EVOLVE} to true."
            raise ConfigException.of(FIELDS, ",".join(sorted(settings.fields)), reason)
