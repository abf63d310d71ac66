"""Extreme values of every type in every format: read back equal, or refused by name when they are written; never written and unreadable."""

import datetime
import io
import json
import math
from decimal import Decimal
from typing import Any

import pytest

from airflow_provider_connect.codecs.json.values import JsonRules, read_value
from airflow_provider_connect.connectors.filesystem.formats.file_format import FORMATS, file_format
from airflow_provider_connect.data.columns import column_of, values_of
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
from airflow_provider_connect.errors import DataException

LEAF = Schema.struct({"x": INT64_SCHEMA.as_optional()}, optional=True)
LAST_MS = datetime.time(23, 59, 59, 999000)
TIMED = Schema.struct({"t": TIMESTAMP_SCHEMA})
WIDE = decimal_schema(0, parameters={"scale": "0", "connect.decimal.precision": "76"})


def at(year: int, month: int = 1, day: int = 1, *, is_last_ms: bool = False) -> datetime.datetime:
    return datetime.datetime.combine(datetime.date(year, month, day), LAST_MS if is_last_ms else datetime.time(), datetime.UTC)


VALUES: dict[str, tuple[Schema, list[Any]]] = {
    "int8": (Schema(SchemaType.INT8), [-128, 127]),
    "int16": (Schema(SchemaType.INT16), [-(2**15), 2**15 - 1]),
    "int32": (Schema(SchemaType.INT32), [-(2**31), 2**31 - 1]),
    "int64": (INT64_SCHEMA, [-(2**63), 2**63 - 1, 2**53 + 1]),
    "float32": (FLOAT32_SCHEMA, [math.nan, math.inf, -math.inf, -0.0, 2.0**-149, 3.4028234663852886e38]),
    "float64": (FLOAT64_SCHEMA, [math.nan, math.inf, -math.inf, -0.0, 5e-324, 1.7976931348623157e308, 0.1]),
    "boolean": (BOOLEAN_SCHEMA, [True, False]),
    "string": (STRING_SCHEMA, ["", " ", "x" * 100_000, "€𝄞é", "\0a\0", '"', "\\", ",", "\ufeffx", "null", "NaN", "\u2028"]),
    "lines": (STRING_SCHEMA, ["a\r\nb", "\n"]),
    "bytes": (BYTES_SCHEMA, [b"", b"\0\xff", b"x" * 100_000]),
    "null": (STRING_SCHEMA.as_optional(), [None, "x", ""]),
    "decimal": (decimal_schema(2), [Decimal("-0.01"), Decimal("9" * 36 + ".99"), Decimal("0.00")]),
    "decimal of scale -3": (decimal_schema(-3), [Decimal(5000)]),
    "decimal of scale 38": (decimal_schema(38), [Decimal("0." + "9" * 38)]),
    "decimal of scale 50": (decimal_schema(50), [Decimal("0." + "9" * 50)]),
    "decimal of scale 70": (decimal_schema(70), [Decimal("0." + "9" * 70)]),
    "decimal of 76 digits": (WIDE, [Decimal(10**76 - 1), Decimal(-1)]),
    "date": (DATE_SCHEMA, [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), datetime.date(1969, 12, 31)]),
    "time": (TIME_SCHEMA, [datetime.time(0), datetime.time(23, 59, 59, 999000)]),
    "timestamp": (TIMESTAMP_SCHEMA, [at(1970), at(1969, 12, 31, is_last_ms=True), at(1678), at(2262)]),
    "year 1": (TIMESTAMP_SCHEMA, [at(1)]),
    "year 9999": (TIMESTAMP_SCHEMA, [at(9999, 12, 31, is_last_ms=True)]),
    "array": (Schema.array(STRING_SCHEMA.as_optional()), [[], [None], ["", "x"]]),
    "array of floats": (Schema.array(FLOAT64_SCHEMA), [[], [math.inf, -0.0]]),
    "array of structs": (Schema.array(LEAF).as_optional(), [None, [], [Struct(LEAF, {"x": 1}), None, Struct(LEAF, {})]]),
    "map": (Schema.map(STRING_SCHEMA, INT64_SCHEMA.as_optional()), [{}, {"": None, "€": 2**63 - 1}]),
    "map of integers": (Schema.map(INT64_SCHEMA, STRING_SCHEMA), [{}, {1: "a", -1: ""}]),
    "map of timestamps": (Schema.map(STRING_SCHEMA, TIMED).as_optional(), [None, {}, {"a": Struct(TIMED, {"t": at(1)})}]),
    "struct": (Schema.struct({"i": LEAF, "n": INT64_SCHEMA}), [{"i": None, "n": 1}, {"i": Struct(LEAF, {}), "n": 2}]),
    "null before a struct": (Schema.struct({"i": LEAF}), [{"i": None}, {"i": Struct(LEAF, {"x": 5})}, {"i": Struct(LEAF, {"x": 1})}]),
    "struct without fields": (Schema.struct({"e": Schema.struct({})}), [{"e": {}}]),
    "odd names": (Schema.struct({"a-b c": INT64_SCHEMA, "é": INT64_SCHEMA}), [{"a-b c": 1, "é": 2}]),
    "name of a oneof": (
        Schema.struct({"io.confluent.connect.json.OneOf.field.0": LEAF}),
        [{"io.confluent.connect.json.OneOf.field.0": None}],
    ),
    "no name": (Schema.struct({"": INT64_SCHEMA}), [{"": 1}]),
    "name that begins with a digit": (Schema.struct({"1st": INT64_SCHEMA}), [{"1st": 1}]),
    "name of a record": (Schema.struct({"é_1": INT64_SCHEMA}, name="my-topics.orders.Envelope"), [{"é_1": 1}]),
    "odd name of a record": (Schema.struct({"x": INT64_SCHEMA}, name="shop.my-orders"), [{"x": 1}]),
}
FAR_TIMES = {"year 1", "year 9999", "map of timestamps"}
REFUSED = {
    "avro": {"decimal of scale -3", "decimal of scale 70", "odd names", "name of a oneof", "no name"}
    | {"name that begins with a digit", "odd name of a record"},
    "parquet": {"decimal of scale -3", "struct without fields"},
    "orc": {name for name in VALUES if "scale -3" in name or "scale 50" in name or "scale 70" in name or "76" in name}
    | {"struct without fields", *FAR_TIMES},
    "bytes": VALUES.keys() - {"string", "bytes"},
    "json": set[str](),
    "csv": set[str](),
}


def written(format: str, name: str) -> bytes:
    schema, values = VALUES[name]
    whole = schema if format == "bytes" else Schema.struct({"v": schema})
    column = column_of(values if format == "bytes" else [{"v": value} for value in values], whole)
    found, file = file_format(format, None, {}), io.BytesIO()
    found.accepts(whole, column.type)
    writer = found.writer(file, whole, column.type)
    writer.write(column)
    writer.close()
    return file.getvalue()


def read(format: str, data: bytes, schema: Schema) -> list[Any]:
    """What stands in the file, as values of ``schema``: of JSON and CSV, which have no types, as far as they hold them."""
    rows: list[Any] = []
    for piece in file_format(format, None, {}).read(io.BytesIO(data), None):
        assert not isinstance(piece, DataException), piece
        rows += values_of(*piece)
    if format == "bytes":
        return [row if schema.type is SchemaType.BYTES else row.decode() for row in rows]
    if format == "json":
        whole = Schema.struct({"v": schema})
        rows = [read_value(whole, json.loads(json.dumps(row), parse_float=Decimal), JsonRules()) for row in rows]
    return [row["v"] for row in rows]


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("format", ["json", "avro", "parquet", "orc", "bytes", "csv"])
def test_what_is_written_is_read_back(format: str, name: str) -> None:
    schema, values = VALUES[name]
    if name in REFUSED[format]:
        with pytest.raises(DataException, match=r"hold|contain|need|support"):
            written(format, name)
        return
    found = read(format, written(format, name), schema)
    assert len(found) == len(values)
    if format == "csv":
        assert [text is None for text in found] == [value is None for value in values]
        assert schema.type is not SchemaType.STRING or found == values
        return
    assert plain(found) == plain(column_values(schema, values))


def column_values(schema: Schema, values: list[Any]) -> list[Any]:
    return values_of(column_of(values, schema), schema)


def plain(value: Any) -> Any:
    """Without schemas, since ORC keeps none of structs; floats as text, since NaN is not equal to itself and -0.0 is to 0.0."""
    if isinstance(value, Struct):
        return {name: plain(value.get_without_default(name)) for name in value}
    if isinstance(value, list):
        return [plain(entry) for entry in value]
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    return repr(value) if isinstance(value, float) else value


def test_the_table_names_every_format() -> None:
    assert REFUSED.keys() == FORMATS.keys()


@pytest.mark.parametrize(
    ("format", "name", "message"),
    [
        ("avro", "decimal of scale -3", r"the decimal value\.v of scale -3"),
        ("avro", "odd names", r"the name 'a-b c' of or in value\.v: Java's readers reject it"),
        ("avro", "odd name of a record", "the name 'my-orders' of or in"),
        ("orc", "year 1", "the field v has -62135596800000 ms"),
        ("orc", "map of timestamps", r"the field v\.value\.t has -62135596800000 ms"),
    ],
)
def test_a_refusal_names_the_field_and_the_value(format: str, name: str, message: str) -> None:
    with pytest.raises(DataException, match=message):
        written(format, name)
