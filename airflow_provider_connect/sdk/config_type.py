"""The types that settings have: text → value, and back to text as Kafka Connect shows it (contract §5.3). Knows nothing of definitions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.class_name import class_name_of
from airflow_provider_connect.sdk.java_numbers import double_text


class Type(StrEnum):
    """What a setting's text is parsed to: bool, str, int, int, int, float, list[str], str (a class name) and Password."""

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
    """A secret setting. ``value`` is the secret; every text made of it by accident reads ``[hidden]``."""

    value: str

    def __str__(self) -> str:
        return "[hidden]"

    __repr__ = __str__


_BITS = {Type.SHORT: 16, Type.INT: 32, Type.LONG: 64}
_INTEGER = re.compile(r"([+-]?)0*([0-9]{1,19})")
_DOUBLE = re.compile(r"[+-]?(NaN|Infinity|([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?)[fFdD]?")
_SPACE = " \t\n\r\f\v"
_BLANKS = "".join(map(chr, range(33)))  # what Java's trim takes off


def parse_type(name: str, value: Any, type: Type) -> Any:
    """``value`` (a text, or already a value of the type) of setting ``name`` as a value of ``type``; None stays None."""
    if value is None:
        return None
    return _PARSERS[type](name, value.strip(_BLANKS) if isinstance(value, str) else value, value, type)


def _parse_boolean(name: str, trimmed: Any, value: Any, _type: Type) -> bool:
    if isinstance(trimmed, bool):
        return trimmed
    word = trimmed.lower() if isinstance(trimmed, str) else None
    if word not in ("true", "false"):
        raise ConfigException.of(name, java_text(value), "Expected value to be either true or false")
    return word == "true"


def _parse_text(name: str, trimmed: Any, value: Any, _type: Type) -> str:
    if not isinstance(trimmed, str):
        raise ConfigException.of(name, java_text(value), f"Expected value to be a string, but it was a {type(value).__name__}")
    return trimmed


def _parse_password(name: str, trimmed: Any, value: Any, type: Type) -> Password:
    return trimmed if isinstance(trimmed, Password) else Password(_parse_text(name, trimmed, value, type))


def _parse_class(name: str, trimmed: Any, value: Any, config_type: Type) -> str:
    if isinstance(trimmed, type):
        return class_name_of(trimmed)
    return _parse_text(name, trimmed, value, config_type)


def _parse_list(name: str, trimmed: Any, value: Any, _type: Type) -> list[str]:
    if isinstance(trimmed, str):
        return [part.strip(_SPACE) for part in trimmed.split(",")] if trimmed else []
    if isinstance(trimmed, Iterable):
        return list(trimmed)
    raise ConfigException.of(name, java_text(value), "Expected a comma separated list.")


def _parse_number(name: str, trimmed: Any, value: Any, type: Type) -> int:
    number: int | None = None
    spelled = _INTEGER.fullmatch(trimmed) if isinstance(trimmed, str) else None  # of more digits no type has a number
    if isinstance(trimmed, int) and not isinstance(trimmed, bool):
        number = trimmed
    elif spelled is not None:
        number = int(spelled[1] + spelled[2])
    limit = 1 << (_BITS[type] - 1)
    if number is None or not -limit <= number < limit:
        raise ConfigException.of(name, java_text(value), f"Not a number of type {type}")
    return number


def _parse_double(name: str, trimmed: Any, value: Any, type: Type) -> float:
    if isinstance(trimmed, int | float) and not isinstance(trimmed, bool):
        return float(trimmed)
    match = _DOUBLE.fullmatch(trimmed) if isinstance(trimmed, str) else None
    if match is None:
        raise ConfigException.of(name, java_text(value), f"Not a number of type {type}")
    return float(match[0].rstrip("fFdD"))


_PARSERS: Mapping[Type, Callable[[str, Any, Any, Type], Any]] = {
    Type.BOOLEAN: _parse_boolean,
    Type.STRING: _parse_text,
    Type.CLASS: _parse_class,
    Type.PASSWORD: _parse_password,
    Type.LIST: _parse_list,
    Type.DOUBLE: _parse_double,
    Type.SHORT: _parse_number,
    Type.INT: _parse_number,
    Type.LONG: _parse_number,
}


def text_of(value: object) -> str | None:
    """``value`` as the REST API shows it: lists joined by commas, secrets hidden, None left as it is."""
    if value is None:
        return None
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return java_text(value)


def java_text(value: object) -> str:
    """``value`` as Java would print it within a message."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(java_text, value))}]"
    if isinstance(value, float):
        return double_text(value)
    return str(value)
