"""The settings of JdbcSource, by the names of the well-known JDBC source, and which of them go together. Knows nothing of databases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from airflow_provider_connect.connectors.jdbc.database_url import URL, DatabaseUrl, parse_url
from airflow_provider_connect.connectors.jdbc.dialect import QUOTE_IDENTIFIERS
from airflow_provider_connect.connectors.jdbc.table_filter import TABLE_EXCLUDE, TABLE_INCLUDE, TableFilter
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.config_def import Config, ConfigDef, ConfigKey, Importance, Lambda, OneOf, Range, Type

USER, PASSWORD = "connection.user", "connection.password"
ATTEMPTS, BACKOFF = "connection.attempts", "connection.backoff.ms"
CATALOG_PATTERN, SCHEMA_PATTERN, TABLE_TYPES = "catalog.pattern", "schema.pattern", "table.types"
NUMERIC_MAPPING, NUMERIC_PRECISION_MAPPING, TIME_ZONE = "numeric.mapping", "numeric.precision.mapping", "db.timezone"
MODE, INCREMENTING, TIMESTAMP = "mode", "incrementing.column.name", "timestamp.column.name"
TIMESTAMP_INITIAL, TIMESTAMP_DELAY = "timestamp.initial", "timestamp.delay.interval.ms"
NON_NULL, QUERY, TOPIC_PREFIX = "validate.non.null", "query", "topic.prefix"
BATCH_ROWS, OPEN_TRANSACTIONS = "batch.max.rows", "open.transactions.wait.ms"
FROM_NOW: Final = -1


class Mode(StrEnum):
    """How rows that were not read yet are told from the others."""

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


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """What a config asks for. Times are milliseconds; ``timestamp_initial`` is since the epoch, -1 is now, None the beginning."""

    url: DatabaseUrl
    mode: Mode
    topic_prefix: str
    tables: TableFilter
    table_types: tuple[str, ...]
    catalog_pattern: str | None
    schema_pattern: str | None
    query: str | None
    incrementing: str | None
    timestamps: tuple[str, ...]
    timestamp_initial: int | None
    timestamp_delay_ms: int
    needs_non_null: bool
    is_quoting: bool
    numeric_mapping: NumericMapping
    time_zone: str
    batch_rows: int
    open_transactions_ms: int
    attempts: int
    backoff_ms: int

    @classmethod
    def of(cls, config: Config) -> SourceSettings:
        """Raises ConfigException for settings that are wrong or contradict each other, with all that is wrong."""
        errors = list(_contradictions(config))
        if errors:
            raise ConfigException("\n".join(errors), errors=errors)
        password = config[PASSWORD]
        url = parse_url(config[URL]).with_credentials(config[USER], None if password is None else password.value)
        mapping = config[NUMERIC_MAPPING]
        if mapping is None:
            mapping = NumericMapping.PRECISION_ONLY if config[NUMERIC_PRECISION_MAPPING] else NumericMapping.NONE
        return cls(
            url=url.existing,
            mode=Mode(config[MODE]),
            topic_prefix=config[TOPIC_PREFIX],
            tables=TableFilter.of(config[TABLE_INCLUDE], config[TABLE_EXCLUDE]),
            table_types=tuple(config[TABLE_TYPES]),
            catalog_pattern=config[CATALOG_PATTERN] or None,
            schema_pattern=config[SCHEMA_PATTERN] or None,
            query=(config[QUERY] or "").strip().rstrip(";").rstrip() or None,
            incrementing=config[INCREMENTING] or None,
            timestamps=tuple(name for name in config[TIMESTAMP] if name),
            timestamp_initial=config[TIMESTAMP_INITIAL],
            timestamp_delay_ms=config[TIMESTAMP_DELAY],
            needs_non_null=config[NON_NULL],
            is_quoting=config[QUOTE_IDENTIFIERS].lower() == "always",
            numeric_mapping=NumericMapping(mapping.lower()),
            time_zone=config[TIME_ZONE],
            batch_rows=config[BATCH_ROWS],
            open_transactions_ms=config[OPEN_TRANSACTIONS],
            attempts=config[ATTEMPTS],
            backoff_ms=config[BACKOFF],
        )


def errors_of(settings: Mapping[str, Any]) -> dict[str, list[str]]:
    """What is wrong between several settings, by the key to change. ``settings`` are parsed values, None where one is wrong by itself."""
    mode = settings[MODE]
    found: dict[str, list[str]] = {}

    def refuse(name: str, value: object, reason: str) -> None:
        found.setdefault(name, []).append(ConfigException.of(name, value, reason).message)

    if mode in (Mode.INCREMENTING, Mode.TIMESTAMP_INCREMENTING) and not settings[INCREMENTING]:
        refuse(INCREMENTING, "null", f"Mode {mode} needs it: the name of a column whose value grows with each new row.")
    if mode in (Mode.TIMESTAMP, Mode.TIMESTAMP_INCREMENTING) and not settings[TIMESTAMP]:
        refuse(TIMESTAMP, "null", f"Mode {mode} needs it: the name of a column that holds when a row was changed last.")
    if settings[QUERY] and settings[TABLE_INCLUDE]:
        refuse(QUERY, settings[QUERY], f"Give either {QUERY} or {TABLE_INCLUDE}: with a query only its rows are read.")
    if settings[QUERY] and settings[TABLE_EXCLUDE]:
        refuse(QUERY, settings[QUERY], f"Give either {QUERY} or {TABLE_EXCLUDE}: with a query only its rows are read.")
    if settings[QUERY] and not settings[TOPIC_PREFIX]:
        refuse(TOPIC_PREFIX, "", f"With {QUERY} it is the whole name of the topic, and must be given.")
    return found


def _contradictions(config: Config) -> Iterator[str]:
    for errors in errors_of(config).values():
        yield from errors


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


def _check_patterns(name: str, value: Any) -> None:
    if value is not None:
        TableFilter.of(value, []) if name == TABLE_INCLUDE else TableFilter.of([], value)


_DATABASE, _ROWS, _CONNECTOR = "Database", "Mode", "Connector"

CONFIG_DEF: Final = ConfigDef(
    ConfigKey(
        URL,
        Type.STRING,
        validator=Lambda(_check_url),
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
        validator=Lambda(_check_patterns),
        group=_DATABASE,
        doc="The tables to read: names, with or without schema and database, and regular expressions of whole names. Empty: all tables.",
    ),
    ConfigKey(
        TABLE_EXCLUDE,
        Type.LIST,
        "",
        alias="table.blacklist",
        validator=Lambda(_check_patterns),
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
    ConfigKey(
        SCHEMA_PATTERN,
        Type.STRING,
        None,
        importance=Importance.HIGH,
        group=_DATABASE,
        doc="Only tables of schemas like this.",
    ),
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
        doc="An older way to say numeric.mapping=precision_only.",
    ),
    ConfigKey(
        NUMERIC_MAPPING,
        Type.STRING,
        None,
        validator=Lambda(lambda name, value: None if value is None else OneOf(*NumericMapping, case_sensitive=False)(name, value)),
        importance=Importance.LOW,
        group=_DATABASE,
        doc="What becomes of NUMERIC and DECIMAL columns: none (Connect's Decimal), precision_only (integers of up to 18 digits become "
        "integers), best_fit (and numbers of up to 18 digits doubles), best_fit_eager_double (all that have digits after the point).",
    ),
    ConfigKey(
        TIME_ZONE,
        Type.STRING,
        "UTC",
        validator=Lambda(_check_zone),
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
        importance=Importance.LOW,
        group=_ROWS,
        doc="Where the first run begins: milliseconds since the epoch, or -1 for now. By default with the first row.",
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
        validator=Range(0),
        importance=Importance.HIGH,
        group=_CONNECTOR,
        doc="Rows younger than so many milliseconds, by the database's clock, are left to a later run, so that those of transactions that "
        "commit late are not passed over.",
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
        doc="At most so many rows go on at once, but for rows that must stay together because their timestamps are equal.",
    ),
)
