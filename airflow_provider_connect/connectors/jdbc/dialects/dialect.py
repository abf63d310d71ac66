"""The differences of one database product from standard SQL and from other products, as one value.

``Dialect`` itself is standard SQL, for products that only SQLAlchemy supports. Each other product is a subclass in a separate module,
listed in ``registry``. All other modules use the dialect and never compare its name. A dialect has no connection: it returns SQL, or reads
the rows of a given database.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Final, NamedTuple, Protocol
from zoneinfo import ZoneInfo

from airflow_provider_connect.connectors.jdbc.catalog.column import Column, Table, TableName
from airflow_provider_connect.connectors.jdbc.dialects.inspection import inspected_columns, inspected_tables
from airflow_provider_connect.connectors.jdbc.dialects.url_options import UrlOptions
from airflow_provider_connect.data.arrow_schema import arrow_type
from airflow_provider_connect.data.schema import DATE, DECIMAL, STRING_SCHEMA, TIME, TIMESTAMP, Schema, SchemaType
from airflow_provider_connect.errors import ConfigException, ConnectException

QUOTE_IDENTIFIERS: Final = "quote.sql.identifiers"
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*")
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
BATCH_BYTES: Final = 4 << 20  # of the database's own encoding; larger batches fall out of the cache

STANDARD_TYPES: Final[Mapping[str, str]] = {
    SchemaType.INT8: "SMALLINT",
    SchemaType.INT16: "SMALLINT",
    SchemaType.INT32: "INTEGER",
    SchemaType.INT64: "BIGINT",
    SchemaType.FLOAT32: "REAL",
    SchemaType.FLOAT64: "DOUBLE PRECISION",
    SchemaType.BOOLEAN: "BOOLEAN",
    SchemaType.STRING: "VARCHAR(4000)",
    SchemaType.BYTES: "BLOB",
    DECIMAL: "DECIMAL(38,{scale})",
    DATE: "DATE",
    TIME: "TIME",
    TIMESTAMP: "TIMESTAMP",
}


class UnknownFormError(Exception):
    """A URL does not have the required form. The message has that form, and only names from the URL."""


class Rows(Protocol):
    """An open database whose catalog is queried."""

    def rows(self, sql: str) -> list[tuple[Any, ...]]: ...


IS_NULL: Final = "-"


class Selected(NamedTuple):
    """A column in a select list, and the schema of its values. ``check`` is a second expression, for a database whose columns hold values
    of any type. It is ``IS_NULL`` where the column is null and ``expression`` has a substitute, the value as SQL where ``schema`` does not
    hold it, and otherwise empty."""

    expression: str
    schema: Schema
    check: str | None = None


class Savepoint(NamedTuple):
    """The statements of a savepoint, before its name. If ``release`` is None, the savepoint ends with the transaction."""

    create: str = "SAVEPOINT"
    roll_back: str = "ROLLBACK TO"
    release: str | None = "RELEASE SAVEPOINT"


class ErrorWords(NamedTuple):
    """Regular expressions for drivers' messages, in any case. They classify errors without SQLSTATE or number."""

    unknown_user: str = ""
    unknown_database: str = ""
    unreachable: str = ""
    lost: str = ""
    rolled_back: str = ""


class RowSql(NamedTuple):
    """One row in a statement with parameters: the table, the quoted names of columns by name, and the driver's placeholder for each
    value."""

    table: str
    names: Mapping[str, str]
    marks: Sequence[str]

    @property
    def insert(self) -> str:
        """The statement that inserts the row."""
        return f"INSERT INTO {self.table} ({', '.join(self.names.values())}) VALUES ({', '.join(self.marks)})"

    def merge(self, keys: Sequence[str], *, hint: str = "", source: str = "", end: str = "") -> str:
        """A MERGE of the row by its key. ``hint`` follows the table, ``source`` follows the values, ``end`` follows the statement."""
        given = ", ".join(f"{mark} AS {name}" for mark, name in zip(self.marks, self.names.values(), strict=True))
        same = " AND ".join(f"stored.{self.names[name]} = given.{self.names[name]}" for name in keys)
        changes = ", ".join(f"stored.{name} = given.{name}" for key, name in self.names.items() if key not in keys)
        values = ", ".join(f"given.{name}" for name in self.names.values())
        return (
            f"MERGE INTO {self.table}{hint} stored USING (SELECT {given}{source}) given ON ({same})"
            f"{f' WHEN MATCHED THEN UPDATE SET {changes}' if changes else ''}"
            f" WHEN NOT MATCHED THEN INSERT ({', '.join(self.names.values())}) VALUES ({values}){end}"
        )


def sql_text(value: str) -> str:
    """A name as a text literal of standard SQL."""
    escaped = value.replace("'", "''")
    return f"'{escaped}'"


@dataclass(frozen=True)
class Dialect:
    """A product's dialect. ``name`` is SQLAlchemy's name. If ``is_quoting`` is false (``quote.sql.identifiers=never``), names are written
    without quotes."""

    name: str
    is_quoting: bool = True

    # --- URL and driver

    title: ClassVar[str] = ""
    """The product's name for users."""
    is_tested: ClassVar[bool] = True
    """Whether the tests run against a server of this product."""
    aliases: ClassVar[tuple[str, ...]] = ()
    """Other names in URLs."""
    extra: ClassVar[str | None] = None
    """The extra of this package that installs the driver. None if the product is not in ``registry``."""
    driver: ClassVar[str | None] = None
    """The Python driver for SQLAlchemy: its name in a URL, and the name of its module."""
    adbc_driver: ClassVar[str | None] = None
    """The ADBC driver, which reads columns directly from the wire. None if SQLAlchemy is used."""
    is_file: ClassVar[bool] = False
    """Whether a database is a file of the host."""
    uses_libpq: ClassVar[bool] = False
    """Whether the driver is libpq, with several hosts, a socket's folder as a host, an initial schema, and the local host as the
    default."""
    makes_tls_context: ClassVar[bool] = False
    """Whether the driver accepts the ``ssl_…`` options as an SSLContext."""
    port: ClassVar[int | None] = None
    options: ClassVar[UrlOptions] = UrlOptions()
    zero_dates: ClassVar[str | None] = None
    """The value that replaces 0000-00-00 if the URL does not set one. None means null."""

    @property
    def is_known(self) -> bool:
        """Whether the product has a dialect here."""
        return self.extra is not None

    def common_form(self, rest: str) -> str:
        """The part of a URL after the product's name, converted to ``//user:password@host:port/database?name=value``. Raises
        UnknownFormError."""
        return rest

    def check_options(self, options: Mapping[str, str], given: Mapping[str, str]) -> None:
        """Raise UnknownOptionError for ``options`` of the driver that require another option, which is not in the URL (``given``)."""

    # --- errors

    lost_numbers: ClassVar[frozenset[int]] = frozenset()
    """The server's error numbers for a lost connection."""
    rollback_numbers: ClassVar[frozenset[int]] = frozenset()
    """The server's error numbers for a transaction that the server ended in favor of another transaction."""
    error_words: ClassVar[ErrorWords] = ErrorWords()
    value_numbers: ClassVar[frozenset[int]] = frozenset()
    """The server's error numbers for a refused value, in addition to errors that the driver reports as such."""
    numbers_statement_errors: ClassVar[bool] = False
    """Whether each refused statement has an error number, so that an error without a number is the driver's error about a value."""

    # --- sessions and results

    session_statements: ClassVar[tuple[str, ...]] = ()
    """These statements run on each new connection of SQLAlchemy."""
    adbc_statements: ClassVar[tuple[str, ...]] = ()
    """These statements run on each new connection of ADBC."""
    buffers_answers: ClassVar[bool] = False
    """Whether the driver buffers a whole result in memory unless streaming is requested."""
    streams_small_batches: ClassVar[bool] = False
    """Whether the ADBC driver's batches have few rows and must be joined."""

    def stream_options(self, rows: int) -> Mapping[str, str]:
        """Options of an ADBC statement whose result is streamed, about ``rows`` rows at a time."""
        return {}

    # --- catalog

    dataset_scheme: ClassVar[str | None] = None
    """OpenLineage's scheme. If None, the dialect's name is used."""
    default_schema: ClassVar[str | None] = None
    describes_views: ClassVar[bool] = False
    """Whether a query's columns are read from a temporary view (``read_view_columns``), instead of from its first rows."""

    def read_tables(self, database: Rows) -> list[Table]:
        """All tables and views that the user may read, without system tables."""
        return inspected_tables(_engine(database))

    def read_columns(self, database: Rows, table: TableName) -> list[Column]:
        """The columns of a table in order. Empty if there is no such table."""
        return inspected_columns(_engine(database), table)

    def read_view_columns(self, database: Rows, view: str) -> list[Column]:
        """The columns of a temporary view of this connection."""
        raise NotImplementedError

    def open_writers_query(self, relation: str) -> str | None:
        """A query for the transactions that hold a writer's lock on a table. None if the dialect has no such query."""
        return None

    # --- names

    quotes: ClassVar[tuple[str, str]] = ('"', '"')
    """The characters before and after a quoted name."""
    longest_name: ClassVar[int] = 0
    """The maximum length of a name. 0 if no limit is known."""
    in_bytes: ClassVar[bool] = False
    """Whether ``longest_name`` is in UTF-8 bytes, instead of characters."""
    ignores_case: ClassVar[bool] = False
    """Whether two column names that differ only in case are the same name, quoted or not."""
    has_schemas: ClassVar[bool] = True
    """Whether tables are in schemas of a catalog, instead of directly in catalogs."""
    reaches_one_database: ClassVar[bool] = False
    """Whether statements reach only tables of the connection's database."""
    has_dotted_names: ClassVar[bool] = True
    """Whether a dot in an unquoted name separates schema and table."""

    def folded(self, identifier: str) -> str:
        """A column name in the form in which the database compares names."""
        return identifier.lower() if self.ignores_case else identifier

    def stored_name(self, identifier: str) -> str:
        """The name in the catalog, after the name was written in SQL with or without quotes (``is_quoting``)."""
        return identifier if self.is_quoting else self._unquoted(identifier)

    def _unquoted(self, identifier: str) -> str:
        return identifier

    def quoted(self, identifier: str) -> str:
        """A name as SQL. If quotes are switched off, only plain names are accepted, because other text could be SQL."""
        if not identifier or "\0" in identifier:
            raise ConnectException(f"{identifier!r} is not a name of a table or column")
        length = len(identifier.encode("utf-8", "surrogatepass")) if self.in_bytes else len(identifier)
        if 0 < self.longest_name < length:  # PostgreSQL would truncate it to another name
            unit = "bytes" if self.in_bytes else "characters"
            raise ConnectException(f"The name {identifier!r} of a table or column has {length} {unit}; {self.name} has {self.longest_name}")
        if not self.is_quoting:
            if not _PLAIN.fullmatch(identifier):
                raise ConfigException.of(
                    QUOTE_IDENTIFIERS, "never", f"The name {identifier!r} of a table or column needs quotes. Set it to always."
                )
            return identifier
        before, after = self.quotes
        return f"{before}{identifier.replace(after, after * 2)}{after}"

    def table(self, name: TableName) -> str:
        """A table's fully qualified name as SQL."""
        return ".".join(map(self.quoted, name.parts))

    # --- types

    types: ClassVar[Mapping[str, str]] = STANDARD_TYPES
    """The column types by Connect type or logical name. ``{scale}`` is replaced."""
    key_types: ClassVar[Mapping[str, str]] = {}
    """The column types that differ for columns of a primary key."""
    has_arrays: ClassVar[bool] = False
    binary_collation: ClassVar[str] = ""
    """A clause after a type. With this clause, only texts that are identical, including their case, are equal."""
    table_options: ClassVar[str] = ""
    """Options at the end of CREATE TABLE, for tables of our own."""
    reads_empty_as_null: ClassVar[bool] = False
    """Whether an empty text is null."""
    has_fixed_types: ClassVar[bool] = False
    """Whether a column's type cannot change, but accepts any number."""
    replaces_numbers: ClassVar[bool] = False
    """Whether NaN becomes null, and decimals are doubles, so that those with more than 15 digits become other numbers."""
    has_negative_scales: ClassVar[bool] = False
    """Whether a decimal column may have a scale below 0."""
    casts_texts: ClassVar[bool] = False
    """Whether columns of numbers accept texts that are numbers, and refuse other texts."""

    @property
    def exact_text(self) -> str:
        """The type of a key column in which only texts that are identical, including their case, are equal."""
        return self.column_type(STRING_SCHEMA, is_key=True) + self.binary_collation

    def column_type(self, schema: Schema, *, is_key: bool = False) -> str:
        """The type of a column for values of ``schema``, without NULL or NOT NULL. Raises ConnectException for types without a column type:
        maps, structs, and arrays (except PostgreSQL's arrays of single values)."""
        element = schema.value_schema
        if self.has_arrays and schema.type is SchemaType.ARRAY and element is not None and element.type is not SchemaType.ARRAY:
            return f"{self.column_type(element)}[]"
        kind = schema.logical_name or str(schema.type)
        text = (self.key_types.get(kind) if is_key else None) or self.types.get(kind)
        if text is None:
            raise ConnectException(f"{schema.name or schema.type.name} has no column type in {self.name}")
        if kind != DECIMAL:
            return text
        scale = schema.scale if self.has_negative_scales else max(schema.scale, 0)
        return text.replace("{precision}", str(arrow_type(schema).precision)).replace("{scale}", str(scale))

    def change_type(self, column: str, type: str, nullability: str, rest: str) -> str:
        """The part of ALTER TABLE that changes the type of a quoted column. ``rest`` is the column's definition after the type, if
        ``definition_query`` reports it. Otherwise it equals ``nullability``."""
        return f"ALTER COLUMN {column} SET DATA TYPE {type}"

    # --- literals

    text_prefix: ClassVar[str] = ""
    """A prefix of quoted texts, so that letters outside of the code page do not become question marks."""
    escapes_backslashes: ClassVar[bool] = False
    has_booleans: ClassVar[bool] = False
    """Whether TRUE and FALSE are literals."""
    bytes_literal: ClassVar[str] = "X'{}'"
    """A template for hexadecimal digits."""
    types_time_literals: ClassVar[bool] = False
    """Whether a literal of a date or timestamp needs the name of its type."""

    def text_literal(self, text: str) -> str:
        """A text in quotes."""
        if "\0" in text:
            raise ConnectException(f"{text!r} holds a zero byte, which no text of SQL may")
        escaped = sql_text(text)
        return f"{self.text_prefix}{escaped.replace(chr(92), chr(92) * 2) if self.escapes_backslashes else escaped}"

    def literal(self, schema: Schema, value: Any) -> str:
        """A value of ``schema`` as SQL. Raises ConnectException for arrays, maps and structs."""
        if isinstance(value, bool):
            return str(value).upper() if self.has_booleans else str(int(value))
        if isinstance(value, int | float | Decimal):
            return str(value) if not isinstance(value, Decimal) else format(value, "f")
        if isinstance(value, bytes | bytearray | memoryview):
            return self.bytes_literal.format(bytes(value).hex())
        if isinstance(value, datetime.datetime):
            text = f"'{value.astimezone(datetime.UTC).replace(tzinfo=None).isoformat(sep=' ')}'"
            return f"TIMESTAMP {text}" if self.types_time_literals else text
        if isinstance(value, datetime.date | datetime.time):
            return f"{'DATE ' if self.types_time_literals else ''}'{value.isoformat()}'"
        if isinstance(value, Mapping) or not isinstance(value, str):
            raise ConnectException(f"A default of {schema.type.name} cannot be written as SQL")
        return self.text_literal(value)

    # --- reading rows

    clock_query: ClassVar[str] = "SELECT CURRENT_TIMESTAMP AS now"
    """A query for the database's clock: microseconds since the epoch, or a timestamp."""
    casts_timestamps: ClassVar[bool] = False
    """Whether ``timestamp_operand`` is also read, because the driver drops digits or the zone of the column itself."""

    def with_zones(self, database: Rows, relation: str, columns: Sequence[Column]) -> list[Column]:
        """The columns of ``relation``, with the kind TIMESTAMP_TZ for columns whose times have a zone although the catalog has none. Called
        if the zone of times without a zone is not UTC."""
        return list(columns)

    def selected(self, column: Column, schema: Schema, zero_dates: str | None) -> Selected:
        """The selection of values of ``schema`` from a column. ``zero_dates`` is the value that replaces MySQL's 0000-00-00 (None means
        null, if the column may be null)."""
        return Selected(self.quoted(column.name), schema)

    def timestamp_operand(self, column: str, *, has_zone: bool) -> str:
        """A quoted timestamp column, in the form to compare with ``timestamp_literal``."""
        return column

    def timestamp_literal(self, nanoseconds: int, zone: str, *, has_zone: bool) -> str:
        """A time since the epoch, in the form to compare with timestamp columns. ``zone`` is the zone of columns without a zone."""
        return f"TIMESTAMP '{local_text(nanoseconds, zone)}'"

    # --- writing rows

    has_copy: ClassVar[bool] = False
    """Whether rows are written as whole columns with PostgreSQL's COPY (``PostgresqlStore``), instead of one by one (``RowStore``)."""
    locks_database: ClassVar[bool] = False
    """Whether a transaction blocks all other writers. BEGIN IMMEDIATE starts such a transaction, and statements end it."""
    write_statements: ClassVar[tuple[str, ...]] = ()
    """These statements run on each new connection that writes."""
    savepoint: ClassVar[Savepoint] = Savepoint()
    upserts_by_any_index: ClassVar[bool] = False
    """Whether ``upsert`` changes a row that is equal in any unique index. If false, it changes only the row of the key."""
    writes_times_as_text: ClassVar[bool] = False
    """Whether times and decimals are texts in the database, with the same sort order as the values."""

    needs_unzoned_texts: ClassVar[bool] = False
    """Whether timestamp columns refuse texts with Z or an offset, or keep them as texts."""

    def locking(self, select: str) -> str:
        """A SELECT with WHERE that locks its rows until the transaction ends."""
        return f"{select} FOR UPDATE"

    def upsert(self, row: RowSql, keys: Sequence[str]) -> str | None:
        """The statement that inserts a row, or changes the row of its key. None if not known."""
        return None

    def definition_lock(self, name: TableName) -> str | None:
        """The SQL that locks a table's definition until the transaction ends, if another session could change it in steps."""
        return None

    def definition_query(self, name: TableName) -> str | None:
        """A query for a table's definition, which ``definition_rests`` parses. None if a change of type does not need the rest."""
        return None

    def definition_rests(self, definition: str) -> dict[str, str]:
        """The rest of each column's definition after the type: nullability, default, comment."""
        return {}

    def view_base(self, database: Rows, name: TableName) -> tuple[TableName, Mapping[str, str]] | None:
        """The table or view that an updatable view consists of, and its columns by the view's columns. None if ``name`` is not a view, if
        the view has computed columns or several tables, or if the product needs no such names."""
        return None

    def unsafe_engine_query(self, name: TableName) -> str | None:
        """A query for the table's storage engine. It has a row only if that engine has no transactions."""
        return None

    def change_lock(self, name: TableName, seconds: int) -> tuple[str, str] | None:
        """Two statements, for a product in which changes of tables commit. The first is a query that locks the table against other tasks'
        changes. It waits for at most ``seconds``, and returns 1 if it has the lock. The second ends that lock."""
        return None


def local_text(nanoseconds: int, zone: str) -> str:
    """A time since the epoch as local time of a zone, with microseconds."""
    return _local_time(nanoseconds, zone).replace(tzinfo=None).isoformat(" ", "microseconds")


def utc_offset(nanoseconds: int, zone: str) -> datetime.timedelta:
    """The difference between local time of a zone and UTC, at a time since the epoch."""
    return _local_time(nanoseconds, zone).utcoffset() or datetime.timedelta()


def _local_time(nanoseconds: int, zone: str) -> datetime.datetime:
    return (_EPOCH + datetime.timedelta(microseconds=nanoseconds // 1000)).astimezone(ZoneInfo(zone))


def _engine(database: Any) -> Any:  # Any: SQLAlchemy's engine
    return database.engine
