"""The settings of JdbcSink, with the names of the well-known JDBC sinks, and the contradictions between settings. Knows nothing of
databases."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from airflow_provider_connect.connectors.jdbc.database.database_url import parse_url
from airflow_provider_connect.connectors.time_zone import check_time_zone
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.bounded_regex import BoundedRegex
from airflow_provider_connect.sdk.config_def import Config, ConfigDef, ConfigKey, Importance, NonEmptyString, OneOf, Range, Type

URL, USER, PASSWORD = "connection.url", "connection.user", "connection.password"
INSERT_MODE, DELETE_ENABLED, BATCH_SIZE = "insert.mode", "delete.enabled", "batch.size"
TABLE_FORMAT, TABLE_PATTERN = "table.name.format", "table.name.pattern"
PK_MODE, PK_FIELDS, FIELDS = "pk.mode", "pk.fields", "fields.whitelist"
AUTO_CREATE, AUTO_EVOLVE = "auto.create", "auto.evolve"
TIME_ZONE, QUOTES = "db.timezone", "quote.sql.identifiers"
MAX_RETRIES, RETRY_MS = "max.retries", "retry.backoff.ms"
OFFSETS_TABLE = "offsets.table"

TOPIC: Final = "${topic}"
KAFKA_FIELDS: Final = ("__connect_topic", "__connect_partition", "__connect_offset")


class InsertMode(StrEnum):
    """The effect of a record on its table."""

    INSERT = "insert"
    UPSERT = "upsert"
    UPDATE = "update"


class PkMode(StrEnum):
    """The part of a record that becomes the primary key."""

    NONE = "none"
    KAFKA = "kafka"
    RECORD_KEY = "record_key"
    RECORD_VALUE = "record_value"


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """The parsed settings that determine how records become rows. An empty ``fields`` means all fields."""

    insert_mode: InsertMode
    pk_mode: PkMode
    pk_fields: tuple[str, ...]
    fields: frozenset[str]
    delete_enabled: bool
    auto_create: bool
    auto_evolve: bool
    batch_size: int
    time_zone: str
    table_format: str
    table_pattern: BoundedRegex | None

    @classmethod
    def of(cls, config: Config) -> SinkSettings:
        """Parse settings. Raises ConfigException, with one message per contradiction."""
        mistakes = [str(ConfigException.of(name, value, reason)) for name, value, reason in contradictions(config)]
        if mistakes:
            raise ConfigException("\n".join(mistakes), errors=mistakes)
        return cls(
            insert_mode=InsertMode(config[INSERT_MODE].lower()),
            pk_mode=PkMode(config[PK_MODE].lower()),
            pk_fields=tuple(config[PK_FIELDS]),
            fields=frozenset(config[FIELDS]),
            delete_enabled=config[DELETE_ENABLED],
            auto_create=config[AUTO_CREATE],
            auto_evolve=config[AUTO_EVOLVE],
            batch_size=config[BATCH_SIZE],
            time_zone=config[TIME_ZONE],
            table_format=config[TABLE_FORMAT],
            table_pattern=BoundedRegex(config[TABLE_PATTERN], TABLE_PATTERN) if config[TABLE_PATTERN] else None,
        )

    def table_of(self, topic: str) -> str:
        """The name of the table for ``topic``, in the config's form. Raises ConfigException if the pattern does not match the topic, or if
        matching takes too long."""
        part = topic
        if self.table_pattern is not None:
            match = self.table_pattern.fullmatch(topic)
            if match is None:
                reason = f"Topic {topic} does not match it. Widen the pattern, or take the topic out of topics."
                raise ConfigException.of(TABLE_PATTERN, self.table_pattern.pattern, reason)
            part = match[1] if self.table_pattern.groups and match[1] is not None else match[0]
        return self.table_format.replace(TOPIC, part)


def contradictions(config: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Setting, value and reason of each contradiction between settings. ``config`` has parsed values."""
    insert_mode, pk_mode, pk_fields = config[INSERT_MODE].lower(), config[PK_MODE].lower(), config[PK_FIELDS]
    if insert_mode != InsertMode.INSERT and pk_mode == PkMode.NONE:
        yield PK_MODE, pk_mode, f"{INSERT_MODE}={insert_mode} needs a primary key. Set {PK_MODE} to record_key, record_value or kafka."
    if config[DELETE_ENABLED] and pk_mode != PkMode.RECORD_KEY:
        yield DELETE_ENABLED, "true", f"Deletes need the record's key. Set {PK_MODE} to record_key."
    if pk_mode == PkMode.KAFKA and len(pk_fields) not in (0, len(KAFKA_FIELDS)):
        yield PK_FIELDS, ",".join(pk_fields), f"{PK_MODE}=kafka takes three names, of topic, partition and offset, or none."
    if len(set(pk_fields)) < len(pk_fields):
        yield PK_FIELDS, ",".join(pk_fields), "A field is named twice."


def _url(_name: str, value: Any) -> None:
    if value is not None:
        parse_url(value)


def _pattern(name: str, value: Any) -> None:
    if not value:
        return
    try:
        BoundedRegex(value, name)
    except re.error as error:
        raise ConfigException.of(name, value, f"Not a regular expression: {error}") from error


CONFIG_DEF = ConfigDef(
    ConfigKey(
        URL,
        importance=Importance.HIGH,
        validator=_url,
        group="Connection",
        doc="Address of the database, such as jdbc:postgresql://host:5432/database, jdbc:sqlite:/path/to/file.db, "
        "postgresql://user:password@host/database, or ${airflow:conn_id:uri} for an Airflow Connection.",
    ),
    ConfigKey(USER, Type.STRING, None, importance=Importance.HIGH, group="Connection", doc="User, unless the URL has one."),
    ConfigKey(PASSWORD, Type.PASSWORD, None, importance=Importance.HIGH, group="Connection", doc="Password, unless the URL has one."),
    ConfigKey(
        INSERT_MODE,
        Type.STRING,
        "insert",
        validator=OneOf(*InsertMode, case_sensitive=False),
        importance=Importance.HIGH,
        group="Writes",
        doc="insert: each record adds a row. upsert: adds a row or changes that of its key. update: changes the row of its key, if it "
        "exists.",
    ),
    ConfigKey(
        DELETE_ENABLED,
        Type.BOOLEAN,
        False,
        group="Writes",
        doc="Whether a record without a value deletes the row of its key. Needs pk.mode=record_key.",
    ),
    ConfigKey(
        BATCH_SIZE,
        Type.INT,
        50_000,
        validator=Range(1, 1_000_000),
        group="Writes",
        doc="Maximum records of a table in one statement.",
    ),
    ConfigKey(
        TABLE_FORMAT,
        Type.STRING,
        TOPIC,
        validator=NonEmptyString(),
        group="Tables",
        doc="Name of the table; ${topic} stands for the topic's name. Text before a dot is the schema.",
    ),
    ConfigKey(
        TABLE_PATTERN,
        Type.STRING,
        "",
        validator=_pattern,
        group="Tables",
        doc="Regular expression for whole topic names. ${topic} stands for its first group, or for the whole match.",
    ),
    ConfigKey(
        PK_MODE,
        Type.STRING,
        "none",
        validator=OneOf(*PkMode, case_sensitive=False),
        importance=Importance.HIGH,
        group="Tables",
        doc="Source of the primary key: none, kafka (topic, partition and offset), record_key or record_value.",
    ),
    ConfigKey(
        PK_FIELDS,
        Type.LIST,
        "",
        group="Tables",
        doc="Columns of the primary key. kafka: names of the three columns. record_key: fields of the key (default: all), or the "
        "column's name for a key that is a single value. record_value: fields of the value.",
    ),
    ConfigKey(
        FIELDS,
        Type.LIST,
        "",
        group="Tables",
        alias="fields.include",
        doc="Fields of the value to write, besides the key. Empty: all.",
    ),
    ConfigKey(AUTO_CREATE, Type.BOOLEAN, False, group="Tables", doc="Whether to create missing tables from the records' schema."),
    ConfigKey(
        AUTO_EVOLVE,
        Type.BOOLEAN,
        False,
        group="Tables",
        doc="Whether to add missing columns, and to widen columns for wider numbers.",
    ),
    ConfigKey(
        TIME_ZONE,
        Type.STRING,
        "UTC",
        validator=check_time_zone,
        group="Writes",
        doc="Time zone of columns that hold date and time without a zone.",
    ),
    ConfigKey(
        QUOTES,
        Type.STRING,
        "always",
        validator=OneOf("always", "never", case_sensitive=False),
        group="Tables",
        doc="always: names of tables and columns are quoted. never: only plain names are accepted, as the database writes unquoted "
        "names (PostgreSQL: lower case).",
    ),
    ConfigKey(
        MAX_RETRIES,
        Type.INT,
        10,
        validator=Range(0),
        group="Errors",
        doc="Retries of a commit after a lost connection, a deadlock or a serialization failure.",
    ),
    ConfigKey(RETRY_MS, Type.INT, 3000, validator=Range(0), group="Errors", doc="Milliseconds between retries."),
    ConfigKey(
        OFFSETS_TABLE,
        Type.STRING,
        "connect_sink_offsets",
        validator=NonEmptyString(),
        group="Delivery",
        doc="Table for the offsets of exactly-once delivery, created if missing. Connectors of one Connect cluster share it.",
    ),
)
