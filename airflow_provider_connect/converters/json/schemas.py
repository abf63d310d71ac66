"""Schemas in the form of a JSON envelope's ``schema``, with Connect's order of keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from airflow_provider_connect.data.json_text import quoted
from airflow_provider_connect.data.schema import Schema, SchemaType
from airflow_provider_connect.errors import DataException

DefaultWriter = Callable[[Schema, Any], str]
DefaultReader = Callable[[Schema, Any], Any]

_NAMES: Final = {**{kind: kind.value for kind in SchemaType}, SchemaType.FLOAT32: "float", SchemaType.FLOAT64: "double"}
_TYPES: Final = {name: kind for kind, name in _NAMES.items()}


def schema_text(schema: Schema | None, write_default: DefaultWriter, field: str | None = None) -> str:
    """``schema`` as JSON text, or ``null`` for None. ``field`` is the name of the struct field that has this schema."""
    if schema is None:
        return "null"
    parts = [f'"type":"{_NAMES[schema.type]}"']
    if schema.type is SchemaType.STRUCT:
        parts.append(f'"fields":[{",".join(schema_text(f.schema, write_default, f.name) for f in schema.fields)}]')
    elif schema.key_schema is not None:
        parts.append(f'"keys":{schema_text(schema.key_schema, write_default)},"values":{schema_text(schema.value_schema, write_default)}')
    elif schema.value_schema is not None:
        parts.append(f'"items":{schema_text(schema.value_schema, write_default)}')
    parts.append(f'"optional":{"true" if schema.optional else "false"}')
    if schema.name is not None:
        parts.append(f'"name":{quoted(schema.name)}')
    if schema.version is not None:
        parts.append(f'"version":{schema.version}')
    if schema.doc is not None:
        parts.append(f'"doc":{quoted(schema.doc)}')
    if schema.parameters is not None:
        parts.append(f'"parameters":{{{",".join(f"{quoted(k)}:{quoted(v)}" for k, v in schema.parameters.items())}}}')
    if schema.default is not None:
        parts.append(f'"default":{write_default(schema, schema.default)}')
    if field is not None:
        parts.append(f'"field":{quoted(field)}')
    return f"{{{','.join(parts)}}}"


def schema_of_json(node: Any, read_default: DefaultReader) -> Schema | None:  # Any: JSON
    """The schema that ``node`` describes; None for null. Raises DataException with Connect's messages."""
    if node is None:
        return None
    kind = node.get("type") if isinstance(node, dict) else None
    if not isinstance(kind, str):
        raise DataException("Schema must contain 'type' field")
    if kind not in _TYPES:
        raise DataException(f"Unknown schema type: {kind}")
    attributes: dict[str, Any] = {"optional": node.get("optional") is True}
    for key in ("name", "doc"):
        if isinstance(node.get(key), str):
            attributes[key] = node[key]
    if isinstance(node.get("version"), int) and not isinstance(node["version"], bool):
        attributes["version"] = node["version"]
    if isinstance(node.get("parameters"), dict) and node["parameters"]:
        attributes["parameters"] = _parameters(node["parameters"])
    schema = Schema(_TYPES[kind], **_inner(_TYPES[kind], node, read_default), **attributes)
    return schema.with_default(read_default(schema, node["default"])) if "default" in node else schema


def _parameters(node: Mapping[str, Any]) -> dict[str, str]:
    if not all(isinstance(value, str) for value in node.values()):
        raise DataException("Schema parameters must have string values.")
    return dict(node)


def _inner(kind: SchemaType, node: Mapping[str, Any], read_default: DefaultReader) -> dict[str, Any]:
    if kind is SchemaType.ARRAY:
        if node.get("items") is None:
            raise DataException("Array schema did not specify the element type")
        return {"value_schema": schema_of_json(node["items"], read_default)}
    if kind is SchemaType.MAP:
        for key, word in (("keys", "key"), ("values", "value")):
            if key not in node:
                raise DataException(f"Map schema did not specify the {word} type")
        return {"key_schema": schema_of_json(node["keys"], read_default), "value_schema": schema_of_json(node["values"], read_default)}
    if kind is SchemaType.STRUCT:
        if not isinstance(node.get("fields"), list):
            raise DataException('Struct schema\'s "fields" argument is not an array.')
        return {"fields": Schema.struct(dict(_field(field, read_default) for field in node["fields"])).fields}
    return {}


def _field(node: Any, read_default: DefaultReader) -> tuple[str, Schema]:
    name = node.get("field") if isinstance(node, dict) else None
    schema = schema_of_json(node, read_default) if isinstance(name, str) else None
    if not isinstance(name, str) or schema is None:
        raise DataException("Struct schema's field name not specified properly")
    return name, schema
