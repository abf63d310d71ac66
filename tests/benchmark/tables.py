"""Rows in a real PostgreSQL and what stands for them in a topic: made on the server or once on disk, and the same on every machine."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import adbc_driver_postgresql.dbapi as adbc

from airflow_provider_connect.dev.own_server import LOOPBACK
from airflow_provider_connect.dev.postgres_server import PostgresServer
from airflow_provider_connect.runtime.spark.cache import made_once

DATABASE, SCHEMA = "postgres", "public"
_AT_ONCE = 100_000
_PAUSE_SECONDS = 0.25  # between two counts of the rows, which cost the server what the contestant could use
_NEARLY = 0.5  # statistics are late by a second: up to this share of the rows they are asked instead
_FIELDS = (
    ("id", "int64", False),
    ("customer", "int32", False),
    ("amount", "double", False),
    ("paid", "boolean", False),
    ("created_ms", "int64", False),
    ("note", "string", True),
)
_ROWS = """
create table {table} (id bigint primary key, customer integer not null, amount double precision not null, paid boolean not null,
                      created_ms bigint not null, note text);
insert into {table}
select n, n % 5003, (n % 100000) / 100.0, n % 3 = 0, 1700000000000 + n * 1000,
       case when n % 10 = 0 then null else 'order ' || md5(n::text) end
from generate_series(1::bigint, {rows}) as n;
analyze {table};
"""


class Tables:
    """Tables of one server; ``jdbc_url`` is what Java's connectors and ours are given."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self.jdbc_url = f"jdbc:postgresql://{LOOPBACK}:{server.port}/{DATABASE}"
        self.uri = server.uri(DATABASE)

    @contextmanager
    def filled(self, table: str, rows: int) -> Iterator[str]:
        """A table of six columns and so many rows, for the time of the ``with``."""
        self.execute(_ROWS.format(table=table, rows=rows))
        try:
            yield table
        finally:
            self.execute(f"drop table {table}")

    def execute(self, script: str) -> None:
        """Statements with semicolons between them."""
        with adbc.connect(self.uri, autocommit=True) as connection, connection.cursor() as cursor:
            for statement in filter(str.strip, script.split(";")):
                cursor.execute(statement)


class TableDestination:
    """A table that a sink creates and fills. Asked four times a second at the most, for counting costs the server time."""

    def __init__(self, tables: Tables, table: str, rows: int) -> None:
        self._table, self._rows = table, rows
        self._connection = adbc.connect(tables.uri, autocommit=True)
        self._next_count = 0.0

    def is_complete(self) -> bool:
        if time.monotonic() < self._next_count:
            return False
        is_complete = self._inserted() >= _NEARLY * self._rows and self.count() >= self._rows
        self._next_count = time.monotonic() + _PAUSE_SECONDS
        return is_complete

    def _inserted(self) -> int:
        """Rows inserted up to about a second ago."""
        return self._ask("select coalesce(sum(n_tup_ins), 0)::bigint from pg_stat_user_tables where relname = $1", [self._table])

    def count(self) -> int:
        exists = self._ask("select count(*) from pg_class where relname = $1", [self._table])
        return self._ask(f'select count(*) from "{self._table}"') if exists else 0

    def close(self) -> None:
        self._connection.close()

    def _ask(self, query: str, parameters: Sequence[Any] = ()) -> int:
        with self._connection.cursor() as cursor:
            cursor.execute(query, list(parameters) or None)
            row = cursor.fetchone()
        return int(row[0]) if row else 0


def rows_file(directory: Path, rows: int) -> Path:
    """A file of the same rows as JSON with its schema, a line each, as JsonConverter writes them."""
    return made_once(directory / f"rows-{rows}.json", lambda path: _write_rows(path, rows))


def _write_rows(path: Path, rows: int) -> None:
    fields = [{"type": kind, "optional": optional, "field": name} for name, kind, optional in _FIELDS]
    schema = json.dumps({"type": "struct", "fields": fields, "optional": False, "name": "orders"}, separators=(",", ":"))
    with path.open("w", encoding="ascii") as file:
        for first in range(1, rows + 1, _AT_ONCE):
            numbers = range(first, min(first + _AT_ONCE, rows + 1))
            file.writelines(f'{{"schema":{schema},"payload":{_row(number)}}}\n' for number in numbers)


def _row(number: int) -> str:
    paid = "true" if number % 3 == 0 else "false"
    note = "null" if number % 10 == 0 else f'"order {number * 2654435761 % 2**64:032x}"'
    return (
        f'{{"id":{number},"customer":{number % 5003},"amount":{number % 100000 / 100.0},"paid":{paid},'
        f'"created_ms":{1700000000000 + number * 1000},"note":{note}}}'
    )
