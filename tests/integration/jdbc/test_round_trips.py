"""Records that JdbcSink writes into tables of its own, and JdbcSource reads back, in each database."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from airflow_provider_connect.data.schema import INT64_SCHEMA, PRECISION, SCALE, Schema, decimal_schema
from tests.integration.jdbc.sinks import Sink, TargetDatabase
from tests.integration.jdbc.sources import Source

DATABASES = ["postgresql", "mariadb", "sqlite"]


@pytest.fixture
def database(request: pytest.FixtureRequest, dialect: str) -> TargetDatabase:
    found: TargetDatabase = request.getfixturevalue(f"{dialect}_target")
    return found


def written_and_read(database: TargetDatabase, schema: Schema, value: Any, *, sink: dict[str, str], source: dict[str, str]) -> Any:
    """``value`` after it was written into a new table and read from it. Raises ConnectException if one side refuses it."""
    row = Schema.struct({"id": INT64_SCHEMA, "value": schema})
    into = Sink(database, {"auto.create": "true", **sink})
    into.put([{"id": 1, "value": value}], row)
    into.commit()
    into.end()
    [found] = Source(database, {"mode": "bulk", "table.include": "notes", **source}).run()
    return found["value"]


def decimal_of(digits: int, scale: int) -> Schema:
    return decimal_schema(scale, parameters={SCALE: str(scale), **({PRECISION: str(digits)} if digits > 38 else {})})


DECIMALS: list[tuple[int, int, str, list[str]]] = [
    (38, 2, "-123.45", DATABASES),
    (38, 18, f"0.{'9' * 18}", ["postgresql", "mariadb"]),
    (38, 19, f"0.{'9' * 19}", ["postgresql", "mariadb"]),
    (38, 20, "1E-20", DATABASES),
    (38, 37, f"1.{'9' * 37}", ["postgresql", "mariadb"]),
    (38, 38, f"0.{'9' * 38}", ["postgresql", "mariadb"]),
    (76, 40, f"123.{'9' * 40}", ["postgresql"]),
    (76, 76, f"0.{'9' * 76}", ["postgresql"]),
    (76, 2, f"{'9' * 74}.99", ["postgresql"]),
    (38, 38, "0.5", DATABASES),
    (76, 2, "1E+70", ["postgresql", "sqlite"]),
    (76, 0, "9" * 76, ["postgresql"]),
    (38, -5, "1200000", DATABASES),
]


@pytest.mark.parametrize(("dialect", "digits", "scale", "text"), [(each, *case[:3]) for case in DECIMALS for each in case[3]])
def test_decimals_that_a_database_holds_are_read_back(database: TargetDatabase, digits: int, scale: int, text: str) -> None:
    """SQLite keeps 15 digits, and MariaDB has 65 digits."""
    assert written_and_read(database, decimal_of(digits, scale), Decimal(text), sink={}, source={}) == Decimal(text)
