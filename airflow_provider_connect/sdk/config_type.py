"""The types of settings. They convert strings to values, and values to strings as Kafka Connect shows them (docs/contract.md §5.3).

Knows nothing of definitions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Any

from airflow_provider_connect.data.java_text import BLANKS, parse_double, parse_integer, text_of, wrapped
from airflow_provider_connect.errors import ConfigException


class Type(StrEnum):
    """The type of a setting. The values are, in the order below, of the Python types bool, str, int, int, int, float, list[str], str (a
    class name), Password.

    INT, SHORT and LONG have 32, 16 and 64 bits. A LIST is separated by commas."""

    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"
    SHORT = "SHORT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"


@dataclass(frozen=True, slots=True)
class Password:
    """The value of a secret setting. ``value`` is the secret; ``str`` and ``repr`` return ``[hidden]``."""

    value: str

    def __str__(self) -> str:
        return "[hidden]"

    __repr__ = __str__


_SPACE = " \t\n\r\f\v"


def parse_type(name: str, value: Any, type: Type) -> Any:
    """Parse ``value``, the value of setting ``name``: a string, or already a value of ``type``. None stays None. Raises ConfigException."""
    if value is None:
        return None
    parsed = _PARSERS[type](value.strip(BLANKS) if isinstance(value, str) else value)
    if parsed is None:
        was = f"Expected value to be a string, but it was a {value.__class__.__name__}"
        raise ConfigException.of(name, text_of(value), _EXPECTED.get(type, was))
    return parsed


def _boolean(value: Any) -> bool | None:
    return value if isinstance(value, bool) else {"true": True, "false": False}.get(value.lower()) if isinstance(value, str) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _password(value: Any) -> Password | None:
    return Password(value) if isinstance(value, str) else value if isinstance(value, Password) else None


def _class(value: Any) -> str | None:
    return class_name_of(value) if isinstance(value, type) else _text(value)


def _list(value: Any) -> list[str] | None:
    if isinstance(value, str):
        return [part.strip(_SPACE) for part in value.split(",")] if value else []
    return list(value) if isinstance(value, Iterable) else None


def _integer(value: Any, *, bits: int) -> int | None:
    if isinstance(value, str):
        return parse_integer(value, bits) if value.isascii() else None
    return value if isinstance(value, int) and not isinstance(value, bool) and wrapped(value, bits) == value else None


def _double(value: Any) -> float | None:
    if isinstance(value, str):
        return parse_double(value)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


_PARSERS: Mapping[Type, Callable[[Any], Any]] = {
    Type.BOOLEAN: _boolean,
    Type.STRING: _text,
    Type.CLASS: _class,
    Type.PASSWORD: _password,
    Type.LIST: _list,
    Type.DOUBLE: _double,
    Type.SHORT: partial(_integer, bits=16),
    Type.INT: partial(_integer, bits=32),
    Type.LONG: partial(_integer, bits=64),
}
_EXPECTED = {
    Type.BOOLEAN: "Expected value to be either true or false",
    Type.LIST: "Expected a comma separated list.",
    **{type: f"Not a number of type {type}" for type in (Type.DOUBLE, Type.SHORT, Type.INT, Type.LONG)},
}


def parse_instant(name: str, text: str) -> int:
    """Parse the value of setting ``name``: an ISO 8601 time with a zone, such as 2026-01-31T14:00:00Z. Returns microseconds since 1970.

    Raises ConfigException."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        found = None
    if found is None or found.tzinfo is None or not _YEARS[0] <= found.year <= _YEARS[1]:
        raise ConfigException.of(name, text[:_LONGEST_INSTANT], "It must be a time with its zone, such as 2026-01-31T14:00:00Z.")
    return (found - _EPOCH) // timedelta(microseconds=1)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_YEARS = (2, 9998)  # Python can print these in every time zone
_LONGEST_INSTANT = 100  # characters in a message


def display_text(value: object) -> str | None:
    """``value`` as the REST API returns it: lists are joined by commas, and secrets are hidden. None stays None."""
    return None if value is None else ",".join(map(str, value)) if isinstance(value, list | tuple) else text_of(value)


def class_name_of(cls: type) -> str:
    """The public name of a plugin class in configs, statuses and topics: its ``class_name``, or module and class.

    The module has its original name, even if the framework imported it under another name."""
    given: str | None = getattr(cls, "class_name", None)
    if given:
        return given
    module = getattr(sys.modules.get(cls.__module__), "__plugin_module__", cls.__module__)
    return f"{module}.{cls.__qualname__}"
