"""Values in SQLite columns of another type: SQLite stores any value in any column. Each is read as it is, or refused by its name."""

from typing import Any

import pytest

from airflow_provider_connect.errors import ConnectException
from tests.integration.jdbc.sinks import TargetDatabase
from tests.integration.jdbc.sources import Source

BULK = {"mode": "bulk"}
REFUSED = {
    "text in a number": ("bigint", "5", "'5 apples'", "'5 apples'", "5 apples"),
    "no text in a number": ("integer", "5", "''", "''", ""),
    "a fraction in a whole number": ("integer", "5", "1.5", "1.5", "1.5"),
    "a number too large for 64 bits": ("bigint", "5", "10000000000000000000", "1.0e+19", "1.0e+19"),
    "bytes in a number": ("integer", "5", "x'35'", "X'35'", "X'35'"),
    "text in a boolean": ("boolean", "1", "'yes'", "'yes'", "yes"),
    "text in a float": ("real", "1.5", "'none'", "'none'", "none"),
    "bytes in a float": ("double", "1.5", "x'35'", "X'35'", "X'35'"),
    "a number that no double holds": ("numeric", "1.5", "9007199254740993", "9007199254740993", "9007199254740993"),
    "bytes in a text": ("text", "'a'", "x'00ff'", "X'00FF'", "X'00FF'"),
    "bytes in a decimal": ("decimal(9, 2)", "1.5", "x'35'", "X'35'", "X'35'"),
    "no text in a decimal": ("decimal(9, 2)", "1.5", "''", "''", ""),
    "text in a date": ("date", "'2024-01-01'", "'soon'", "'soon'", "soon"),
    "text in a time": ("time", "'12:00:00'", "'noon'", "'noon'", "noon"),
    "text in a timestamp": ("timestamp", "'2024-01-01'", "'31.12.2024'", "'31.12.2024'", "31.12.2024"),
}


def rows(target: TargetDatabase, **settings: str) -> list[dict[str, Any]]:
    return Source(target, {**BULK, **settings}).run()


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("is_alone", [True, False])
def test_a_value_of_another_type_is_named_and_can_be_read_as_text(sqlite_target: TargetDatabase, case: str, *, is_alone: bool) -> None:
    type, good, literal, shown, text = REFUSED[case]
    sqlite_target.run(
        f"CREATE TABLE odd (id integer PRIMARY KEY, v {type})",
        *([] if is_alone else [f"INSERT INTO odd VALUES (1, {good})"]),
        f"INSERT INTO odd VALUES (2, {literal}), (3, NULL)",
    )
    with pytest.raises(ConnectException, match=r"Column v of table odd: the value .* columns\.as\.text") as raised:
        rows(sqlite_target)
    assert f"the value {shown} does not fit" in str(raised.value)
    assert rows(sqlite_target, **{"columns.as.text": "v"})[-2:] == [{"id": 2, "v": text}, {"id": 3, "v": None}]


@pytest.mark.parametrize(
    ("type", "literal", "expected"),
    [
        ("bigint", "9223372036854775807", 2**63 - 1),
        ("bigint", "'12'", 12),
        ("integer", "-1e3", -1000),
        ("boolean", "2", True),
        ("real", "9007199254740992", 2.0**53),
        ("numeric", "7", 7.0),
        ("text", "5", "5"),
        ("text", "''", ""),
        ("blob", "'ab'", b"ab"),
        ("blob", "x''", b""),
    ],
)
def test_a_value_that_its_columns_type_holds_is_read(sqlite_target: TargetDatabase, type: str, literal: str, expected: object) -> None:
    sqlite_target.run(f"CREATE TABLE odd (v {type})", f"INSERT INTO odd VALUES ({literal}), (NULL)")
    assert rows(sqlite_target) == [{"v": expected}, {"v": None}]


def test_a_text_in_the_numbers_of_the_mode_is_named(sqlite_target: TargetDatabase) -> None:
    sqlite_target.run("CREATE TABLE odd (id integer NOT NULL, v integer)", "INSERT INTO odd VALUES (1, 1), ('two', 2)")
    with pytest.raises(ConnectException, match="value two of the incrementing column"):
        rows(sqlite_target, mode="incrementing", **{"incrementing.column.name": "id"})


def test_a_text_in_a_computed_column_of_numbers_is_named(sqlite_target: TargetDatabase) -> None:
    sqlite_target.run("CREATE TABLE odd (v)", "INSERT INTO odd VALUES (1), ('two')")
    with pytest.raises(ConnectException, match="Column n of the query: the value 'two' does not fit"):
        rows(sqlite_target, query="SELECT coalesce(v, 0) AS n FROM odd")
