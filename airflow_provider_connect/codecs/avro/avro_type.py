"""Avro's schemas as a tree: parsed from JSON, names resolved. Knows nothing of Connect's schemas or of bytes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_provider_connect.data.expansion import check_fields, weight_of
from airflow_provider_connect.errors import SchemaException

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED: Final = frozenset({"record", "enum", "fixed"})
MOST_DEPTH: Final = 100
"""Maximum nesting of types."""


@dataclass(frozen=True, slots=True)
class AvroField:
    """One field of a record. ``attributes`` is the field's JSON object, with ``default`` and ``doc``."""

    name: str
    type: AvroType
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class AvroType:
    """One type. ``kind`` is Avro's name of its kind. ``name`` is the full name of a record, enum or fixed type.

    ``attributes`` is the JSON object, empty if only a name represents the type. ``branches`` are the branches of a union. ``items`` is the
    type of an array's or map's values."""

    kind: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None
    fields: tuple[AvroField, ...] = ()
    items: AvroType | None = None
    symbols: tuple[str, ...] = ()
    branches: tuple[AvroType, ...] = ()
    size: int = 0
    count: int = field(default=1, init=False)
    """The number of types in this type, including itself. A type counts each time it is used. The constructor raises SchemaException for
    too many types, before any schema is created from them."""

    def __post_init__(self) -> None:
        inner = [each.type for each in self.fields] + list(self.branches) + ([] if self.items is None else [self.items])
        given = self.attributes.get("connect.parameters")
        own = weight_of(self.symbols) + weight_of(given if isinstance(given, dict) else None)
        what = f"The Avro {self.kind}{'' if self.name is None else f' {self.name}'}"
        object.__setattr__(self, "count", check_fields(1 + own + sum(each.count for each in inner), what))

    @property
    def logical(self) -> str | None:
        """The attribute ``logicalType``."""
        word = self.attributes.get("logicalType")
        return word.lower() if isinstance(word, str) else None

    @property
    def simple_name(self) -> str:
        """The name without its namespace, or the kind if the type has no name."""
        return (self.name or self.kind).rpartition(".")[2]

    @property
    def null_branch(self) -> int | None:
        """The number of a union's branch ``null``. None if there is no such branch, or the type is not a union."""
        return next((number for number, branch in enumerate(self.branches) if branch.kind == "null"), None)

    @property
    def value_branches(self) -> list[tuple[int, AvroType]]:
        """A union's branches other than ``null``, with their numbers."""
        return [(number, branch) for number, branch in enumerate(self.branches) if branch.kind != "null"]


def parse_avro(text: str, references: Iterable[str] = ()) -> AvroType:
    """The type that the JSON ``text`` describes. ``references`` are schemas whose named types the text may use. Each reference follows the
    schemas that it uses.

    Raises SchemaException if the text is not a schema. Also raises it if a type contains itself, because columns have no such type."""
    names: dict[str, AvroType] = {}
    for reference in references:
        _Parser(names).parse(_json(reference), "", 0)
    return _Parser(names).parse(_json(text), "", 0)


def _json(text: str) -> Any:
    if not text.lstrip().startswith(("{", "[", '"')):  # registries return a primitive type's name without quotes
        return text.strip()
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaException(f"The Avro schema is not JSON: {error}") from error


@dataclass(slots=True)
class _Parser:
    names: dict[str, AvroType]
    open: set[str] = field(default_factory=set)

    def parse(self, node: Any, namespace: str, depth: int) -> AvroType:
        if depth > MOST_DEPTH:
            raise SchemaException(f"The Avro schema has more than {MOST_DEPTH} levels of types")
        if isinstance(node, str):
            return self._word(node, namespace)
        if isinstance(node, list):
            return AvroType("union", branches=tuple(self.parse(branch, namespace, depth + 1) for branch in node))
        if not isinstance(node, dict) or "type" not in node:
            raise SchemaException(f"Not an Avro type: {str(node)[:80]}")
        kind = node["type"]
        if not isinstance(kind, str):
            return self.parse(kind, namespace, depth + 1)
        if kind in NAMED or kind == "error":
            return self._named("record" if kind == "error" else kind, node, namespace, depth)
        if kind in ("array", "map"):
            items = self.parse(node.get("items" if kind == "array" else "values"), namespace, depth + 1)
            return AvroType(kind, node, items=items)
        return AvroType(kind, node) if kind in PRIMITIVES else self._word(kind, namespace)

    def _word(self, word: str, namespace: str) -> AvroType:
        if word in PRIMITIVES:
            return AvroType(word)
        for name in (word if "." in word or not namespace else f"{namespace}.{word}", word):
            if name in self.open:
                raise SchemaException(f"The Avro type {name} lies within itself, which columns cannot hold")
            if name in self.names:
                return self.names[name]
        raise SchemaException(f"The Avro schema has no type {word}")

    def _named(self, kind: str, node: Mapping[str, Any], namespace: str, depth: int) -> AvroType:
        name = node.get("name")
        if not isinstance(name, str) or not name:
            raise SchemaException(f"An Avro {kind} has no name")
        space = name.rpartition(".")[0] if "." in name else node.get("namespace", namespace) or ""
        full = name if "." in name or not space else f"{space}.{name}"
        self.open.add(full)
        found = AvroType(kind, node, full, **self._inner(kind, node, str(space), depth))
        self.open.discard(full)
        self.names[full] = found
        return found

    def _inner(self, kind: str, node: Mapping[str, Any], namespace: str, depth: int) -> dict[str, Any]:
        if kind == "fixed":
            if not isinstance(node.get("size"), int) or node["size"] < 0:
                raise SchemaException(f"The Avro fixed type {node['name']} has no size")
            return {"size": node["size"]}
        if kind == "enum":
            symbols = node.get("symbols")
            if not isinstance(symbols, list) or not symbols or not all(isinstance(symbol, str) for symbol in symbols):
                raise SchemaException(f"The Avro enum {node['name']} has no symbols")
            return {"symbols": tuple(symbols)}
        fields = node.get("fields")
        if not isinstance(fields, list) or not all(isinstance(each, dict) and isinstance(each.get("name"), str) for each in fields):
            raise SchemaException(f"The Avro record {node['name']} has no list of named fields")
        return {"fields": tuple(AvroField(each["name"], self.parse(each.get("type"), namespace, depth + 1), each) for each in fields)}
