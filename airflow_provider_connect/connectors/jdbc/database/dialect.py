"""Names of tables, and what databases write differently: quoted names, column types, times. Pure text; knows no connection.

A dialect is a value, found by ``dialect_of``. Words that a database understands only in part are those of standard SQL.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from airflow_provider_connect.connectors.jdbc.database.database_options import MARIADB, MSSQL, MYSQL, ORACLE, POSTGRESQL, SQLITE
from airflow_provider_connect.data.schema import DATE, DECIMAL, STRING_SCHEMA, TIME, TIMESTAMP, Schema, SchemaType
from airflow_provider_connect.errors import ConfigException, ConnectException


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """``catalog`` is the database. Which parts a name has is the database's affair: PostgreSQL has all, MySQL no schema, SQLite only the
    table."""

    table: str
    schema: str | None = None
    catalog: str | None = None

    @property
    def parts(self) -> tuple[str, ...]:
        """What there is, the widest first."""
        return tuple(part for part in (self.catalog, self.schema, self.table) if part is not None)

    @property
    def text(self) -> str:
        """``catalog.schema.table`` without quotes: what people, lists of tables and source partitions call it."""
        return ".".join(self.parts)

    def __str__(self) -> str:
        return self.text

    def answers_to(self, text: str, *, ignore_case: bool = False) -> bool:
        """Whether ``text`` is this name, whole or without its widest parts."""
        names = [".".join(self.parts[start:]) for start in range(len(self.parts))]
        if ignore_case:
            return text.lower() in {name.lower() for name in names}
        return text in names


QUOTE_IDENTIFIERS: Final = "quote.sql.identifiers"
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*")


@dataclass(frozen=True, slots=True)
class Dialect:
    """One database product. ``quotes`` are the characters before and behind a name; ``types`` the column types by Connect type or logical
    name, ``{scale}`` filled in; ``key_types`` those that differ for columns of a primary key. ``longest_name`` is in UTF-8's bytes, where
    the product counts ``in_bytes``, else in characters."""

    name: str
    types: Mapping[str, str]
    key_types: Mapping[str, str] = field(default_factory=dict)
    quotes: tuple[str, str] = ('"', '"')
    is_quoting: bool = True
    longest_name: int = 0
    in_bytes: bool = False

    @property
    def exact_text(self) -> str:
        """The type of a key column in which no two texts are equal that differ, as in case."""
        collation = {MYSQL: " CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", MSSQL: " COLLATE Latin1_General_100_BIN2"}
        collation[MARIADB] = collation[MYSQL]
        return self.column_type(STRING_SCHEMA, is_key=True) + collation.get(self.name, "")

    @property
    def ignores_case(self) -> bool:
        """Whether two names of columns that differ by case alone are one name, quoted or not."""
        return self.name in (SQLITE, MYSQL, MARIADB, MSSQL)

    def folded(self, identifier: str) -> str:
        """A name of a column as the database compares it."""
        return identifier.lower() if self.ignores_case else identifier

    def quoted(self, identifier: str) -> str:
        """A name as SQL. Without quoting (``quote.sql.identifiers=never``) only plain names pass: anything else could be SQL."""
        if not identifier or "\0" in identifier:
            raise ConnectException(f"{identifier!r} is not a name of a table or column")
        length = len(identifier.encode("utf-8", "surrogatepass")) if self.in_bytes else len(identifier)
        if 0 < self.longest_name < length:  # PostgreSQL would cut it, and the name be another
            unit = "bytes" if self.in_bytes else "characters"
            raise ConnectException(f"The name {identifier!r} of a table or column has {length} {unit}; {self.name} has {self.longest_name}")
        if not self.is_quoting:
            if not _PLAIN.fullmatch(identifier):
                raise ConfigException.of(
                    QUOTE_IDENTIFIERS, "never", f"The name {identifier!r} of a table or column needs quotes. Set it to always."
                )
            return identifier
        before, behind = self.quotes
        return f"{before}{identifier.replace(behind, behind * 2)}{behind}"

    def table(self, name: TableName) -> str:
        """A table's whole name as SQL."""
        parts = name.parts[1:] if self.name == POSTGRESQL and name.catalog is not None else name.parts
        return ".".join(map(self.quoted, parts))

    def column_type(self, schema: Schema, *, is_key: bool = False) -> str:
        """The type of a column that holds values of ``schema``, without NULL or NOT NULL. Raises ConnectException for what no column
        holds: maps, structs, and arrays but for PostgreSQL's of single values."""
        element = schema.value_schema
        if self.name == POSTGRESQL and schema.type is SchemaType.ARRAY and element is not None and element.type is not SchemaType.ARRAY:
            return f"{self.column_type(element)}[]"
        kind = schema.logical_name or str(schema.type)
        text = (self.key_types.get(kind) if is_key else None) or self.types.get(kind)
        if text is None:
            raise ConnectException(f"{schema.name or schema.type.name} has no column type in {self.name}")
        return text.replace("{scale}", str(schema.scale)) if kind == DECIMAL else text


_STANDARD: Final[Mapping[str, str]] = {
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
_POSTGRESQL: Final = Dialect(
    POSTGRESQL, {**_STANDARD, SchemaType.STRING: "TEXT", SchemaType.BYTES: "BYTEA", DECIMAL: "DECIMAL"}, longest_name=63, in_bytes=True
)
_SQLITE: Final = Dialect(
    SQLITE,
    {
        **_STANDARD,
        **dict.fromkeys((SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64), "INTEGER"),
        SchemaType.FLOAT32: "REAL",
        SchemaType.FLOAT64: "REAL",
        SchemaType.STRING: "TEXT",
    },
    quotes=("`", "`"),  # within " a name that is no column, such as one that was just dropped, would be a text
)
_MYSQL: Final = Dialect(
    MYSQL,
    {
        **_STANDARD,
        SchemaType.INT8: "TINYINT",
        SchemaType.INT32: "INT",
        SchemaType.FLOAT32: "FLOAT",
        SchemaType.FLOAT64: "DOUBLE",
        SchemaType.BOOLEAN: "TINYINT",
        SchemaType.STRING: "LONGTEXT",
        SchemaType.BYTES: "LONGBLOB",
        DECIMAL: "DECIMAL(65,{scale})",
        TIME: "TIME(3)",
        TIMESTAMP: "DATETIME(3)",
    },
    key_types={SchemaType.STRING: "VARCHAR(255)", SchemaType.BYTES: "VARBINARY(255)"},
    quotes=("`", "`"),
    longest_name=64,
)
_ORACLE: Final = Dialect(
    ORACLE,
    {
        SchemaType.INT8: "NUMBER(3,0)",
        SchemaType.INT16: "NUMBER(5,0)",
        SchemaType.INT32: "NUMBER(10,0)",
        SchemaType.INT64: "NUMBER(19,0)",
        SchemaType.FLOAT32: "BINARY_FLOAT",
        SchemaType.FLOAT64: "BINARY_DOUBLE",
        SchemaType.BOOLEAN: "NUMBER(1,0)",
        SchemaType.STRING: "CLOB",
        SchemaType.BYTES: "BLOB",
        DECIMAL: "NUMBER(38,{scale})",
        DATE: "DATE",
        TIMESTAMP: "TIMESTAMP(3)",
    },
    key_types={SchemaType.STRING: "VARCHAR2(255 CHAR)", SchemaType.BYTES: "RAW(255)"},
    longest_name=128,
    in_bytes=True,
)
_DIALECTS: Final = {
    POSTGRESQL: _POSTGRESQL,
    SQLITE: _SQLITE,
    MYSQL: _MYSQL,
    MARIADB: dataclasses.replace(_MYSQL, name=MARIADB),
    ORACLE: _ORACLE,
    MSSQL: Dialect(
        MSSQL,
        {
            **_STANDARD,
            SchemaType.FLOAT64: "FLOAT",
            SchemaType.BOOLEAN: "BIT",
            SchemaType.STRING: "NVARCHAR(MAX)",
            SchemaType.BYTES: "VARBINARY(MAX)",
            TIMESTAMP: "DATETIME2",
        },
        key_types={SchemaType.STRING: "NVARCHAR(400)", SchemaType.BYTES: "VARBINARY(800)"},
        quotes=("[", "]"),
        longest_name=128,
    ),
}


def dialect_of(name: str, *, is_quoting: bool = True) -> Dialect:
    """The dialect of ``DatabaseUrl.dialect``; standard SQL for a database that is not known here."""
    found = _DIALECTS.get(name) or Dialect(name, _STANDARD)
    return dataclasses.replace(found, is_quoting=is_quoting)
