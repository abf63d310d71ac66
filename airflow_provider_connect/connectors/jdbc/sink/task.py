"""The task of JdbcSink, and the database that its config names."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from typing import ClassVar, TypeVar

from airflow_provider_connect.connectors.jdbc.database.database import require_driver
from airflow_provider_connect.connectors.jdbc.database.database_url import POSTGRESQL, DatabaseUrl, parse_url
from airflow_provider_connect.connectors.jdbc.database.dialect import Dialect, dialect_of
from airflow_provider_connect.connectors.jdbc.sink.postgresql_store import PostgresqlStore
from airflow_provider_connect.connectors.jdbc.sink.session import SinkSession
from airflow_provider_connect.connectors.jdbc.sink.settings import (
    MAX_RETRIES,
    OFFSETS_TABLE,
    PASSWORD,
    QUOTES,
    RETRY_MS,
    TIME_ZONE,
    URL,
    USER,
    SinkSettings,
)
from airflow_provider_connect.connectors.jdbc.sink.sqlalchemy_store import RowStore
from airflow_provider_connect.connectors.jdbc.sink.store import SinkStore
from airflow_provider_connect.errors import ConnectException, RetriableException
from airflow_provider_connect.sdk.allowed_paths import AllowedPaths
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config
from airflow_provider_connect.sdk.records import TopicPartition
from airflow_provider_connect.sdk.task import Refusal, RolledBackException, SinkTask, WentBack

_Result = TypeVar("_Result")


def url_of(config: Config, allowed: AllowedPaths) -> DatabaseUrl:
    """Where the database is, for a connector that may reach these files of the host. Raises ConfigException for a URL that is malformed, or
    that could run code or read files."""
    password = config[PASSWORD]
    url = parse_url(config[URL]).with_credentials(config[USER], None if password is None else password.value)
    return url.within(allowed)


def write_dialect(config: Config, url: DatabaseUrl) -> Dialect:
    return dialect_of(url.dialect, is_quoting=config[QUOTES].lower() == "always")


def open_store(config: Config, allowed: AllowedPaths) -> SinkStore:
    """Connect, to write."""
    url = url_of(config, allowed)
    require_driver(url)
    kind = PostgresqlStore if url.dialect == POSTGRESQL else RowStore
    return kind(url, write_dialect(config, url), config[TIME_ZONE])


class JdbcSinkTask(SinkTask):
    """Writes rows. ``put`` writes once enough has come for a statement, ``pre_commit`` writes the rest and commits."""

    required_columns: ClassVar[frozenset[str]] = frozenset({"key"})
    is_transactional: ClassVar[bool] = True

    def start(self, config: Config) -> None:
        context = self.context
        self._losses = 0
        self._most_losses: int = config[MAX_RETRIES]
        self._retry_ms: int = config[RETRY_MS]
        self._session = SinkSession(
            functools.partial(open_store, config, self.allowed_paths),
            SinkSettings.of(config),
            offsets_table=config[OFFSETS_TABLE],
            connector=config.originals.get("name", ""),
            claim=(context.claim, context.claim_epoch) if context.exactly_once else None,
        )

    def open(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int] | None:
        return self._counting(lambda: self._session.open(partitions))

    def put(self, batch: Batch) -> None:
        self._counting(lambda: self._session.put(batch))
        if self._session.holds_others_up:
            self.context.request_commit()

    def refused(self, batch: Batch) -> list[Refusal] | None:
        return self._counting(lambda: self._session.refused(batch))

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        self._counting(lambda: self._session.commit(offsets))
        self._losses = 0
        return offsets

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.pre_commit(offsets)

    def close(self, partitions: Collection[TopicPartition]) -> None:
        self._session.close()

    def _counting(self, call: Callable[[], _Result]) -> _Result:
        """Count the losses of the connection since the last commit, which the framework answers by calling again: ``max.retries``."""
        try:
            return call()
        except (RetriableException, RolledBackException) as error:
            if isinstance(error, RolledBackException) and error.why is not WentBack.LOST:
                raise
            self._losses += 1
            if self._losses > self._most_losses:
                raise ConnectException(f"Failed after {self._most_losses} retries ({MAX_RETRIES}): {error}") from error
            self.context.timeout(self._retry_ms)
            raise
