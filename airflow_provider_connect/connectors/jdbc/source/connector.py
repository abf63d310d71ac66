"""JdbcSource: the rows of a database's tables, or of a query, as records. Has the settings and offsets of the well-known JDBC source."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, ClassVar, Final

from airflow_provider_connect.connectors.jdbc.catalog.column import Table, TableName
from airflow_provider_connect.connectors.jdbc.catalog.table_filter import TABLE_EXCLUDE, TABLE_INCLUDE, plain_names
from airflow_provider_connect.connectors.jdbc.database.database import Database, add_driver_errors, open_database, read_tables
from airflow_provider_connect.connectors.jdbc.database.database_files import add_path_errors
from airflow_provider_connect.connectors.jdbc.source.config import (
    CATALOG_PATTERN,
    CONFIG_DEF,
    FROM_NOW,
    QUERY,
    ROWS_FROM,
    ROWS_TO,
    SCHEMA_PATTERN,
    TOPIC_PREFIX,
    Mode,
)
from airflow_provider_connect.connectors.jdbc.source.offset import (
    INCREMENTING,
    QUERY_PARTITION,
    TIMESTAMP,
    SourceOffset,
    known_offset,
    refuse_without,
    refuse_wrong,
)
from airflow_provider_connect.connectors.jdbc.source.row_query import RowQuery
from airflow_provider_connect.connectors.jdbc.source.row_reader import clock
from airflow_provider_connect.connectors.jdbc.source.row_source import RowSource, query_source, table_source
from airflow_provider_connect.connectors.jdbc.source.settings import SourceSettings, errors_of
from airflow_provider_connect.connectors.jdbc.source.shares import Share, planned_shares, read_progress, shares_text
from airflow_provider_connect.connectors.jdbc.source.task import TABLES, JdbcSourceTask
from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.sdk.bounded_regex import BoundedRegex
from airflow_provider_connect.sdk.config_def import Config, ConfigValue
from airflow_provider_connect.sdk.connector import ExactlyOnceSupport, OffsetReader, SourceConnector
from airflow_provider_connect.sdk.task import SourceTask

_MOST_ERRORS = 20


_WANTED: Final = {Mode.INCREMENTING: INCREMENTING, Mode.TIMESTAMP: TIMESTAMP, Mode.TIMESTAMP_INCREMENTING: TIMESTAMP}


class JdbcSourceConnector(SourceConnector):
    """Reads the rows of tables of a relational database, or of a query, into topics, one topic for each table.

    Each run lists the tables again, and divides them among its tasks."""

    class_name = "io.confluent.connect.jdbc.JdbcSourceConnector"
    aliases = ("JdbcSource", "JdbcSourceConnector", "io.aiven.connect.jdbc.JdbcSourceConnector")
    task_class: ClassVar[type[SourceTask]] = JdbcSourceTask
    range_settings: ClassVar[tuple[str, ...]] = (ROWS_FROM, ROWS_TO)
    config_def = CONFIG_DEF

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        settings = SourceSettings.of(self.config, self.allowed_paths)
        if settings.query is not None:
            return [self.config.originals]
        with closing(open_database(settings.url)) as database:
            tables = [(source, share) for source, share in self._sources(database, settings) if share is not None]
            notes: list[str] = []
            shares = planned_shares(database, settings, tables, self.context.offset, max_tasks, notes=notes)
        self._note(notes)
        count = min(max_tasks, len(shares))
        return [{**self.config.originals, TABLES: shares_text(shares[number::count])} for number in range(count)]

    def validate(self, config: Mapping[str, str]) -> list[ConfigValue]:
        """Checks only the settings, because this process may be unable to reach the database. ``check`` connects."""
        found = super().validate(config)
        values = {value.name: value.value for value in found}
        errors = errors_of(values)
        for value in found:
            value.errors += errors.get(value.name, ())
        self._add_topic_errors({value.name: value for value in found})
        add_path_errors(found, self.allowed_paths)
        add_driver_errors(found)
        return found

    def check(self, config: Mapping[str, str]) -> None:
        """Check that the user can log in, and that the database has the tables and columns that the config names."""
        settings = SourceSettings.of(self.config_def.parse(config), self.allowed_paths)
        with closing(open_database(settings.url)) as database:
            self._sources(database, settings)

    def output_topics(self, config: Mapping[str, str]) -> Sequence[str] | None:
        settings = SourceSettings.of(self.config_def.parse(config), self.allowed_paths)
        return None if settings.query is None else [settings.topic_prefix]

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        """Not supported for bulk reads. They have no offsets, so all rows are sent again after a failure."""
        mode = self.config_def.parse(config)["mode"]
        return ExactlyOnceSupport.UNSUPPORTED if mode == Mode.BULK else ExactlyOnceSupport.SUPPORTED

    def has_new_data(self, config: Config, offsets: OffsetReader) -> bool | None:
        """Whether any table has a row after its offset. Runs one short query per table, which uses an index of the key columns."""
        settings = SourceSettings.of(config, self.allowed_paths)
        if settings.mode is Mode.BULK:
            return True
        with closing(open_database(settings.url)) as database:
            now = clock(database, settings) if settings.mode.has_timestamp else 0
            until = SourceOffset(None, now - settings.timestamp_delay_ms * 1_000_000) if settings.mode.has_timestamp else SourceOffset()
            found = self._sources(database, settings)
            notes: list[str] = []
            has_unread = any(_has_unread_rows(database, settings, source, until, offsets, notes=notes) for source in found)
        self._note(notes)
        return has_unread

    def _note(self, notes: Sequence[str]) -> None:
        """Add notes about tables to ``missing``."""
        if notes:
            self.missing = ". ".join(filter(None, (self.missing, *notes[:_MOST_ERRORS])))

    def _sources(self, database: Database, settings: SourceSettings) -> list[tuple[RowSource, Share | None]]:
        """The query, or the tables with their shares. ``missing`` has the tables that patterns select, but that cannot be read."""
        if settings.query is not None:
            return [(query_source(database, settings), None)]
        tables = chosen_tables(database, settings)
        sources, left_out = readable_tables(database, settings, tables, self.refusal_of_topic)
        if not tables:
            self.missing = "No table matches its settings and is readable by the user: nothing is read until one is"
        elif left_out:
            self.missing = _left_out_text(left_out)
        return list(sources)

    def _add_topic_errors(self, values: Mapping[str, ConfigValue]) -> None:
        """Errors of a prefix, and of tables included by name, with which Kafka accepts no topic."""
        prefix, tables = values[TOPIC_PREFIX], values[TABLE_INCLUDE]
        if not isinstance(prefix.value, str) or values[QUERY].value:  # the framework checks the topic of a query
            return
        if reason := self.refusal_of_topic(f"{prefix.value}t"):
            text = f"{reason.rstrip('.')}, in each topic.{_renamed(reason)}"
            prefix.errors.append(ConfigException.of(TOPIC_PREFIX, prefix.value, text).message)
        elif not tables.errors and isinstance(tables.value, list):
            for name in plain_names(tables.value):
                topic = f"{prefix.value}{name.rpartition('.')[2]}"  # the name may have the schema or be folded, and has these characters
                if reason := self.refusal_of_topic(topic):
                    tables.errors.append(ConfigException.of(TABLE_INCLUDE, name, _topic_reason(topic, reason)).message)

    def alter_offsets(self, config: Mapping[str, str], offsets: Any) -> bool:  # Any: JSON from a user, checked here
        for partition, offset in offsets.items() if isinstance(offsets, Mapping) else offsets:
            refuse_wrong(partition, offset)
            if (wanted := _WANTED.get(mode := Mode(config.get("mode") or Mode.BULK))) is not None:
                refuse_without(wanted, mode, offset)
        return True


def chosen_tables(database: Database, settings: SourceSettings) -> list[Table]:
    """The tables that a config selects. Raises ConfigException for names that no table has."""
    tables = [table for table in read_tables(database, settings.url, settings.table_types) if in_patterns(table, settings)]
    names = [table.name for table in tables]
    missing = settings.tables.missing(names)
    if missing:
        known = ", ".join(name.text for name in names[:_MOST_ERRORS]) or "none"
        types = ", ".join(settings.table_types)
        reason = f"There is no such table of type {types} in {settings.url.address} that the user may read. There are: {known}."
        errors = [ConfigException.of(TABLE_INCLUDE, name, reason).message for name in missing]
        raise ConfigException("\n".join(errors), errors=errors)
    kept = set(settings.tables.chosen(names))
    return [table for table in tables if table.name in kept]


def readable_tables(
    database: Database, settings: SourceSettings, tables: Sequence[Table], refusal: Callable[[str], str]
) -> tuple[list[tuple[RowSource, Share]], dict[TableName, list[str]]]:
    """The tables that can be read, and the errors of those that cannot. ``refusal`` returns why a topic cannot hold records.

    One table costs no other: the others are read. Raises ConfigException with all errors if a table that the config includes by name has
    one, or if no table can be read."""
    names = [table.name for table in tables]
    errors: dict[TableName, list[str]] = {}
    for name, reason in [*_refused_topics(names, settings.topic_prefix, refusal), *shared_topics(names, settings.topic_prefix)]:
        errors.setdefault(name, []).append(ConfigException.of(TABLE_INCLUDE, name, reason).message)
    found = []
    for table in tables:
        try:
            source = table_source(database, settings, table)
        except ConnectException as error:
            if error.retriable:
                raise
            texts = error.errors if isinstance(error, ConfigException) else [f"Reading table {table.name}: {error.message}"]
            errors.setdefault(table.name, []).extend(texts)
        else:
            if table.name not in errors:
                found.append((source, Share(table, is_only=True)))
    named = settings.tables.named(names)
    fatal = errors if tables and not found else {name: each for name, each in errors.items() if name in named}
    if fatal:
        texts = list(dict.fromkeys(text for each in fatal.values() for text in each))
        texts[_MOST_ERRORS:] = [f"… and {len(texts) - _MOST_ERRORS} more"] if len(texts) > _MOST_ERRORS else []
        raise ConfigException("\n".join(texts), errors=texts)
    return found, errors


def _refused_topics(names: Sequence[TableName], prefix: str, refusal: Callable[[str], str]) -> Iterator[tuple[TableName, str]]:
    for name in names:
        topic = f"{prefix}{name.table}"
        if reason := refusal(topic):
            yield name, _topic_reason(topic, reason)


def shared_topics(names: Sequence[TableName], prefix: str) -> Iterator[tuple[TableName, str]]:
    """The tables of several schemas with the same topic, with the reason why none of them is read: their rows could not be distinguished
    in that topic."""
    counts = Counter(name.table for name in names)
    for name in names:
        if counts[name.table] > 1:
            alike = ",".join(str(other) for other in names if other.table == name.table)
            yield (
                name,
                f"The rows of {alike} would go into one topic, {prefix}{name.table}. Choose one by {SCHEMA_PATTERN}, {TABLE_INCLUDE} or "
                f"{TABLE_EXCLUDE}, and read the other by a connector with another {TOPIC_PREFIX}.",
            )


def _renamed(reason: str) -> str:
    """The advice that helps against Kafka's rule for names alone: a topic that is not for records is refused before transformations."""
    return " Transformation RegexRouter can rename a topic." if reason.startswith("Topic name is invalid") else ""


def _topic_reason(topic: str, reason: str) -> str:
    return f"Its topic would be {topic}: {reason.rstrip('.')}. Leave the table out by {TABLE_EXCLUDE}.{_renamed(reason)}"


def _left_out_text(errors: Mapping[TableName, Sequence[str]]) -> str:
    count = "1 table is" if len(errors) == 1 else f"{len(errors)} tables are"
    names = ", ".join(name.text for name in list(errors)[:_MOST_ERRORS])
    reasons = " ".join(dict.fromkeys(text for texts in errors.values() for text in texts))
    return f"{count} not read, and all others are: {names}. {reasons}"


def _has_unread_rows(
    database: Database,
    settings: SourceSettings,
    source: tuple[RowSource, Share | None],
    until: SourceOffset,
    offsets: OffsetReader,
    *,
    notes: list[str],
) -> bool:
    """Whether the query (``share`` is None) or a table has unread rows. If a table is another than the one that was read, or its greatest
    number is below the offset, advice is added to ``notes``."""
    rows, share = source
    if share is None:
        since = SourceOffset.of(offsets(QUERY_PARTITION))
    else:
        since = SourceOffset.of(known_offset(share.table.name, offsets, is_only=share.is_only))
    if settings.mode.has_timestamp and settings.timestamp_initial == FROM_NOW and since.timestamp_ns is None:
        return True  # a run notes the time from which rows are new, even if there are no rows yet
    if settings.mode is Mode.INCREMENTING and share is not None and rows.is_stored:
        progress, _, greatest = read_progress(database, settings, rows, share, offsets)
        reached = progress.position
        if rows.is_replaced(progress.table_ids):
            notes.append(rows.replaced_advice(reached))
            return False
        if reached is not None and greatest is not None and greatest < reached and settings.rows_to is None:
            notes.append(rows.reset_advice(greatest, reached))
        if greatest is not None and (reached is None or greatest > reached):
            return True
        return bool(settings.overlap) and _has_late_rows(database, RowQuery.of(rows, settings), since)
    if settings.overlap and _has_late_rows(database, RowQuery.of(rows, settings), since):
        return True
    return database.has_row(RowQuery.of(rows, settings).any_row(since, until))


def _has_late_rows(database: Database, query: RowQuery, since: SourceOffset) -> bool:
    """Whether the number of rows differs from the number in the offset. If a late row and a deleted row cancel out, the late row is found
    with the next new row."""
    columns = query.source
    since = since.of_columns(numbers=columns.incrementing is not None, times=bool(columns.timestamps))
    if since.overlap_from is None:
        return False
    [(number,)] = database.rows(query.overlapping(since))
    return int(number) != len(since.overlap_hashes)


def in_patterns(table: Table, settings: SourceSettings) -> bool:
    """Whether catalog and schema match the config's patterns. Raises ConfigException if matching takes too long."""
    parts = ((CATALOG_PATTERN, table.name.catalog, settings.catalog_pattern), (SCHEMA_PATTERN, table.name.schema, settings.schema_pattern))
    return all(name is None or pattern is None or _like(key, pattern).matches(name) for key, name, pattern in parts)


@functools.lru_cache(maxsize=100)
def _like(key: str, pattern: str) -> BoundedRegex:
    """SQL's LIKE, without escapes."""
    expression = "".join({"%": ".*", "_": "."}.get(character, re.escape(character)) for character in pattern)
    try:
        return BoundedRegex(expression, key, flags=re.DOTALL)
    except re.error as error:
        raise ConfigException.of(key, pattern[:200], f"Not a pattern: {error}") from error
