"""The cases of Apache's connect/transforms tests, as inputs and outcomes: what each transformation makes of one value."""

import datetime
from decimal import Decimal
from typing import Any

import pytest

from airflow_provider_connect.converters.plain import SimpleHeaderConverter
from airflow_provider_connect.data.records import SourceRecord
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
from airflow_provider_connect.errors import ConfigException, ConnectException, DataException
from airflow_provider_connect.sdk.transformations import Transformation
from airflow_provider_connect.transforms.cast import CastKey, CastValue
from airflow_provider_connect.transforms.fields import InsertFieldKey, InsertFieldValue, MaskFieldValue, ReplaceFieldKey, ReplaceFieldValue
from airflow_provider_connect.transforms.structs import (
    ExtractFieldKey,
    ExtractFieldValue,
    FlattenKey,
    FlattenValue,
    HoistFieldKey,
    HoistFieldValue,
    SetSchemaMetadataValue,
    ValueToKey,
)

DAY = datetime.datetime(1970, 1, 2, tzinfo=datetime.UTC)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MIDNIGHT = datetime.time()
DEFAULT_42 = Schema(SchemaType.INT32, True, 42)


def configured(kind: type[Transformation], **config: str) -> Transformation:
    transformation = kind()
    transformation.header_converter = SimpleHeaderConverter()
    settings = {name.replace("_", "."): text for name, text in config.items()}
    transformation.configure(transformation.config_def.parse(settings))
    return transformation


def of_key(kind: type[Transformation]) -> bool:
    return getattr(kind, "side", "value") == "key"


def applied(kind: type[Transformation], schema: Schema | None, value: Any, **config: str) -> tuple[Schema | None, Any]:
    """What one side of a record becomes, in topic ``test``, partition 0, at 789 ms."""
    sides = {"key": value, "key_schema": schema} if of_key(kind) else {"value": value, "value_schema": schema}
    given = SourceRecord(None, None, "test", kafka_partition=0, timestamp=789, **sides)
    made = configured(kind, **config).apply(given)
    assert isinstance(made, SourceRecord)
    return (made.key_schema, made.key) if of_key(kind) else (made.value_schema, made.value)


def struct(**fields: tuple[Schema, Any]) -> Struct:
    schema = Schema.struct({name: schema for name, (schema, _) in fields.items()})
    return Struct(schema, {name: value for name, (_, value) in fields.items() if value is not None})


@pytest.mark.parametrize("spec", ["", "foo:faketype", "foo:array", "array", "foo:bytes", "foo:int8:extra", "foo:int8,int32"])
def test_a_wrong_cast_is_refused(spec: str) -> None:
    with pytest.raises(ConfigException):
        configured(CastValue, spec=spec)


WHOLE = [
    ("int8", INT8_SCHEMA, 42),
    ("int16", INT16_SCHEMA, 42),
    ("int32", INT32_SCHEMA, 42),
    ("int64", INT64_SCHEMA, 42),
    ("float32", FLOAT32_SCHEMA, 42.0),
    ("float64", FLOAT64_SCHEMA, 42.0),
    ("boolean", BOOLEAN_SCHEMA, True),
    ("string", STRING_SCHEMA, "42"),
]


@pytest.mark.parametrize("kind", [CastKey, CastValue])
@pytest.mark.parametrize(("spec", "after", "value"), WHOLE)
def test_a_whole_value_is_cast(kind: type[Transformation], spec: str, after: Schema, value: object) -> None:
    assert applied(kind, INT32_SCHEMA, 42, spec=spec) == (after, value)
    schema, made = applied(kind, None, 42, spec=spec)
    assert (schema, made, type(made)) == (None, value, type(value))


CAST_FIELDS: list[tuple[Schema, Any, str, Any]] = [
    (INT8_SCHEMA, 8, "int16", 8),
    (INT16_SCHEMA.as_optional(), 16, "int32", 16),
    (INT32_SCHEMA, 32, "int64", 32),
    (INT64_SCHEMA, 64, "boolean", True),
    (INT32_SCHEMA, 0, "boolean", False),
    (FLOAT32_SCHEMA, 32.0, "float64", 32.0),
    (FLOAT64_SCHEMA, -64.0, "boolean", True),
    (BOOLEAN_SCHEMA, True, "int8", 1),
    (STRING_SCHEMA, "42", "int32", 42),
    (decimal_schema(0), Decimal(42), "string", "42"),
    (BYTES_SCHEMA, bytes.fromhex("fedcba9876543210"), "string", "/ty6mHZUMhA="),
    (FLOAT32_SCHEMA.as_optional(), None, "int32", None),
    (DATE_SCHEMA, DAY.date(), "int32", 1),
    (TIMESTAMP_SCHEMA, EPOCH, "int64", 0),
    (TIME_SCHEMA, datetime.time(microsecond=1000), "int64", 1),
    (decimal_schema(0), Decimal(2**31), "int32", -(2**31)),
    (TIMESTAMP_SCHEMA.as_optional(), None, "int32", None),
    (TIMESTAMP_SCHEMA, EPOCH + datetime.timedelta(days=1, milliseconds=1), "string", "1970-01-02T00:00:00.001Z"),
    (DATE_SCHEMA, DAY.date(), "string", "1970-01-02"),
    (TIME_SCHEMA, datetime.time(1), "string", "01:00:00.000Z"),
]


@pytest.mark.parametrize(("before", "value", "target", "wanted"), CAST_FIELDS)
def test_a_field_is_cast_and_its_neighbour_is_not(before: Schema, value: Any, target: str, wanted: Any) -> None:
    row = struct(f=(before, value), other=(TIMESTAMP_SCHEMA, EPOCH))
    schema, made = applied(CastValue, row.schema, row, spec=f"f:{target}")
    assert schema is not None
    after = Schema(SchemaType(target), before.optional)
    assert (schema.fields[0].schema, made.get("f")) == (after, wanted)
    assert (schema.fields[1].schema, made.get("other")) == (TIMESTAMP_SCHEMA, EPOCH)
    if not before.name and before is not BYTES_SCHEMA:  # bytes need a schema here: data without one is what JSON has
        assert applied(CastValue, None, {"f": value, "other": 1}, spec=f"f:{target}") == (None, {"f": wanted, "other": 1})


def test_a_default_is_cast_with_its_schema() -> None:
    schema, value = applied(CastValue, FLOAT32_SCHEMA.with_default(-42.125), 42.125, spec="int32")
    assert (schema, value) == (INT32_SCHEMA.with_default(-42), 42)
    row = struct(f=(FLOAT64_SCHEMA.with_default(-1.125), -64.0), g=(INT32_SCHEMA.with_default(2), 32))
    schema, _ = applied(CastValue, row.schema, row, spec="f:boolean,g:int64")
    assert schema is not None
    assert [field.schema.default for field in schema.fields] == [True, 2]


def test_a_list_is_not_cast() -> None:
    with pytest.raises(DataException):
        applied(CastValue, None, ["foo"], spec="int8")


REPLACED: list[tuple[type[Transformation], dict[str, str], str]] = [
    (CastValue, {"spec": "f:string"}, "f"),
    (ReplaceFieldValue, {"include": "f", "renames": "f:g"}, "g"),
    (ReplaceFieldKey, {"include": "f", "renames": "f:g"}, "g"),
    (SetSchemaMetadataValue, {"schema_name": "n"}, "f"),
    (InsertFieldValue, {"topic_field": "t"}, "f"),
]


@pytest.mark.parametrize(("kind", "config", "name"), REPLACED)
@pytest.mark.parametrize(("replace", "wanted"), [("true", 42), ("false", None)])
def test_null_is_its_default_where_it_is_asked_for(
    kind: type[Transformation], config: dict[str, str], name: str, replace: str, wanted: Any
) -> None:
    row = struct(f=(DEFAULT_42, None))
    _, made = applied(kind, row.schema, row, replace_null_with_default=replace, **config)
    got = made.get_without_default(name)
    assert got == (wanted if kind is not CastValue or wanted is None else "42")


@pytest.mark.parametrize("kind", [ExtractFieldKey, ExtractFieldValue])
@pytest.mark.parametrize(("replace", "wanted"), [("true", 42), ("false", None)])
def test_an_extracted_null_is_its_default_where_it_is_asked_for(kind: type[Transformation], replace: str, wanted: Any) -> None:
    row = struct(f=(DEFAULT_42, None))
    assert applied(kind, row.schema, row, field="f", replace_null_with_default=replace)[1] == wanted


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        (CastValue, {"spec": "foo:int64"}),
        (CastKey, {"spec": "foo:int64"}),
        (FlattenValue, {}),
        (ReplaceFieldValue, {"include": "abc,foo", "renames": "abc:xyz,foo:bar"}),
        (InsertFieldValue, {"topic_field": "topic_field!", "static_field": "i", "static_value": "v"}),
        (InsertFieldKey, {"topic_field": "topic_field!", "static_field": "i", "static_value": "v"}),
    ],
)
@pytest.mark.parametrize("schema", [None, Schema.struct({"magic": INT64_SCHEMA.as_optional()}, name="name", version=1, doc="doc")])
def test_a_tombstone_goes_on_as_it_is(kind: type[Transformation], config: dict[str, str], schema: Schema | None) -> None:
    assert applied(kind, schema, None, **config) == (schema, None)


INNER = struct(foo=(INT32_SCHEMA, 42))
EXTRACTED: list[tuple[Any, str, str, Any]] = [
    ({"magic": 42}, "magic", "V1", 42),
    ({"magic": {"foo": 42}}, "magic.foo", "V2", 42),
    ({"magic": 42}, "nonexistent", "V1", None),
    ({"magic": {"foo": 42}}, "magic.nonexistent", "V2", None),
    (None, "magic", "V1", None),
    (struct(magic=(INT32_SCHEMA, 42)), "magic", "V1", 42),
    (struct(magic=(INNER.schema, INNER)), "magic.foo", "V2", 42),
    (struct(magic=(INT32_SCHEMA, 42)), "nonexistent", "V1", "Unknown field: nonexistent"),
    (struct(magic=(INNER.schema, INNER)), "magic.nonexistent", "V2", "Unknown field: magic.nonexistent"),
]


@pytest.mark.parametrize("kind", [ExtractFieldKey, ExtractFieldValue])
@pytest.mark.parametrize(("row", "path", "syntax", "wanted"), EXTRACTED)
def test_a_field_is_extracted(kind: type[Transformation], row: Any, path: str, syntax: str, wanted: Any) -> None:
    schema = row.schema if isinstance(row, Struct) else None
    if isinstance(wanted, str):
        with pytest.raises(ConnectException, match=wanted):
            applied(kind, schema, row, field=path, field_syntax_version=syntax)
    else:
        after = INT32_SCHEMA if schema else None
        assert applied(kind, schema, row, field=path, field_syntax_version=syntax) == (after, wanted)


def test_a_field_of_null_is_null_with_the_field_s_schema() -> None:
    schema = Schema.struct({"magic": INT32_SCHEMA}, optional=True)
    assert applied(ExtractFieldKey, schema, None, field="magic") == (INT32_SCHEMA, None)


FLAT: list[tuple[Any, str, dict[str, Any]]] = [
    ({"A": {"B": {"n": 8, "s": "x", "b": True}}}, "#", {"A#B#n": 8, "A#B#s": "x", "A#B#b": True}),
    ({"B": {"opt": None}}, ".", {"B.opt": None}),
    ({"foo": ["bar", {"baz": {"lfg": "lfg"}}]}, ".", {"foo": ["bar", {"baz": {"lfg": "lfg"}}]}),
    ({"a": None, "b": "x", "c": None}, ".", {"a": None, "b": "x", "c": None}),
]


@pytest.mark.parametrize("kind", [FlattenKey, FlattenValue])
@pytest.mark.parametrize(("value", "delimiter", "wanted"), FLAT)
def test_a_map_is_flattened(kind: type[Transformation], value: Any, delimiter: str, wanted: dict[str, Any]) -> None:
    assert applied(kind, None, value, delimiter=delimiter) == (None, wanted)


def test_a_struct_is_flattened() -> None:
    inner = struct(i=(INT8_SCHEMA, 8), opt=(INT32_SCHEMA.as_optional(), None))
    middle = struct(B=(inner.schema, inner))
    row = struct(A=(middle.schema, middle), N=(inner.schema.as_optional(), None), L=(Schema.array(inner.schema), [inner]))
    schema, made = applied(FlattenValue, row.schema, row)
    assert schema is not None
    assert [(field.name, field.schema) for field in schema.fields] == [
        ("A.B.i", INT8_SCHEMA),
        ("A.B.opt", INT32_SCHEMA.as_optional()),
        ("N.i", INT8_SCHEMA.as_optional()),
        ("N.opt", INT32_SCHEMA.as_optional()),
        ("L", Schema.array(inner.schema)),
    ]
    assert made.as_dict() == {"A.B.i": 8, "A.B.opt": None, "N.i": None, "N.opt": None, "L": [inner]}


def test_a_flattened_field_has_the_default_of_its_struct() -> None:
    fields = {"req": STRING_SCHEMA, "opt": Schema(SchemaType.STRING, True, "child")}
    default = Struct(Schema.struct(fields, optional=True), {"req": "parent"})
    schema = default.schema.with_default(default)
    made, _ = applied(FlattenValue, schema, Struct(schema))
    assert made is not None
    assert [field.schema for field in made.fields] == [Schema(SchemaType.STRING, True, "parent"), Schema(SchemaType.STRING, True, "child")]


@pytest.mark.parametrize(
    ("kind", "config"),
    [(FlattenValue, {}), (InsertFieldValue, {"topic_field": "t"}), (SetSchemaMetadataValue, {"schema_name": "n"})],
)
def test_what_is_no_struct_is_refused(kind: type[Transformation], config: dict[str, str]) -> None:
    with pytest.raises(DataException):
        applied(kind, None, 42, **config)


@pytest.mark.parametrize("kind", [HoistFieldKey, HoistFieldValue])
def test_a_value_is_hoisted(kind: type[Transformation]) -> None:
    assert applied(kind, None, 42, field="magic") == (None, {"magic": 42})
    schema, made = applied(kind, INT32_SCHEMA, 42, field="magic")
    assert (schema, made.as_dict()) == (Schema.struct({"magic": INT32_SCHEMA}), {"magic": 42})


def test_fields_are_inserted() -> None:
    settings = {"topic_field": "t!", "partition_field": "p", "timestamp_field": "at?", "static_field": "i", "static_value": "x"}
    before = Schema.struct({"magic": INT64_SCHEMA.as_optional()}, name="name", version=1, doc="doc")
    schema, made = applied(InsertFieldValue, before, Struct(before, {"magic": 42}), **settings)
    assert schema is not None
    assert (schema.name, schema.version, schema.doc) == ("name", 1, "doc")
    assert {field.name: field.schema for field in schema.fields} == {
        "magic": INT64_SCHEMA.as_optional(),
        "t": STRING_SCHEMA,
        "p": INT32_SCHEMA.as_optional(),
        "at": TIMESTAMP_SCHEMA.as_optional(),
        "i": STRING_SCHEMA.as_optional(),
    }
    at = EPOCH + datetime.timedelta(milliseconds=789)
    assert made.as_dict() == {"magic": 42, "t": "test", "p": 0, "at": at, "i": "x"}
    inserted = {"magic": 42, "t": "test", "p": 0, "at": 789, "i": "x"}
    assert applied(InsertFieldValue, None, {"magic": 42}, **settings) == (None, inserted)
    assert applied(InsertFieldKey, None, {"magic": 42}, **settings) == (None, inserted)


MASKED: list[tuple[Schema, Any, Any, tuple[str, Any] | None]] = [
    (BOOLEAN_SCHEMA, True, False, None),
    (INT8_SCHEMA, 42, 0, ("123", 123)),
    (INT16_SCHEMA, 42, 0, ("123", 123)),
    (INT32_SCHEMA, 42, 0, ("123", 123)),
    (INT64_SCHEMA, 42, 0, ("123", 123)),
    (FLOAT32_SCHEMA, 42.0, 0.0, ("123.0", 123.0)),
    (FLOAT64_SCHEMA, 42.0, 0.0, ("123.0", 123.0)),
    (STRING_SCHEMA, "hmm", "", ("123", "123")),
    (DATE_SCHEMA, DAY.date(), EPOCH.date(), None),
    (TIME_SCHEMA, datetime.time(1), MIDNIGHT, None),
    (TIMESTAMP_SCHEMA, DAY, EPOCH, None),
    (decimal_schema(0), Decimal(42), Decimal(0), ("123", Decimal(123))),
    (Schema.array(INT32_SCHEMA), [1, 2, 3], [], None),
    (Schema.map(STRING_SCHEMA, STRING_SCHEMA), {"what": "what"}, {}, None),
    (Schema(SchemaType.STRING, True, "default"), None, None, None),
]


@pytest.mark.parametrize(("schema", "value", "masked", "replaced"), MASKED)
def test_a_field_is_masked(schema: Schema, value: Any, masked: Any, replaced: tuple[str, Any] | None) -> None:
    row, config = struct(f=(schema, value), magic=(INT32_SCHEMA, 42)), {"fields": "f", "replace_null_with_default": "false"}
    made = applied(MaskFieldValue, row.schema, row, **config)[1]
    assert (made.get_without_default("f"), made.get("magic")) == (masked, 42)
    if not schema.name and value is not None:
        assert applied(MaskFieldValue, None, {"f": value, "magic": 42}, **config)[1] == {"f": masked, "magic": 42}
    text, wanted = replaced or ("123", None)
    if replaced is not None:
        assert applied(MaskFieldValue, row.schema, row, replacement=text, **config)[1].get("f") == wanted
    elif value is not None:
        with pytest.raises(DataException, match="Cannot mask value of type"):
            applied(MaskFieldValue, row.schema, row, replacement=text, **config)


@pytest.mark.parametrize("schema", [INT8_SCHEMA, INT16_SCHEMA, INT32_SCHEMA, INT64_SCHEMA, FLOAT32_SCHEMA, FLOAT64_SCHEMA])
def test_a_number_is_not_masked_with_a_word(schema: Schema) -> None:
    row = struct(f=(schema, 42))
    with pytest.raises(DataException):
        applied(MaskFieldValue, row.schema, row, fields="f", replacement="foo")
    with pytest.raises(DataException):
        applied(MaskFieldValue, None, {"f": 42}, fields="f", replacement="foo")
    with pytest.raises(ConfigException):
        configured(MaskFieldValue, fields="f", replacement="")


def test_fields_are_left_out_and_renamed() -> None:
    given = {"dont": "whatever", "abc": 42, "foo": True, "etc": "etc"}
    renames = "abc:xyz,foo:bar"
    made = applied(ReplaceFieldValue, None, given, exclude="dont", renames=renames)
    assert made == (None, {"xyz": 42, "bar": True, "etc": "etc"})
    row = struct(dont=(STRING_SCHEMA, "w"), abc=(INT32_SCHEMA, 42), foo=(BOOLEAN_SCHEMA, True), etc=(STRING_SCHEMA, "etc"))
    assert applied(ReplaceFieldValue, row.schema, row, include="abc,foo", renames=renames)[1].as_dict() == {"xyz": 42, "bar": True}


@pytest.mark.parametrize(
    ("config", "name", "version"),
    [({"schema_name": "foo"}, "foo", 1), ({"schema_version": "42"}, "n", 42), ({"schema_name": "foo", "schema_version": "42"}, "foo", 42)],
)
def test_metadata_is_set_on_the_schema_and_its_struct(config: dict[str, str], name: str, version: int) -> None:
    before = Schema.struct({"a": STRING_SCHEMA}, name="n", version=1)
    for value in (Struct(before, {"a": "x"}), None):
        schema, made = applied(SetSchemaMetadataValue, before.as_optional(), value, **config)
        assert schema is not None
        assert (schema.name, schema.version) == (name, version)
        assert made is None or (made.schema, made.get("a")) == (schema, "x")
    assert applied(SetSchemaMetadataValue, None, None, **config) == (None, None)


def test_a_key_is_made_of_fields_of_the_value() -> None:
    row = struct(a=(INT32_SCHEMA, 1), b=(INT32_SCHEMA, 2), c=(DEFAULT_42, None))

    def key(value: Any, schema: Schema | None, **config: str) -> tuple[Schema | None, Any]:
        made = configured(ValueToKey, **config).apply(SourceRecord(None, None, "t", value, value_schema=schema))
        assert isinstance(made, SourceRecord)
        return made.key_schema, made.key

    assert key({"a": 1, "b": 2, "c": 3}, None, fields="a,b") == (None, {"a": 1, "b": 2})
    schema, made = key(row, row.schema, fields="a,b")
    assert (schema, made.as_dict()) == (Schema.struct({"a": INT32_SCHEMA, "b": INT32_SCHEMA}), {"a": 1, "b": 2})
    for replace, wanted in (("true", 42), ("false", None)):
        assert key(row, row.schema, fields="c", replace_null_with_default=replace)[1].get_without_default("c") == wanted
    with pytest.raises(DataException, match="Field does not exist: not_exist"):
        key(row, row.schema, fields="not_exist")
