"""The settings of JdbcSource one by one, by the names of the well-known JDBC source: types, defaults, limits, documentation."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from airflow_provider_connect.connectors.jdbc.catalog.table_filter import TABLE_EXCLUDE, TABLE_INCLUDE, TableFilter
from airflow_provider_connect.connectors.jdbc.database.database_url import URL, parse_url
from airflow_provider_connect.connectors.jdbc.database.dialect import QUOTE_IDENTIFIERS
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
    """How rows that were not read yet are found."""

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
    """What becomes of decimals."""

    NONE = "none"
    """A Decimal, always."""
    PRECISION_ONLY = "precision_only"
    """An integer where there are no digits after the point and it fits."""
    BEST_FIT = "best_fit"
    """The same; with digits after the point a double where the whole fits into 18 digits."""
    BEST_FIT_EAGER_DOUBLE = "best_fit_eager_double"
    """The same; with digits after the point a double always."""


def _check_url(_name: str, value: Any) -> None:
    if value is not None:
        parse_url(value)


def _check_zone(name: str, value: Any) -> None:
    if value is None:
        return
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ConfigException.of(name, value, "It must be a time zone such as UTC or Europe/Paris.") from error


_FIRST_MS, _LAST_MS = -62_104_060_800_000, 253_370_764_799_999  # of the years 2 to 9998, which have a text in each time zone
_LONGEST_MS: Final = 3_155_760_000_000
"""A hundred years: what is longer leads beyond the times that databases have."""


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
        doc="Where the database is: jdbc:postgresql://host:5432/database, jdbc:sqlite:/path/to/file.db, jdbc:mariadb://host/database, or a "
        "SQLAlchemy or Airflow URL such as postgresql://user:password@host/database. ${airflow:conn_id:uri} takes it from an Airflow "
        "Connection. Options of the URL that could run code or read files are refused.",
    ),
    ConfigKey(USER, Type.STRING, None, importance=Importance.HIGH, group=_DATABASE, doc="The user to log in as."),
    ConfigKey(PASSWORD, Type.PASSWORD, None, importance=Importance.HIGH, group=_DATABASE, doc="The user's password."),
    ConfigKey(
        ATTEMPTS,
        Type.INT,
        3,
        validator=Range(1),
        importance=Importance.LOW,
        group=_DATABASE,
        doc="How often to try to get a connection, also one that was lost while rows were read, before the task fails.",
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
        doc="The tables to read: names, with or without schema and database, and regular expressions of whole names. Empty: all tables.",
    ),
    ConfigKey(
        TABLE_EXCLUDE,
        Type.LIST,
        "",
        alias="table.blacklist",
        validator=_check_patterns,
        group=_DATABASE,
        doc="The tables not to read, in the same form. Stronger than table.include.",
    ),
    ConfigKey(
        CATALOG_PATTERN,
        Type.STRING,
        None,
        group=_DATABASE,
        doc="Only tables of catalogs like this, with % and _ as in SQL's LIKE. A catalog is what most call a database.",
    ),
    ConfigKey(SCHEMA_PATTERN, Type.STRING, None, importance=Importance.HIGH, group=_DATABASE, doc="Only tables of schemas like this."),
    ConfigKey(
        TABLE_TYPES,
        Type.LIST,
        "TABLE",
        importance=Importance.LOW,
        group=_DATABASE,
        doc="The kinds of tables to read: TABLE, VIEW, MATERIALIZED VIEW, FOREIGN TABLE.",
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
        doc="What becomes of NUMERIC and DECIMAL columns: none (Connect's Decimal), precision_only (integers of up to 18 digits become "
        "integers), best_fit (and numbers of up to 18 digits doubles), best_fit_eager_double (all that have digits after the point).",
    ),
    ConfigKey(
        AS_TEXT,
        Type.LIST,
        "",
        importance=Importance.LOW,
        group=_DATABASE,
        doc="Columns whose values become STRING, as the database writes them: column, or table.column. For numbers that no Decimal holds "
        "(NaN, infinity, more digits than its schema), and where each digit of a time or float matters.",
    ),
    ConfigKey(
        TIME_ZONE,
        Type.STRING,
        "UTC",
        validator=_check_zone,
        group=_DATABASE,
        doc="The time zone of columns that hold date and time without a zone.",
    ),
    ConfigKey(
        QUOTE_IDENTIFIERS,
        Type.STRING,
        "always",
        validator=OneOf("always", "never", case_sensitive=False),
        group=_DATABASE,
        doc="Whether names of tables and columns stand in quotes. Without quotes only plain names are accepted.",
    ),
    ConfigKey(
        MODE,
        Type.STRING,
        validator=OneOf(*Mode),
        importance=Importance.HIGH,
        group=_ROWS,
        dependents=(INCREMENTING, TIMESTAMP, NON_NULL),
        doc="bulk: all rows at each run. incrementing: rows whose column is greater than before; changes of rows are not seen. timestamp: "
        "rows whose timestamp is later than before. timestamp+incrementing: both columns together, the safest way to see new and changed "
        "rows.",
    ),
    ConfigKey(
        INCREMENTING,
        Type.STRING,
        "",
        group=_ROWS,
        doc="The column that grows with each new row: an integer, or a decimal without digits after the point, that is never null.",
    ),
    ConfigKey(
        TIMESTAMP,
        Type.LIST,
        "",
        group=_ROWS,
        doc="The column that holds when a row was changed last. Of several, the first that is not null counts.",
    ),
    ConfigKey(
        TIMESTAMP_INITIAL,
        Type.LONG,
        None,
        validator=_check_initial,
        importance=Importance.LOW,
        group=_ROWS,
        doc="Where the first run begins: milliseconds since the epoch, or -1 for now. By default with the first row.",
    ),
    ConfigKey(
        ROWS_FROM,
        Type.STRING,
        None,
        importance=Importance.LOW,
        group=_ROWS,
        doc="Only rows from here on: a number of the incrementing column; in modes with a timestamp column a time with its zone, such as "
        "2026-01-31T14:00:00Z. For a connector that reads one range, as a backfill does.",
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
        doc="Refuse to run where the incrementing column, or all timestamp columns, may be null. Rows that are null there are never read.",
    ),
    ConfigKey(
        QUERY,
        Type.STRING,
        "",
        group=_ROWS,
        doc="A query whose rows are read instead of tables. May have its own WHERE; in all modes but bulk its rows must have the columns "
        "named above. Goes to the topic that topic.prefix names.",
    ),
    ConfigKey(
        TIMESTAMP_DELAY,
        Type.LONG,
        0,
        validator=Range(0, _LONGEST_MS),
        importance=Importance.HIGH,
        group=_CONNECTOR,
        doc="Rows younger than so many milliseconds, by the database's clock, are left to a later run, so that those of transactions that "
        "commit late are not passed over. Rows of the second, or in PostgreSQL of the column's tick, that is not over yet always wait.",
    ),
    ConfigKey(
        TIMESTAMP_OVERLAP,
        Type.LONG,
        0,
        validator=Range(0, _LONGEST_MS),
        importance=Importance.LOW,
        group=_CONNECTOR,
        doc="Modes with a timestamp column: how many milliseconds below the last timestamp that was read each run reads again, for rows "
        "that become visible late. Each of them is sent once. The offset remembers the rows within it, at most 5,000.",
    ),
    ConfigKey(
        INCREMENTING_OVERLAP,
        Type.LONG,
        0,
        validator=Range(0),
        importance=Importance.LOW,
        group=_CONNECTOR,
        doc="Mode incrementing: the same in numbers of the incrementing column. A table is then read by one task.",
    ),
    ConfigKey(
        OPEN_TRANSACTIONS,
        Type.LONG,
        10_000,
        validator=Range(0),
        importance=Importance.LOW,
        group=_CONNECTOR,
        doc="PostgreSQL: how many milliseconds to wait for transactions that are writing to a table when a run begins to read it, since "
        "they may commit rows that belong before those already seen. Where they go on longer, the table is left to the next run. 0: do not "
        "wait, and accept that such rows are never read.",
    ),
    ConfigKey(
        TOPIC_PREFIX,
        Type.STRING,
        importance=Importance.HIGH,
        group=_CONNECTOR,
        doc="What stands before the table's name in the name of its topic; with query, the whole name of the topic.",
    ),
    ConfigKey(
        BATCH_ROWS,
        Type.INT,
        65_536,
        validator=Range(1),
        importance=Importance.LOW,
        group=_CONNECTOR,
        doc="At most so many rows go on at once, and some 4 MiB of them, but for rows that must stay together because their timestamps "
        "are equal.",
    ),
)
