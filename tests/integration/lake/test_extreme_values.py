"""Values at the edges of each type, written by both sinks and read by others: pyarrow, DuckDB and polars. Each is there unchanged, or its
record is refused by name."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import duckdb
import polars as pl
import pyarrow.parquet
import pytest
from deltalake import DeltaTable

from airflow_provider_connect.data.schema import (
    BOOLEAN_SCHEMA,
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
    SchemaType,
    Struct,
    decimal_schema,
)
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.sdk.batch import Batch
from tests.integration.lake import test_delta_sink, test_iceberg_sink
from tests.integration.lake.notes import batches
from tests.integration.lake.tables import table_of

both_sinks = pytest.mark.parametrize("sink", [test_iceberg_sink, test_delta_sink], ids=["iceberg", "delta"])
UTC: Final = datetime.UTC
TEXT: Final = STRING_SCHEMA.as_optional()
INNER: Final = Schema.struct({"x": TEXT, "n": INT64_SCHEMA.as_optional()}).as_optional()
STRICT: Final = Schema.struct({"x": STRING_SCHEMA})
EMPTY: Final = {"x": None, "n": None}
LONG: Final = datetime.datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC)


def array(schema: Schema) -> Schema:
    return Schema.array(schema).as_optional()


def mapping(schema: Schema, key: Schema = STRING_SCHEMA) -> Schema:
    return Schema.map(key, schema).as_optional()


def nested(levels: int, schema: Schema, value: Any) -> tuple[Schema, Any]:
    """Lists of structs of lists, with a null beside each."""
    for _ in range(levels):
        schema, value = array(Schema.struct({"of": schema}).as_optional()), [{"of": value}, None]
    return schema, value


VALUES: Final[dict[str, tuple[Schema, list[Any]]]] = {
    "int8": (INT8_SCHEMA, [-128, 127]),
    "int16": (INT16_SCHEMA, [-(2**15), 2**15 - 1]),
    "int32": (INT32_SCHEMA, [-(2**31), 2**31 - 1]),
    "int64": (INT64_SCHEMA, [-(2**63), 2**63 - 1]),
    "float32": (FLOAT32_SCHEMA, [math.nan, math.inf, -math.inf, -0.0, 0.0]),
    "float64": (FLOAT64_SCHEMA, [math.nan, math.inf, -math.inf, -0.0, 5e-324, 1.7976931348623157e308]),
    "boolean": (BOOLEAN_SCHEMA.as_optional(), [True, False, None]),
    "string": (TEXT, ["", None, "\0", "ä😀", " "]),
    "bytes": (BYTES_SCHEMA.as_optional(), [b"", None, b"\0\xff"]),
    "decimal, scale -2": (decimal_schema(-2), [Decimal(1200), Decimal(-9000)]),
    "decimal, scale 0": (decimal_schema(0), [Decimal(10**38 - 1), Decimal(1 - 10**38), Decimal(0)]),
    "decimal, scale 38": (decimal_schema(38), [Decimal("0." + "9" * 38), Decimal("-0." + "9" * 38)]),
    "decimal, 50 digits": (decimal_schema(2, parameters={"scale": "2", "connect.decimal.precision": "50"}), [Decimal("-1.25")]),
    "date": (DATE_SCHEMA, [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), datetime.date(1969, 12, 31)]),
    "timestamp": (TIMESTAMP_SCHEMA, [datetime.datetime(1, 1, 1, tzinfo=UTC), LONG, LONG.replace(year=1969)]),
    "list": (array(TEXT), [None, [], [None, ""]]),
    "list of structs": (array(INNER), [None, [], [None], [EMPTY, None, {"x": "a", "n": 1}], None]),
    "list of strict structs": (array(STRICT), [None, [], [{"x": ""}]]),
    "list of lists": (array(array(TEXT)), [None, [], [None, [], [None]]]),
    "list of lists of structs": (array(array(INNER)), [None, [], [None, [], [None, EMPTY]]]),
    "list of maps of structs": (array(mapping(INNER)), [None, [], [None, {}, {"a": None, "b": EMPTY}]]),
    "map": (mapping(TEXT), [None, {}, {"a": None, "": ""}]),
    "map of structs": (mapping(INNER), [None, {}, {"a": None, "b": EMPTY}, None]),
    "map of maps of structs": (mapping(mapping(INNER, INT32_SCHEMA)), [None, {}, {"a": None, "b": {}, "c": {1: None}}]),
    "map of lists of structs": (mapping(array(INNER)), [None, {}, {"a": None, "b": [], "c": [None, EMPTY]}]),
    "map of structs to structs": (mapping(INNER, STRICT), [None]),
    "struct": (INNER, [None, EMPTY, {"x": "", "n": 0}]),
    "struct of lists of structs": (Schema.struct({"of": array(INNER)}).as_optional(), [None, {"of": None}, {"of": []}, {"of": [None]}]),
    "15 levels": (nested(15, TEXT, "end")[0], [nested(15, TEXT, "end")[1], nested(15, TEXT, None)[1], None, []]),
}
TIMES: Final = (TIME_SCHEMA, [datetime.time(0), datetime.time(23, 59, 59, 999_000)])


def given(schema: Schema, value: Any) -> Any:
    """The value as a record has it."""
    if value is None:
        return None
    match schema.type, schema.value_schema:
        case SchemaType.ARRAY, Schema() as inner:
            return [given(inner, each) for each in value]
        case SchemaType.MAP, Schema() as inner:
            return {key: given(inner, each) for key, each in value.items()}
    return Struct(schema, {f.name: given(f.schema, value[f.name]) for f in schema.fields}) if schema.type is SchemaType.STRUCT else value


def plain(schema: Schema, value: Any) -> Any:
    """What a reader has found, or what is expected, in one form: maps as pairs, and floats as texts, since NaN equals itself and 0.0 is
    not -0.0."""
    if value is None:
        return None
    match schema.type, schema.value_schema:
        case SchemaType.ARRAY, Schema() as inner:
            return [plain(inner, each) for each in value]
        case SchemaType.MAP, Schema() as inner:
            pairs = value.items() if isinstance(value, dict) else (each.values() if isinstance(each, dict) else each for each in value)
            return sorted((key, plain(inner, each)) for key, each in pairs)
    if schema.type is SchemaType.STRUCT:
        return {field.name: plain(field.schema, value[field.name]) for field in schema.fields}
    return repr(value) if isinstance(value, float) else value


def records(schema: Schema, values: list[Any]) -> list[Batch]:
    row = Schema.struct({"id": INT64_SCHEMA, "v": schema})
    return batches([{"id": id, "v": given(schema, value)} for id, value in enumerate(values)], row)


def files(sink: ModuleType, folder: Path) -> list[str]:
    """The data files of the table."""
    if sink is test_delta_sink:
        return [uri.removeprefix("file://") for uri in DeltaTable(str(folder / "notes")).file_uris()]
    return [task.file.file_path.removeprefix("file://") for task in table_of(folder, "shop.notes").scan().plan_files()]


def by_arrow(sink: ModuleType, folder: Path) -> list[dict[str, Any]]:
    return [row for file in files(sink, folder) for row in pyarrow.parquet.ParquetFile(file).read().to_pylist()]


def by_duckdb(sink: ModuleType, folder: Path) -> list[dict[str, Any]]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        table = connection.sql("SELECT * FROM read_parquet($1)", params=[files(sink, folder)]).to_arrow_table()
        return list(table.to_pylist())


def by_polars(sink: ModuleType, folder: Path) -> list[dict[str, Any]]:
    return pl.read_parquet(files(sink, folder)).to_dicts()


def written(sink: ModuleType, folder: Path, schema: Schema, values: list[Any], **more: str) -> None:
    sink.deliver(sink.config(folder) | more, records(schema, values))


@both_sinks
@pytest.mark.parametrize("name", VALUES)
def test_values_are_read_as_they_were_sent(tmp_path: Path, sink: ModuleType, name: str) -> None:
    schema, values = VALUES[name]
    written(sink, tmp_path, schema, values)
    for read in (by_arrow, by_duckdb, by_polars):
        rows = sorted(read(sink, tmp_path), key=lambda row: row["id"])
        assert [plain(schema, row["v"]) for row in rows] == [plain(schema, value) for value in values], read.__name__


@both_sinks
@pytest.mark.parametrize("name", ["list of structs", "map of structs", "list of lists of structs", "string", "float64"])
def test_rows_that_are_written_anew_keep_their_values(tmp_path: Path, sink: ModuleType, name: str) -> None:
    """An upsert replaces one row, and the file with the others."""
    schema, values = VALUES[name]
    written(sink, tmp_path, schema, values, **sink.UPSERT)
    sink.deliver(sink.config(tmp_path, **sink.UPSERT), records(schema, values[:1]), claim_epoch=2)
    rows = sorted(by_arrow(sink, tmp_path), key=lambda row: row["id"])
    assert [plain(schema, row["v"]) for row in rows] == [plain(schema, value) for value in values]


def test_times_of_day_are_read_from_iceberg(tmp_path: Path) -> None:
    schema, values = TIMES
    written(test_iceberg_sink, tmp_path, array(schema), [values, None])
    assert [row["v"] for row in by_arrow(test_iceberg_sink, tmp_path)] == [values, None]


REFUSED: Final = {
    "decimal, scale 39": (decimal_schema(39), Decimal("0." + "9" * 38), r"has no type for the field v \(decimal256\(76, 39\)\)"),
    "no fields": (Schema.struct({}), {}, r"has no type for the field v \(a struct without fields\)"),
    "no fields, deep": (
        array(Schema.struct({"of": Schema.struct({})})),
        [],
        r"has no type for the field v\.item\.of \(a struct without fields\)",
    ),
}


@both_sinks
@pytest.mark.parametrize("name", REFUSED)
def test_types_that_a_table_has_not_are_refused_with_their_field(tmp_path: Path, sink: ModuleType, name: str) -> None:
    schema, value, text = REFUSED[name]
    with pytest.raises(ConnectException, match=text):
        written(sink, tmp_path, schema, [value])
