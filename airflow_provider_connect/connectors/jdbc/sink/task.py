"""The task of JdbcSink, and the database that its config names."""

from __future__ import annotations

from typing import ClassVar

from airflow_provider_connect.connectors.jdbc.database.database import require_driver
from airflow_provider_connect.connectors.jdbc.database.database_options import POSTGRESQL
from airflow_provider_connect.connectors.jdbc.database.database_url import DatabaseUrl, parse_url
from airflow_provider_connect.connectors.jdbc.database.dialect import Dialect, dialect_of
from airflow_provider_connect.connectors.jdbc.sink.postgresql_store import PostgresqlStore
from airflow_provider_connect.connectors.jdbc.sink.session import SinkSession
from airflow_provider_connect.connectors.jdbc.sink.settings import PASSWORD, QUOTES, TIME_ZONE, URL, USER
from airflow_provider_connect.connectors.jdbc.sink.sqlalchemy_store import RowStore
from airflow_provider_connect.connectors.jdbc.sink.store import SinkStore
from airflow_provider_connect.sdk.allowed_paths import AllowedPaths
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config
from airflow_provider_connect.sdk.task import Refusal
from airflow_provider_connect.sdk.transactional_sink import TransactionalSinkTask


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


class JdbcSinkTask(TransactionalSinkTask):
    """Writes rows. ``put`` writes once enough has come for a statement, ``pre_commit`` writes the rest and commits."""

    required_columns: ClassVar[frozenset[str]] = frozenset({"key"})
    takes_nulls_among_values = True

    def put(self, batch: Batch) -> None:
        if batch.num_records:
            self._run(lambda: self._sink.write(self._begun(), batch))
            if self._connection.blocks_writers:
                self.context.request_commit()

    def refused(self, batch: Batch) -> list[Refusal] | None:
        def write() -> list[Refusal] | None:
            session: SinkSession = self._begun()
            return session.refused(batch)

        return self._run(write)
