"""Connect's schemas ↔ Protobuf's messages, with the rules and parameter names of Confluent's Java converter.

Connect's properties that Protobuf cannot express are in ``confluent.field_meta``. Protobuf's properties that Connect cannot express (tags,
enums, oneofs) are parameters.
"""

from __future__ import annotations

import dataclasses
import re
import string
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote_plus

from airflow_provider_connect.codecs.protobuf.messages import ProtoField, ProtoMessage
from airflow_provider_connect.data.schema import (
    BOOLEAN_SCHEMA,
    BYTES_SCHEMA,
    DATE,
    DATE_SCHEMA,
    DECIMAL,
    FLOAT32_SCHEMA,
    FLOAT64_SCHEMA,
    INT8_SCHEMA,
    INT16_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    PRECISION,
    SCALE,
    STRING_SCHEMA,
    TIME,
    TIME_SCHEMA,
    TIMESTAMP,
    TIMESTAMP_SCHEMA,
    Schema,
    SchemaType,
    decimal_schema,
)
from airflow_provider_connect.errors import DataException, SchemaException

NAMESPACE: Final = "io.confluent.connect.protobuf"
DEFAULT_NAME: Final = "ConnectDefault"
UNION: Final = f"{NAMESPACE}.Union"
ENUM: Final = f"{NAMESPACE}.Enum"
TAG, KIND, WRAPPED = f"{NAMESPACE}.Tag", f"{NAMESPACE}.Type", f"{NAMESPACE}.Wrapper"
_CONNECT_TYPE: Final = "connect.type"
_SCALARS: Final = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), INT32_SCHEMA),
    **dict.fromkeys(("uint32", "fixed32", "int64", "uint64", "sint64", "fixed64", "sfixed64"), INT64_SCHEMA),
    "float": FLOAT32_SCHEMA,
    "double": FLOAT64_SCHEMA,
    "bool": BOOLEAN_SCHEMA,
    "string": STRING_SCHEMA,
    "bytes": BYTES_SCHEMA,
}
_PLAIN: Final = {
    SchemaType.INT8: "int32",
    SchemaType.INT16: "int32",
    SchemaType.INT32: "int32",
    SchemaType.INT64: "int64",
    SchemaType.FLOAT32: "float",
    SchemaType.FLOAT64: "double",
    SchemaType.BOOLEAN: "bool",
    SchemaType.STRING: "string",
    SchemaType.BYTES: "bytes",
}
_LOGICAL: Final = {DATE: DATE_SCHEMA, TIME: TIME_SCHEMA, TIMESTAMP: TIMESTAMP_SCHEMA}
_LOGICAL_MESSAGES: Final = {
    DECIMAL: "confluent.type.Decimal",
    DATE: "google.type.Date",
    TIME: "google.type.TimeOfDay",
    TIMESTAMP: "google.protobuf.Timestamp",
}
_LOGICAL_NAMES: Final = {message: name for name, message in _LOGICAL_MESSAGES.items()}
_WRAPPER_WORDS: Final = {
    "double": "Double",
    "float": "Float",
    "int64": "Int64",
    "uint64": "UInt64",
    "int32": "Int32",
    "uint32": "UInt32",
    "bool": "Bool",
    "string": "String",
    "bytes": "Bytes",
}
_WRAPPED_KINDS: Final = {f"google.protobuf.{word}Value": kind for kind, word in _WRAPPER_WORDS.items()}
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
_INTEGER: Final = re.compile(r"-?[0-9]{1,10}")
_NAME_CHARACTERS: Final = frozenset(string.ascii_letters + string.digits + "_")


@dataclass(frozen=True, slots=True)
class ProtobufRules:
    """The converter's settings that change schemas and values."""

    has_full_names: bool = False
    """Whether names of schemas include the package (``enhanced.protobuf.schema.support``)."""
    scrubs_names: bool = False
    """``scrub.invalid.names``."""
    enums_are_numbers: bool = False
    """``int.for.enums``."""
    optional_for_nullables: bool = False
    optional_for_proto2: bool = True
    wrapper_for_nullables: bool = False
    unwraps_values: bool = True
    """Whether a record that is a single wrapper becomes the wrapped value (``wrapper.for.raw.primitives``)."""
    structs_for_nulls: bool = False
    """Whether a missing message or optional field is read as its default (``generate.struct.for.nulls``)."""
    indexes_unions: bool = True
    """``generate.index.for.unions``."""
    flattens_unions: bool = False
    """``flatten.unions``."""
    keeps_nulls: bool = False
    """``ignore.default.for.nullables``."""

    def name(self, name: str) -> str:
        """The name for Protobuf. If names are scrubbed, it is valid: ``a-b`` → ``a_2Db``."""
        is_plain = _NAME_CHARACTERS.issuperset(name) and name[:1] not in "_0123456789"
        if not self.scrubs_names or not name or is_plain:
            return name
        encoded = quote_plus(name, safe="*")
        return "".join(c if c in _NAME_CHARACTERS else "_" for c in (f"x{encoded}" if encoded[0] in "_0123456789" else encoded))

    def union_name(self, message: ProtoMessage, oneof: str) -> str:
        """The name of the struct field that represents a oneof."""
        return f"{oneof}_{message.oneofs.index(oneof)}" if self.indexes_unions else oneof

    def may_be_unset(self, field: ProtoField) -> bool:
        """Whether a field without a value is null, instead of its default."""
        if field.is_repeated:
            return False
        is_optional = field.is_optional and (self.optional_for_proto2 or not field.is_proto2)
        return field.oneof is not None or field.kind == "message" or is_optional


DEFAULT_RULES: Final = ProtobufRules()


def wrapped_kind(message: ProtoMessage | None) -> str | None:
    """The scalar in one of Protobuf's wrappers. None for other messages."""
    return None if message is None else _WRAPPED_KINDS.get(message.full_name)


# Protobuf → Connect


def connect_schema(message: ProtoMessage, rules: ProtobufRules = DEFAULT_RULES, *, version: int | None = None) -> Schema:
    """The schema of records of type ``message``."""
    kind = wrapped_kind(message)
    if kind is not None and rules.unwraps_values:
        return dataclasses.replace(_SCALARS[kind], version=version)
    return _struct_schema(message, rules, version)


def _struct_schema(message: ProtoMessage, rules: ProtobufRules, version: int | None = None) -> Schema:
    fields: dict[str, Schema] = {}
    of_oneofs: dict[str | None, dict[str, Schema]] = {}
    for each in message.fields:
        of_oneofs.setdefault(each.oneof, {})[each.name] = _field_schema(each, rules)
    for oneof in message.oneofs:
        members = of_oneofs[oneof]
        name = f"{message.full_name}.{oneof}" if rules.has_full_names else oneof
        union = Schema.struct(members, name=f"{UNION}.{name}", optional=True)
        fields |= members if rules.flattens_unions else {rules.union_name(message, oneof): union}
    fields |= of_oneofs.get(None, {})
    return Schema.struct(fields, name=message.full_name if rules.has_full_names else message.name, version=version)


def _field_schema(field: ProtoField, rules: ProtobufRules) -> Schema:
    schema = _value_schema(field, rules)
    is_optional = schema.optional
    if field.is_repeated and not field.is_map:
        schema, is_optional = Schema.array(dataclasses.replace(schema, optional=True)), True
    parameters = dict(schema.parameters or {})
    if field.oneof is not None:
        is_optional = True
        if rules.wrapper_for_nullables and wrapped_kind(field.message) is not None:
            parameters[WRAPPED] = "true"
    elif rules.optional_for_nullables:
        is_optional = is_optional or field.is_optional
    elif not rules.wrapper_for_nullables:
        is_optional = True
    return dataclasses.replace(schema, optional=is_optional, parameters=parameters | {TAG: str(field.number)})


def _value_schema(field: ProtoField, rules: ProtobufRules) -> Schema:
    """The schema of one value, even if the field is repeated. It is optional if the value is optional whatever the settings."""
    if field.enum is not None:
        enum = field.enum
        parameters = {ENUM: enum.name} | {f"{ENUM}.{symbol}": str(number) for symbol, number in enum.numbers}
        name = enum.full_name if rules.has_full_names else enum.name
        kind = SchemaType.INT32 if rules.enums_are_numbers else SchemaType.STRING
        return Schema(kind, optional=True, name=name, parameters=parameters)
    if field.message is not None:
        return dataclasses.replace(_message_schema(field, field.message, rules), optional=True)
    schema = _SCALARS[field.kind]
    if schema is INT32_SCHEMA and (found := {"int8": INT8_SCHEMA, "int16": INT16_SCHEMA}.get(field.parameters.get(_CONNECT_TYPE, ""))):
        return found
    is_plain = field.kind in ("int32", "int64") or schema not in (INT32_SCHEMA, INT64_SCHEMA)
    return schema if is_plain else dataclasses.replace(schema, parameters={KIND: field.kind})


def _message_schema(field: ProtoField, message: ProtoMessage, rules: ProtobufRules) -> Schema:
    logical = _LOGICAL_NAMES.get(message.full_name)
    if logical == DECIMAL:
        numbers = {name: _number(field.parameters.get(name, "")) for name in ("scale", "precision")}
        wide = {} if numbers["precision"] is None else {PRECISION: str(numbers["precision"])}
        return decimal_schema(numbers["scale"] or 0, parameters={SCALE: str(numbers["scale"] or 0), **wide})
    if logical is not None:
        return _LOGICAL[logical]
    kind = wrapped_kind(message)
    if kind is not None and rules.wrapper_for_nullables:
        return _SCALARS[kind]
    if not field.is_map:
        return _struct_schema(message, rules)
    key, value = (_field_schema(each, rules) for each in message.fields)
    path, _, last = (message.full_name if rules.has_full_names else message.name).rpartition(".")
    name = re.sub(r"(?<!^)([A-Z])", r"_\1", last.removesuffix("Entry")).lower()
    return Schema.map(key, value, name=f"{path}.{name}" if path else name)


def _number(text: str) -> int | None:
    """The number of a parameter. None if the parameter is missing. Also None for a number that no decimal can have."""
    return int(text) if _INTEGER.fullmatch(text) and abs(int(text)) <= 76 else None


# Connect → Protobuf


def proto_text(schema: Schema, rules: ProtobufRules = DEFAULT_RULES) -> tuple[str, str]:
    """The text of a file with a message for values of ``schema``, and that message's full name.

    If ``schema`` is not a struct, the message is one of Protobuf's wrappers. Raises DataException if Protobuf has no such type."""
    if schema.type is not SchemaType.STRUCT:
        if schema.logical_name is not None or schema.type not in _PLAIN:
            what = schema.logical_name or schema.type.name
            raise DataException(f"A record of Protobuf cannot be of type {what}. Put it into a struct, as with HoistField.")
        message = f"{_WRAPPER_WORDS[_PLAIN[schema.type]]}Value"
        return _wrappers_text(), f"google.protobuf.{message}"
    writer = _Writer(rules)
    *package, name = (_checked(rules.name(part), "name") for part in writer.name(schema).split("."))
    body = writer.message(name, schema)
    lines = ['syntax = "proto3";', *([f"package {'.'.join(package)};"] if package else [])]
    imports = [f'import "{file}";' for file in writer.imports]
    return "\n".join([*lines, *([""] if imports else []), *imports, "", *body, ""]), ".".join((*package, name))


def _wrappers_text() -> str:
    messages = "".join(f"message {word}Value {{\n  {kind} value = 1;\n}}\n" for kind, word in _WRAPPER_WORDS.items())
    return f'syntax = "proto3";\npackage google.protobuf;\n\n{messages}'


def _checked(name: str, what: str) -> str:
    if not _NAME.fullmatch(name):
        raise DataException(f"Protobuf cannot have the {what} {name!r:.80}. Rename it, or set scrub.invalid.names=true.")
    return name


@dataclass(slots=True)
class _Types:
    """The messages and enums in one message: their texts and their schemas."""

    lines: dict[str, list[str]] = field(default_factory=dict)
    enums: dict[str, list[str]] = field(default_factory=dict)
    schemas: dict[str, Schema] = field(default_factory=dict)

    def is_new(self, name: str, schema: Schema) -> bool:
        bare = dataclasses.replace(schema, optional=False, default=None, doc=None, version=None, parameters=_without_tag(schema))
        if self.schemas.setdefault(name, bare) != bare:
            raise DataException(
                f"Two different schemas in one struct are named {name}. Rename one where the records come from, or flatten the value "
                "(transformation Flatten, delimiter=_)."
            )
        return name not in self.lines and name not in self.enums


def _without_tag(schema: Schema) -> dict[str, str]:
    return {name: value for name, value in (schema.parameters or {}).items() if name != TAG}


@dataclass(slots=True)
class _Writer:
    rules: ProtobufRules
    imports: dict[str, None] = field(default_factory=dict)
    unnamed: int = 0

    def name(self, schema: Schema) -> str:
        if schema.name:
            return schema.name
        self.unnamed += 1
        return f"{DEFAULT_NAME}{self.unnamed}"

    def message(self, name: str, schema: Schema) -> list[str]:
        types, fields, oneofs = _Types(), list[str](), list[str]()
        number = 0
        for each in schema.fields:
            inner, own = each.schema, self.rules.name(each.name)
            members = [(own, inner)]
            if is_union(inner):
                members = [(self.rules.name(member.name), member.schema) for member in inner.fields]
                assert inner.name is not None
                union = inner.name.removeprefix(UNION).rpartition(".")[2] or own
                oneofs.append(f"  oneof {_checked(self.rules.name(union), 'name of a union')} {{")
            for member, its in members:
                tag = _number_of(its)
                if tag is None:
                    tag = number = number + 1
                line = self.field(types, member, its, tag, is_member=is_union(inner))
                oneofs.append(f"  {line}") if is_union(inner) else fields.append(line)
            if is_union(inner):
                oneofs.append("  }")
        nested = [f"  {line}" for lines in (*types.lines.values(), *types.enums.values()) for line in lines]
        return [f"message {name} {{", *fields, *oneofs, *nested, "}"]

    def field(self, types: _Types, name: str, schema: Schema, tag: int, *, is_member: bool = False) -> str:
        _checked(name, "field")
        label, value = "", schema
        if schema.type is SchemaType.ARRAY:
            assert schema.value_schema is not None
            label, value = "repeated ", schema.value_schema
            if value.type in (SchemaType.ARRAY, SchemaType.MAP) or is_union(value):
                raise DataException(f"Protobuf has no arrays of arrays, maps or unions, as field {name} is. Put them into structs.")
        elif schema.type is SchemaType.MAP:
            label = "repeated "
        elif self.rules.optional_for_nullables and schema.optional and not is_member:
            label = "optional "
        kind, meta = self.type(types, name, value, is_member=is_member)
        if not meta:
            return f"  {label}{kind} {name} = {tag};"
        self.imports["confluent/meta.proto"] = None
        params = ", ".join(f'{{ key: "{key}", value: "{text}" }}' for key, text in meta.items())
        return f"  {label}{kind} {name} = {tag} [(confluent.field_meta) = {{ params: [{params}] }}];"

    def type(self, types: _Types, name: str, schema: Schema, *, is_member: bool) -> tuple[str, dict[str, str]]:
        """The name of a type, and the field's metadata. Adds definitions that the message needs for the type to ``types``."""
        parameters = schema.parameters or {}
        if schema.logical_name is not None:
            message = _LOGICAL_MESSAGES[schema.logical_name]
            self.imports[f"{message.replace('.', '/').lower()}.proto"] = None
            numbers = {"precision": parameters.get(PRECISION), "scale": parameters.get(SCALE)} if schema.logical_name == DECIMAL else {}
            return f".{message}", {key: str(_integer(text, key)) for key, text in numbers.items() if text is not None}
        if schema.type is SchemaType.STRUCT:
            own = _checked(self.rules.name(self.name(schema).rpartition(".")[2]), "name")
            own += "Message" if own == name else ""
            if types.is_new(own, schema):
                types.lines[own] = self.message(own, schema)
            return own, {}
        if schema.type is SchemaType.MAP:
            return self.map(types, schema), {}
        if ENUM in parameters and schema.type in (SchemaType.STRING, SchemaType.INT32):
            return self.enum(types, schema), {}
        small = {_CONNECT_TYPE: schema.type.value} if schema.type in (SchemaType.INT8, SchemaType.INT16) else {}
        kind = parameters.get(KIND, "")
        if kind not in _SCALARS or _SCALARS[kind].type is not schema.type:
            kind = _PLAIN[schema.type]
        if self.rules.wrapper_for_nullables and schema.optional and (not is_member or parameters.get(WRAPPED) == "true"):
            self.imports["google/protobuf/wrappers.proto"] = None
            wrapper = {"fixed32": "uint32", "fixed64": "uint64"}.get(kind, kind if kind in _WRAPPER_WORDS else _PLAIN[schema.type])
            return f".google.protobuf.{_WRAPPER_WORDS[wrapper]}Value", small
        return kind, small

    def map(self, types: _Types, schema: Schema) -> str:
        name = self.rules.name(self.name(schema).rpartition(".")[2])
        if "_" in name:
            name = "".join(part[:1].upper() + part[1:].lower() for part in name.split("_"))
        name = _checked(f"{name}Entry", "name")
        if types.is_new(name, schema):
            entry = _Types()
            assert schema.key_schema is not None
            assert schema.value_schema is not None
            if SchemaType.ARRAY in (schema.key_schema.type, schema.value_schema.type) or is_union(schema.value_schema):
                raise DataException(f"Protobuf has no maps of arrays or unions, as {name} is. Put them into structs.")
            fields = [self.field(entry, "key", schema.key_schema, 1), self.field(entry, "value", schema.value_schema, 2)]
            inner = [f"  {line}" for lines in (*entry.lines.values(), *entry.enums.values()) for line in lines]
            types.lines[name] = [f"message {name} {{", *fields, *inner, "}"]
        return name

    def enum(self, types: _Types, schema: Schema) -> str:
        parameters = schema.parameters or {}
        name = _checked(self.rules.name(parameters[ENUM].rpartition(".")[2]), "name of an enum")
        if types.is_new(name, schema):
            numbers = {symbol.removeprefix(f"{ENUM}."): text for symbol, text in parameters.items() if symbol.startswith(f"{ENUM}.")}
            lines = [f"  {_checked(symbol, 'symbol')} = {_integer(text, symbol)};" for symbol, text in numbers.items()]
            types.enums[name] = [f"enum {name} {{", *lines, "}"]
        return name


def is_union(schema: Schema) -> bool:
    """Whether a struct is a oneof, in which one field has a value."""
    return schema.type is SchemaType.STRUCT and (schema.name or "").startswith(UNION)


def _number_of(schema: Schema) -> int | None:
    text = (schema.parameters or {}).get(TAG)
    return None if text is None else _integer(text, TAG)


def _integer(text: str, what: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise SchemaException(f"The parameter {what:.80} of a schema must be an integer, got {text!r:.40}")
    return int(text)
