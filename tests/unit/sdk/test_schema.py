"""Schemas, structs, the messages of validation, and which schema a plain Arrow type has."""

import datetime
import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.data.arrow_schema import arrow_field, arrow_type, schema_of
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
    validate_value,
)
from airflow_provider_connect.errors import DataException, SchemaException

NOON = datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC)
POINT = Schema.struct({"x": INT32_SCHEMA, "y": INT32_SCHEMA.as_optional(), "z": INT32_SCHEMA.with_default(7)}, name="point")

ARROW_TYPES = [
    (INT8_SCHEMA, pa.int8()),
    (INT16_SCHEMA, pa.int16()),
    (INT32_SCHEMA, pa.int32()),
    (INT64_SCHEMA, pa.int64()),
    (FLOAT32_SCHEMA, pa.float32()),
    (FLOAT64_SCHEMA, pa.float64()),
    (BOOLEAN_SCHEMA, pa.bool_()),
    (STRING_SCHEMA, pa.string()),
    (BYTES_SCHEMA, pa.binary()),
    (DATE_SCHEMA, pa.date32()),
    (TIME_SCHEMA, pa.time32("ms")),
    (TIMESTAMP_SCHEMA, pa.timestamp("ms", "UTC")),
    (decimal_schema(2), pa.decimal128(38, 2)),
    (decimal_schema(2, parameters={"scale": "2", "connect.decimal.precision": "50"}), pa.decimal256(50, 2)),
    (Schema.array(STRING_SCHEMA), pa.list_(pa.field("item", pa.string(), nullable=False))),
    (Schema.map(STRING_SCHEMA, INT32_SCHEMA.as_optional()), pa.map_(pa.string(), pa.int32())),
    (
        Schema.struct({"a": STRING_SCHEMA, "b": INT32_SCHEMA.as_optional()}),
        pa.struct([pa.field("a", pa.string(), nullable=False), pa.field("b", pa.int32())]),
    ),
]


@pytest.mark.parametrize(("schema", "type"), ARROW_TYPES)
def test_every_schema_type_has_its_arrow_type(schema: Schema, type: pa.DataType) -> None:
    assert arrow_type(schema) == type


@pytest.mark.parametrize(("schema", "type"), [case for case in ARROW_TYPES if case[0].type is not SchemaType.STRUCT])
def test_plain_arrow_type_has_its_schema(schema: Schema, type: pa.DataType) -> None:
    assert schema_of(pa.field("f", type, nullable=False)) == schema
    assert schema_of(pa.field("f", type)) == schema.as_optional()


NEAREST = [
    (pa.large_string(), STRING_SCHEMA),
    (pa.string_view(), STRING_SCHEMA),
    (pa.large_binary(), BYTES_SCHEMA),
    (pa.binary(4), BYTES_SCHEMA),
    (pa.float16(), FLOAT32_SCHEMA),
    (pa.uint8(), INT16_SCHEMA),
    (pa.uint16(), INT32_SCHEMA),
    (pa.uint32(), INT64_SCHEMA),
    (pa.uint64(), INT64_SCHEMA),
    (pa.date64(), DATE_SCHEMA),
    (pa.time64("us"), TIME_SCHEMA),
    (pa.timestamp("ns"), TIMESTAMP_SCHEMA),
    (pa.timestamp("us", "Europe/Paris"), TIMESTAMP_SCHEMA),
    (pa.decimal128(10, 3), decimal_schema(3)),
    (pa.dictionary(pa.int32(), pa.string()), STRING_SCHEMA),
    (pa.large_list(pa.int64()), Schema.array(INT64_SCHEMA.as_optional())),
    (pa.list_(pa.int64(), 3), Schema.array(INT64_SCHEMA.as_optional())),
]


@pytest.mark.parametrize(("type", "schema"), NEAREST)
def test_other_arrow_types_take_the_nearest_schema(type: pa.DataType, schema: Schema) -> None:
    assert schema_of(pa.field("f", type, nullable=False)) == schema


@pytest.mark.parametrize("type", [pa.duration("s"), pa.null(), pa.month_day_nano_interval()])
def test_what_connect_cannot_hold_is_refused(type: pa.DataType) -> None:
    with pytest.raises(SchemaException, match="has no Connect schema"):
        schema_of(pa.field("f", type))


def test_metadata_of_others_is_left_alone() -> None:
    assert schema_of(pa.field("f", pa.int32(), nullable=False, metadata={"PARQUET:field_id": "1"})) == INT32_SCHEMA


def test_name_of_a_logical_type_on_another_type_is_only_a_name() -> None:
    odd = Schema(SchemaType.INT64, name="org.apache.kafka.connect.data.Date")
    assert odd.logical_name is None
    assert arrow_type(odd) == pa.int64()
    assert schema_of(arrow_field("f", odd)) == odd


def test_logical_type_without_version() -> None:
    bare = Schema(SchemaType.INT32, name="org.apache.kafka.connect.data.Date")
    assert schema_of(arrow_field("f", bare)) == bare


def test_every_attribute_counts_for_equality() -> None:
    whole = Schema(SchemaType.STRING, True, "d", "n", 1, "doc", {"p": "1"})
    for change in ({"optional": False}, {"default": "e"}, {"name": "m"}, {"version": 2}, {"doc": "x"}, {"parameters": {"p": "2"}}):
        attributes: dict[str, Any] = {
            "optional": True,
            "default": "d",
            "name": "n",
            "version": 1,
            "doc": "doc",
            "parameters": {"p": "1"},
            **change,
        }
        assert Schema(SchemaType.STRING, **attributes) != whole
    assert Schema(SchemaType.STRING, True, "d", "n", 1, "doc", {"p": "1"}) == whole
    assert hash(Schema(SchemaType.STRING, True, "d", "n", 1, "doc", {"p": "1"})) == hash(whole)


def test_schemas_can_be_keys_and_travel() -> None:
    schema = Schema.struct({"a": POINT, "b": Schema.array(decimal_schema(1))}, parameters={"k": "v"})
    assert {schema: 1}[pickle.loads(pickle.dumps(schema))] == 1


def test_changes_make_new_schemas() -> None:
    assert STRING_SCHEMA.as_optional().as_required() == STRING_SCHEMA
    assert STRING_SCHEMA.with_default("x").default == "x"
    assert Schema.of(SchemaType.INT8, name="n").name == "n"
    assert not STRING_SCHEMA.optional


IMPOSSIBLE: list[tuple[Any, str]] = [
    (lambda: Schema(SchemaType.ARRAY), "Schema of type ARRAY needs a value schema"),
    (lambda: Schema(SchemaType.MAP, value_schema=STRING_SCHEMA), "Schema of type MAP needs a key schema"),
    (lambda: Schema(SchemaType.INT8, fields=POINT.fields), "Cannot create fields on type INT8"),
    (
        lambda: Schema(SchemaType.STRUCT, fields=(POINT.fields[0], POINT.fields[0])),
        "Cannot create field because of field name duplication x",
    ),
    (lambda: STRING_SCHEMA.with_default(5), "Invalid default value: Invalid Java object for schema with type STRING: class int for value"),
    (
        lambda: Schema(SchemaType.BYTES, name=decimal_schema(0).name).scale,
        "Invalid Decimal schema: scale parameter not found or not a number",
    ),
]


@pytest.mark.parametrize(("make", "message"), IMPOSSIBLE)
def test_impossible_schema_is_refused(make: Any, message: str) -> None:
    with pytest.raises(SchemaException) as caught:
        make()
    assert str(caught.value) == message


FITTING = [
    (INT8_SCHEMA, -128),
    (INT64_SCHEMA, 2**63 - 1),
    (FLOAT32_SCHEMA, 1.5),
    (FLOAT64_SCHEMA, 1),
    (BOOLEAN_SCHEMA, False),
    (BYTES_SCHEMA, bytearray(b"x")),
    (BYTES_SCHEMA, memoryview(b"x")),
    (STRING_SCHEMA.as_optional(), None),
    (decimal_schema(2), Decimal("1.50")),
    (DATE_SCHEMA, datetime.date(2024, 1, 1)),
    (TIME_SCHEMA, datetime.time(1, 2)),
    (TIMESTAMP_SCHEMA, NOON),
    (Schema.array(STRING_SCHEMA), ("a", "b")),
    (Schema.map(STRING_SCHEMA, INT32_SCHEMA.as_optional()), {"a": None}),
    (POINT, Struct(POINT, {"x": 1})),
]


@pytest.mark.parametrize(("schema", "value"), FITTING)
def test_fitting_values_pass(schema: Schema, value: object) -> None:
    validate_value(schema, value)


MISFITS = [
    (STRING_SCHEMA, None, "Invalid value: null used for required value, schema type: STRING"),
    (INT32_SCHEMA, "1", "Invalid Java object for schema with type INT32: class str for value"),
    (INT32_SCHEMA, True, "Invalid Java object for schema with type INT32: class bool for value"),
    (BOOLEAN_SCHEMA, 1, "Invalid Java object for schema with type BOOLEAN: class int for value"),
    (INT8_SCHEMA, 128, "Invalid value: 128 is out of range for value, schema type: INT8"),
    (DATE_SCHEMA, NOON, 'Invalid Java object for schema "org.apache.kafka.connect.data.Date" with type INT32: class datetime for value'),
    (DATE_SCHEMA, 5, 'Invalid Java object for schema "org.apache.kafka.connect.data.Date" with type INT32: class int for value'),
    (
        TIMESTAMP_SCHEMA,
        NOON.replace(tzinfo=None),
        "Invalid value: 2024-05-01 12:00:00 without a time zone used for value, schema type: INT64",
    ),
    (Schema.array(STRING_SCHEMA), ["a", None], "Invalid value: null used for required element of array value, schema type: STRING"),
    (Schema.map(STRING_SCHEMA, STRING_SCHEMA), {1: "a"}, "Invalid Java object for schema with type STRING: class int for key of map value"),
    (
        Schema.map(STRING_SCHEMA, STRING_SCHEMA),
        {"a": 1},
        "Invalid Java object for schema with type STRING: class int for value of map value",
    ),
    (POINT, {"x": 1}, 'Invalid Java object for schema "point" with type STRUCT: class dict for value'),
    (POINT, Struct(POINT.as_optional(), {"x": 1}), "Struct schemas do not match."),
    (POINT, Struct(POINT), 'Invalid value: null used for required field: "x", schema type: INT32'),
]


@pytest.mark.parametrize(("schema", "value", "message"), MISFITS)
def test_misfits_are_refused_in_connects_words(schema: Schema, value: object, message: str) -> None:
    with pytest.raises(DataException) as caught:
        validate_value(schema, value)
    assert str(caught.value) == message


def test_struct_reads_what_was_put_and_defaults() -> None:
    struct = Struct(POINT).put("x", 1)
    assert (struct["x"], struct["y"], struct["z"]) == (1, None, 7)
    assert struct.get_without_default("z") is None
    assert struct.get_typed("x", SchemaType.INT32) == 1
    struct["y"] = 2
    assert struct.as_dict() == {"x": 1, "y": 2, "z": 7}
    assert list(struct) == ["x", "y", "z"]
    assert "x" in struct
    assert "w" not in struct
    assert repr(struct) == "Struct{x=1,y=2}"
    struct.validate()


def test_struct_refuses_what_its_schema_does_not_have() -> None:
    struct = Struct(POINT)
    with pytest.raises(DataException, match=r"^w is not a valid field name$"):
        struct.get("w")
    with pytest.raises(DataException, match=r"^Field 'x' is not of type STRING$"):
        struct.get_typed("x", SchemaType.STRING)
    with pytest.raises(DataException, match=r'^Invalid Java object for schema with type INT32: class str for field: "x"$'):
        struct.put("x", "1")
    with pytest.raises(DataException, match=r'^Invalid value: null used for required field: "x", schema type: INT32$'):
        struct.put("x", None)
    with pytest.raises(DataException, match=r"^Not a struct schema: INT8$"):
        Struct(INT8_SCHEMA)


def test_mapping_put_into_a_struct_field_becomes_a_struct() -> None:
    line = Schema.struct({"from": POINT, "to": POINT.as_optional()})
    struct = Struct(line, {"from": {"x": 1}, "to": {"x": 2, "y": 3}})
    assert struct["from"] == Struct(POINT, {"x": 1})
    assert struct["to"]["y"] == 3


def test_structs_are_equal_by_schema_and_values() -> None:
    assert Struct(POINT, {"x": 1}) == Struct(POINT, {"x": 1})
    assert Struct(POINT, {"x": 1}) != Struct(POINT, {"x": 2})
    assert Struct(POINT, {"x": 1}) != Struct(Schema.struct({"x": INT32_SCHEMA}), {"x": 1})
    assert Struct(POINT, {"x": 1}) != {"x": 1}
    assert not Struct(POINT, {"x": 1}) == 1  # noqa: SIM201
    with pytest.raises(TypeError, match="unhashable"):
        hash(Struct(POINT))


def test_default_of_a_struct_is_a_struct_of_the_schema_without_it() -> None:
    schema = POINT.with_default(Struct(POINT, {"x": 1}))
    assert schema_of(arrow_field("f", schema)) == schema
    assert Struct(Schema.struct({"p": schema})).get("p")["x"] == 1
