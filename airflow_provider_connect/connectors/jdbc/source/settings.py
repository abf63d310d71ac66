"""The parsed config of JdbcSource as one value, and the contradictions between settings. Knows nothing of databases."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from airflow_provider_connect.connectors.jdbc.catalog.table_filter import TABLE_EXCLUDE, TABLE_INCLUDE, TableFilter
from airflow_provider_connect.connectors.jdbc.database.database_url import URL, DatabaseUrl, parse_url
from airflow_provider_connect.connectors.jdbc.dialects.dialect import QUOTE_IDENTIFIERS, Dialect
from airflow_provider_connect.connectors.jdbc.source.config import (
    AS_TEXT,
    ATTEMPTS,
    BACKOFF,
    BATCH_ROWS,
    CATALOG_PATTERN,
    INCREMENTING,
    INCREMENTING_OVERLAP,
    MODE,
    NON_NULL,
    NUMERIC_MAPPING,
    NUMERIC_PRECISION_MAPPING,
    OPEN_TRANSACTIONS,
    PASSWORD,
    QUERY,
    ROWS_FROM,
    ROWS_TO,
    SCHEMA_PATTERN,
    TABLE_TYPES,
    TIME_ZONE,
    TIMESTAMP,
    TIMESTAMP_DELAY,
    TIMESTAMP_INITIAL,
    TIMESTAMP_OVERLAP,
    TOPIC_PREFIX,
    USER,
    Mode,
    NumericMapping,
)
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.allowed_paths import NOTHING_ALLOWED, AllowedPaths
from airflow_provider_connect.sdk.config_def import Config
from airflow_provider_connect.sdk.config_type import parse_instant

_NUMBER: Final = re.compile(r"-?[0-9]{1,38}")
_SHOWN: Final = 100


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """The parsed settings. Times are in milliseconds. ``timestamp_initial`` is counted from the epoch. -1 means now; None means the
    beginning. ``rows_from`` and ``rows_to`` (exclusive) are numbers of the incrementing column, or nanoseconds since the epoch for
    timestamps. ``overlap`` is a width in the same unit."""

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
    rows_from: int | None
    rows_to: int | None
    overlap: int
    needs_non_null: bool
    dialect: Dialect
    numeric_mapping: NumericMapping
    as_text: frozenset[str]
    time_zone: str
    batch_rows: int
    open_transactions_ms: int
    attempts: int
    backoff_ms: int

    @classmethod
    def of(cls, config: Config, allowed: AllowedPaths = NOTHING_ALLOWED) -> SourceSettings:
        """Parse settings. ``allowed`` has the host's files that the connector may reach.

        Raises ConfigException with all settings that are invalid or contradict each other.
        """
        errors = list(_contradictions(config))
        if errors:
            raise ConfigException("\n".join(errors), errors=errors)
        password = config[PASSWORD]
        url = parse_url(config[URL]).with_credentials(config[USER], None if password is None else password.value)
        mapping = config[NUMERIC_MAPPING]
        if mapping is None:
            mapping = NumericMapping.PRECISION_ONLY if config[NUMERIC_PRECISION_MAPPING] else NumericMapping.NONE
        return cls(
            url=url.existing.within(allowed),
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
            rows_from=_bound(Mode(config[MODE]), ROWS_FROM, config[ROWS_FROM]),
            rows_to=_bound(Mode(config[MODE]), ROWS_TO, config[ROWS_TO]),
            overlap=config[TIMESTAMP_OVERLAP] * 1_000_000 if Mode(config[MODE]).has_timestamp else config[INCREMENTING_OVERLAP],
            needs_non_null=config[NON_NULL],
            dialect=replace(url.dialect, is_quoting=config[QUOTE_IDENTIFIERS].lower() == "always"),
            numeric_mapping=NumericMapping(mapping.lower()),
            as_text=frozenset(config[AS_TEXT]),
            time_zone=config[TIME_ZONE],
            batch_rows=config[BATCH_ROWS],
            open_transactions_ms=config[OPEN_TRANSACTIONS],
            attempts=config[ATTEMPTS],
            backoff_ms=config[BACKOFF],
        )


_OVERLAPS: Final = {INCREMENTING_OVERLAP: (Mode.INCREMENTING,), TIMESTAMP_OVERLAP: (Mode.TIMESTAMP, Mode.TIMESTAMP_INCREMENTING)}


def errors_of(settings: Mapping[str, Any]) -> dict[str, list[str]]:
    """The contradictions between settings, by the setting to change. ``settings`` are parsed values, with None for invalid ones."""
    mode = settings[MODE]
    found: dict[str, list[str]] = {}

    def refuse(name: str, value: object, reason: str) -> None:
        found.setdefault(name, []).append(ConfigException.of(name, value, reason).message)

    if mode in (Mode.INCREMENTING, Mode.TIMESTAMP_INCREMENTING) and not settings[INCREMENTING]:
        refuse(INCREMENTING, "null", f"Mode {mode} needs it: the name of a column whose value grows with each new row.")
    if mode in (Mode.TIMESTAMP, Mode.TIMESTAMP_INCREMENTING) and not settings[TIMESTAMP]:
        refuse(TIMESTAMP, "null", f"Mode {mode} needs it: the name of a column that holds when a row was changed last.")
    for name in sorted({settings[INCREMENTING], *(settings[TIMESTAMP] or ())} & set(settings[AS_TEXT] or ())):
        refuse(
            AS_TEXT, name, f"Rows are read in the order of column {name} ({INCREMENTING} or {TIMESTAMP}): as text they have another order."
        )
    if settings[QUERY] and settings[TABLE_INCLUDE]:
        refuse(QUERY, settings[QUERY], f"Give either {QUERY} or {TABLE_INCLUDE}: with a query only its rows are read.")
    if settings[QUERY] and settings[TABLE_EXCLUDE]:
        refuse(QUERY, settings[QUERY], f"Give either {QUERY} or {TABLE_EXCLUDE}: with a query only its rows are read.")
    if settings[QUERY] and not settings[TOPIC_PREFIX]:
        refuse(TOPIC_PREFIX, "", f"With {QUERY} it is the whole name of the topic, and required.")
    for name, modes in _OVERLAPS.items() if mode in list(Mode) else ():
        if settings[name] and mode not in modes:
            refuse(name, settings[name], f"Mode {mode} does not use it. It is for {' and '.join(modes)}.")
    for name in (ROWS_FROM, ROWS_TO) if mode in list(Mode) else ():
        try:
            _bound(Mode(mode), name, settings[name])
        except ConfigException as error:
            found.setdefault(name, []).append(error.message)
    return found


def _bound(mode: Mode, name: str, text: str | None) -> int | None:
    """The value of ``rows.from`` or ``rows.to`` as a number. Raises ConfigException."""
    if text is None:
        return None
    if mode is Mode.BULK:
        reason = f"Mode {mode} has no column that rows are ordered by. Choose another mode, or remove it and bound the rows in a {QUERY}."
        raise ConfigException.of(name, text[:_SHOWN], reason)
    if not mode.has_timestamp:
        if _NUMBER.fullmatch(text.strip()) is None:
            raise ConfigException.of(name, text[:_SHOWN], "It must be a whole number of the incrementing column.")
        return int(text)
    return parse_instant(name, text) * 1000


def _contradictions(config: Config) -> Iterator[str]:
    for errors in errors_of(config).values():
        yield from errors
