"""What JSON cannot carry and the recordings so do not have: structs as defaults, numbers that are none, Java's expressions."""

import datetime
import math
from typing import Any

import pytest

from airflow_provider_connect.data.columns import column_of, json_column, values_of
from airflow_provider_connect.data.schema import (
    FLOAT64_SCHEMA,
    INT32_SCHEMA,
    STRING_SCHEMA,
    TIMESTAMP_SCHEMA,
    Schema,
    SchemaType,
    Struct,
)
from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.transformations import Transformation
from airflow_provider_connect.transforms.cast import CastValue, cast_column
from airflow_provider_connect.transforms.cast_values import cast_value
from airflow_provider_connect.transforms.java_regex import compile_regex
from airflow_provider_connect.transforms.structs import FlattenValue, HoistFieldValue, SetSchemaMetadataValue, ValueToKey
from airflow_provider_connect.transforms.timestamp_converter import TimestampConverterValue
from tests.columns import there

NOON = datetime.datetime(2020, 1, 1, 12, tzinfo=datetime.UTC)
PLAIN = Schema.struct({"at": TIMESTAMP_SCHEMA, "name": STRING_SCHEMA.as_optional()}, optional=True)
WITH_DEFAULT = PLAIN.with_default(Struct(PLAIN, {"at": NOON, "name": "d"}))


def applied(transformation: Transformation, schema: Schema | None, value: Any, **config: str) -> Batch:
    settings = {name.replace("_", "."): text for name, text in config.items()}
    transformation.configure(transformation.config_def.parse(settings))
    made = transformation.apply_batch(Batch("t", column_of([value], schema), value_schema=schema))
    assert isinstance(made, Batch)
    return made


def test_a_struct_that_is_a_default_becomes_what_structs_become() -> None:
    after = applied(TimestampConverterValue(), WITH_DEFAULT, None, field="at", target_type="unix")
    assert after.value_schema is not None
    assert after.value_schema.default.as_dict() == {"at": int(NOON.timestamp() * 1000), "name": "d"}
    assert after.value_schema.default.schema.field("at").schema == Schema(SchemaType.INT64)


def test_bytes_in_a_map_without_a_schema_are_base64_text() -> None:
    after = applied(HoistFieldValue(), None, b"\x00x", field="h")
    assert values_of(there(after.value), None) == [{"h": "AHg="}]


def test_half_a_surrogate_pair_in_json_text_is_a_bad_record() -> None:
    hoist = HoistFieldValue()
    hoist.configure(HoistFieldValue.config_def.parse({"field": "h"}))
    with pytest.raises(DataException, match="surrogates not allowed"):
        hoist.apply_batch(Batch("t", json_column(['{"a":"\\ud800"}'])))


def test_a_renamed_schema_keeps_its_default() -> None:
    after = applied(SetSchemaMetadataValue(), WITH_DEFAULT, None, schema_name="n")
    assert after.value_schema is not None
    assert (after.value_schema.name, after.value_schema.default.schema.name) == ("n", "n")
    assert after.value_schema.default.as_dict() == {"at": NOON, "name": "d"}


def test_flattened_fields_take_their_defaults_from_the_struct_around_them() -> None:
    outer = Schema.struct({"in": WITH_DEFAULT})
    after = applied(FlattenValue(), outer, Struct(outer, {"in": Struct(WITH_DEFAULT, {"at": NOON})}))
    assert after.value_schema is not None
    assert [(field.name, field.schema.optional, field.schema.default) for field in after.value_schema.fields] == [
        ("in.at", True, NOON),
        ("in.name", True, "d"),
    ]


@pytest.mark.parametrize(
    ("number", "target", "cast"),
    [
        (math.nan, SchemaType.INT8, 0),
        (math.nan, SchemaType.INT64, 0),
        (math.inf, SchemaType.INT8, -1),
        (-math.inf, SchemaType.INT16, 0),
        (math.inf, SchemaType.INT32, 2**31 - 1),
        (-math.inf, SchemaType.INT64, -(2**63)),
        (math.nan, SchemaType.BOOLEAN, False),
        (math.inf, SchemaType.BOOLEAN, True),
        (-0.9, SchemaType.BOOLEAN, False),
        (math.nan, SchemaType.STRING, "NaN"),
        (-math.inf, SchemaType.STRING, "-Infinity"),
        (1e39, SchemaType.FLOAT32, math.inf),
    ],
)
def test_numbers_that_are_none_are_cast_as_in_java(number: float, target: SchemaType, cast: Any) -> None:
    assert cast_value(number, FLOAT64_SCHEMA, target) == cast
    column = cast_column(column_of([number], FLOAT64_SCHEMA), FLOAT64_SCHEMA, target)
    assert values_of(column, Schema(target)) == [cast]


def test_nothing_is_cast_from_what_has_no_values() -> None:
    array = Schema.array(INT32_SCHEMA, optional=True)
    assert cast_column(column_of([None, None], array), array, SchemaType.INT8).to_pylist() == [None, None]


@pytest.mark.parametrize(
    ("expression", "text", "matches"),
    [
        (r"(?<n>o)\k<n>", "oo", True),
        (r"\Qa.b\E.", "a.bc", True),
        (r"\Qa.b\E.", "axbc", False),
        (r"[\p{Alpha}.]+", "a.B", True),
        (r"\P{Digit}+", "ab", True),
        (r"\(?<n>", "(<n>", True),
        (r"(?<=a)b|c", "c", True),
        (r"\d", "٣", False),
        (r"a++b", "aab", True),
    ],
)
def test_expressions_of_java_are_understood(expression: str, text: str, *, matches: bool) -> None:
    assert (compile_regex(expression, "regex").fullmatch(text) is not None) == matches


@pytest.mark.parametrize("expression", [r"[a-z&&[^b]]", r"[a[b]]", r"\p{IsLatin}", r"["])
def test_expressions_that_python_reads_otherwise_are_refused(expression: str) -> None:
    with pytest.raises(Exception, match=r"not supported|unterminated"):
        compile_regex(expression, "regex")


def test_a_failing_record_is_named_whatever_lies_before_it() -> None:
    """Counted from the first record of the batch, though batches are cut at null values."""
    schema = Schema.struct({"n": STRING_SCHEMA.as_optional()}, optional=True)
    rows = [Struct(schema, {"n": "1"}), None, Struct(schema, {"n": "2"}), Struct(schema, {"n": "x"})]
    schemaless = [{"n": "1"}, None, {"n": "2"}, {"n": "x"}]
    for of_rows, values in ((schema, rows), (None, schemaless)):
        transformation = CastValue()
        transformation.configure(transformation.config_def.parse({"spec": "n:int8"}))
        with pytest.raises(DataException, match=r"Value \(x\) was out of range") as raised:
            transformation.apply_batch(Batch("t", column_of(values, of_rows), value_schema=of_rows))
        assert raised.value.record == 3


MIDDLE = Schema.struct({"b": INT32_SCHEMA.as_optional(), "c.d": STRING_SCHEMA.as_optional()}, optional=True)
NESTED = Schema.struct({"a": MIDDLE, "n": INT32_SCHEMA})


def test_a_key_is_made_of_nested_fields_by_paths() -> None:
    """Kafka 4.4: the key's fields are named by their paths (KIP-821)."""
    paths = "a.b,n,a.`c.d`"
    value: dict[str, Any] = {"a": {"b": 1, "c.d": "x"}, "n": 2}
    plain = applied(ValueToKey(), None, value, fields=paths, field_syntax_version="V2")
    assert values_of(there(plain.key), None) == [{"a.b": 1, "n": 2, "a.`c.d`": "x"}]
    struct = Struct(NESTED, {"a": Struct(MIDDLE, value["a"]), "n": 2})
    typed = applied(ValueToKey(), NESTED, struct, fields=paths, field_syntax_version="V2")
    assert typed.key_schema is not None
    assert [(each.name, each.schema.type) for each in typed.key_schema.fields] == [
        ("a.b", SchemaType.INT32),
        ("n", SchemaType.INT32),
        ("a.`c.d`", SchemaType.STRING),
    ]
    assert values_of(there(typed.key), typed.key_schema)[0].as_dict() == {"a.b": 1, "n": 2, "a.`c.d`": "x"}


def test_a_path_of_a_key_through_null_is_null_and_one_that_does_not_exist_is_refused() -> None:
    assert values_of(there(applied(ValueToKey(), None, {"a": None}, fields="a.b", field_syntax_version="V2").key), None) == [{"a.b": None}]
    typed = applied(ValueToKey(), NESTED, Struct(NESTED, {"n": 2}), fields="a.b", field_syntax_version="V2")
    assert there(typed.key).to_pylist() == [{"a.b": None}]
    with pytest.raises(DataException, match=r"Field does not exist: a\.x"):
        applied(ValueToKey(), NESTED, Struct(NESTED, {"n": 2}), fields="a.x", field_syntax_version="V2")


def test_a_name_with_a_point_is_one_field_by_default() -> None:
    assert values_of(there(applied(ValueToKey(), None, {"a.b": 1, "a": {"b": 2}}, fields="a.b").key), None) == [{"a.b": 1}]


@pytest.mark.parametrize("target", ["string", "unix", "Date", "Time", "Timestamp"])
@pytest.mark.parametrize("text", ["9" * 20, "-" + "9" * 20, "9" * 4000, "9" * 5000])
def test_a_text_of_a_time_that_no_number_of_64_bits_holds_is_a_bad_record(text: str, target: str) -> None:
    """It ended the task, whatever ``errors.tolerance`` was."""
    with pytest.raises(DataException, match="Could not parse timestamp"):
        applied(TimestampConverterValue(), STRING_SCHEMA, text, format="yyyy", target_type=target)
