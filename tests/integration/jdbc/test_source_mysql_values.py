"""Values of a real MariaDB that its JDBC drivers read in a way of their own, or refuse: zero dates, times outside a day, large numbers."""

from typing import Any

import pytest

from airflow_provider_connect.errors import ConnectException
from tests.integration.jdbc.sinks import TargetDatabase
from tests.integration.worker.test_jdbc_source import polled, started

ZERO = (
    "SET sql_mode = ''",
    "CREATE TABLE days (id int PRIMARY KEY, d date{null}, t datetime{null})",
    "INSERT INTO days VALUES (1, '2024-02-29', '2024-02-29 12:00:00'), (2, '0000-00-00', '0000-00-00 00:00:00')",
)


def rows(target: TargetDatabase, option: str = "", **settings: str) -> list[dict[str, Any]]:
    own = {"connection.url": target.url + option, "mode": "bulk", "topic.prefix": "shop-", **settings}
    task = started(own)
    try:
        return [each for page in polled(task) if page.value is not None for each in page.value.to_pylist()]
    finally:
        task.stop()


@pytest.mark.parametrize(
    ("scheme", "option", "null"),
    [
        ("mariadb", "", " NULL"),
        ("mysql", "?zeroDateTimeBehavior=convertToNull", " NOT NULL"),
        ("mariadb", "?zeroDateTimeBehavior=CONVERT_TO_NULL", " NOT NULL"),
    ],
)
def test_a_zero_date_is_null_where_the_driver_or_the_url_makes_it_so(
    mariadb_target: TargetDatabase, scheme: str, option: str, null: str
) -> None:
    mariadb_target.run(*(line.format(null=null) for line in ZERO))
    target = TargetDatabase(mariadb_target.url.replace("mariadb", scheme), "mariadb")
    first, second = rows(target, option)
    assert (str(first["d"]), first["t"].isoformat()[:16]) == ("2024-02-29", "2024-02-29T12:00")
    assert second == {"id": 2, "d": None, "t": None}


def test_a_zero_date_can_be_the_first_day(mariadb_target: TargetDatabase) -> None:
    mariadb_target.run(*(line.format(null=" NOT NULL") for line in ZERO))
    _, second = rows(mariadb_target, "?zeroDateTimeBehavior=round")
    assert (str(second["d"]), second["t"].isoformat()[:16]) == ("0001-01-01", "0001-01-01T00:00")


REFUSED = {
    "a zero date": ("mysql", "date", "'0000-00-00'", "0000-00-00"),
    "a zero date of MariaDB that must not be null": ("mariadb", "datetime NOT NULL", "'0000-00-00'", "0000-00-00 00:00:00"),
    "a date without a day": ("mysql", "date", "'2024-02-00'", "2024-02-00"),
    "a time of 34 days": ("mysql", "time", "'838:59:59'", "838:59:59"),
    "a negative time": ("mariadb", "time", "'-838:59:59'", "-838:59:59"),
    "an unsigned number": ("mariadb", "bigint unsigned", "18446744073709551615", "18446744073709551615"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("is_alone", [True, False])
def test_a_value_that_no_record_holds_is_named_and_can_be_read_as_text(
    mariadb_target: TargetDatabase, case: str, *, is_alone: bool
) -> None:
    scheme, type, literal, text = REFUSED[case]
    good = {"date": "'2024-01-01'", "datetime": "'2024-01-01'", "time": "'12:00:00'", "bigint": "7"}[type.split()[0]]
    mariadb_target.run(
        "SET sql_mode = ''",
        f"CREATE TABLE odd (id int PRIMARY KEY, v {type})",
        *([] if is_alone else [f"INSERT INTO odd VALUES (1, {good})"]),
        f"INSERT INTO odd VALUES (2, {literal})",
    )
    target = TargetDatabase(mariadb_target.url.replace("mariadb", scheme), "mariadb")
    with pytest.raises(ConnectException, match=r"Column v of table .*odd: the value .* columns\.as\.text") as raised:
        rows(target)
    assert f"the value {text} does not fit" in str(raised.value)
    assert rows(target, **{"columns.as.text": "v"})[-1] == {"id": 2, "v": text}


def test_spatial_values_are_their_bytes_or_their_text(mariadb_target: TargetDatabase) -> None:
    mariadb_target.run(
        "CREATE TABLE shops (id int PRIMARY KEY, at point)", "INSERT INTO shops VALUES (1, ST_GeomFromText('POINT(1 2)', 4326))"
    )
    [row] = rows(mariadb_target)
    assert row["at"].hex() == "e6100000" + "0101000000" + "000000000000f03f" + "0000000000000040"
    assert rows(mariadb_target, **{"columns.as.text": "at"}) == [{"id": 1, "at": "POINT(1 2)"}]


def test_a_small_number_is_one_where_the_url_has_it_so(mariadb_target: TargetDatabase) -> None:
    mariadb_target.run("CREATE TABLE flags (id int PRIMARY KEY, f tinyint(1))", "INSERT INTO flags VALUES (1, 5)")
    assert rows(mariadb_target) == [{"id": 1, "f": True}]
    assert rows(mariadb_target, "?tinyInt1isBit=false") == [{"id": 1, "f": 5}]
