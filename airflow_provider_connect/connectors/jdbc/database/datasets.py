"""Tables under OpenLineage's names, for lineage events. Knows nothing of users, passwords and options of a URL."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider_connect.connectors.jdbc.catalog.column import Column, TableName
from airflow_provider_connect.connectors.jdbc.database.database_url import DatabaseUrl
from airflow_provider_connect.sdk.datasets import Dataset


def table_dataset(url: DatabaseUrl, name: TableName, columns: Iterable[Column]) -> Dataset:
    """A table of the database at ``url``, with the database's own type names for columns.

    Names are ``postgres://host:port`` + ``database.schema.table``, ``mysql://host:port`` + ``database.table`` (also for MariaDB), and so
    on. Each SQLite file is a database: ``sqlite://«path»`` + ``table``.
    """
    types = {column.name: column.type_name for column in columns}
    dialect = url.dialect
    if dialect.is_file:
        return Dataset(f"{dialect.name}://{url.database}", name.table, types)
    schema = (name.schema or url.schema or dialect.default_schema) if dialect.has_schemas else None
    parts = (name.catalog or url.database, schema, name.table)
    return Dataset(f"{dialect.dataset_scheme or dialect.name}://{_first_server(url)}", ".".join(part for part in parts if part), types)


def _first_server(url: DatabaseUrl) -> str:
    """``host:port`` of the first server, with the product's default port if the URL has no port. For a socket, ``localhost``."""
    first = (url.host or url.options.get("host") or "").partition(",")[0]
    host, colon, port = first.rpartition(":") if first.count(":") == 1 else ("", "", "")
    if not colon:
        host, port = first, str(url.port or url.options.get("port", "").partition(",")[0] or url.dialect.port or "")
    host = "localhost" if not host or host.startswith("/") else host
    return f"{host}:{port}" if port else host
