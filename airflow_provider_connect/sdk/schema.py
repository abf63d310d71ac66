"""Kafka Connect's data schemas, the Struct, and how both map to Arrow types (contract §11.1).

Python values of the logical types: ``decimal.Decimal``, ``datetime.date``, ``datetime.time`` and an aware ``datetime.datetime``.
Everything else has the plain Python value; maps are dicts, arrays are lists, structs are ``Struct``.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_connect.errors import DataException, SchemaException
from airflow_provider_connect.sdk.arrow import pa

if TYPE_CHECKING:
    from collections.abc import Callable


class SchemaType(StrEnum):
    """The twelve types that data can have."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"


DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
DATE: Final = "org.apache.kafka.connect.data.Date"
TIME: Final = "org.apache.kafka.connect.data.Time"
TIMESTAMP: Final = "org.apache.kafka.connect.data.Timestamp"
SCALE: Final = "scale"
PRECISION: Final = "connect.decimal.precision"
_MOST_DIGITS: Final = 76  # of a decimal of 256 bits

_LOGICAL_TYPE: Final = {DECIMAL: SchemaType.BYTES, DATE: SchemaType.INT32, TIME: SchemaType.INT32, TIMESTAMP: SchemaType.INT64}


class _Parameters(dict[str, str]):
    """The parameters of a schema, hashable; not to be changed."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a struct."""

    name: str
    index: int
    schema: Schema


@dataclass(frozen=True, slots=True)
class Schema:
    """What a value must look like. Two schemas are equal when every attribute is; raises SchemaException for an impossible one."""

    type: SchemaType
    optional: bool = False
    default: Any = dataclasses.field(default=None, hash=False)  # any value of the schema
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: Mapping[str, str] | None = None
    key_schema: Schema | None = None
    value_schema: Schema | None = None
    fields: tuple[Field, ...] = ()
    _by_name: dict[str, Field] | None = dataclasses.field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.parameters is not None:
            object.__setattr__(self, "parameters", _Parameters(self.parameters))
        if self.type is SchemaType.STRUCT:
            _refuse_double_fields(self.fields)
        elif self.fields:
            raise SchemaException(f"Cannot create fields on type {self.type.name}")
        if self.type in (SchemaType.ARRAY, SchemaType.MAP) and self.value_schema is None:
            raise SchemaException(f"Schema of type {self.type.name} needs a value schema")
        if self.type is SchemaType.MAP and self.key_schema is None:
            raise SchemaException("Schema of type MAP needs a key schema")
        if self.default is not None:
            try:
                validate_value(self, self.default)
            except DataException as error:
                raise SchemaException(f"Invalid default value: {error}") from error

    @classmethod
    def of(cls, type: SchemaType, **attributes: Any) -> Schema:  # Any: the attributes of the dataclass
        return cls(type, **attributes)

    @classmethod
    def array(cls, value_schema: Schema, **attributes: Any) -> Schema:
        return cls(SchemaType.ARRAY, value_schema=value_schema, **attributes)

    @classmethod
    def map(cls, key_schema: Schema, value_schema: Schema, **attributes: Any) -> Schema:
        return cls(SchemaType.MAP, key_schema=key_schema, value_schema=value_schema, **attributes)

    @classmethod
    def struct(cls, fields: Mapping[str, Schema], **attributes: Any) -> Schema:
        """A struct of named fields, in the order given."""
        return cls(SchemaType.STRUCT, fields=tuple(Field(name, i, s) for i, (name, s) in enumerate(fields.items())), **attributes)

    def as_optional(self) -> Schema:
        return dataclasses.replace(self, optional=True)

    def as_required(self) -> Schema:
        return dataclasses.replace(self, optional=False)

    def with_default(self, value: object) -> Schema:
        return dataclasses.replace(self, default=value)

    def field(self, name: str) -> Field | None:
        """The field of this name, or None."""
        if self._by_name is None:
            object.__setattr__(self, "_by_name", {field.name: field for field in self.fields})
        return (self._by_name or {}).get(name)

    @property
    def logical_name(self) -> str | None:
        """The name, if it is one of the four logical types and the type beneath is the right one."""
        return self.name if self.name is not None and _LOGICAL_TYPE.get(self.name) is self.type else None

    @property
    def scale(self) -> int:
        """Digits after the point of a Decimal, from -76 to 76."""
        return _decimal_number(self, SCALE)


def _refuse_double_fields(fields: tuple[Field, ...]) -> None:
    seen: set[str] = set()
    for field in fields:
        if field.name in seen:
            raise SchemaException(f"Cannot create field because of field name duplication {field.name}")
        seen.add(field.name)


INT8_SCHEMA: Final = Schema(SchemaType.INT8)
INT16_SCHEMA: Final = Schema(SchemaType.INT16)
INT32_SCHEMA: Final = Schema(SchemaType.INT32)
INT64_SCHEMA: Final = Schema(SchemaType.INT64)
FLOAT32_SCHEMA: Final = Schema(SchemaType.FLOAT32)
FLOAT64_SCHEMA: Final = Schema(SchemaType.FLOAT64)
BOOLEAN_SCHEMA: Final = Schema(SchemaType.BOOLEAN)
STRING_SCHEMA: Final = Schema(SchemaType.STRING)
BYTES_SCHEMA: Final = Schema(SchemaType.BYTES)
OPTIONAL_INT8_SCHEMA: Final = INT8_SCHEMA.as_optional()
OPTIONAL_INT16_SCHEMA: Final = INT16_SCHEMA.as_optional()
OPTIONAL_INT32_SCHEMA: Final = INT32_SCHEMA.as_optional()
OPTIONAL_INT64_SCHEMA: Final = INT64_SCHEMA.as_optional()
OPTIONAL_FLOAT32_SCHEMA: Final = FLOAT32_SCHEMA.as_optional()
OPTIONAL_FLOAT64_SCHEMA: Final = FLOAT64_SCHEMA.as_optional()
OPTIONAL_BOOLEAN_SCHEMA: Final = BOOLEAN_SCHEMA.as_optional()
OPTIONAL_STRING_SCHEMA: Final = STRING_SCHEMA.as_optional()
OPTIONAL_BYTES_SCHEMA: Final = BYTES_SCHEMA.as_optional()
DATE_SCHEMA: Final = Schema(SchemaType.INT32, name=DATE, version=1)
TIME_SCHEMA: Final = Schema(SchemaType.INT32, name=TIME, version=1)
TIMESTAMP_SCHEMA: Final = Schema(SchemaType.INT64, name=TIMESTAMP, version=1)


def decimal_schema(scale: int, **attributes: Any) -> Schema:
    """A Decimal with ``scale`` digits after the point, and as many before it as fit into 38 digits in all.

    For more digits give ``parameters={"scale": …, "connect.decimal.precision": …}``, up to 76. A scale beyond 38 makes it 76 by itself.
    """
    attributes.setdefault("parameters", {SCALE: str(scale)})
    return Schema(SchemaType.BYTES, name=DECIMAL, version=1, **attributes)


class Struct:
    """Values by the fields of a schema. A field that was not put reads as its default, or None."""

    __slots__ = ("_values", "schema")

    def __init__(self, schema: Schema, values: Mapping[str, object] | None = None) -> None:
        """Put each of ``values``; a mapping put where a struct belongs becomes one."""
        if schema.type is not SchemaType.STRUCT:
            raise DataException(f"Not a struct schema: {schema.type.name}")
        self.schema = schema
        self._values: list[Any] = [None] * len(schema.fields)
        for name, value in (values or {}).items():
            self.put(name, value)

    @classmethod
    def of_values(cls, schema: Schema, values: list[Any]) -> Struct:
        """A struct of values that are known to fit, in the order of the fields. For code that has just read them under this schema."""
        struct = cls.__new__(cls)
        struct.schema, struct._values = schema, values
        return struct

    def put(self, name: str, value: object) -> Struct:
        """Set a field. Raises DataException for an unknown field or a value that does not fit. Returns itself, for chains."""
        field = self._field(name)
        if field.schema.type is SchemaType.STRUCT and isinstance(value, Mapping):
            value = Struct(field.schema, value)
        validate_value(field.schema, value, f'field: "{name}"')
        self._values[field.index] = value
        return self

    def get(self, name: str) -> Any:
        """The field's value, or else its default, or else None."""
        field = self._field(name)
        value = self._values[field.index]
        return field.schema.default if value is None else value

    def get_without_default(self, name: str) -> Any:
        return self._values[self._field(name).index]

    def get_typed(self, name: str, type: SchemaType) -> Any:
        """``get``, refused with DataException unless the field's type is ``type``."""
        if self._field(name).schema.type is not type:
            raise DataException(f"Field '{name}' is not of type {type.name}")
        return self.get(name)

    __getitem__ = get

    def __setitem__(self, name: str, value: object) -> None:
        self.put(name, value)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.schema.field(name) is not None

    def __iter__(self) -> Iterator[str]:
        return (field.name for field in self.schema.fields)

    def as_dict(self) -> dict[str, Any]:
        """All fields by name; defaults filled in; structs inside stay structs."""
        return {field.name: self.get(field.name) for field in self.schema.fields}

    def validate(self) -> None:
        """Raise DataException unless every field is put, optional or has a default, and fits."""
        for field, value in zip(self.schema.fields, self._values, strict=True):
            if value is None and (field.schema.optional or field.schema.default is not None):
                continue
            validate_value(field.schema, value, f'field: "{field.name}"')

    def _field(self, name: str) -> Field:
        field = self.schema.field(name)
        if field is None:
            raise DataException(f"{name} is not a valid field name")
        return field

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Struct):
            return NotImplemented
        return self._values == other._values and self.schema == other.schema

    __hash__ = None  # type: ignore[assignment]  # it can be changed

    def __repr__(self) -> str:
        return f"Struct{{{','.join(f'{f.name}={v!r}' for f, v in zip(self.schema.fields, self._values, strict=True) if v is not None)}}}"


_PYTHON_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    **dict.fromkeys(("int8", "int16", "int32", "int64"), (int,)),
    "float32": (float, int),
    "float64": (float, int),
    "boolean": (bool,),
    "string": (str,),
    "bytes": (bytes, bytearray, memoryview),
    "array": (list, tuple),
    "map": (Mapping,),
    "struct": (Struct,),
    DECIMAL: (Decimal,),
    DATE: (datetime.date,),
    TIME: (datetime.time,),
    TIMESTAMP: (datetime.datetime,),
}
INTEGER_BITS: Final = {SchemaType.INT8: 8, SchemaType.INT16: 16, SchemaType.INT32: 32, SchemaType.INT64: 64}


def validate_value(schema: Schema, value: object, location: str = "value") -> None:
    """Raise DataException, worded as in Connect, unless ``value`` fits ``schema``. ``location`` says in the text what was looked at."""
    if value is None:
        if not schema.optional:
            raise DataException(f"Invalid value: null used for required {location}, schema type: {schema.type.name}")
        return
    logical = schema.logical_name
    if not _is_instance(value, logical or schema.type):
        name = "" if schema.name is None else f' "{schema.name}"'
        raise DataException(
            f"Invalid Java object for schema{name} with type {schema.type.name}: class {type(value).__name__} for {location}"
        )
    if logical is None and schema.type in INTEGER_BITS:
        _validate_width(schema.type, value, location)
    elif logical == TIMESTAMP and isinstance(value, datetime.datetime) and value.utcoffset() is None:
        raise DataException(f"Invalid value: {value} without a time zone used for {location}, schema type: {schema.type.name}")
    elif isinstance(value, Struct):
        if value.schema is not schema and value.schema != schema and value.schema != dataclasses.replace(schema, default=None):
            raise DataException("Struct schemas do not match.")  # a default is a struct of the schema without the default
        value.validate()
    elif isinstance(value, list | tuple) and schema.value_schema is not None:
        for entry in value:
            validate_value(schema.value_schema, entry, f"element of array {location}")
    elif isinstance(value, Mapping) and schema.key_schema is not None and schema.value_schema is not None:
        for key, entry in value.items():
            validate_value(schema.key_schema, key, f"key of map {location}")
            validate_value(schema.value_schema, entry, f"value of map {location}")


def _is_instance(value: object, kind: str) -> bool:
    if isinstance(value, bool):  # an int to Python, not to Connect
        return kind == SchemaType.BOOLEAN
    if isinstance(value, datetime.datetime):  # a date to Python
        return kind == TIMESTAMP
    return isinstance(value, _PYTHON_TYPES[kind])


def _validate_width(type: SchemaType, value: Any, location: str) -> None:
    limit = 1 << (INTEGER_BITS[type] - 1)
    if not -limit <= value < limit:
        raise DataException(f"Invalid value: {value} is out of range for {location}, schema type: {type.name}")


# Arrow


def arrow_type(schema: Schema) -> pa.DataType:
    """The Arrow type of values of ``schema``. What Arrow's types cannot say of inner schemas stands in their fields' metadata."""
    logical = schema.logical_name
    if logical is not None:
        return _logical_arrow_type(logical, schema)
    if schema.value_schema is not None:
        if schema.key_schema is not None:
            return pa.map_(arrow_field("key", schema.key_schema).with_nullable(False), arrow_field("value", schema.value_schema))
        return pa.list_(arrow_field("item", schema.value_schema))
    if schema.type is SchemaType.STRUCT:
        return pa.struct([arrow_field(field.name, field.schema) for field in schema.fields])
    return getattr(pa, _PLAIN_ARROW_TYPES[schema.type])()


_PLAIN_ARROW_TYPES: Final = {
    SchemaType.INT8: "int8",
    SchemaType.INT16: "int16",
    SchemaType.INT32: "int32",
    SchemaType.INT64: "int64",
    SchemaType.FLOAT32: "float32",
    SchemaType.FLOAT64: "float64",
    SchemaType.BOOLEAN: "bool_",
    SchemaType.STRING: "string",
    SchemaType.BYTES: "binary",
}


def _logical_arrow_type(logical: str, schema: Schema) -> pa.DataType:
    if logical in (DATE, TIME):
        return pa.date32() if logical == DATE else pa.time32("ms")
    if logical == TIMESTAMP:
        return pa.timestamp("ms", "UTC")
    precision = _MOST_DIGITS if abs(schema.scale) > 38 else _decimal_number(schema, PRECISION, "38")
    return pa.decimal256(precision, schema.scale) if precision > 38 else pa.decimal128(38, schema.scale)


def _decimal_number(schema: Schema, name: str, missing: str = "") -> int:
    """A parameter of a Decimal. Raises SchemaException for what Arrow's widest decimal does not have."""
    try:
        number = int((schema.parameters or {}).get(name, missing))
    except ValueError as error:
        raise SchemaException(f"Invalid Decimal schema: {name} parameter not found or not a number") from error
    if abs(number) > _MOST_DIGITS:
        raise SchemaException(f"Invalid Decimal schema: {name} {number} is not from -{_MOST_DIGITS} to {_MOST_DIGITS}")
    return number


def arrow_field(name: str, schema: Schema) -> pa.Field:
    """An Arrow field that holds all of ``schema``: nullable = optional, and the rest, where there is any, as metadata ``connect.…``."""
    metadata = {
        "connect.name": schema.name,
        "connect.version": None if schema.version is None else str(schema.version),
        "connect.doc": schema.doc,
        "connect.parameters": None if schema.parameters is None else json.dumps(dict(schema.parameters)),
        "connect.default": None if schema.default is None else json.dumps(_default_to_json(schema, schema.default)),
    }
    given = {key: text for key, text in metadata.items() if text is not None}
    return pa.field(name, arrow_type(schema), nullable=schema.optional, metadata=given or None)


def schema_of(field: pa.Field) -> Schema:
    """The schema of an Arrow field: exactly the one that ``arrow_field`` was given, or the nearest for any other field.

    Widths without a schema type of their own take the next larger (uint8 → INT16); times finer than a millisecond become Time and
    Timestamp, which have milliseconds; a timestamp without a zone counts as UTC. Raises SchemaException for what Connect cannot hold.
    """
    metadata = {key.decode(): text.decode() for key, text in (field.metadata or {}).items() if key.startswith(b"connect.")}
    schema = dataclasses.replace(_schema_of_type(field.type, metadata), optional=field.nullable)
    changes: dict[str, Any] = {key: metadata[f"connect.{key}"] for key in ("name", "doc") if f"connect.{key}" in metadata}
    if "connect.version" in metadata:
        changes["version"] = int(metadata["connect.version"])
    elif "name" in changes:
        changes["version"] = None
    if "connect.parameters" in metadata:
        changes["parameters"] = json.loads(metadata["connect.parameters"])
    if "connect.default" in metadata:
        typed = dataclasses.replace(schema, **changes)
        changes["default"] = _default_from_json(typed, json.loads(metadata["connect.default"]))
    return dataclasses.replace(schema, **changes) if changes else schema


def _schema_of_type(type: pa.DataType, metadata: Mapping[str, str]) -> Schema:
    types = pa.types
    if types.is_dictionary(type):
        return _schema_of_type(type.value_type, metadata)
    if types.is_struct(type):
        return Schema.struct({field.name: schema_of(field) for field in type})
    if types.is_map(type):
        return Schema.map(schema_of(type.key_field), schema_of(type.item_field))
    if types.is_list(type) or types.is_large_list(type) or types.is_fixed_size_list(type):
        return Schema.array(schema_of(type.value_field))
    if types.is_decimal(type):
        wide = {} if type.precision <= 38 else {PRECISION: str(type.precision)}
        return decimal_schema(type.scale, parameters={SCALE: str(type.scale), **wide})
    for is_type, schema in _scalar_tests():
        if is_type(type):
            return schema
    raise SchemaException(f"Arrow type {type} has no Connect schema")


def _scalar_tests() -> list[tuple[Callable[[pa.DataType], bool], Schema]]:
    types = pa.types
    return [
        (types.is_string, STRING_SCHEMA),
        (types.is_int64, INT64_SCHEMA),
        (types.is_int32, INT32_SCHEMA),
        (types.is_binary, BYTES_SCHEMA),
        (types.is_float64, FLOAT64_SCHEMA),
        (types.is_boolean, BOOLEAN_SCHEMA),
        (types.is_float32, FLOAT32_SCHEMA),
        (types.is_date, DATE_SCHEMA),
        (types.is_timestamp, TIMESTAMP_SCHEMA),
        (types.is_time, TIME_SCHEMA),
        (types.is_int16, INT16_SCHEMA),
        (types.is_int8, INT8_SCHEMA),
        (lambda type: types.is_large_string(type) or types.is_string_view(type), STRING_SCHEMA),
        (lambda type: types.is_large_binary(type) or types.is_fixed_size_binary(type) or types.is_binary_view(type), BYTES_SCHEMA),
        (types.is_float16, FLOAT32_SCHEMA),
        (types.is_uint8, INT16_SCHEMA),
        (types.is_uint16, INT32_SCHEMA),
        (types.is_uint32, INT64_SCHEMA),
        (types.is_uint64, INT64_SCHEMA),
    ]


def _default_to_json(schema: Schema, value: Any) -> Any:
    """A default as JSON, by its schema, so that ``_default_from_json`` gives the very same value."""
    if value is None:
        return None
    if schema.logical_name is not None or schema.type is SchemaType.BYTES:
        return _scalar_text(value)
    if isinstance(value, Struct):
        return [_default_to_json(field.schema, value.get_without_default(field.name)) for field in schema.fields]
    if schema.value_schema is not None and schema.key_schema is not None:
        return [[_default_to_json(schema.key_schema, k), _default_to_json(schema.value_schema, v)] for k, v in value.items()]
    if schema.value_schema is not None:
        return [_default_to_json(schema.value_schema, entry) for entry in value]
    return value


def _scalar_text(value: Any) -> str:
    if isinstance(value, Decimal):
        return str(value)
    return base64.b64encode(value).decode() if isinstance(value, bytes | bytearray | memoryview) else value.isoformat()


_FROM_TEXT: Final[Mapping[str, Callable[[str], Any]]] = {
    DECIMAL: Decimal,
    DATE: datetime.date.fromisoformat,
    TIME: datetime.time.fromisoformat,
    TIMESTAMP: datetime.datetime.fromisoformat,
    SchemaType.BYTES: base64.b64decode,
}


def _default_from_json(schema: Schema, value: Any) -> Any:
    if value is None:
        return None
    if schema.logical_name is not None or schema.type is SchemaType.BYTES:
        return _FROM_TEXT[schema.logical_name or schema.type](value)
    if schema.type is SchemaType.STRUCT:
        return Struct.of_values(schema, [_default_from_json(f.schema, v) for f, v in zip(schema.fields, value, strict=True)])
    if schema.value_schema is not None and schema.key_schema is not None:
        return {_default_from_json(schema.key_schema, k): _default_from_json(schema.value_schema, v) for k, v in value}
    if schema.value_schema is not None:
        return [_default_from_json(schema.value_schema, entry) for entry in value]
    return value
