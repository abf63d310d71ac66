"""Arrays as PostgreSQL writes them."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from airflow_provider_connect.connectors.jdbc.catalog.column import Column, ColumnKind
from airflow_provider_connect.connectors.jdbc.sink.array_texts import array_texts, array_type

NOON = datetime.datetime(2020, 2, 29, 12, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("type", "rows", "texts"),
    [
        (pa.int64(), [[1, None, -3], [], None, [2**62]], ["{1,NULL,-3}", "{}", None, "{4611686018427387904}"]),
        (pa.string(), [['a"b\\c', "NULL", "", " ,{}", None]], ['{"a\\"b\\\\c","NULL",""," ,{}",NULL}']),
        (pa.bool_(), [[True, False]], ["{true,false}"]),
        (pa.float64(), [[0.5, float("nan"), float("-inf")]], ["{0.5,nan,-inf}"]),
        (pa.binary(), [[b"\x00\xff", b"", None]], ['{"\\\\x00ff","\\\\x",NULL}']),
        (pa.decimal128(10, 2), [[Decimal("-1.50")]], ["{-1.50}"]),
        (pa.date32(), [[datetime.date(1969, 12, 31)]], ["{1969-12-31}"]),
        (pa.timestamp("ms", "UTC"), [[NOON]], ['{"2020-02-29 12:00:00.000Z"}']),
    ],
    ids=str,
)
def test_lists_as_texts(type: pa.DataType, rows: list[object], texts: list[str | None]) -> None:
    target = Column("c", ColumnKind.OTHER, "_text")
    whole = pa.array([None, *rows, []], pa.list_(type))
    column = pa.chunked_array([whole.slice(1, len(rows)), whole.slice(len(rows) + 1)])
    assert array_texts(column, target, "Europe/Paris").to_pylist() == [*texts, "{}"]


def test_timestamps_of_a_column_without_a_zone_are_local() -> None:
    column = pa.chunked_array([pa.array([[NOON]], pa.list_(pa.timestamp("ms", "UTC")))])
    assert array_texts(column, Column("c", ColumnKind.OTHER, "_timestamp"), "Europe/Paris").to_pylist() == ['{"2020-02-29 13:00:00.000"}']


@pytest.mark.parametrize(
    ("declared", "cast"),
    [
        ("integer[]", "integer[]"),
        ("numeric(10,2)[]", "numeric[]"),
        ("character varying(5)[]", "text[]"),
        ("character(5)[]", "text[]"),
        ("timestamp(3) without time zone[]", "timestamp without time zone[]"),
        ("bit(4)[]", "bit varying[]"),
        ("uuid[]", "uuid[]"),
    ],
)
def test_types_that_a_text_is_cast_to_have_no_lengths(declared: str, cast: str) -> None:
    assert array_type(declared) == cast
