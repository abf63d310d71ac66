"""Kafka Connect's data schemas and the Struct (docs/contract.md §11.1).

Python values of the logical types: ``decimal.Decimal``, ``datetime.date``, ``datetime.time`` and an aware ``datetime.datetime``.
Other values are plain Python values; maps are dicts, arrays are lists, structs are ``Struct``.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final, NamedTuple

from airflow_provider_connect.data.expansion import check_bytes, check_fields, weight_of
from airflow_provider_connect.errors import DataException, SchemaException

_NULL_BYTES: Final = 8  # for most types


class SchemaType(StrEnum):
    """Kafka Connect's twelve types."""

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
MOST_DIGITS: Final = 76  # of a decimal of 256 bits

_LOGICAL_TYPE: Final = {DECIMAL: SchemaType.BYTES, DATE: SchemaType.INT32, TIME: SchemaType.INT32, TIMESTAMP: SchemaType.INT64}


class _Parameters(dict[str, str]):
    """The hashable parameters of a schema, which must not be changed."""

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
    """The type of a value, with its attributes. Schemas are equal if all their attributes are equal.

    ``name``, ``version``, ``doc`` and ``parameters`` are Kafka Connect's. Use ``Schema.struct``, ``Schema.array`` and ``Schema.map`` for
    nested types. The constructor raises SchemaException for an invalid schema, or a default that does not fit.
    """

    type: SchemaType
    optional: bool = False
    default: Any = dataclasses.field(default=None, hash=False)  # a value of the schema
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: Mapping[str, str] | None = None
    key_schema: Schema | None = None
    value_schema: Schema | None = None
    fields: tuple[Field, ...] = ()
    _by_name: dict[str, Field] | None = dataclasses.field(default=None, init=False, repr=False, compare=False)
    _optional: Schema | None = dataclasses.field(default=None, init=False, repr=False, compare=False)
    _count: int = dataclasses.field(default=1, init=False, repr=False, compare=False)  # fields, including inner ones

    def __post_init__(self) -> None:
        if not isinstance(self.type, SchemaType):
            raise SchemaException(f"The type of a schema must be a SchemaType, got {self.type!r}")
        if self.parameters is not None:
            object.__setattr__(self, "parameters", _Parameters(self.parameters))
            object.__setattr__(self, "_count", 1 + weight_of(self.parameters))
        if self.type is SchemaType.STRUCT:
            _refuse_wrong_fields(self.fields)
            self._count_fields([field.schema for field in self.fields])
        elif self.fields:
            raise SchemaException(f"Cannot create fields on type {self.type.name}")
        if self.type in (SchemaType.ARRAY, SchemaType.MAP) and self.value_schema is None:
            raise SchemaException(f"Schema of type {self.type.name} needs a value schema")
        if self.type is SchemaType.MAP and self.key_schema is None:
            raise SchemaException("Schema of type MAP needs a key schema")
        if self.value_schema is not None:
            self._count_fields([self.value_schema] if self.key_schema is None else [self.key_schema, self.value_schema])
        if self.default is not None:
            try:
                validate_value(self, self.default)
            except DataException as error:
                raise SchemaException(f"Invalid default value: {error}") from error

    @classmethod
    def of(cls, type: SchemaType, **attributes: Any) -> Schema:  # Any: the attributes of the dataclass
        """A schema of ``type``, with other attributes by name."""
        return cls(type, **attributes)

    @classmethod
    def array(cls, value_schema: Schema, **attributes: Any) -> Schema:
        """A list of values of ``value_schema``."""
        return cls(SchemaType.ARRAY, value_schema=value_schema, **attributes)

    @classmethod
    def map(cls, key_schema: Schema, value_schema: Schema, **attributes: Any) -> Schema:
        """A map of keys of ``key_schema`` to values of ``value_schema``."""
        return cls(SchemaType.MAP, key_schema=key_schema, value_schema=value_schema, **attributes)

    @classmethod
    def struct(cls, fields: Mapping[str, Schema], **attributes: Any) -> Schema:
        """A struct with the given fields, in order."""
        return cls(SchemaType.STRUCT, fields=tuple(Field(name, i, s) for i, (name, s) in enumerate(fields.items())), **attributes)

    def _count_fields(self, inner: Sequence[Schema]) -> None:
        count = 1 + weight_of(self.parameters) + sum([schema._count for schema in inner])
        name = f" named {self.name}" if self.name else ""
        object.__setattr__(self, "_count", check_fields(count, f"A schema of type {self.type.name}{name}"))

    def as_optional(self) -> Schema:
        """The optional form of this schema. Each call returns the same object, so it is cheap to call for each record."""
        if self._optional is None:
            object.__setattr__(self, "_optional", self if self.optional else dataclasses.replace(self, optional=True))
        return self._optional or self

    def equals_but_for_null(self, other: Schema | None) -> bool:
        """Whether both schemas are equal, except that one of them may be optional.

        In change data capture, the schemas of rows differ in this way, depending on the kind of change.
        """
        return self is other or (other is not None and self.as_optional() == other.as_optional())

    def as_required(self) -> Schema:
        """The required form of this schema."""
        return dataclasses.replace(self, optional=False)

    def with_default(self, value: object) -> Schema:
        """A copy with another default. Raises SchemaException for a value that does not fit."""
        return dataclasses.replace(self, default=value)

    def field(self, name: str) -> Field | None:
        """The field of this name, or None."""
        if self._by_name is None:
            object.__setattr__(self, "_by_name", {field.name: field for field in self.fields})
        return (self._by_name or {}).get(name)

    @property
    def logical_name(self) -> str | None:
        """The schema's name, if it is one of the four logical types with the right base type; otherwise None."""
        return self.name if self.name is not None and _LOGICAL_TYPE.get(self.name) is self.type else None

    @property
    def scale(self) -> int:
        """The number of digits after a Decimal's point, from -76 to 76. Raises SchemaException for other schemas."""
        return decimal_number(self, SCALE)


def check_rows(schema: Schema, count: int) -> None:
    """Raise DataException if ``count`` structs of ``schema`` would exceed the memory limit of one step, even if all fields were null."""
    what = f"{count} values of {schema.name or schema.type.name}, with {schema._count} fields each,"
    check_bytes(count * schema._count * _NULL_BYTES, what)


def decimal_number(schema: Schema, name: str, missing: str = "") -> int:
    """A numeric parameter of a Decimal schema. Raises SchemaException if it is missing or exceeds Arrow's widest decimal."""
    try:
        number = int((schema.parameters or {}).get(name, missing))
    except ValueError as error:
        raise SchemaException(f"Invalid Decimal schema: {name} parameter not found or not a number") from error
    if abs(number) > MOST_DIGITS:
        raise SchemaException(f"Invalid Decimal schema: {name} {number} is not from -{MOST_DIGITS} to {MOST_DIGITS}")
    return number


def _refuse_wrong_fields(fields: tuple[Field, ...]) -> None:
    seen: set[str] = set()
    for field in fields:
        if not isinstance(field.name, str):
            raise SchemaException(f"The name of a field must be text, got {field.name!r}")
        if not isinstance(field.schema, Schema):
            raise SchemaException(f"The schema of field {field.name} must be a Schema, got {field.schema!r}")
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
DATE_SCHEMA: Final = Schema(SchemaType.INT32, name=DATE, version=1)
TIME_SCHEMA: Final = Schema(SchemaType.INT32, name=TIME, version=1)
TIMESTAMP_SCHEMA: Final = Schema(SchemaType.INT64, name=TIMESTAMP, version=1)


def decimal_schema(scale: int, **attributes: Any) -> Schema:
    """A Decimal of up to 38 digits, of which ``scale`` are after the point.

    For up to 76 digits, set ``parameters={"scale": …, "connect.decimal.precision": …}``. If the scale is above 38, the default precision is
    76.
    """
    attributes.setdefault("parameters", {SCALE: str(scale)})
    return Schema(SchemaType.BYTES, name=DECIMAL, version=1, **attributes)


def count_fields(schema: Schema | None) -> int:
    """The number of fields of a schema, including inner types. It is at least 1, or 0 if there is no schema."""
    return 0 if schema is None else schema._count


class Struct:
    """The values of a schema's fields. A field that was not set has its default, or None."""

    __slots__ = ("_values", "schema")

    def __init__(self, schema: Schema, values: Mapping[str, object] | None = None) -> None:
        """Set each of ``values``. A mapping becomes a Struct if the field is a struct."""
        if schema.type is not SchemaType.STRUCT:
            raise DataException(f"Not a struct schema: {schema.type.name}")
        self.schema = schema
        self._values: list[Any] = [None] * len(schema.fields)
        for name, value in (values or {}).items():
            self.put(name, value)

    @classmethod
    def of_values(cls, schema: Schema, values: list[Any]) -> Struct:
        """Create a struct without validation, from values in the order of the fields. For code that has just read the values with this
        schema."""
        struct = cls.__new__(cls)
        struct.schema, struct._values = schema, values
        return struct

    def put(self, name: str, value: object) -> Struct:
        """Set a field and return ``self``. Raises DataException for an unknown field or a value that does not fit."""
        field = self._field(name)
        if field.schema.type is SchemaType.STRUCT and isinstance(value, Mapping):
            value = Struct(field.schema, value)
        validate_value(field.schema, value, f'field: "{name}"')
        self._values[field.index] = value
        return self

    def get(self, name: str) -> Any:
        """The field's value, or its default if the value is null."""
        field = self._field(name)
        value = self._values[field.index]
        return field.schema.default if value is None else value

    def get_without_default(self, name: str) -> Any:
        """The field's value. None for null, even if the field has a default."""
        return self._values[self._field(name).index]

    def get_typed(self, name: str, type: SchemaType) -> Any:
        """Like ``get``. Raises DataException unless the field's type is ``type``."""
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
        """All fields by name, with defaults for nulls. Inner structs stay ``Struct``."""
        return {field.name: self.get(field.name) for field in self.schema.fields}

    def validate(self) -> None:
        """Raise DataException if a field has an invalid value, or if it has no value, is not optional, and has no default."""
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

    __hash__ = None  # type: ignore[assignment]  # a Struct can be changed

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
    """Raise DataException, with Connect's message, unless ``value`` fits ``schema``. ``location`` is the name of the value in the
    message."""
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
    if isinstance(value, bool):  # an int for Python, but not for Connect
        return kind == SchemaType.BOOLEAN
    if isinstance(value, datetime.datetime):  # a date for Python
        return kind == TIMESTAMP
    return isinstance(value, _PYTHON_TYPES[kind])


def _validate_width(type: SchemaType, value: Any, location: str) -> None:
    limit = 1 << (INTEGER_BITS[type] - 1)
    if not -limit <= value < limit:
        raise DataException(f"Invalid value: {value} is out of range for {location}, schema type: {type.name}")


class SchemaAndValue(NamedTuple):
    """A value with its schema. If ``schema`` is None, the value is schemaless. If both are None, the value is null."""

    schema: Schema | None
    value: Any  # any value of the schema


NULL: Final = SchemaAndValue(None, None)
