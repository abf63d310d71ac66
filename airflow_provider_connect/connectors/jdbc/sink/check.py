"""What can be known of a sink's tables before anything moves: is the database there, are the tables and the columns that a config names?"""

from __future__ import annotations

import contextlib

from airflow_provider_connect.connectors.jdbc.catalog.column import Column
from airflow_provider_connect.connectors.jdbc.catalog.metadata import read_columns
from airflow_provider_connect.connectors.jdbc.database.database import open_database
from airflow_provider_connect.connectors.jdbc.database.database_url import DatabaseUrl
from airflow_provider_connect.connectors.jdbc.database.dialect import Dialect
from airflow_provider_connect.connectors.jdbc.database.table_name import TableName
from airflow_provider_connect.connectors.jdbc.sink.settings import (
    AUTO_CREATE,
    AUTO_EVOLVE,
    FIELDS,
    KAFKA_FIELDS,
    PK_FIELDS,
    PkMode,
    SinkSettings,
)
from airflow_provider_connect.connectors.jdbc.sink.store import column_name, table_name
from airflow_provider_connect.errors import ConfigException


def check_database(url: DatabaseUrl, dialect: Dialect, settings: SinkSettings, topics: list[str]) -> None:
    """Raise ConfigException, which names the setting and the way out, where a run could write nothing. ``topics`` are those whose names are
    final: none where transformations may change them."""
    with contextlib.closing(open_database(url)) as database:
        for topic in topics:
            name = table_name(settings.table_of(topic), dialect)
            columns = {column.name: column for column in read_columns(database, url, name)}
            if columns:
                _refuse_missing(name, columns, settings, dialect)
            elif not settings.auto_create:
                reason = f"There is no table {name} for topic {topic}. Create it, or set {AUTO_CREATE} to true."
                raise ConfigException.of(AUTO_CREATE, "false", reason)


def _refuse_missing(name: TableName, columns: dict[str, Column], settings: SinkSettings, dialect: Dialect) -> None:
    keys = settings.pk_fields or (KAFKA_FIELDS if settings.pk_mode is PkMode.KAFKA else ())
    for field in keys if settings.pk_mode is not PkMode.NONE else ():
        if column_name(field, dialect) not in columns:
            reason = f"Table {name} has no column {field}. It has: {', '.join(columns)}."
            raise ConfigException.of(PK_FIELDS, ",".join(keys), reason)
    for field in sorted(settings.fields) if not settings.auto_evolve else ():
        if column_name(field, dialect) not in columns:
            reason = f"Table {name} has no column {field}. Add it, take it out, or set {AUTO_EVOLVE} to true."
            raise ConfigException.of(FIELDS, ",".join(sorted(settings.fields)), reason)
