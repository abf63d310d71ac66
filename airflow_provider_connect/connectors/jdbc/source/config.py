"""The individual settings of JdbcSource, with the names of the well-known JDBC source: types, defaults, limits, documentation."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from airflow_provider_connect.connectors.jdbc.catalog.table_filter import TABLE_EXCLUDE, TABLE_INCLUDE, TableFilter
from airflow_provider_connect.connectors.jdbc.database.database_url import URL, parse_url
from airflow_provider_connect.connectors.jdbc.dialects.dialect import QUOTE_IDENTIFIERS
from airflow_provider_connect.connectors.time_zone import check_time_zone
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.config_def import ConfigDef, ConfigKey, Importance, OneOf, Range, Type

USER, PASSWORD = "connection.user", "connection.password"
ATTEMPTS, BACKOFF = "connection.attempts", "connection.backoff.ms"
CATALOG_PATTERN, SCHEMA_PATTERN, TABLE_TYPES = "catalog.pattern", "schema.pattern", "table.types"
NUMERIC_MAPPING, NUMERIC_PRECISION_MAPPING, TIME_ZONE = "numeric.mapping", "numeric.precision.mapping", "db.timezone"
MODE, INCREMENTING, TIMESTAMP = "mode", "incrementing.column.name", "timestamp.column.name"
TIMESTAMP_INITIAL, TIMESTAMP_DELAY = "timestamp.initial", "timestamp.delay.interval.ms"
ROWS_FROM, ROWS_TO = "rows.from", "rows.to"
TIMESTAMP_OVERLAP, INCREMENTING_OVERLAP = "timestamp.overlap.ms", "incrementing.overlap"
NON_NULL, QUERY, TOPIC_PREFIX = "validate.non.null", "query", "topic.prefix"
AS_TEXT: Final = "columns.as.text"
BATCH_ROWS, OPEN_TRANSACTIONS = "batch.max.rows", "open.transactions.wait.ms"
FROM_NOW: Final = -1


class Mode(StrEnum):
    """The method by which unread rows are found."""

    BULK = "bulk"
    INCREMENTING = "incrementing"
    TIMESTAMP = "timestamp"
    TIMESTAMP_INCREMENTING = "timestamp+incrementing"

    @property
    def has_incrementing(self) -> bool:
        return self in (Mode.INCREMENTING, Mode.TIMESTAMP_INCREMENTING)

    @property
    def has_timestamp(self) -> bool:
        return self in (Mode.TIMESTAMP, Mode.TIMESTAMP_INCREMENTING)


class NumericMapping(StrEnum):
    """The type of decimals in records."""

    NONE = "none"
    """Always a Decimal."""
    PRECISION_ONLY = "precision_only"
    """An integer if it fits and has no digits after the point."""
    BEST_FIT = "best_fit"
    """The same, but with digits after the point, a double if it has at most 18 digits."""
    BEST_FIT_EAGER_DOUBLE = "best_fit_eager_double"
    """The same, but with digits after the point, always a double."""


def _check_url(_name: str, value: Any) -> None:
    if value is not None:
        parse_url(value)


def _check_zone(name: str, value: Any) -> None:
    if value is not None:
        check_time_zone(name, value)


_FIRST_MS, _LAST_MS = -62_104_060_800_000, 253_370_764_799_999  # of years 2 to 9998, which can be written in any time zone
_LONGEST_MS: Final = 3_155_760_000_000
"""A hundred years. A longer duration would exceed the range of databases' times."""


def _check_initial(name: str, value: Any) -> None:
    if value is not None and value != FROM_NOW and not _FIRST_MS <= value <= _LAST_MS:
        raise ConfigException.of(name, str(value), "It must be milliseconds since 1970 of a year from 2 to 9998, or -1 for now.")


def _check_patterns(name: str, value: Any) -> None:
    if value is not None:
        TableFilter.of(value, []) if name == TABLE_INCLUDE else TableFilter.of([], value)


_DATABASE, _ROWS, _CONNECTOR = "Database", "Mode", "Connector"

CONFIG_DEF: Final = ConfigDef(
    ConfigKey(
        URL,
        Type.STRING,
        validator=_check_url,
        importance=Importance.HIGH,
        group=_DATABASE,
        doc="Address of the database, such as jdbc:postgresql://host:5432/database, jdbc:sqlite:/path/to/file.db, "
        "postgresql://user:password@host/database, or ${airflow:conn_id:uri} for an Airflow Connection.",
    ),
    ConfigKey(USER, Type.STRING, None, importance=Importance.HIGH, group=_DATABASE, doc="User, unless the URL has one."),
    ConfigKey(PASSWORD, Type.PASSWORD, None, importance=Importance.HIGH, group=_DATABASE, doc="Password, unless the URL has one."),
    ConfigKey(
        ATTEMPTS,
        Type.INT,
        3,
        validator=Range(1),
        importance=Importance.LOW,
        group=_DATABASE,
        doc="Attempts to connect, also after a lost connection, before the task fails.",
    ),
    ConfigKey(
        BACKOFF,
        Type.LONG,
        10_000,
        validator=Range(0),
        importance=Importance.LOW,
        group=_DATABASE,
        doc="Milliseconds between two attempts to connect.",
    ),
    ConfigKey(
        TABLE_INCLUDE,
        Type.LIST,
        "",
        alias="table.whitelist",
        validator=_check_patterns,
        group=_DATABASE,
        doc="Tables to read: names, with or without schema and database, and regular expressions for whole names. Empty: all tables.",
    ),
    ConfigKey(
        TABLE_EXCLUDE,
        Type.LIST,
        "",
        alias="table.blacklist",
        validator=_check_patterns,
        group=_DATABASE,
        doc="Tables not to read, in the same form. Takes precedence over table.include.",
    ),
    ConfigKey(
        CATALOG_PATTERN,
        Type.STRING,
        None,
        group=_DATABASE,
        doc="Only tables of catalogs (databases) that match, with % and _ as in SQL's LIKE.",
    ),
    ConfigKey(
        SCHEMA_PATTERN,
        Type.STRING,
        None,
        importance=Importance.HIGH,
        group=_DATABASE,
        doc="Only tables of schemas that match, in the same form.",
    ),
    ConfigKey(
        TABLE_TYPES,
        Type.LIST,
        "TABLE",
        importance=Importance.LOW,
        group=_DATABASE,
        doc="Kinds of tables to read: TABLE, VIEW, MATERIALIZED VIEW, FOREIGN TABLE.",
    ),
    ConfigKey(
        NUMERIC_PRECISION_MAPPING,
        Type.BOOLEAN,
        False,
        importance=Importance.LOW,
        group=_DATABASE,
        doc="An older form of numeric.mapping=precision_only.",
    ),
    ConfigKey(
        NUMERIC_MAPPING,
        Type.STRING,
        None,
        validator=lambda name, value: None if value is None else OneOf(*NumericMapping, case_sensitive=False)(name, value),
        importance=Importance.LOW,
        group=_DATABASE,
        doc="NUMERIC and DECIMAL columns become: none: Connect's Decimal. precision_only: integers, if they have up to 18 digits and no "
        "digits after the point. best_fit: also doubles, if they have up to 18 digits. best_fit_eager_double: doubles whenever they "
        "have digits after the point.",
    ),
    ConfigKey(
        AS_TEXT,
        Type.LIST,
        "",
        importance=Importance.LOW,
        group=_DATABASE,
        doc="Columns that become STRING, as the database writes them: column, or table.column. For numbers that no Decimal holds (NaN, "
        "infinity, too many digits), and to keep each digit of a time or float.",
    ),
    ConfigKey(
        TIME_ZONE,
        Type.STRING,
        "UTC",
        validator=_check_zone,
        group=_DATABASE,
        doc="Time zone of columns that hold date and time without a zone.",
    ),
    ConfigKey(
        QUOTE_IDENTIFIERS,
        Type.STRING,
        "always",
        validator=OneOf("always", "never", case_sensitive=False),
        group=_DATABASE,
        doc="always: names of tables and columns are quoted. never: only plain names are accepted, as the database writes unquoted "
        "names (PostgreSQL: lower case).",
    ),
    ConfigKey(
        MODE,
        Type.STRING,
        validator=OneOf(*Mode),
        importance=Importance.HIGH,
        group=_ROWS,
        dependents=(INCREMENTING, TIMESTAMP, NON_NULL),
        doc="bulk: all rows in each run. incrementing: new rows. timestamp: new and changed rows. timestamp+incrementing: the same, "
        "with both columns; safest.",
    ),
    ConfigKey(
        INCREMENTING,
        Type.STRING,
        "",
        group=_ROWS,
        doc="Column that grows with each new row: whole numbers, never null.",
    ),
    ConfigKey(
        TIMESTAMP,
        Type.LIST,
        "",
        group=_ROWS,
        doc="Column with the time of a row's last change. Of several, the first that is not null applies.",
    ),
    ConfigKey(
        TIMESTAMP_INITIAL,
        Type.LONG,
        None,
        validator=_check_initial,
        importance=Importance.LOW,
        group=_ROWS,
        doc="Start of the first run: milliseconds since the epoch, or -1 for now. Default: the first row.",
    ),
    ConfigKey(
        ROWS_FROM,
        Type.STRING,
        None,
        importance=Importance.LOW,
        group=_ROWS,
        doc="Only rows from this number of the incrementing column, or with a timestamp column from this time with its zone, such as "
        "2026-01-31T14:00:00Z. For backfills.",
    ),
    ConfigKey(
        ROWS_TO,
        Type.STRING,
        None,
        importance=Importance.LOW,
        group=_ROWS,
        doc="Only rows before this number or time.",
    ),
    ConfigKey(
        NON_NULL,
        Type.BOOLEAN,
        True,
        importance=Importance.LOW,
        group=_ROWS,
        doc="Refuse a run if the incrementing column, or all timestamp columns, may be null. Rows with null there are never read.",
    ),
    ConfigKey(
        QUERY,
        Type.STRING,
        "",
        group=_ROWS,
        doc="Read the rows of this query instead of tables. It may have its own WHERE. In all modes except bulk it must return the "
        "mode's columns.",
    ),
    ConfigKey(
        TIMESTAMP_DELAY,
        Type.LONG,
        0,
        validator=Range(0, _LONGEST_MS),
        importance=Importance.HIGH,
        group=_CONNECTOR,
        doc="Rows younger than this, by the database's clock, are left to a later run, so that transactions that commit late are not "
        "missed.",
    ),
    ConfigKey(
        TIMESTAMP_OVERLAP,
        Type.LONG,
        0,
        validator=Range(0, _LONGEST_MS),
        importance=Importance.LOW,
        group=_CONNECTOR,
        doc="Modes with a timestamp column: each run reads again this many milliseconds below the last timestamp, for rows that become "
        "visible late. Each row is sent once. The offset remembers up to 5,000 rows.",
    ),
    ConfigKey(
        INCREMENTING_OVERLAP,
        Type.LONG,
        0,
        validator=Range(0),
        importance=Importance.LOW,
        group=_CONNECTOR,
        doc="Mode incrementing: the same, in numbers of the incrementing column. The table is then read by one task.",
    ),
    ConfigKey(
        OPEN_TRANSACTIONS,
        Type.LONG,
        10_000,
        validator=Range(0),
        importance=Importance.LOW,
        group=_CONNECTOR,
        doc="PostgreSQL: maximum wait for transactions that are writing to a table when a run begins to read it. After that, the table "
        "is left to the next run. 0: do not wait, and accept that their rows may be missed.",
    ),
    ConfigKey(
        TOPIC_PREFIX,
        Type.STRING,
        importance=Importance.HIGH,
        group=_CONNECTOR,
        doc="Prefix of the table's name in the topic's name; with query, the whole name of the topic.",
    ),
    ConfigKey(
        BATCH_ROWS,
        Type.INT,
        65_536,
        validator=Range(1),
        importance=Importance.LOW,
        group=_CONNECTOR,
        doc="Maximum rows of a batch, of about 4 MiB. Rows with equal timestamps stay together.",
    ),
)
