"""Records that JdbcSink writes into tables of its own, and JdbcSource reads back, in each database."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from airflow_provider_connect.data.schema import INT64_SCHEMA, PRECISION, SCALE, STRING_SCHEMA, TIMESTAMP_SCHEMA, Schema, decimal_schema
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


ZONES = ["UTC", "America/New_York", "Asia/Kolkata"]
INSTANTS = [datetime.datetime(2026, month, 1, 23, 30, 15, 250_000, datetime.UTC) for month in (1, 7)]


@pytest.mark.parametrize("dialect", DATABASES)
@pytest.mark.parametrize("zone", ZONES)
def test_timestamps_are_in_the_zone_of_both_settings(database: TargetDatabase, zone: str) -> None:
    for instant in INSTANTS:
        database.run("DROP TABLE IF EXISTS notes")
        assert written_and_read(database, TIMESTAMP_SCHEMA, instant, sink={"db.timezone": zone}, source={"db.timezone": zone}) == instant


FORMS: dict[str, Callable[[datetime.datetime], object]] = {
    "local text": lambda instant: instant.astimezone(ZoneInfo("Asia/Kolkata")).replace(tzinfo=None).isoformat(" ", "milliseconds"),
    "text in UTC": lambda instant: f"{instant.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z",
    "text of a zone": lambda instant: instant.astimezone(ZoneInfo("America/New_York")).isoformat(" ", "milliseconds"),
    "number": lambda instant: int(instant.timestamp() * 1000),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("query", [{}, {"query": "SELECT * FROM orders", "topic.prefix": "orders"}], ids=["table", "query"])
def test_times_of_sqlite_are_in_the_zone_of_the_setting_or_in_their_own(
    sqlite_target: TargetDatabase, form: str, query: dict[str, str]
) -> None:
    """Rows are compared in the same zone, so that each is read once."""
    sqlite_target.run("CREATE TABLE orders (id INTEGER PRIMARY KEY, at TIMESTAMP NOT NULL)")
    settings = {"mode": "timestamp", "timestamp.column.name": "at", "db.timezone": "Asia/Kolkata", **query}
    source = Source(sqlite_target, settings)
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=250_000)
    for hours in (60, 2, 1):
        instant = now - datetime.timedelta(hours=hours)
        sqlite_target.run(f"INSERT INTO orders (at) VALUES ({FORMS[form](instant)!r})")
        assert source.has_new_data() is not False
        assert [row["at"] for row in source.run()] == [instant]
    assert source.has_new_data() is False
    sqlite_target.run(f"INSERT INTO orders (at) VALUES ({FORMS[form](now + datetime.timedelta(hours=1))!r})")
    assert source.run() == [], "a row of the database's future"


@pytest.mark.parametrize("dialect", DATABASES)
@pytest.mark.parametrize("quotes", ["always", "never"])
def test_names_are_quoted_as_both_settings_ask(database: TargetDatabase, quotes: str) -> None:
    """PostgreSQL folds a name without quotes to lower case."""
    row, settings = Schema.struct({"Id": INT64_SCHEMA, "Total": INT64_SCHEMA}), {"quote.sql.identifiers": quotes}
    into = Sink(database, {"auto.create": "true", **settings}, topics=("Orders",))
    into.put([{"Id": 1, "Total": 5}], row, topic="Orders")
    into.commit()
    into.end()
    is_folded = database.dialect == "postgresql" and quotes == "never"
    source = Source(database, {"mode": "incrementing", "incrementing.column.name": "Id", "table.include": "[oO]rders", **settings})
    assert source.run() == [{"id": 1, "total": 5} if is_folded else {"Id": 1, "Total": 5}]
    assert source.has_new_data() is False


@pytest.mark.parametrize("dialect", DATABASES)
def test_text_of_any_script_is_read_back(database: TargetDatabase) -> None:
    if database.dialect == "mariadb":
        database.run("ALTER DATABASE CHARACTER SET utf8mb4")
    text = "é ß € 漢字 \U0001d11e \u2028 ' \" \\ % \t\n"
    assert written_and_read(database, STRING_SCHEMA, text, sink={}, source={}) == text


@pytest.mark.parametrize("dialect", DATABASES)
@pytest.mark.parametrize("mapping", ["none", "precision_only", "best_fit", "best_fit_eager_double"])
@pytest.mark.parametrize(("scale", "text"), [(0, "-12"), (2, "1234.25")])
def test_decimals_keep_their_value_with_each_mapping(database: TargetDatabase, mapping: str, scale: int, text: str) -> None:
    found = written_and_read(database, decimal_schema(scale), Decimal(text), sink={}, source={"numeric.mapping": mapping})
    assert Decimal(found) == Decimal(text)
