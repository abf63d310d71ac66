"""Connect's schemas ↔ JSON Schema, with the rules and attribute names of Confluent's Java converter."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

from airflow_provider_connect.codecs.json.values import JsonRules, read_value, write_value
from airflow_provider_connect.data.expansion import MOST_LEVELS, check_fields, weight_of
from airflow_provider_connect.data.json_text import MAX_DEPTH, depth_of
from airflow_provider_connect.data.schema import DECIMAL, STRING_SCHEMA, Schema, SchemaType
from airflow_provider_connect.errors import DataException, SchemaException

log = logging.getLogger(__name__)

ENUM: Final = "io.confluent.connect.json.Enum"
_NAMESPACE: Final = "io.confluent.connect.json"
_DRAFT: Final = "http://json-schema.org/draft-07/schema#"  # some registries recognize JSON Schema by this attribute
_NULL_SYMBOL: Final = "<NULL>"
_INTEGERS: Final = frozenset({SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64})
_FLOATS: Final = frozenset({SchemaType.FLOAT32, SchemaType.FLOAT64})
_PLAIN: Final = {"boolean": SchemaType.BOOLEAN, "string": SchemaType.STRING, "integer": SchemaType.INT64, "number": SchemaType.FLOAT64}
_NULL: Final = {"type": "null"}
_ONE: Final = "only null and one other type"


@dataclass(frozen=True, slots=True)
class JsonSchemaRules:
    """The converter's settings that change the schemas."""

    values: JsonRules
    is_open: bool = True
    """Whether objects may have additional properties (``object.additional.properties``)."""
    optional_unless_required: bool = False
    """Whether a property that is not required may be null (``use.optional.for.nonrequired``)."""


# Connect → JSON Schema


def json_schema_text(schema: Schema, rules: JsonSchemaRules) -> str:
    """The JSON Schema of ``schema``. Raises DataException for maps whose keys are not strings."""
    return json.dumps({"$schema": _DRAFT, **_node(schema, rules)}, ensure_ascii=False, separators=(",", ":"))


def _node(schema: Schema, rules: JsonSchemaRules, index: int | None = None) -> dict[str, Any]:
    position = {} if index is None else {"connect.index": index}
    node = _type_of(schema, rules) | _attributes(schema, rules)
    return {"oneOf": [_NULL, node], **position} if schema.optional else node | position


def _type_of(schema: Schema, rules: JsonSchemaRules) -> dict[str, Any]:
    if schema.type is SchemaType.STRUCT:
        properties = {each.name: _node(each.schema, rules, each.index) for each in schema.fields}
        return {"type": "object", "properties": properties} | ({} if rules.is_open else {"additionalProperties": False})
    if schema.type is SchemaType.ARRAY and schema.value_schema is not None:
        return {"type": "array", "items": _node(schema.value_schema, rules)}
    if schema.type is SchemaType.MAP:
        if schema.key_schema is None or schema.key_schema != STRING_SCHEMA or schema.value_schema is None:
            raise DataException(
                "JSON's maps have keys of text that are never null; cast the map (transformation SqlTransform), or write Avro"
            )
        return {"type": "object", "connect.type": "map", "additionalProperties": _node(schema.value_schema, rules)}
    return _scalar(schema, rules)


def _scalar(schema: Schema, rules: JsonSchemaRules) -> dict[str, Any]:
    if schema.type is SchemaType.STRING:
        symbols = [key.removeprefix(f"{ENUM}.") for key in schema.parameters or {} if key.startswith(f"{ENUM}.")]
        return {"enum": [None if symbol == _NULL_SYMBOL else symbol for symbol in symbols]} if symbols else {"type": "string"}
    if schema.type is SchemaType.BOOLEAN:
        return {"type": "boolean"}
    is_number = schema.type in _FLOATS or (schema.logical_name == DECIMAL and rules.values.is_numeric)
    word = "integer" if schema.type in _INTEGERS else "number" if is_number else "string"
    return {"type": word, "connect.type": schema.type.value}


def _attributes(schema: Schema, rules: JsonSchemaRules) -> dict[str, Any]:
    parameters = {name: value for name, value in (schema.parameters or {}).items() if not name.startswith(_NAMESPACE)}
    default = None if schema.default is None else json.loads(write_value(schema, schema.default, rules.values))
    given = {
        "title": schema.name,
        "connect.version": schema.version,
        "description": schema.doc,
        "connect.parameters": parameters or None,
        "default": default,
    }
    return {name: value for name, value in given.items() if value is not None}


# JSON Schema → Connect


def connect_schema_of_json(text: str, references: Mapping[str, str], rules: JsonSchemaRules, *, version: int | None = None) -> Schema:
    """The schema of values that the JSON Schema ``text`` describes. ``references`` has texts by their names in ``$ref``.

    Properties that the schema does not name have no columns. Objects that are known to have such properties are logged.

    Raises SchemaException if the text is not a JSON Schema. Also raises it if the schema cannot be columns, because a value has several
    types or a type contains itself."""
    documents = {"": _parsed(text), **{name: _parsed(each) for name, each in references.items()}}
    reader = _Reader(documents, rules)
    schema = reader.schema(documents[""], "", version=version)
    if reader.nameless:
        named = ", ".join(sorted(reader.nameless)[:_MOST_NAMED])
        log.warning(
            "JSON Schema %s: properties of %s without a name there are left out. %s", schema.name or "without a title", named, _REMEDY
        )
    return schema


def _parsed(text: str) -> Any:
    try:
        if depth_of(text.encode()) <= MAX_DEPTH:
            return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaException(f"The JSON Schema is not JSON: {error}") from error
    raise SchemaException(f"The JSON Schema has more than {MAX_DEPTH} levels")


_MOST_NAMED: Final = 5
_REMEDY: Final = "Name them, or read the values with JsonConverter and without schemas"
_NAMING: Final = frozenset({"properties", "$ref"})
_TYPING: Final = frozenset({"type", "properties", "items", "$ref", "oneOf", "anyOf", "allOf", "enum", "const"})


def _is_null(node: Any) -> bool:
    """Whether a branch allows only null, in any notation, with or without a description and title."""
    if not isinstance(node, dict):
        return False
    if "type" in node:
        return node["type"] in ("null", ["null"])
    return node.get("enum") == [None] or ("const" in node and node["const"] is None)


def _symbols(node: Mapping[str, Any]) -> list[Any] | None:
    """The only allowed values, if a node lists them."""
    found = [node["const"]] if "const" in node else node.get("enum")
    return found if isinstance(found, list) else None


def _kind_of(symbols: list[Any]) -> str:
    """The type of the only allowed values. Raises SchemaException unless they have the same scalar type."""
    kinds = {type(each) for each in symbols if each is not None}
    for word, allowed in (("string", {str}), ("boolean", {bool}), ("integer", {int}), ("number", {int, float})):
        if kinds <= allowed:
            return word
    raise SchemaException(f"A JSON Schema of the values {str(symbols)[:80]} has no columns: values of one scalar type are read")


def _part_of(node: Any, name: str) -> Any:
    """The child of ``node`` that one step of a pointer names. None if there is no such part."""
    if isinstance(node, list):
        return node[int(name)] if name.isdecimal() and int(name) < len(node) else None
    return node.get(name) if isinstance(node, dict) else None


@dataclass(slots=True)
class _Reader:
    documents: Mapping[str, Any]
    rules: JsonSchemaRules
    open: set[str] = field(default_factory=set)
    count: int = 0
    nameless: set[str] = field(default_factory=set)
    """The paths of objects that have properties without a name in the schema."""
    path: list[str] = field(default_factory=list)

    def schema(self, node: Any, document: str, *, version: int | None = None, optional: bool = False) -> Schema:
        self.count = check_fields(self.count + 1, "The JSON Schema")
        if not isinstance(node, dict):
            raise SchemaException(f"A JSON Schema must be an object, got {str(node)[:80]}")
        if "$ref" in node:
            return self._referred(str(node["$ref"]), document, version, optional)
        for word in ("oneOf", "anyOf"):
            if word in node and "allOf" not in node:
                return self._combined(node[word], document, version, optional)
        if "allOf" in node:
            return self._merged(node, document, version, optional)
        kind = node.get("type")
        if kind is None:
            kind = "object" if "properties" in node else "array" if "items" in node else None
        if isinstance(kind, list):
            others = [each for each in kind if each != "null"]
            if len(others) != 1:
                raise SchemaException(f"A JSON Schema of the types {kind} has no columns; {_ONE} are read")
            return self.schema({**node, "type": others[0]}, document, version=version, optional=optional or len(kind) > 1)
        optional = optional or (kind is None and None in (_symbols(node) or ()))
        return self._with_attributes(self._plain(node, kind, document), node, version, optional)

    def _referred(self, reference: str, document: str, version: int | None, optional: bool, required: Sequence[Any] = ()) -> Schema:
        """The schema that ``reference`` names. ``required`` has further required names, from the referring node."""
        name, _, pointer = reference.partition("#")
        target = name or document
        full = f"{target}#{pointer}"
        if full in self.open:
            raise SchemaException(f"The JSON Schema {reference} lies within itself, which columns cannot hold")
        if len(self.open) >= MOST_LEVELS:
            raise SchemaException(f"The JSON Schema has more than {MOST_LEVELS} references within one another")
        node = self.documents.get(target)
        for part in filter(None, unquote(pointer).split("/")):
            node = _part_of(node, part.replace("~1", "/").replace("~0", "~"))
        if node is None:
            raise SchemaException(f"The JSON Schema has no {reference}")
        self.open.add(full)
        try:
            more = {"required": [*node.get("required", ()), *required]} if required and isinstance(node, dict) else {}
            return self.schema({**node, **more} if more else node, target, version=version, optional=optional)
        finally:
            self.open.discard(full)

    def _combined(self, nodes: Any, document: str, version: int | None, optional: bool) -> Schema:
        others = [each for each in nodes if not _is_null(each)] if isinstance(nodes, list) else []
        if len(others) != 1:
            raise SchemaException(f"A JSON Schema that combines {len(others)} others has no columns; {_ONE} are read")
        return self.schema(others[0], document, version=version, optional=optional or len(others) < len(nodes))

    def _merged(self, node: Mapping[str, Any], document: str, version: int | None, optional: bool) -> Schema:
        """The schema of values that fit all parts of ``allOf`` and the node around it. It is a struct of all fields of the parts, or the
        single type that the parts name. A value may be null if all parts with a type allow null."""
        parts = node["allOf"] if isinstance(node["allOf"], list) else []
        parts = [{name: value for name, value in node.items() if name != "allOf"}, *parts]
        required = [name for part in parts if isinstance(part, dict) for name in part.get("required", ())]
        if any(isinstance(part, dict) and not _NAMING.isdisjoint(part) for part in parts):  # if so, no part is a map
            parts = [{**part, "additionalProperties": False} if isinstance(part, dict) and "type" in part else part for part in parts]
        schemas = [self._part(part, document, required) for part in parts if isinstance(part, dict) and not _TYPING.isdisjoint(part)]
        if not schemas or any(each.type is not schemas[0].type for each in schemas):
            found = ", ".join(each.type.name for each in schemas) or "no type"
            raise SchemaException(f"A JSON Schema with allOf has no columns: its parts have {found}, and one type is read")
        schema = schemas[0]
        if schema.type is SchemaType.STRUCT:
            fields: dict[str, Schema] = {}
            for each in (field for part in schemas for field in part.fields):
                if fields.setdefault(each.name, each.schema).type is not each.schema.type:
                    raise SchemaException(f"A JSON Schema with allOf has no columns: its parts have two types for {each.name}")
            named = next((each for each in schemas if each.name is not None), schema)
            schema = Schema.struct(fields, name=named.name, doc=named.doc, parameters=named.parameters)
        return self._with_attributes(schema, node, version, optional or all(each.optional for each in schemas))

    def _part(self, part: Mapping[str, Any], document: str, required: Sequence[Any]) -> Schema:
        if "$ref" in part:
            return self._referred(str(part["$ref"]), document, None, optional=False, required=required)
        return self.schema({**part, "required": required} if "properties" in part else part, document)

    def _plain(self, node: Mapping[str, Any], kind: Any, document: str) -> Schema:
        symbols = _symbols(node)
        if kind is None and symbols is not None:
            kind = _kind_of(symbols)
        if isinstance(symbols, list) and kind == "string":
            named = {f"{ENUM}.{_NULL_SYMBOL if each is None else each}": _NULL_SYMBOL if each is None else str(each) for each in symbols}
            return Schema(SchemaType.STRING, parameters={ENUM: "", **named})
        given = node.get("connect.type")
        if kind == "array":
            return Schema.array(self.schema(node.get("items"), document))
        if kind == "object":
            return self._object(node, given, document)
        if kind not in _PLAIN:
            raise SchemaException(f"A JSON Schema of the type {kind} has no columns")
        if kind == "boolean" or (kind == "string" and given != "bytes"):
            return Schema(_PLAIN[kind])
        if given is None:
            return Schema(_PLAIN[kind])
        if given not in {each.value for each in (*_INTEGERS, *_FLOATS, SchemaType.BYTES)}:
            raise SchemaException(f"A JSON Schema has no connect.type {given}")
        return Schema(SchemaType(given))

    def _object(self, node: Mapping[str, Any], given: Any, document: str) -> Schema:
        properties, others = node.get("properties") or {}, node.get("additionalProperties", True)
        has_type = isinstance(others, dict) and not _TYPING.isdisjoint(others)
        if given == "map" or (has_type and not properties and "patternProperties" not in node):
            return Schema.map(STRING_SCHEMA, self.schema(others, document))
        if "patternProperties" in node or has_type or (others is not False and not properties):
            self.nameless.add(".".join(self.path) or "the value")
        if not isinstance(properties, dict) or not all(isinstance(each, dict) for each in properties.values()):
            raise SchemaException("The properties of a JSON Schema must be objects")
        required = node.get("required") or []
        positions = {name: each.get("connect.index", number) for number, (name, each) in enumerate(properties.items())}
        names = sorted(properties, key=lambda name: positions[name] if isinstance(positions[name], int) else 0)
        lenient = self.rules.optional_unless_required
        fields = {}
        for name in names:
            self.path.append(name)
            fields[name] = self.schema(properties[name], document, optional=lenient and name not in required)
            self.path.pop()
        return Schema.struct(fields)

    def _with_attributes(self, schema: Schema, node: Mapping[str, Any], version: int | None, optional: bool) -> Schema:
        parameters = dict(schema.parameters or {})
        given = node.get("connect.parameters")
        if isinstance(given, dict):
            parameters |= {name: str(value) for name, value in given.items()}
        self.count += weight_of(parameters)
        number = node.get("connect.version", version)
        texts = {"name": node.get("title"), "doc": node.get("description")}
        changes: dict[str, Any] = {key: text for key, text in texts.items() if isinstance(text, str)}
        schema = dataclasses.replace(
            schema,
            version=number if isinstance(number, int) else None,
            parameters=parameters or None,
            optional=optional,
            **changes,
        )
        if node.get("default") is None:
            return schema
        try:
            return schema.with_default(read_value(schema, node["default"], self.rules.values))
        except DataException as error:
            raise SchemaException(f"The default of a JSON Schema does not fit: {error}") from error
