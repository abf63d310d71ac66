"""Values of every type, with what is hard about each, and their schema."""

import datetime
import math
from decimal import Decimal

import pyarrow as pa

from airflow_provider_connect.data.columns import column_of
from airflow_provider_connect.data.schema import (
    BOOLEAN_SCHEMA,
    BYTES_SCHEMA,
    DATE_SCHEMA,
    FLOAT32_SCHEMA,
    FLOAT64_SCHEMA,
    INT64_SCHEMA,
    STRING_SCHEMA,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    Schema,
    SchemaType,
    Struct,
    decimal_schema,
)

INNER = Schema.struct({"z": Schema(SchemaType.INT8, doc="of the inner one", default=3)}, name="shop.Inner", version=2, doc="inner")
SCHEMA = Schema.struct(
    {
        "whole": INT64_SCHEMA,
        "byte": Schema(SchemaType.INT8),
        "price": decimal_schema(2).as_optional(),
        "wide": decimal_schema(0, parameters={"scale": "0", "connect.decimal.precision": "60"}).as_optional(),
        "time": TIME_SCHEMA,
        "at": TIMESTAMP_SCHEMA,
        "day": DATE_SCHEMA,
        "inners": Schema.array(INNER, doc="some"),
        "counts": Schema.map(STRING_SCHEMA, Schema(SchemaType.INT16, optional=True)),
        "inner": INNER.as_optional(),
        "data": BYTES_SCHEMA,
        "single": FLOAT32_SCHEMA,
        "double": FLOAT64_SCHEMA,
        "flag": BOOLEAN_SCHEMA,
        "text": Schema(SchemaType.STRING, optional=True, default="none", parameters={"unit": "word"}),
    },
    name="shop.Order",
    version=7,
    doc="an order",
    parameters={"owner": "ann"},
)
COLUMN: pa.Array = column_of(
    [
        {
            "whole": 2**63 - 1,
            "byte": -128,
            "price": Decimal("-1.20"),
            "wide": Decimal(10**59),
            "time": datetime.time(23, 59, 59, 999000),
            "at": datetime.datetime(2262, 4, 11, 23, 47, 16, 854000, tzinfo=datetime.UTC),
            "day": datetime.date(9999, 12, 31),
            "inners": [Struct(INNER, {"z": 1}), Struct(INNER, {"z": -1})],
            "counts": {"a": None, "b": -(2**15)},
            "inner": Struct(INNER.as_optional(), {"z": 127}),
            "data": b"\x00\xff",
            "single": math.inf,
            "double": 5e-324,
            "flag": True,
            "text": 'quo"te,\r\n\x00€𝄞',
        },
        {
            "whole": -(2**63),
            "byte": 127,
            "price": None,
            "wide": None,
            "time": datetime.time(0),
            "at": datetime.datetime(1677, 9, 22, tzinfo=datetime.UTC),
            "day": datetime.date(1, 1, 1),
            "inners": [],
            "counts": {},
            "inner": None,
            "data": b"",
            "single": math.nan,
            "double": -0.0,
            "flag": False,
            "text": "",
        },
    ],
    SCHEMA,
)


def without(*names: str) -> tuple[Schema, pa.Array]:
    """The schema and values but for some fields."""
    kept = Schema.struct(
        {field.name: field.schema for field in SCHEMA.fields if field.name not in names},
        name=SCHEMA.name,
        version=SCHEMA.version,
        doc=SCHEMA.doc,
        parameters=SCHEMA.parameters,
    )
    fields = [field for field in COLUMN.type if field.name not in names]
    columns = [column for field, column in zip(COLUMN.type, COLUMN.flatten(), strict=True) if field.name not in names]
    return kept, pa.StructArray.from_arrays(columns, fields=fields)
