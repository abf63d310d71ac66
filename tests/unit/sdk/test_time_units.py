"""Finer digits of timestamps are rounded down, at any level, also before 1970."""

from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.data.arrow_schema import arrow_type
from airflow_provider_connect.data.columns import cast_to_schema, floor_to_ms
from airflow_provider_connect.data.schema import INT64_SCHEMA, STRING_SCHEMA, TIMESTAMP_SCHEMA, Schema

MICRO, NANO = pa.timestamp("us", "UTC"), pa.timestamp("ns")
MS = TIMESTAMP_SCHEMA.as_optional()


@pytest.mark.parametrize(
    ("type", "values", "schema", "floored"),
    [
        (MICRO, [-1, None, -1000, -1001, 1999], MS, [-1, None, -1, -2, 1]),
        (NANO, [-1, 999_999, -(2**63) + 1], MS, [-1, 0, -9223372036855]),
        (pa.list_(MICRO), [[-1], None, [], [-1001, 1999]], Schema.array(MS).as_optional(), [[-1], None, [], [-2, 1]]),
        (pa.large_list(NANO), [[-1, None]], Schema.array(MS).as_optional(), [[-1, None]]),
        (pa.list_(MICRO, 2), [[-1, -2000], [1, 2]], Schema.array(MS).as_optional(), [[-1, -2], [0, 0]]),
        (pa.map_(pa.string(), MICRO), [[("a", -1)], None], Schema.map(STRING_SCHEMA, MS).as_optional(), [[("a", -1)], None]),
        (
            pa.struct([("t", MICRO), ("n", pa.int64())]),
            [{"t": -1, "n": 5}, None, {"t": None, "n": 6}],
            Schema.struct({"t": MS, "n": INT64_SCHEMA.as_optional()}, optional=True),
            [{"t": -1, "n": 5}, None, {"t": None, "n": 6}],
        ),
        (
            pa.list_(pa.struct([("t", pa.list_(MICRO))])),
            [[{"t": [-1]}, None]],
            Schema.array(Schema.struct({"t": Schema.array(MS).as_optional()}, optional=True)).as_optional(),
            [[{"t": [-1]}, None]],
        ),
    ],
)
def test_instants_before_1970_are_rounded_down(type: pa.DataType, values: list[Any], schema: Schema, floored: list[Any]) -> None:
    column = pa.array([values[-1], *values], type).slice(1)  # which begins behind the first row of its buffers
    found = cast_to_schema(column, schema)
    assert found.type.equals(arrow_type(schema))
    assert str(found) == str(pa.array(floored, found.type))


def test_a_column_without_finer_digits_is_the_same_object() -> None:
    column = pa.array([{"t": 1}], pa.struct([("t", pa.timestamp("ms"))]))
    assert floor_to_ms(column) is column
