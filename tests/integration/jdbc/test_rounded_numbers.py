"""Numbers that a column does not hold exactly: what SQLite would replace is a bad record, and what a database rounds is named once for each
column and counted. Numbers that a column holds are neither."""

from __future__ import annotations

import logging
from decimal import Decimal
from typing import Any, Final

import pytest

from airflow_provider_connect.data.schema import FLOAT32_SCHEMA, FLOAT64_SCHEMA, INT64_SCHEMA, Schema, decimal_schema
from tests.integration.jdbc.sinks import UPSERT, Reported, Sink, TargetDatabase


@pytest.fixture(params=["postgresql", "mariadb"])
def server_target(request: pytest.FixtureRequest) -> TargetDatabase:
    found: TargetDatabase = request.getfixturevalue(f"{request.param}_target")
    return found


def put(target: TargetDatabase, field: Schema, values: list[Any]) -> tuple[dict[int, str], int]:
    """What is reported, by offset, and how many values are lost."""
    reported = Reported()
    sink = Sink(target, UPSERT, reported=reported)
    schema = Schema.struct({"id": INT64_SCHEMA, "n": field.as_optional()})
    sink.put([{"id": id, "n": value} for id, value in enumerate(values)], schema, keys=[{"id": id} for id in range(len(values))])
    sink.commit()
    lost = sink.task._task.lost_values()
    sink.end()
    return reported.errors, lost


HELD: Final = ["12345678901.25", "0.10", "-1234567890123.45", "0.00"]


def test_a_decimal_that_sqlite_would_round_is_a_bad_record(sqlite_target: TargetDatabase) -> None:
    values = [*map(Decimal, HELD), Decimal("12345678901234567.89"), None, Decimal("-123456789012345.67")]
    errors, lost = put(sqlite_target, decimal_schema(2), values)
    assert (list(errors), lost) == ([4, 6], 0)
    assert "12345678901234567.89 does not fit column n, where it would be rounded to 15 digits: cast the field to string" in errors[4]
    assert [Decimal(text) for (text,) in sqlite_target.rows("SELECT CAST(n AS TEXT) FROM notes WHERE n IS NOT NULL ORDER BY id")] == [
        Decimal(text) for text in HELD
    ]


def test_whole_decimals_of_64_bits_are_kept_by_sqlite(sqlite_target: TargetDatabase) -> None:
    values = [Decimal((1 << 63) - 1), Decimal(-(1 << 63)), Decimal(1 << 63), Decimal("1E+30"), Decimal("12345678901234567890123")]
    errors, _ = put(sqlite_target, decimal_schema(0), values)
    assert list(errors) == [2, 4]
    assert sqlite_target.rows("SELECT n FROM notes WHERE id < 2 ORDER BY id") == [((1 << 63) - 1,), (-(1 << 63),)]


@pytest.mark.parametrize("field", [FLOAT64_SCHEMA, FLOAT32_SCHEMA])
def test_nan_is_a_bad_record_where_it_would_become_null(sqlite_target: TargetDatabase, field: Schema) -> None:
    errors, _ = put(sqlite_target, field, [0.5, float("nan"), None, float("inf")])
    assert list(errors) == [1]
    assert "nan does not fit column n, where it would become null" in errors[1]
    assert sqlite_target.rows("SELECT id FROM notes ORDER BY id") == [(0,), (2,), (3,)]


def test_nan_is_refused_by_mariadb_and_kept_by_postgresql(server_target: TargetDatabase) -> None:
    server_target.run("CREATE TABLE notes (id bigint PRIMARY KEY, n double precision)")
    errors, lost = put(server_target, FLOAT64_SCHEMA, [0.5, float("nan"), 1.5])
    assert (list(errors), lost) == ([1] if server_target.dialect == "mariadb" else [], 0)
    assert len(server_target.rows("SELECT id FROM notes WHERE n IS NOT NULL")) == 3 - len(errors)


ROUNDED: Final = [
    ("numeric(10,2)", decimal_schema(4), [Decimal("1.2300"), Decimal("1.2345"), Decimal("1.2355"), None], 2, "1.2345"),
    ("numeric(10,2)", FLOAT64_SCHEMA, [1.25, 0.1, 1.2345], 1, "1.2345"),
    ("real", FLOAT64_SCHEMA, [0.5, 0.1, None], 1, "0.1"),
    ("double precision", decimal_schema(2), [Decimal("0.10"), Decimal("1234567890123456.78")], 1, "1234567890123456.78"),
    ("double precision", INT64_SCHEMA, [1 << 53, (1 << 53) + 1], 1, str((1 << 53) + 1)),
]


@pytest.mark.parametrize("case", ROUNDED, ids=str)
def test_numbers_that_a_column_rounds_are_named_once_and_counted(
    server_target: TargetDatabase, caplog: pytest.LogCaptureFixture, case: tuple[str, Schema, list[Any], int, str]
) -> None:
    type, field, values, count, shown = case
    type = "float" if (type, server_target.dialect) == ("real", "mariadb") else type
    server_target.run(f"CREATE TABLE notes (id bigint PRIMARY KEY, n {type})")
    errors, lost = put(server_target, field, values)
    assert (errors, lost) == ({}, count)
    [line] = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "column n of table " in line
    assert f"such as {shown}. " in line
    assert len(server_target.rows("SELECT id FROM notes")) == len(values)


def test_columns_that_the_sink_creates_round_nothing(target: TargetDatabase, caplog: pytest.LogCaptureFixture) -> None:
    for field, values in ((decimal_schema(4), [Decimal("1.2345"), None]), (FLOAT64_SCHEMA, [0.1]), (FLOAT32_SCHEMA, [0.5])):
        target.run("DROP TABLE IF EXISTS notes")
        assert put(target, field, values) == ({}, 0)
    assert not [record for record in caplog.records if record.levelno == logging.WARNING]
