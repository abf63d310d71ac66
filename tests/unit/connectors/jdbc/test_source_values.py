"""The values of the source: offsets, filters, pages, schemas, statements."""

import datetime
import re
from collections.abc import Mapping
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.connectors.jdbc.catalog.column import Column, ColumnKind, TableName
from airflow_provider_connect.connectors.jdbc.catalog.table_filter import TableFilter
from airflow_provider_connect.connectors.jdbc.dialects.registry import dialect_of
from airflow_provider_connect.connectors.jdbc.source.column_reading import ColumnReading, milliseconds, nanoseconds_of, readings_of
from airflow_provider_connect.connectors.jdbc.source.column_schema import schema_of_column
from airflow_provider_connect.connectors.jdbc.source.config import CONFIG_DEF, NumericMapping
from airflow_provider_connect.connectors.jdbc.source.connector import JdbcSourceConnector, shared_topics
from airflow_provider_connect.connectors.jdbc.source.offset import SourceOffset, known_offset, refuse_wrong, table_partition
from airflow_provider_connect.connectors.jdbc.source.row_query import RowQuery
from airflow_provider_connect.connectors.jdbc.source.row_reader import Pages
from airflow_provider_connect.connectors.jdbc.source.row_source import RowSource
from airflow_provider_connect.connectors.jdbc.source.settings import SourceSettings
from airflow_provider_connect.data.schema import (
    DATE_SCHEMA,
    FLOAT64_SCHEMA,
    INT16_SCHEMA,
    INT64_SCHEMA,
    STRING_SCHEMA,
    TIME_SCHEMA,
    Schema,
    decimal_schema,
)
from airflow_provider_connect.errors import ConfigException, ConnectException, DataException

ORDERS = TableName("orders", "public", "shop")


# Offsets


@pytest.mark.parametrize(
    ("offset", "json"),
    [
        (SourceOffset(7), {"incrementing": 7}),
        (SourceOffset(None, 1_700_000_000_123_456_000), {"timestamp": 1_700_000_000_123, "timestamp_nanos": 123_456_000}),
        (SourceOffset(-1, -1_000), {"incrementing": -1, "timestamp": -1, "timestamp_nanos": 999_999_000}),
        (SourceOffset(), {}),
    ],
)
def test_offset_survives_its_json(offset: SourceOffset, json: dict[str, object]) -> None:
    assert offset.to_json() == json
    assert SourceOffset.of(json) == offset


def test_offset_without_nanos_has_milliseconds() -> None:
    assert SourceOffset.of({"timestamp": 1_234}) == SourceOffset(None, 1_234_000_000)


@pytest.mark.parametrize(
    "offset", [{"incrementing": "7"}, {"incrementing": True}, {"timestamp": 1.5}, {"timestamp": 1, "timestamp_nanos": -1}]
)
def test_wrong_offset_is_refused(offset: dict[str, object]) -> None:
    with pytest.raises(ConnectException):
        SourceOffset.of(offset)


@pytest.mark.parametrize(
    ("partition", "offset"),
    [({"file": "x"}, {"incrementing": 1}), ({"query": "x"}, {"incrementing": 1}), (table_partition(ORDERS), {"position": 1}), (None, {})],
)
def test_offsets_of_others_are_refused(partition: object, offset: object) -> None:
    with pytest.raises(ConnectException):
        refuse_wrong(partition, offset)


def offset_at(location: Mapping[str, object], asked: Mapping[str, object]) -> Mapping[str, object] | None:
    return {"incrementing": 5} if asked == location else None


def test_offsets_that_another_worker_wrote_are_found() -> None:
    assert table_partition(ORDERS) == {"protocol": "1", "table": "shop.public.orders"}
    for location, is_only in (
        ({"protocol": "1", "table": "shop.public.orders"}, False),
        ({"protocol": "1", "table": "public.orders"}, False),
        ({"protocol": "1", "table": "orders"}, True),
        ({"table": "orders"}, True),
    ):
        found = known_offset(ORDERS, partial(offset_at, location), is_only=is_only)
        assert found == {"incrementing": 5}, location
    assert known_offset(ORDERS, lambda asked: {"incrementing": 5} if asked == {"table": "orders"} else None, is_only=False) is None


# Tables


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        ([], [], "a.orders b.orders a.lines"),
        (["orders"], [], "a.orders b.orders"),
        (["a.orders"], [], "a.orders"),
        (['"a"."orders"'], [], "a.orders"),
        (["shop.b.orders"], [], "b.orders"),
        (["a\\..*"], [], "a.orders a.lines"),
        ([".*s", "none"], ["b.orders", "lin.+"], "a.orders"),
        (["ord"], [], ""),
    ],
)
def test_tables_by_names_and_patterns(include: list[str], exclude: list[str], expected: str) -> None:
    tables = [TableName("orders", "a", "shop"), TableName("orders", "b", "shop"), TableName("lines", "a", "shop")]
    assert [table.text.removeprefix("shop.") for table in TableFilter.of(include, exclude).chosen(tables)] == expected.split()


def test_missing_names_are_reported_but_not_patterns() -> None:
    tables = TableFilter.of(["orders", "none", "non.*"], [])
    assert tables.missing([ORDERS]) == ["none"]
    with pytest.raises(ConfigException, match=r"table\.exclude"):
        TableFilter.of([], ["*"])


# Pages


def pages(batches: list[list[int]], rows: int, *, ties: bool = True) -> list[list[int]]:
    given = [pa.RecordBatch.from_pydict({"k": pa.array(keys, pa.int64())}) for keys in batches]
    return [page.column(0).to_pylist() for page in Pages(rows, 0 if ties else None).of(given)]


@pytest.mark.parametrize(
    ("batches", "rows", "expected"),
    [
        ([[1, 2, 3, 4]], 2, [[1, 2], [3], [4]]),
        ([[1, 1, 1, 1]], 2, [[1, 1, 1, 1]]),
        ([[1, 2, 2], [2, 2, 3]], 10, [[1], [2, 2, 2, 2], [3]]),
        ([[1, 1], [1, 1], [1]], 1, [[1, 1, 1, 1, 1]]),
        ([[1, 2], [3, 4]], 10, [[1], [2], [3], [4]]),
        ([[1, 2, 2, 3, 3, 4]], 2, [[1, 2, 2], [3, 3], [4]]),
        ([[], [1]], 2, [[1]]),
        ([], 2, []),
    ],
)
def test_a_page_never_splits_equal_keys(batches: list[list[int]], rows: int, expected: list[list[int]]) -> None:
    assert pages(batches, rows) == expected


def test_pages_without_key_are_cut_anywhere() -> None:
    assert pages([[1, 1, 1], [1]], 2, ties=False) == [[1, 1], [1], [1]]


def test_equal_keys_stay_together_where_batches_differ_in_type() -> None:
    """Drivers without types of their own: a batch of nulls alone, of decimals with more digits."""
    batches = [
        pa.RecordBatch.from_pydict({"k": [1, 1], "n": pa.nulls(2), "d": [Decimal("1.5"), None]}),
        pa.RecordBatch.from_pydict({"k": [1, 1], "n": ["a", "b"], "d": [Decimal("100.25"), None]}),
    ]
    [page] = Pages(10, 0).of(batches)
    assert page.column(1).to_pylist() == [None, None, "a", "b"]
    assert page.column(2).to_pylist() == [Decimal("1.5"), None, Decimal("100.25"), None]


# Schemas


WHOLE, CENTS = decimal_schema(0), decimal_schema(2)


@pytest.mark.parametrize(
    ("precision", "scale", "expected"),  # none, precision_only, best_fit, best_fit_eager_double
    [
        (4, 0, [WHOLE, INT16_SCHEMA, INT16_SCHEMA, INT16_SCHEMA]),
        (18, 0, [WHOLE, INT64_SCHEMA, INT64_SCHEMA, INT64_SCHEMA]),
        (20, 0, [WHOLE, WHOLE, WHOLE, WHOLE]),
        (10, 2, [CENTS, CENTS, FLOAT64_SCHEMA, FLOAT64_SCHEMA]),
        (30, 2, [CENTS, CENTS, CENTS, FLOAT64_SCHEMA]),
    ],
)
def test_numeric_mapping(precision: int, scale: int, expected: list[Schema]) -> None:
    column = Column("n", ColumnKind.DECIMAL, "numeric", False, precision, scale)
    assert [schema_of_column(column, mapping) for mapping in NumericMapping] == expected


@pytest.mark.parametrize(
    ("kind", "default", "expected"),
    [
        (ColumnKind.INT32, "5", 5),
        (ColumnKind.INT32, "'-5'::integer", -5),
        (ColumnKind.INT64, "nextval('t_id_seq'::regclass)", None),
        (ColumnKind.STRING, "'it''s'::character varying", "it's"),
        (ColumnKind.STRING, "current_user", None),
        (ColumnKind.BOOLEAN, "true", True),
        (ColumnKind.FLOAT64, "1.5", 1.5),
        (ColumnKind.TIMESTAMP, "now()", None),
        (ColumnKind.INT32, "'x'", None),
        (ColumnKind.BYTES, "'\\x00'::bytea", None),
    ],
)
def test_plain_defaults_are_read_where_null_cannot_be_meant(kind: ColumnKind, default: str, expected: object) -> None:
    assert schema_of_column(Column("c", kind, "x", False, default=default), NumericMapping.NONE).default == expected
    assert schema_of_column(Column("c", kind, "x", True, default=default), NumericMapping.NONE).default is None


def test_default_of_a_decimal_has_its_scale() -> None:
    column = Column("c", ColumnKind.DECIMAL, "numeric", False, 10, 2, "1.5")
    assert schema_of_column(column, NumericMapping.NONE).default == Decimal("1.50")


@pytest.mark.parametrize(
    ("instant", "zone", "expected"),
    [
        ("2024-01-02 03:04:05.678901", "UTC", "2024-01-02T03:04:05.678"),
        ("1969-12-31 23:59:59.999900", "UTC", "1969-12-31T23:59:59.999"),
        ("2024-07-01 12:00:00.000000", "Europe/Paris", "2024-07-01T10:00:00.000"),
        ("2024-10-27 02:30:00.000000", "Europe/Paris", "2024-10-27T00:30:00.000"),
    ],
)
def test_times_are_cut_towards_the_past_and_read_in_their_zone(instant: str, zone: str, expected: str) -> None:
    column = pa.array([datetime.datetime.fromisoformat(instant), None], pa.timestamp("us"))
    assert milliseconds(column, zone).to_pylist() == [datetime.datetime.fromisoformat(f"{expected}+00:00"), None]


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_postgresql_infinite_and_far_times_are_those_of_its_jdbc_driver(zone: str | None) -> None:
    """The driver adds 30 years to PostgreSQL's numbers, and overflows."""
    wrapped = [-9222425352054775809, -9222425352054775808, -9222426057709551617, -210866803200000000, -1, None, 9223371331199999999]
    column = pa.array(wrapped, pa.int64()).cast(pa.timestamp("us", zone))
    expected: list[Any] = [9223372036825200000, -9223372036832400000, 9224318015999999, -210866803200000, -1, None, 9223371331199999]
    assert milliseconds(column, "UTC").cast(pa.int64()).to_pylist() == expected
    if zone is None:
        berlin = milliseconds(column, "Europe/Berlin").cast(pa.int64()).to_pylist()
        assert berlin == [*expected[:2], expected[2] - 3_600_000, expected[3] - 3_208_000, -3_600_001, None, expected[6] - 3_600_000]


def test_postgresql_infinite_dates_are_the_largest_and_the_smallest() -> None:
    reading = ColumnReading("day", "day", DATE_SCHEMA)
    column = pa.array([-2147472692, -2147472691, -2440588, 2145042905, None, 0], pa.int32()).cast(pa.date32())
    assert reading.converted(column).cast(pa.int32()).to_pylist() == [2**31 - 1, -(2**31), -2440588, 2145042905, None, 0]


def test_time_of_day_that_ends_a_day_is_not_its_beginning() -> None:
    column = pa.array([86_400_000_000, 0, None], pa.int64()).cast(pa.time64("us"))
    assert ColumnReading("at", "at", TIME_SCHEMA).converted(column).cast(pa.int32()).to_pylist() == [86_400_000, 0, None]


UNLIMITED = schema_of_column(Column("n", ColumnKind.DECIMAL, "numeric"), NumericMapping.NONE)
LIMITED = schema_of_column(Column("n", ColumnKind.DECIMAL, "numeric", True, 10, 2), NumericMapping.NONE)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (UNLIMITED, "123456789012345678901234567890123456789012345678901234567890"),  # Arrow's cast makes 7664699… of it
        (UNLIMITED, "-" + "9" * 59),
        (UNLIMITED, "nan"),
        (UNLIMITED, "inf"),
        (UNLIMITED, "-inf"),
        (UNLIMITED, "0.1234567890123456789"),
        (UNLIMITED, "1e+60"),
        (LIMITED, "7" * 37),
        (LIMITED, "1e+37"),
    ],
)
def test_numbers_that_no_decimal_holds_are_refused_with_the_way_out(schema: Schema, value: str) -> None:
    column = pa.array(["1.5", "2", value, "3", value, None])
    with pytest.raises(DataException, match=r"Column n: the value .* does not fit a Decimal .* columns\.as\.text") as raised:
        ColumnReading("n", "n", schema).converted(column)
    assert f"the value {value} " in str(raised.value)


def test_numbers_at_the_ends_of_a_decimal_are_kept_digit_by_digit() -> None:
    texts = ["9" * 58, "-" + "9" * 58 + "." + "9" * 18, "0.000000000000000001", "-0", None, "1e+57", "0"]
    found = ColumnReading("n", "n", UNLIMITED).converted(pa.array(texts)).to_pylist()
    assert found == [None if text is None else Decimal(text) for text in texts]


def test_columns_as_text_are_strings_and_never_those_of_the_mode() -> None:
    column = Column("n", ColumnKind.OTHER, "numeric")
    assert readings_of([column], dialect_of("postgresql"), mapping=NumericMapping.NONE, time_zone="UTC")[0].expression == '"n"::text'
    column = Column("n", ColumnKind.OTHER, "decimal")
    assert readings_of([column], dialect_of("mysql"), mapping=NumericMapping.NONE, time_zone="UTC")[0].expression == "CAST(`n` AS CHAR)"
    with pytest.raises(ConfigException, match=r"columns\.as\.text: Rows are read in the order of column id"):
        query("incrementing", columns_as_text="id,other")
    wide = Column("n", ColumnKind.DECIMAL, "numeric", True, 100, 80)
    with pytest.raises(ConfigException, match=r"Column n has 80 digits after the point, more than a Decimal's 76\. Name the column in"):
        schema_of_column(wide, NumericMapping.NONE)


# Statements


def query(mode: str, dialect: str = "postgresql", **more: str) -> RowQuery:
    columns = (Column("id", ColumnKind.INT64, "int8", False), Column("at", ColumnKind.TIMESTAMP, "timestamp", False))
    config = {"connection.url": "jdbc:postgresql://x/y", "topic.prefix": "", "mode": mode}
    config |= {"incrementing.column.name": "id", "timestamp.column.name": "at"} | {k.replace("_", "."): v for k, v in more.items()}
    settings = SourceSettings.of(CONFIG_DEF.parse(config))
    source = RowSource(
        '"t"',
        columns,
        "t",
        {},
        dialect_of(dialect),
        columns[0] if settings.mode.has_incrementing else None,
        columns[1:] if settings.mode.has_timestamp else (),
        TableName("t"),
    )
    return RowQuery.of(source, settings)


def test_statements_of_each_mode() -> None:
    start = 'SELECT "id" AS c0, "at" AS c1 FROM "t"'
    instant, now = SourceOffset(7, 1_500_000_000), SourceOffset(None, 2_000_001_000)
    since, until = "'1970-01-01 00:00:01.500000'::timestamp", "'1970-01-01 00:00:02.000000'::timestamp"  # the second that is over
    assert query("bulk").rows(SourceOffset(), SourceOffset()) == start
    assert query("incrementing").rows(SourceOffset(), SourceOffset(9)) == f'{start} WHERE "id" <= 9 ORDER BY "id"'
    assert query("incrementing").rows(SourceOffset(7), SourceOffset(9)) == f'{start} WHERE "id" > 7 AND "id" <= 9 ORDER BY "id"'
    assert query("timestamp").rows(instant, now) == f'{start} WHERE "at" > {since} AND "at" < {until} ORDER BY "at"'
    assert query("timestamp+incrementing").rows(instant, now) == (
        f'{start} WHERE "at" >= {since} AND ("at" > {since} OR "id" > 7) AND "at" < {until} ORDER BY "at", "id"'
    )


def test_a_range_bounds_every_statement() -> None:
    """From its first row to before its last bound, whatever the offset is; a clock's tick cuts nothing of it."""
    numbers = query("incrementing", rows_from="-3", rows_to="8")
    within = '"id" >= -3 AND "id" < 8'
    assert numbers.rows(SourceOffset(), SourceOffset(9)).endswith(f'FROM "t" WHERE {within} AND "id" <= 9 ORDER BY "id"')
    assert numbers.extent() == f'SELECT min("id") AS least, max("id") AS greatest FROM "t" WHERE {within}'
    assert numbers.any_row(SourceOffset(), SourceOffset()) == f'SELECT 1 AS one FROM "t" WHERE {within}'
    assert query("incrementing", rows_to="8").extent().endswith('WHERE "id" < 8')
    for mode in ("timestamp", "timestamp+incrementing"):
        times = query(mode, rows_from="1970-01-01T01:00:01+01:00", rows_to="1970-01-01T00:00:02.25Z")
        assert times.any_row(SourceOffset(), SourceOffset(None, 9_000_000_000)) == (
            """SELECT 1 AS one FROM "t" WHERE "at" >= '1970-01-01 00:00:01.000000'::timestamp AND "at" < '1970-01-01 00:00:02.250000'"""
            """::timestamp AND "at" < '1970-01-01 00:00:09.000000'::timestamp"""
        )


def test_times_without_zone_are_compared_by_the_clock_of_their_zone() -> None:
    assert query("timestamp", db_timezone="Europe/Paris").literal(0) == "'1970-01-01 01:00:00.000000'::timestamp"
    assert query("timestamp", dialect="mysql").literal(1_000) == "'1970-01-01 00:00:00.000001'"
    assert query("timestamp", dialect="sqlite").literal(5_000_000) == "5"


def test_times_of_postgresql_that_python_does_not_have() -> None:
    minus_infinity = -9_223_372_036_832_400_000 * 1_000_000
    assert query("timestamp").literal(minus_infinity) == "'-infinity'::timestamp"
    before_christ = -210_000_000_000 * 1_000_000_000 + 123_456_000
    assert (
        query("timestamp").literal(before_christ) == "('1970-01-01 00:00:00'::timestamp - '58333333 hours 1199.876544 seconds'::interval)"
    )
    assert query("timestamp").literal(-62_104_060_800 * 1_000_000_000) == "'0002-01-01 00:00:00.000000'::timestamp"
    wrapped = pa.array([-(2**63) + 946_684_800_000_000, 1, None], pa.timestamp("us", "UTC"))
    assert nanoseconds_of(wrapped, "Europe/Paris") == [minus_infinity, 1000, None]
    assert SourceOffset.of(SourceOffset(None, minus_infinity).to_json()).timestamp_ns == minus_infinity


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"mode": "incrementing"}, "incrementing.column.name"),
        ({"mode": "timestamp"}, "timestamp.column.name"),
        ({"mode": "bulk", "query": "SELECT 1", "table.include": "t"}, "query"),
        ({"mode": "bulk", "db.timezone": "Mars/Olympus"}, "db.timezone"),
        ({"mode": "bulk", "numeric.mapping": "some"}, "numeric.mapping"),
        ({"mode": "sometimes"}, "mode"),
        ({"mode": "bulk", "connection.url": "jdbc:h2:x;INIT=y"}, "connection.url"),
        ({"mode": "bulk", "rows.from": "1"}, "rows.from"),
        ({"mode": "incrementing", "incrementing.column.name": "id", "rows.to": "1 OR 1=1"}, "rows.to"),
        ({"mode": "incrementing", "incrementing.column.name": "id", "rows.to": "2026-01-31T14:00Z"}, "rows.to"),
        ({"mode": "timestamp", "timestamp.column.name": "at", "rows.from": "2026-01-31T14:00"}, "rows.from"),
        ({"mode": "timestamp", "timestamp.column.name": "at", "rows.from": "9999-12-31T23:59Z"}, "rows.from"),
        ({"mode": "timestamp", "timestamp.column.name": "at", "rows.from": "5"}, "rows.from"),
    ],
)
def test_wrong_settings_are_refused_by_name(config: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigException, match=f"configuration {key.replace('.', chr(92) + '.')}"):
        SourceSettings.of(CONFIG_DEF.parse({"connection.url": "jdbc:sqlite:/x.db", "topic.prefix": "p", **config}))


def test_settings_have_older_names_too() -> None:
    config = {"connection.url": "jdbc:sqlite:/x.db", "topic.prefix": "p", "mode": "bulk", "table.whitelist": "a,b", "table.blacklist": "c"}
    settings = SourceSettings.of(CONFIG_DEF.parse({**config, "numeric.precision.mapping": "true"}))
    assert (settings.tables, settings.numeric_mapping) == (TableFilter.of(["a", "b"], ["c"]), NumericMapping.PRECISION_ONLY)
    assert schema_of_column(Column("c", ColumnKind.OTHER, "inet", False), settings.numeric_mapping) == STRING_SCHEMA


# Topics


def test_tables_of_two_schemas_with_one_topic_are_named_with_the_remedy() -> None:
    names = [TableName("orders", "a", "shop"), TableName("orders", "b", "shop"), TableName("items", "a", "shop")]
    found = dict(shared_topics(names, "x-"))
    assert list(found) == names[:2]
    for reason in found.values():
        assert re.search(r"shop\.a\.orders,shop\.b\.orders .*one topic, x-orders\. .*schema\.pattern.*topic\.prefix", reason)
    assert not list(shared_topics(names[1:], "x-"))


@pytest.mark.parametrize(
    ("mode", "offset", "wanted"),
    [
        ("incrementing", {"timestamp": 1}, "incrementing"),
        ("timestamp", {"incrementing": 1}, "timestamp"),
        ("timestamp+incrementing", {"incrementing": 1}, "timestamp"),
        ("incrementing", {"incrementing": 1}, None),
        ("timestamp+incrementing", {"timestamp": 1, "incrementing": 1}, None),
        ("timestamp", None, None),
        ("bulk", {"incrementing": 1}, None),
    ],
)
def test_an_offset_without_the_value_of_the_mode_is_refused(mode: str, offset: dict[str, object] | None, wanted: str | None) -> None:
    """A run would read the whole table again."""
    given = [({"protocol": "1", "table": "orders"}, offset)]
    if wanted is None:
        assert JdbcSourceConnector().alter_offsets({"mode": mode}, given)
        return
    with pytest.raises(ConnectException, match=f"has no '{wanted}', from which mode={re.escape(mode)} goes on"):
        JdbcSourceConnector().alter_offsets({"mode": mode}, given)
