"""Connect's schemas ↔ Avro's, with the rules and attribute names of Confluent's Java converter.

Connect's properties that Avro cannot express are attributes ``connect.…``. Avro's properties that Connect cannot express (enums, unions,
docs of fields) are parameters.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote_plus

from airflow_provider_connect.codecs.avro.avro_type import AvroField, AvroType
from airflow_provider_connect.codecs.json.values import JsonRules, integer_bytes, read_value, scaled, unscaled, write_value
from airflow_provider_connect.data.schema import (
    DATE,
    DATE_SCHEMA,
    DECIMAL,
    INT8_SCHEMA,
    INT16_SCHEMA,
    PRECISION,
    SCALE,
    STRING_SCHEMA,
    TIME,
    TIME_SCHEMA,
    TIMESTAMP,
    TIMESTAMP_SCHEMA,
    Schema,
    SchemaType,
    Struct,
    decimal_schema,
)
from airflow_provider_connect.errors import DataException, SchemaException

NAMESPACE: Final = "io.confluent.connect.avro"
DEFAULT_NAME: Final = "ConnectDefault"
UNION: Final = f"{NAMESPACE}.Union"
ENUM: Final = f"{NAMESPACE}.Enum"
_ENUM_DOC, _ENUM_DEFAULT = f"{NAMESPACE}.enum.doc.", f"{NAMESPACE}.enum.default."
_RECORD_DOC, _FIELD_DOC, _FIELD_DEFAULT = f"{NAMESPACE}.record.doc", f"{NAMESPACE}.field.doc.", f"{NAMESPACE}.field.default"
_FIXED_SIZE: Final = "connect.fixed.size"
_MAP_ENTRY: Final = "MapEntry"
DEFAULT_PRECISION: Final = 64
_WORDS: Final[Mapping[SchemaType, str]] = {
    **dict.fromkeys((SchemaType.INT8, SchemaType.INT16, SchemaType.INT32), "int"),
    SchemaType.INT64: "long",
    SchemaType.FLOAT32: "float",
    SchemaType.FLOAT64: "double",
    **{kind: kind.value for kind in (SchemaType.BOOLEAN, SchemaType.STRING, SchemaType.BYTES)},
}
_TYPES: Final = {word: kind for kind, word in _WORDS.items()} | {"enum": SchemaType.STRING, "fixed": SchemaType.BYTES}
_LOGICAL: Final = {DATE: "date", TIME: "time-millis", TIMESTAMP: "timestamp-millis"}
_LOGICAL_SCHEMAS: Final = {
    ("int", "date"): DATE_SCHEMA,
    ("int", "time-millis"): TIME_SCHEMA,
    ("long", "timestamp-millis"): TIMESTAMP_SCHEMA,
}
_NAME_CHARACTERS: Final = frozenset(string.ascii_letters + string.digits + "_")


@dataclass(frozen=True, slots=True)
class AvroRules:
    """The converter's settings that change the schemas."""

    keeps_enums: bool = False
    """Whether strings with an enum's parameters become enums, and branches of unions have full names (``enhanced.avro.schema.support``)."""
    has_metadata: bool = True
    """Whether schemas have attributes ``connect.…``, and docs and defaults for which Avro has no attributes of its own
    (``connect.meta.data``)."""
    scrubs_names: bool = False
    """Whether characters that are invalid in Avro's names are replaced (``scrub.invalid.names``)."""

    def name(self, name: str) -> str:
        """The name for Avro. If names are scrubbed, it is valid: ``a-b`` → ``a_b``."""
        if not self.scrubs_names or not name or (_NAME_CHARACTERS.issuperset(name) and not name[0].isdigit()):
            return name
        encoded = quote_plus(name, safe="*")
        return "".join(c if c in _NAME_CHARACTERS else "_" for c in (f"x{encoded}" if encoded[0].isdigit() else encoded))


DEFAULT_RULES: Final = AvroRules()


# Connect → Avro


def avro_schema_text(schema: Schema, rules: AvroRules = DEFAULT_RULES) -> str:
    """The Avro schema of ``schema``, as JSON."""
    return json.dumps(_Writer(rules).schema(schema, ""), ensure_ascii=False, separators=(",", ":"))


@dataclass(slots=True)
class _Writer:
    rules: AvroRules
    written: dict[str, Schema] = field(default_factory=dict)
    unnamed: int = 0

    def schema(self, schema: Schema, space: str) -> Any:
        if schema.type is SchemaType.STRUCT and schema.name == UNION:
            branches = [self._required(each.schema, space) for each in schema.fields]
            return ["null", *branches] if schema.optional else branches
        written = self._required(schema, space)
        if not schema.optional:
            return written
        return ["null", written] if schema.default is None else [written, "null"]

    def _required(self, schema: Schema, space: str) -> Any:
        if schema.type is SchemaType.STRUCT:
            return self._record(schema, space)
        if schema.type is SchemaType.ARRAY:
            assert schema.value_schema is not None
            node: dict[str, Any] = {"type": "array", "items": self.schema(schema.value_schema, space)}
        elif schema.type is SchemaType.MAP:
            node = self._map(schema, space)
        elif schema.type is SchemaType.STRING and self.rules.keeps_enums and ENUM in (schema.parameters or {}):
            return self._enum(schema, space)
        elif schema.type is SchemaType.BYTES and _FIXED_SIZE in (schema.parameters or {}) and schema.name and schema.name != DECIMAL:
            return self._fixed(schema, space)
        else:
            node = {"type": _WORDS[schema.type]}
        return self._with_attributes(schema, node)

    def _with_attributes(self, schema: Schema, node: dict[str, Any]) -> Any:
        parameters = schema.parameters or {}
        if schema.logical_name == DECIMAL:
            node |= {"scale": schema.scale, "precision": int(parameters.get(PRECISION, DEFAULT_PRECISION))}
        if self.rules.has_metadata:
            node |= self._metadata(schema, parameters)
        if schema.logical_name is not None:
            node["logicalType"] = _LOGICAL.get(schema.logical_name, "decimal")
        node |= {name: value for name, value in parameters.items() if name.startswith("avro")}
        return node["type"] if len(node) == 1 else node

    def _metadata(self, schema: Schema, parameters: Mapping[str, str]) -> dict[str, Any]:
        kept = {name: value for name, value in parameters.items() if name != _FIELD_DEFAULT}
        has_default = schema.default is not None and _FIELD_DEFAULT not in parameters
        given = {
            "connect.doc": schema.doc,
            "connect.version": schema.version,
            "connect.parameters": kept or None,
            "connect.default": default_to_json(schema, schema.default, self.rules.name) if has_default else None,
            "connect.name": schema.name,
            "connect.type": schema.type.value if schema.type in (SchemaType.INT8, SchemaType.INT16) else None,
        }
        return {name: value for name, value in given.items() if value is not None}

    def _names(self, name: str | None, space: str) -> tuple[dict[str, str], str, str]:
        """The attributes of a name inside the namespace ``space``, the name's own namespace, and its full name."""
        if name is None:
            self.unnamed += 1
            own, simple = NAMESPACE, DEFAULT_NAME + (str(self.unnamed) if self.unnamed > 1 else "")
        else:
            own, _, simple = ".".join(map(self.rules.name, name.split("."))).rpartition(".")
        return {"name": simple} | ({"namespace": own} if own != space else {}), own, f"{own}.{simple}" if own else simple

    def _reference(self, schema: Schema, full: str, own: str, space: str) -> str | None:
        """The type's name, if the same type has already been written; otherwise None."""
        first = self.written.setdefault(full, schema)
        if first is schema:
            return None
        if dataclasses.replace(first, optional=False, default=None) != dataclasses.replace(schema, optional=False, default=None):
            raise DataException(
                f"Two different schemas are named {full}; Avro's names must differ. Rename one where the records come from, or flatten the "
                "value (transformation Flatten, delimiter=_)."
            )
        return full.rpartition(".")[2] if own == space else full

    def _record(self, schema: Schema, space: str) -> Any:
        names, own, full = self._names(schema.name, space)
        schema = dataclasses.replace(schema)  # a separate object for each use
        reference = self._reference(schema, full, own, space)
        if reference is not None:
            return reference
        parameters = schema.parameters or {}
        doc = {"doc": parameters[_RECORD_DOC]} if _RECORD_DOC in parameters else {}
        fields = [self._field(each.name, each.schema, own, parameters.get(_FIELD_DOC + each.name)) for each in schema.fields]
        return self._with_attributes(schema, {"type": "record", **names, **doc, "fields": fields})

    def _field(self, name: str, schema: Schema, space: str, doc: str | None = None) -> dict[str, Any]:
        node = {"name": self.rules.name(name), "type": self.schema(schema, space)} | ({} if doc is None else {"doc": doc})
        if schema.default is not None:
            return node | {"default": default_to_json(schema, schema.default, self.rules.name)}
        return node | ({"default": None} if schema.optional else {})

    def _map(self, schema: Schema, space: str) -> dict[str, Any]:
        assert schema.key_schema is not None
        assert schema.value_schema is not None
        if is_avro_map(schema):
            return {"type": "map", "values": self.schema(schema.value_schema, space)}
        names, own, full = self._names(schema.name or f"{NAMESPACE}.{_MAP_ENTRY}", space)
        entry = Schema.struct({"key": schema.key_schema, "value": schema.value_schema})
        reference = self._reference(entry, full, own, space)
        fields = [self._field("key", schema.key_schema, own), self._field("value", schema.value_schema, own)] if reference is None else []
        internal = {} if schema.name is None else {"connect.internal.type": _MAP_ENTRY}
        return {"type": "array", "items": reference or {"type": "record", **names, "fields": fields, **internal}}

    def _enum(self, schema: Schema, space: str) -> Any:
        parameters = schema.parameters or {}
        names, own, full = self._names(parameters[ENUM], space)
        reference = self._reference(dataclasses.replace(schema), full, own, space)
        if reference is not None:
            return reference
        symbols = [value for name, value in parameters.items() if name.startswith(f"{ENUM}.")]
        simple = names["name"]
        given = {"doc": parameters.get(_ENUM_DOC + simple), "default": parameters.get(_ENUM_DEFAULT + simple)}
        node = {"type": "enum", **names, "doc": given["doc"], "symbols": symbols, "default": given["default"]}
        return self._with_attributes(schema, {name: value for name, value in node.items() if value is not None})

    def _fixed(self, schema: Schema, space: str) -> Any:
        names, own, full = self._names(schema.name, space)
        size = int((schema.parameters or {})[_FIXED_SIZE])
        reference = self._reference(dataclasses.replace(schema), full, own, space)
        return reference or self._with_attributes(schema, {"type": "fixed", **names, "size": size})


# Avro → Connect


def connect_schema(type: AvroType, rules: AvroRules = DEFAULT_RULES, *, version: int | None = None) -> Schema:
    """The schema of values of ``type``. ``version`` is used if the type's attributes have no version.

    Raises SchemaException for types whose values Connect cannot represent."""
    return _schema(type, rules, version=version)


def _schema(type: AvroType, rules: AvroRules, *, version: int | None = None, default: Any = None, has_default: bool = False) -> Schema:
    if type.kind == "union":
        return _union_schema(type, rules, version, default)
    schema = _plain(type, rules)
    attributes = type.attributes
    parameters = dict(schema.parameters or {})
    number = attributes.get("connect.version", version)
    changes: dict[str, Any] = {"version": number} if isinstance(number, int) and schema.version is None else {}
    if rules.has_metadata:
        if isinstance(attributes.get("connect.doc"), str):
            changes["doc"] = attributes["connect.doc"]
        parameters |= _text_parameters(attributes.get("connect.parameters"))
    parameters |= {name: str(value) for name, value in attributes.items() if name.startswith("avro")}
    found = attributes.get("connect.default")
    if has_default and found is None and rules.has_metadata and default is not None:
        parameters[_FIELD_DEFAULT] = "true"
    name = attributes.get("connect.name") or (type.name if schema.name is None else None)
    if name is not None and schema.name is None and not name.startswith(f"{NAMESPACE}.{DEFAULT_NAME}"):
        changes["name"] = name
    schema = dataclasses.replace(schema, parameters=parameters or None, **changes)
    return _with_default(schema, default if default is not None else found)


def _with_default(schema: Schema, value: Any) -> Schema:
    """Omits a default that does not fit, as the Java converter does."""
    if value is not None:
        with contextlib.suppress(DataException, ValueError, TypeError, KeyError, ArithmeticError, AttributeError):
            return schema.with_default(default_from_json(schema, value))
    return schema


def _text_parameters(found: Any) -> dict[str, str]:
    if found is None:
        return {}
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise SchemaException(f"connect.parameters must be an object of strings, got {str(found)[:80]}")
    return found


def _plain(type: AvroType, rules: AvroRules) -> Schema:
    if type.kind in ("bytes", "fixed") and type.logical == "decimal":
        return _decimal(type)
    if type.kind in _COMPOUND:
        return _COMPOUND[type.kind](type, rules)
    if type.kind not in _TYPES:
        raise SchemaException("An Avro type that is null alone has no Connect schema")
    narrow = {"int8": INT8_SCHEMA, "int16": INT16_SCHEMA}.get(str(type.attributes.get("connect.type")))
    if type.kind == "int" and narrow is not None and type.logical is None:
        return narrow
    return _LOGICAL_SCHEMAS.get((type.kind, type.logical or "")) or Schema(_TYPES[type.kind])


def _decimal(type: AvroType) -> Schema:
    scale, precision = type.attributes.get("scale", 0), type.attributes.get("precision", DEFAULT_PRECISION)
    if not isinstance(scale, int) or not isinstance(precision, int):
        raise SchemaException("The scale and the precision of an Avro decimal must be integers")
    is_given = precision != DEFAULT_PRECISION
    return decimal_schema(scale, parameters={SCALE: str(scale)} | ({PRECISION: str(precision)} if is_given else {}))


def _enum_parameters(type: AvroType, rules: AvroRules) -> dict[str, str]:
    found: dict[str, str] = {}
    if rules.has_metadata:
        given = {_ENUM_DOC: type.attributes.get("doc"), _ENUM_DEFAULT: type.attributes.get("default")}
        found = {prefix + type.simple_name: text for prefix, text in given.items() if isinstance(text, str)}
    return found | {ENUM: type.name or ""} | {f"{ENUM}.{symbol}": symbol for symbol in type.symbols}


def _struct(type: AvroType, rules: AvroRules) -> Schema:
    doc = type.attributes.get("doc")
    parameters = {_RECORD_DOC: doc} if rules.has_metadata and isinstance(doc, str) else {}
    for each in type.fields:
        if rules.has_metadata and isinstance(each.attributes.get("doc"), str):
            parameters[_FIELD_DOC + each.name] = each.attributes["doc"]
    return Schema.struct({each.name: _field_schema(each, rules) for each in type.fields}, parameters=parameters or None)


def _field_schema(field: AvroField, rules: AvroRules) -> Schema:
    return _schema(field.type, rules, default=field.attributes.get("default"), has_default=True)


def _array(type: AvroType, rules: AvroRules) -> Schema:
    assert type.items is not None
    if is_map_entry(type.items):
        key, value = type.items.fields
        return Schema.map(_schema(key.type, rules), _schema(value.type, rules))
    return Schema.array(_schema(type.items, rules))


def _map_schema(type: AvroType, rules: AvroRules) -> Schema:
    assert type.items is not None
    return Schema.map(STRING_SCHEMA, _schema(type.items, rules))


_COMPOUND: Final[Mapping[str, Callable[[AvroType, AvroRules], Schema]]] = {
    "fixed": lambda type, _: Schema(SchemaType.BYTES, parameters={_FIXED_SIZE: str(type.size)}),
    "enum": lambda type, rules: Schema(SchemaType.STRING, parameters=_enum_parameters(type, rules)),
    "record": _struct,
    "array": _array,
    "map": _map_schema,
}


def is_map_entry(type: AvroType) -> bool:
    """Whether a record is an entry of a map whose keys are not strings."""
    is_named = type.name == f"{NAMESPACE}.{_MAP_ENTRY}" or type.attributes.get("connect.internal.type") == _MAP_ENTRY
    return is_named and type.kind == "record" and [each.name for each in type.fields] == ["key", "value"]


def _union_schema(type: AvroType, rules: AvroRules, version: int | None, default: Any) -> Schema:
    branches = [branch for _, branch in type.value_branches]
    is_optional = type.null_branch is not None
    if len(branches) == 1:
        schema = _schema(branches[0], rules, version=version)
        schema = schema.as_optional() if is_optional else schema
        is_new = default is not None and schema.default is None and type.branches[0] is branches[0]
        return _with_default(schema, default) if is_new else schema
    fields: dict[str, Schema] = {}
    for branch in branches:
        name = branch_name(branch, rules)
        if name in fields:
            raise SchemaException(f"Two branches of an Avro union are named {name}; set enhanced.avro.schema.support=true")
        fields[name] = _schema(branch, rules).as_optional()
    return Schema.struct(fields, name=UNION, optional=is_optional)


def branch_name(type: AvroType, rules: AvroRules) -> str:
    """The name of the field for a union's branch."""
    if type.kind not in ("record", "enum"):
        return type.kind
    return (type.name or "") if rules.keeps_enums else type.simple_name


# Default values ↔ their JSON in an Avro schema: bytes are text with one character per byte, dates and times are numbers.
_RULES: Final = JsonRules()
_TIMES: Final = (DATE, TIME, TIMESTAMP)
_FLOATS: Final = (SchemaType.FLOAT32, SchemaType.FLOAT64)
_Scalar = Callable[[Schema, Any], Any]  # Any: a value of any schema, or JSON


def is_avro_map(schema: Schema) -> bool:
    """Whether a map has required strings as keys, like Avro's maps. Other maps are arrays of records."""
    return schema.key_schema is not None and schema.key_schema.type is SchemaType.STRING and not schema.key_schema.optional


def default_to_json(schema: Schema, value: Any, name: Callable[[str], str]) -> Any:
    """The JSON of a default. ``name`` returns the Avro name of a struct's field."""
    if value is None:
        return None
    scalar = _TO_JSON.get(schema.logical_name or schema.type)
    if scalar is not None:
        return scalar(schema, value)
    if isinstance(value, Struct):
        return {name(each.name): default_to_json(each.schema, value.get(each.name), name) for each in schema.fields}
    if schema.key_schema is not None and schema.value_schema is not None:
        keys, values = schema.key_schema, schema.value_schema
        entries = [[default_to_json(keys, key, name), default_to_json(values, entry, name)] for key, entry in value.items()]
        return dict(entries) if is_avro_map(schema) else entries
    return value if schema.value_schema is None else [default_to_json(schema.value_schema, entry, name) for entry in value]


def default_from_json(schema: Schema, value: Any) -> Any:
    """The inverse of ``default_to_json``. Raises DataException, or an exception of Python's own, for a default that does not fit."""
    if value is None:
        return None
    scalar = _FROM_JSON.get(schema.logical_name or schema.type)
    if scalar is not None:
        return scalar(schema, value)
    if schema.type is SchemaType.STRUCT:
        return Struct(schema, {each.name: default_from_json(each.schema, value.get(each.name)) for each in schema.fields})
    if schema.key_schema is not None and schema.value_schema is not None:
        keys, values = schema.key_schema, schema.value_schema
        entries = value.items() if isinstance(value, Mapping) else value
        return {default_from_json(keys, key): default_from_json(values, entry) for key, entry in entries}
    return value if schema.value_schema is None else [default_from_json(schema.value_schema, entry) for entry in value]


_TO_JSON: Final[Mapping[str, _Scalar]] = {
    DECIMAL: lambda schema, value: integer_bytes(unscaled(value, schema.scale)).decode("latin-1"),
    **dict.fromkeys(_TIMES, lambda schema, value: int(write_value(schema, value, _RULES))),
    SchemaType.BYTES: lambda _, value: bytes(value).decode("latin-1"),
}
_FROM_JSON: Final[Mapping[str, _Scalar]] = {
    DECIMAL: lambda schema, value: scaled(int.from_bytes(value.encode("latin-1"), "big", signed=True), schema.scale),
    **dict.fromkeys(_TIMES, lambda schema, value: read_value(schema, value, _RULES)),
    SchemaType.BYTES: lambda _, value: value.encode("latin-1"),
    **dict.fromkeys(_FLOATS, lambda _, value: float(value)),
}
