"""A source of rows: a table, a view or a query, with its columns, key columns, topic and name.

Each run creates the source again, and so detects added and dropped columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

from airflow_provider_connect.connectors.jdbc.catalog.column import TABLE, TIMESTAMPS, Column, ColumnKind, Table, TableName
from airflow_provider_connect.connectors.jdbc.catalog.table_filter import TABLE_INCLUDE
from airflow_provider_connect.connectors.jdbc.database.database import Database, open_database, read_columns
from airflow_provider_connect.connectors.jdbc.database.database_errors import StatementException
from airflow_provider_connect.connectors.jdbc.database.database_url import DatabaseUrl
from airflow_provider_connect.connectors.jdbc.dialects.dialect import Dialect
from airflow_provider_connect.connectors.jdbc.source.column_reading import UTC
from airflow_provider_connect.connectors.jdbc.source.config import INCREMENTING, NON_NULL, QUERY, TIMESTAMP
from airflow_provider_connect.connectors.jdbc.source.offset import QUERY_PARTITION, TABLE_ID, table_partition
from airflow_provider_connect.connectors.jdbc.source.settings import SourceSettings
from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.errors import ConfigException

_NUMBERS = (ColumnKind.INT8, ColumnKind.INT16, ColumnKind.INT32, ColumnKind.INT64)
_ALIAS = "connect_rows"


@dataclass(frozen=True, slots=True)
class RowSource:
    """One source. ``relation`` is the SQL after FROM. ``incrementing`` and ``timestamps`` are the columns that the mode needs. They are
    None and empty if the mode needs none. ``table`` is None for a query. ``is_stored``: rows are stored in the table itself, unlike a
    view's rows."""

    relation: str
    columns: tuple[Column, ...]
    topic: str
    partition: Mapping[str, object]
    dialect: Dialect
    incrementing: Column | None = None
    timestamps: tuple[Column, ...] = ()
    table: TableName | None = None
    is_stored: bool = False

    @property
    def has_unique_numbers(self) -> bool:
        """Whether the incrementing column is the whole primary key."""
        key = [column.name for column in self.columns if column.key_position]
        return self.incrementing is not None and key == [self.incrementing.name]

    @property
    def name(self) -> str:
        """The source in error messages."""
        return "the query" if self.table is None else f"table {self.table}"

    @property
    def table_id(self) -> str | None:
        """The identity of the table and of its numbers (``Column.table_id``). None if it is unknown or does not matter: rows of a view or a
        query have no table of their own, and in modes with a timestamp, the rows of another table have later times."""
        return self.incrementing.table_id if self.incrementing is not None and self.is_stored and not self.timestamps else None

    def is_replaced(self, table_ids: Iterable[str | None]) -> bool:
        """Whether one of these identities is another table's, or of numbers before a restart. An identity without a sequence matches any
        sequence."""
        if self.table_id is None:
            return False
        own, others = self.table_id.split("/"), [each.split("/") for each in table_ids if each is not None]
        return any(mine != other for each in others for mine, other in zip(own, each, strict=False))

    def replaced_advice(self, reached: int | None) -> str:
        """The advice for a table that ``is_replaced``. ``reached`` is the last value that was read."""
        upto = "" if reached is None else f" up to {reached}"
        return (
            f"Table {self.table} was created again or restored, or its sequence was restarted or altered, since it was read{upto}: it "
            f"is not read. To read it from its beginning, reset its offset; to go on, set the offset again, without {TABLE_ID}"
        )

    def reset_advice(self, greatest: int, reached: int) -> str:
        """The advice for a table whose greatest incrementing value is now below the last value that was read."""
        column = "" if self.incrementing is None else f" of column {self.incrementing.name}"
        return (
            f"The greatest number{column} in {self.name} is {greatest}, but it was read up to {reached}: rows up to that number are not "
            "read. If it was emptied, restored or replaced, reset its offset"
        )


def table_source(database: Database, settings: SourceSettings, table: Table) -> RowSource:
    """The source of a table. Raises ConfigException for a missing table, and for columns that the mode cannot use."""
    columns = _with_texts(read_columns(database, settings.url, table.name), settings, table.name.table)
    if not columns:
        raise ConfigException.of(TABLE_INCLUDE, table.name, "There is no such table any more, or the user has no right to see it.")
    dialect = settings.dialect
    relation = dialect.table(table.name)
    columns = _with_zones(database, settings, relation, columns)
    incrementing, timestamps = _keys(settings, columns, f"table {table.name}", knows_null=table.type == TABLE)
    return RowSource(
        relation,
        tuple(columns),
        f"{settings.topic_prefix}{table.name.table}",
        table_partition(table.name),
        dialect,
        incrementing,
        timestamps,
        table.name,
        table.type == TABLE,
    )


def query_source(database: Database, settings: SourceSettings) -> RowSource:
    """The source of a query. Raises ConfigException for a query that the database refuses, and for columns that the mode cannot use."""
    query = settings.query
    assert query is not None
    columns = _with_texts(read_query_columns(database, settings.url, query), settings)
    twice = sorted({column.name for column in columns if [other.name for other in columns].count(column.name) > 1})
    if twice:
        raise ConfigException.of(QUERY, query, f"Two columns are named {twice[0]}. Give each its own name with AS.")
    dialect = settings.dialect
    relation = f"({query}\n) {_ALIAS}"  # no AS, which Oracle refuses; a line break, because the query may end with a comment
    columns = _with_zones(database, settings, relation, columns)
    incrementing, timestamps = _keys(settings, columns, "the query", knows_null=False)
    return RowSource(relation, tuple(columns), settings.topic_prefix, QUERY_PARTITION, dialect, incrementing, timestamps)


def _with_zones(database: Database, settings: SourceSettings, relation: str, columns: list[Column]) -> list[Column]:
    return columns if settings.time_zone == UTC else settings.dialect.with_zones(database, relation, columns)


def _with_texts(columns: list[Column], settings: SourceSettings, table: str = "") -> list[Column]:
    """The columns, with the kind OTHER for columns in ``columns.as.text``, so that only their text is read."""
    folded = settings.dialect.folded
    texts = set(map(folded, settings.as_text))

    def is_text(column: Column) -> bool:
        return not texts.isdisjoint(map(folded, (column.name, f"{table}.{column.name}")))

    return [replace(column, kind=ColumnKind.OTHER, precision=None, scale=None) if is_text(column) else column for column in columns]


def _keys(settings: SourceSettings, columns: list[Column], name: str, *, knows_null: bool) -> tuple[Column | None, tuple[Column, ...]]:
    """The columns that the mode needs. ``knows_null``: the catalog has the nullability of columns. This is so only for tables."""
    errors = list(_mistakes(settings, columns, name, requires_non_null=knows_null and settings.needs_non_null))
    if errors:
        raise ConfigException("\n".join(errors), errors=errors)
    incrementing = _named(columns, settings.incrementing) if settings.mode.has_incrementing and settings.incrementing else None
    timestamps = [_named(columns, each) for each in settings.timestamps] if settings.mode.has_timestamp else []
    return incrementing, tuple(column for column in timestamps if column is not None)


def _mistakes(settings: SourceSettings, columns: list[Column], name: str, *, requires_non_null: bool) -> Iterator[str]:
    if settings.mode.has_incrementing and settings.incrementing:
        column = _named(columns, settings.incrementing)
        reason = _incrementing_mistake(column, columns, name, requires_non_null=requires_non_null)
        if reason:
            yield ConfigException.of(INCREMENTING, settings.incrementing, reason).message
    if not settings.mode.has_timestamp:
        return
    found = [(each, _named(columns, each)) for each in settings.timestamps]
    for each, column in found:
        if column is None:
            yield ConfigException.of(TIMESTAMP, each, _no_column(columns, name)).message
        elif column.kind not in TIMESTAMPS:
            reason = f"Column {column.name} of {name} is of type {column.type_name}. Name a column that holds date and time."
            yield ConfigException.of(TIMESTAMP, each, reason).message
    known = [column for _, column in found if column is not None]
    if len({column.kind for column in known if column.kind in TIMESTAMPS}) > 1:
        yield ConfigException.of(TIMESTAMP, ",".join(settings.timestamps), f"In {name}, some have a time zone and some have none.").message
    if requires_non_null and known and all(column.is_nullable and column.kind in TIMESTAMPS for column in known):
        names = ", ".join(column.name for column in known)
        reason = (
            f"Column {names} of {name} may be null, and rows where it is would never be read. Declare it NOT NULL, "
            f"name a column that is, or set {NON_NULL} to false if such rows do not matter."
        )
        yield ConfigException.of(TIMESTAMP, ",".join(settings.timestamps), reason).message


def _incrementing_mistake(column: Column | None, columns: list[Column], name: str, *, requires_non_null: bool) -> str | None:
    if column is None:
        return _no_column(columns, name)
    is_whole = column.kind in _NUMBERS or (column.kind is ColumnKind.DECIMAL and not column.scale)
    if not is_whole:
        return f"Column {column.name} of {name} is of type {column.type_name}. Name a column of growing whole numbers."
    if requires_non_null and column.is_nullable:
        return (
            f"Column {column.name} of {name} may be null, and rows where it is would never be read. Declare it NOT NULL, "
            f"or set {NON_NULL} to false if such rows do not matter."
        )
    return None


def _no_column(columns: list[Column], name: str) -> str:
    known = ", ".join(column.name for column in columns)
    return f"There is no such column in {name}. Its columns are: {known}. Leave out tables without such a column by table.exclude."


def _named(columns: list[Column], name: str) -> Column | None:
    exact = [column for column in columns if column.name == name]
    alike = [column for column in columns if column.name.lower() == name.lower()]
    return exact[0] if exact else alike[0] if len(alike) == 1 else None


# --- the columns of a query -----------------------------------------------------------------------------------------------------------

_VIEW: Final = "connect_query"
_SAMPLE_ROWS: Final = 1000


def read_query_columns(database: Database, url: DatabaseUrl, query: str) -> list[Column]:
    """The columns in order, all nullable. For some products, they are read from a view that exists briefly in the connection's temporary
    schema. For others, they are inferred from the first rows. Raises ConfigException for a query that the database refuses."""
    try:
        if url.dialect.describes_views:
            return _of_view(database, url, query)
        return _of_first_rows(url, query)
    except StatementException as error:
        reason = f"{error.message}. Correct the query, or the user's rights."
        raise ConfigException.of(QUERY, query, reason) from error


def _of_view(database: Database, url: DatabaseUrl, query: str) -> list[Column]:
    try:
        database.execute(f"CREATE TEMP VIEW {_VIEW} AS SELECT * FROM ({query}\n) {_ALIAS}")
    except StatementException as error:
        if error.state in ("25006", "42501"):  # a standby server, or no privilege for temporary objects
            return _of_first_rows(url, query)
        raise
    try:
        return url.dialect.read_view_columns(database, _VIEW)
    finally:
        database.execute(f"DROP VIEW {_VIEW}")


def _of_first_rows(url: DatabaseUrl, query: str) -> list[Column]:
    with closing(open_database(url)) as database:
        for batch in database.batches(f"SELECT * FROM ({query}\n) {_ALIAS}", _SAMPLE_ROWS):
            return [_column(field) for field in batch.schema]
    reason = "It has no rows yet, and this database reports the columns of a query only with rows. Run it when there are some."
    raise ConfigException.of(QUERY, query, reason)


def _column(field: pa.Field) -> Column:
    types = pa.types
    kinds = (
        (types.is_boolean, ColumnKind.BOOLEAN),
        (types.is_int16, ColumnKind.INT16),
        (types.is_int32, ColumnKind.INT32),
        (types.is_integer, ColumnKind.INT64),
        (types.is_float32, ColumnKind.FLOAT32),
        (types.is_floating, ColumnKind.FLOAT64),
        (types.is_decimal, ColumnKind.DECIMAL),
        (types.is_date, ColumnKind.DATE),
        (types.is_time, ColumnKind.TIME),
        (types.is_binary, ColumnKind.BYTES),
    )
    if types.is_timestamp(field.type):
        return Column(field.name, ColumnKind.TIMESTAMP if field.type.tz is None else ColumnKind.TIMESTAMP_TZ, str(field.type))
    kind = next((kind for is_type, kind in kinds if is_type(field.type)), ColumnKind.STRING)
    if kind is ColumnKind.DECIMAL:
        return Column(field.name, kind, "decimal", precision=38, scale=field.type.scale)
    if (field.metadata or {}).get(b"ADBC:postgresql:typname") == b"numeric":
        return Column(field.name, ColumnKind.DECIMAL, "numeric")
    return Column(field.name, kind, str(field.type))
