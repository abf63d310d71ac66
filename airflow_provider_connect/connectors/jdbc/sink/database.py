"""The database that a sink's config names: its address, its dialect, a connection to write with."""

from __future__ import annotations

from airflow_provider_connect.connectors.jdbc.database.database_url import POSTGRESQL, DatabaseUrl, parse_url
from airflow_provider_connect.connectors.jdbc.database.dialect import Dialect, dialect_of
from airflow_provider_connect.connectors.jdbc.database.drivers import require_driver
from airflow_provider_connect.connectors.jdbc.sink.postgresql_store import PostgresqlStore
from airflow_provider_connect.connectors.jdbc.sink.settings import PASSWORD, QUOTES, TIME_ZONE, URL, USER
from airflow_provider_connect.connectors.jdbc.sink.sqlalchemy_store import RowStore
from airflow_provider_connect.connectors.jdbc.sink.store import SinkStore
from airflow_provider_connect.sdk.allowed_paths import AllowedPaths
from airflow_provider_connect.sdk.config_def import Config


def url_of(config: Config, allowed: AllowedPaths) -> DatabaseUrl:
    """Where the database is, for a connector that may reach these files of the host.

    Raises ConfigException for a URL that is none, or that could run code or read files.
    """
    password = config[PASSWORD]
    url = parse_url(config[URL]).with_credentials(config[USER], None if password is None else password.value)
    return url.within(allowed)


def open_store(config: Config, allowed: AllowedPaths) -> SinkStore:
    """Connect, to write."""
    url = url_of(config, allowed)
    require_driver(url)
    kind = PostgresqlStore if url.dialect == POSTGRESQL else RowStore
    return kind(url, write_dialect(config, url), config[TIME_ZONE])


def write_dialect(config: Config, url: DatabaseUrl) -> Dialect:
    return dialect_of(url.dialect, is_quoting=config[QUOTES].lower() == "always")
