"""The second part of the demonstration: a table is copied through a topic to a table of another database.

Uses PostgreSQL if its PyPI package is installed, otherwise SQLite. Knows only the settings of the example DAGs.
"""

import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, text

from airflow_provider_connect.dev.postgres_server import PostgresServer

DAGS = {"connect.example-jdbc-source": "example_jdbc_source.py", "connect.example-jdbc-sink": "example_jdbc_sink.py"}
TABLE = "orders"
SHOP, WAREHOUSE = "shop", "warehouse"
_ROWS_PER_INSERT = 5_000
_CHANGED_AT = {"postgresql": "to_char(changed_at, 'YYYY-MM-DD HH24:MI:SS.MS')", "sqlite": "strftime('%Y-%m-%d %H:%M:%f', changed_at)"}


@dataclass(frozen=True, slots=True)
class TableSummary:
    """The content of a table: number of rows, sum of the column ``quantity``, and a digest of all rows in the order of their keys."""

    rows: int
    total: int
    digest: str


class DemoTables:
    """A shop with a table of orders, and a warehouse to which they are copied. ``folder`` is for the files of both."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._postgres = PostgresServer(wal_level="logical") if PostgresServer.is_installed() else None

    @property
    def database(self) -> str:
        """The name of the database product."""
        return "SQLite" if self._postgres is None else "PostgreSQL"

    def variables(self) -> dict[str, str]:
        """The environment variables that the example DAGs read."""
        return {"CONNECT_EXAMPLE_JDBC_URL": self.url(SHOP), "CONNECT_EXAMPLE_JDBC_SINK_URL": self.url(WAREHOUSE)}

    def start(self, rows: int) -> None:
        """Create both databases and fill the shop's table."""
        if self._postgres is not None:
            self._postgres.start()
            engine = create_engine(self._postgres.url(), isolation_level="AUTOCOMMIT")
            with engine.connect() as connection:
                for name in (SHOP, WAREHOUSE):
                    connection.execute(text(f"create database {name}"))
            engine.dispose()
        self._fill(rows)

    def end(self) -> None:
        """Stop the databases. May be called if nothing was started."""
        if self._postgres is not None:
            self._postgres.stop()

    def summaries(self) -> tuple[TableSummary, TableSummary]:
        """The content of the shop's and of the warehouse's table."""
        return self._summary(SHOP), self._summary(WAREHOUSE)

    def command(self) -> str:
        """A command that adds an order."""
        insert = f"insert into {TABLE} values (1000001, 'you', 1, 9.99, current_timestamp)"
        program = f"import sqlalchemy; db = sqlalchemy.create_engine('{self.url(SHOP)}').connect()"
        return f'{sys.executable} -c "{program}; db.exec_driver_sql(\\"{insert}\\"); db.commit()"'

    def _fill(self, rows: int) -> None:
        engine = create_engine(self.url(SHOP))
        with engine.begin() as connection:
            connection.execute(
                text(
                    f"create table {TABLE} (id integer primary key, customer text not null, quantity integer not null, "
                    "price double precision not null, changed_at timestamp not null)"
                )
            )
            insert = text(f"insert into {TABLE} values (:id, :customer, :quantity, :price, :changed_at)")
            for first in range(1, rows + 1, _ROWS_PER_INSERT):
                connection.execute(insert, [_order(number) for number in range(first, min(first + _ROWS_PER_INSERT, rows + 1))])
        engine.dispose()

    def _summary(self, database: str) -> TableSummary:
        engine = create_engine(self.url(database))
        digest, rows, total = hashlib.sha256(), 0, 0
        with engine.connect() as connection:
            changed_at = _CHANGED_AT[engine.dialect.name]
            for row in connection.execute(text(f"select id, customer, quantity, price, {changed_at} from {TABLE} order by id")):
                digest.update(repr(tuple(row)).encode())
                rows, total = rows + 1, total + row[2]
        engine.dispose()
        return TableSummary(rows, total, digest.hexdigest())

    def url(self, database: str) -> str:
        """SQLAlchemy's URL of a database, which connectors also accept."""
        return f"sqlite:///{self._folder / database}.db" if self._postgres is None else self._postgres.url(database)


def _order(number: int) -> dict[str, Any]:
    mark = hashlib.md5(b"%d" % number, usedforsecurity=False).hexdigest()
    day, second = number % 28 + 1, number % 60
    return {
        "id": number,
        "customer": f"customer {mark[:12]}",
        "quantity": number % 17 + 1,
        "price": number % 10_000 / 100,
        "changed_at": f"2026-01-{day:02} 08:15:{second:02}.{number % 1000:03}",
    }
