"""The types of records by path, from their schema or from the values of records without a schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from airflow_provider_connect.data.schema import Schema, SchemaType

WHOLE = "$"
MAX_PATH_LENGTH = 1000
"""Characters. Fields with a longer path are left out."""
_LOGICAL_PREFIX = "org.apache.kafka.connect.data."


def schema_fields(schema: Schema) -> dict[str, str]:
    """The types of a schema and of all its fields."""
    return dict(_of_schema(schema, ""))


def value_fields(values: Iterable[Any]) -> dict[str, str]:
    """The combined types of values without a schema: ``string|number`` if they differ, ``?`` if one is null or lacks the field."""
    seen: dict[str, set[str]] = {}
    counts: dict[str, int] = {}
    for value in values:
        for path, kind in dict.fromkeys(_of_value(value, "")):
            seen.setdefault(path, set()).add(kind)
        for path in {path for path, kind in _of_value(value, "") if kind != "null"}:
            counts[path] = counts.get(path, 0) + 1
    return {path: _join_types(kinds, counts.get(path, 0) < counts.get(_parent(path, counts), 0)) for path, kinds in seen.items()}


def merge_types(known: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """Merge the types of two batches. A field that only one of them has is optional."""
    if not known or not more:
        return dict(known or more)
    found = {}
    for path in [*known, *(path for path in more if path not in known)]:
        kinds = {kind for types in (known.get(path, "?"), more.get(path, "?")) for kind in types.rstrip("?").split("|") if kind}
        is_optional = any(types.get(path, "?").endswith("?") for types in (known, more))
        found[path] = _join_types(kinds, is_optional)
    return found


def _of_schema(schema: Schema, path: str) -> Iterator[tuple[str, str]]:
    if len(path) > MAX_PATH_LENGTH:
        return
    yield path or WHOLE, _type_text(schema)
    for field in schema.fields:
        yield from _of_schema(field.schema, f"{path}.{field.name}" if path else field.name)
    if schema.value_schema is not None:
        is_array = schema.type is SchemaType.ARRAY
        yield from _of_schema(schema.value_schema, f"{path}[]" if is_array else f"{path}{{}}")


def _type_text(schema: Schema) -> str:
    text = str(schema.type)
    if schema.logical_name is not None:
        text = schema.logical_name.removeprefix(_LOGICAL_PREFIX)
        text += f"({schema.parameters['scale']})" if schema.parameters and "scale" in schema.parameters else ""
    if schema.type is SchemaType.MAP and schema.key_schema is not None:
        text = f"map<{_type_text(schema.key_schema)}>"
    return f"{text}?" if schema.optional else text


def _of_value(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if len(path) > MAX_PATH_LENGTH:
        return
    yield path or WHOLE, _kind(value)
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _of_value(inner, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _of_value(inner, f"{path}[]")


def _kind(value: Any) -> str:
    kinds = {bool: "boolean", int: "number", float: "number", str: "string", bytes: "bytes", list: "array"}
    if value is None:
        return "null"
    return "object" if isinstance(value, Mapping) else kinds.get(type(value), type(value).__name__)


def _join_types(kinds: set[str], is_optional: bool) -> str:
    text = "|".join(sorted(kinds - {"null"}))
    return f"{text}?" if is_optional or "null" in kinds else text


def _parent(path: str, counts: Mapping[str, int]) -> str:
    """The parent path of ``path``. Its count is how often ``path`` could have occurred. Elements of arrays are never missing."""
    if path == WHOLE or path.endswith("[]"):
        return path
    at = max((end for end in range(len(path)) if path[end] == "." and path[:end] in counts), default=None)
    return WHOLE if at is None else path[:at]
