"""Python values to Arrow columns and back: the edges that no generated value reaches."""

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.data.columns import cast_to_schema, column_of, is_json, json_column, json_of, values_of
from airflow_provider_connect.data.schema import (
    BYTES_SCHEMA,
    DATE_SCHEMA,
    FLOAT32_SCHEMA,
    FLOAT64_SCHEMA,
    INT8_SCHEMA,
    INT16_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    STRING_SCHEMA,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    Schema,
    Struct,
    decimal_schema,
)
from airflow_provider_connect.errors import DataException

POINT = Schema.struct({"x": INT32_SCHEMA, "y": INT32_SCHEMA.with_default(7), "z": INT32_SCHEMA.as_optional().with_default(9)})

EXACT = [
    (decimal_schema(2), Decimal("-12345678901234567890.50")),
    (decimal_schema(0), Decimal(10**37)),
    (decimal_schema(3, parameters={"scale": "3", "connect.decimal.precision": "60"}), Decimal("1" * 50 + ".125")),
    (TIMESTAMP_SCHEMA, datetime.datetime(1, 1, 1, tzinfo=datetime.UTC)),
    (TIMESTAMP_SCHEMA, datetime.datetime(9999, 12, 31, 23, 59, 59, 999000, tzinfo=datetime.UTC)),
    (TIME_SCHEMA, datetime.time(23, 59, 59, 999000)),
    (INT64_SCHEMA, -(2**63)),
    (BYTES_SCHEMA, b"\x00\xff"),
    (STRING_SCHEMA, "\x00é\U0001f600"),
]


@pytest.mark.parametrize(("schema", "value"), EXACT)
def test_extremes_are_exact(schema: Schema, value: object) -> None:
    [found] = values_of(column_of([value], schema), schema)
    assert found == value
    assert str(found) == str(value)


def test_decimals_come_back_with_their_scale() -> None:
    [found] = values_of(column_of([Decimal("1.5")], decimal_schema(3)), decimal_schema(3))
    assert str(found) == "1.500"


def test_timestamps_are_in_utc() -> None:
    paris = datetime.timezone(datetime.timedelta(hours=2))
    [found] = values_of(column_of([datetime.datetime(2024, 7, 1, 2, tzinfo=paris)], TIMESTAMP_SCHEMA), TIMESTAMP_SCHEMA)
    assert found == datetime.datetime(2024, 7, 1, tzinfo=datetime.UTC)
    assert found.tzinfo is datetime.UTC


def test_bytes_may_be_buffers() -> None:
    assert values_of(column_of([bytearray(b"a"), memoryview(b"b"), None], BYTES_SCHEMA), BYTES_SCHEMA) == [b"a", b"b", None]


def test_required_field_that_was_not_put_is_written_as_its_default() -> None:
    [found] = values_of(column_of([Struct(POINT, {"x": 1})], POINT), POINT)
    assert (found["x"], found["y"], found["z"]) == (1, 7, 9)
    assert found.get_without_default("z") is None


def test_struct_values_may_be_given_as_mappings() -> None:
    assert values_of(column_of([{"x": 1, "y": 2}], POINT), POINT) == [Struct(POINT, {"x": 1, "y": 2})]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (INT8_SCHEMA, 128),
        (INT64_SCHEMA, 2**63),
        (STRING_SCHEMA, 5),
        (decimal_schema(1), Decimal("1.23")),
        (decimal_schema(0), Decimal(10**40)),
        (Schema.array(STRING_SCHEMA), 5),
        (POINT, {"w": 1}),
    ],
)
def test_values_that_do_not_fit_are_refused(schema: Schema, value: object) -> None:
    with pytest.raises(DataException):
        column_of([value], schema)


def test_timestamp_beyond_pythons_calendar_is_refused() -> None:
    column = pa.array([2**60], type=pa.int64()).cast(pa.timestamp("ms", "UTC"))
    with pytest.raises(DataException, match="out of the range of Python's dates"):
        values_of(column, TIMESTAMP_SCHEMA)


PLAIN: list[tuple[list[Any], pa.DataType]] = [
    ([1, None], pa.int64()),
    ([1.5], pa.float64()),
    ([True, None], pa.bool_()),
    (["a", None], pa.string()),
    ([b"a", bytearray(b"b"), None], pa.binary()),
    ([memoryview(b"a"), b"b"], pa.binary()),
    ([None, None], pa.null()),
    ([], pa.null()),
]


@pytest.mark.parametrize(("values", "type"), PLAIN)
def test_schemaless_scalars_of_one_type_are_a_plain_column(values: list[Any], type: pa.DataType) -> None:
    column = column_of(values, None)
    assert column.type == type
    assert values_of(column, None) == [None if value is None else bytes(value) if pa.types.is_binary(type) else value for value in values]


AS_JSON: list[tuple[list[Any], list[str | None]]] = [
    ([{"a": [1, None, "é"]}, None], ['{"a":[1,null,"é"]}', None]),
    ([1, "a", True], ["1", '"a"', "true"]),
    ([2**70], ["1180591620717411303424"]),
    ([1, 2.5, 2.0], ["1", "2.5", "2.0"]),
    ([None, True, 1], [None, "true", "1"]),
    ([[True, 1, 1.0, None], {}], ["[true,1,1.0,null]", "{}"]),
    ([(1, 2)], ["[1,2]"]),
]


@pytest.mark.parametrize(("values", "texts"), AS_JSON)
def test_other_schemaless_values_are_json_text(values: list[Any], texts: list[str | None]) -> None:
    column = column_of(values, None)
    assert is_json(column.type)
    assert column.storage.to_pylist() == texts
    assert json_column(texts).equals(column)
    found = values_of(column, None)
    expected = [list(value) if isinstance(value, tuple) else value for value in values]
    assert (found, list(map(repr, found))) == (expected, list(map(repr, expected)))


CHANGED_WITHOUT_A_SCHEMA: list[tuple[list[Any], str]] = [
    ([b"x", "y"], "Bytes and str in one column need a schema"),
    (["y", None, memoryview(b"x"), 1], "Bytes and int, str in one column need a schema"),
    ([b"x", {"a": 1}], "Bytes and dict in one column need a schema"),
    ([{"a": b"x"}], "bytes values need a schema"),
    ([[1, [bytearray(b"x")]]], "bytearray values need a schema"),
    ([{1: "a"}], "Maps with keys that are not strings need a schema: got the key 1"),
    ([{"a": {None: "a"}}], "Maps with keys that are not strings need a schema: got the key None"),
    (["\ud800"], "surrogates not allowed"),
]


def test_any_value_has_a_text_in_json() -> None:
    inner = Schema.struct({"at": TIMESTAMP_SCHEMA, "raw": BYTES_SCHEMA})
    outer = Schema.struct({"id": INT64_SCHEMA, "inner": inner})
    when = datetime.datetime(2026, 11, 23, tzinfo=datetime.UTC)
    value = Struct(outer, {"id": 1, "inner": {"at": when, "raw": b"ab"}})
    (found,) = values_of(column_of([value], outer), outer)
    assert json_of(found) == '{"id": 1, "inner": {"at": "2026-11-23 00:00:00+00:00", "raw": "YWI="}}'
    assert json_of({"price": Decimal("1.50"), "names": ["ä", None]}) == '{"price": "1.50", "names": ["ä", null]}'
    with pytest.raises(DataException, match="no form in JSON"):
        json_of({b"key": 1})


@pytest.mark.parametrize(("values", "message"), CHANGED_WITHOUT_A_SCHEMA)
def test_values_that_would_come_back_changed_are_refused_without_a_schema(values: list[Any], message: str) -> None:
    with pytest.raises(DataException, match=message):
        column_of(values, None)


CHANGED_WITH_A_SCHEMA: list[tuple[Schema, Any, str]] = [
    (BYTES_SCHEMA, 5, "not 'int'"),
    (BYTES_SCHEMA, [1, 2], "not 'list'"),
    (INT64_SCHEMA, 2.5, "2.5 is not an integer"),
    (INT8_SCHEMA, float("nan"), "nan is not an integer"),
    (FLOAT64_SCHEMA, "1.5", "a number was expected, got a str"),
    (FLOAT64_SCHEMA, True, "a number was expected, got a bool"),
    (FLOAT64_SCHEMA, 2**60 + 1, "has more digits than a float"),
    (FLOAT32_SCHEMA, 1e300, "out of the range of FLOAT32"),
    (DATE_SCHEMA, datetime.datetime(2024, 7, 1, 2), "its time of day is not zero"),
    (Schema.array(STRING_SCHEMA), "abc", "a list was expected, got a str"),
    (Schema.array(STRING_SCHEMA), {"a": 1}, "a list was expected, got a dict"),
    (STRING_SCHEMA, "\ud800", "surrogates not allowed"),
]


@pytest.mark.parametrize(("schema", "value", "message"), CHANGED_WITH_A_SCHEMA)
def test_values_that_would_come_back_changed_are_refused(schema: Schema, value: object, message: str) -> None:
    with pytest.raises(DataException, match=message):
        column_of([value], schema)
    with pytest.raises(DataException):  # a Struct checks its values itself
        column_of([{"inner": value}], Schema.struct({"inner": schema.as_optional()}))


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        (INT64_SCHEMA, [1, 2.0, None]),
        (FLOAT64_SCHEMA, [1, 2.5, None, float("inf"), 2**60, Decimal("1.5")]),
        (FLOAT32_SCHEMA, [1, 2.5, None, float("-inf"), 3.4028234663852886e38]),
        (DATE_SCHEMA, [datetime.datetime(2024, 7, 1), None]),
        (Schema.array(STRING_SCHEMA), [("a", "b"), ["c"], None]),
    ],
)
def test_values_of_a_nearby_type_are_equal_ones_afterwards(schema: Schema, values: list[Any]) -> None:
    plain = [value.date() if isinstance(value, datetime.datetime) else value for value in values]
    assert values_of(column_of(values, schema), schema) == [list(value) if isinstance(value, tuple) else value for value in plain]


@pytest.mark.parametrize("value", [Decimal(1), datetime.date(2024, 1, 1), Struct(POINT, {"x": 1}), [Decimal(1)]])
def test_values_that_need_a_schema_are_refused_without_one(value: object) -> None:
    with pytest.raises(DataException, match="values need a schema"):
        column_of([value], None)


def test_column_of_the_right_type_is_not_copied() -> None:
    column = pa.array(["a"])
    assert cast_to_schema(column, STRING_SCHEMA) is column
    assert cast_to_schema(column, None) is column


CONFORMED = [
    (pa.array(["a", None], pa.large_string()), STRING_SCHEMA.as_optional(), ["a", None]),
    (pa.array(["a", "a"]).dictionary_encode(), STRING_SCHEMA, ["a", "a"]),
    (pa.chunked_array([[1], [2]]), INT64_SCHEMA, [1, 2]),
    (pa.array([255], pa.uint8()), INT16_SCHEMA, [255]),
    (pa.array([1, 2], pa.int64()), FLOAT64_SCHEMA, [1.0, 2.0]),
    (pa.array([1_700_000_000_123_999], pa.timestamp("us")), TIMESTAMP_SCHEMA,
     [datetime.datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=datetime.UTC)]),
    (pa.array([datetime.time(1, 2, 3, 4999)], pa.time64("us")), TIME_SCHEMA, [datetime.time(1, 2, 3, 4000)]),
    (pa.array([Decimal("1.5")], pa.decimal128(10, 1)), decimal_schema(1), [Decimal("1.5")]),
    (pa.array([{"x": 1, "y": 2, "z": None}]), POINT, [Struct(POINT, {"x": 1, "y": 2})]),
]  # fmt: skip


@pytest.mark.parametrize(("column", "schema", "values"), CONFORMED)
def test_columns_of_nearby_types_are_cast(column: pa.Array, schema: Schema, values: list[Any]) -> None:
    conformed = cast_to_schema(column, schema)
    assert isinstance(conformed, pa.Array)
    assert values_of(conformed, schema) == values


@pytest.mark.parametrize(
    ("column", "schema"),
    [(pa.array([2**40]), INT32_SCHEMA), (pa.array([[1]]), STRING_SCHEMA), (pa.array([2**64 - 1], pa.uint64()), INT64_SCHEMA)],
)
def test_columns_that_would_lose_something_are_refused(column: pa.Array, schema: Schema) -> None:
    with pytest.raises(DataException, match="does not fit schema type"):
        cast_to_schema(column, schema)
