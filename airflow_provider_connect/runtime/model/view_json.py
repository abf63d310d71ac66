"""Converts values to JSON and back by the fields and types of dataclasses and named tuples: the codec of Connect's responses.

A class with ``to_json`` and ``of_json`` converts itself. Reading does not check texts, numbers and booleans. Reading ignores unknown
fields, because newer servers may add fields.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass
from types import NoneType
from typing import Any, Final, get_args, get_origin, get_type_hints

OMITTED: Final = {"is_omitted": True}
"""Metadata of a field that is left out of JSON if it is empty."""
EXCLUDED: Final = {"is_excluded": True}
"""Metadata of a field that is never in JSON."""


def named(name: str, *, formerly: str | None = None) -> dict[str, str | None]:
    """Metadata of a field with another ``name`` in JSON. ``formerly`` is the name that older servers use."""
    return {"name": name, "formerly": formerly}


@dataclass(frozen=True, slots=True)
class JsonField:
    """One field of a class. ``hint`` is its resolved type. If ``default`` is MISSING, the JSON must contain the field."""

    attribute: str
    name: str
    hint: Any  # a type, or a form such as ``str | None``
    default: object
    is_omitted: bool = False
    formerly: str | None = None


@functools.cache
def json_fields(kind: type) -> tuple[JsonField, ...]:
    """The fields of a dataclass or named tuple in the order of its JSON. Empty for any other class."""
    if not _is_record(kind):
        return ()
    hints = get_type_hints(kind)
    if not dataclasses.is_dataclass(kind):
        return tuple(JsonField(name, name, hints[name], MISSING) for name in kind._fields)  # type: ignore[attr-defined]
    found = []
    for each in dataclasses.fields(kind):
        about = each.metadata
        if not about.get("is_excluded"):
            default = each.default if each.default_factory is MISSING else each.default_factory()
            name, is_omitted = about.get("name", each.name), about.get("is_omitted", False)
            found.append(JsonField(each.name, name, hints[each.name], default, is_omitted, about.get("formerly")))
    return tuple(found)


def to_json(value: Any) -> Any:
    """``value`` as dicts, lists, texts, numbers, booleans and None."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return {key: inner if inner.__class__ is str else to_json(inner) for key, inner in value.items()}  # nearly all dicts are configs
    if hasattr(value, "to_json"):
        return value.to_json()
    if fields := json_fields(value.__class__):
        pairs = ((each, getattr(value, each.attribute)) for each in fields)
        return {each.name: to_json(inner) for each, inner in pairs if inner or not each.is_omitted}
    return [to_json(inner) for inner in value]


def of_json(kind: Any, value: Any) -> Any:
    """The value of type ``kind`` from the JSON of ``to_json``. Raises KeyError, TypeError, ValueError or AttributeError for JSON of another
    form."""
    return _reader(kind)(value)


@functools.cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    arguments = get_args(kind)
    if NoneType in arguments:
        (inner,) = (_reader(each) for each in arguments if each is not NoneType)
        return lambda value: None if value is None else inner(value)
    origin = get_origin(kind) or kind
    if hasattr(origin, "of_json"):
        return origin.of_json  # type: ignore[no-any-return]
    if _is_record(origin):
        return functools.partial(_read_record, origin)
    if issubclass(origin, Mapping):
        read = _reader(arguments[1])
        return lambda value: {key: read(inner) for key, inner in value.items()}
    if arguments:  # a list, or another sequence
        return functools.partial(_read_list, _reader(arguments[0]))
    return lambda value: value


def _read_record(kind: type, value: Mapping[str, Any]) -> Any:
    return kind(**{each.attribute: _read_field(each, value) for each in json_fields(kind)})


def _read_field(field: JsonField, value: Mapping[str, Any]) -> Any:
    name = field.formerly if field.formerly and field.name not in value else field.name
    if field.default is not MISSING and value.get(name) is None:
        return field.default
    return _reader(field.hint)(value[name])


def _read_list(read: Callable[[Any], Any], value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"expected a list, got {type(value).__name__}")
    return [read(inner) for inner in value]


def _is_record(kind: type) -> bool:
    return dataclasses.is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))


def escaped(text: str, kept: str = "") -> str:
    """``text`` with JSON's escape sequences for characters that would control a terminal, except those in ``kept``. In a JSON document,
    such characters are within strings."""
    return text if text.isprintable() else "".join(each if each.isprintable() or each in kept else json.dumps(each)[1:-1] for each in text)
