"""JSON as Kafka Connect's JsonConverter writes it (schemas off), byte for byte, and reads it (contract §2.2).

Text: no white space, UTF-8, maps in their own order, surrogate pairs escaped, numbers as Java prints them. Reading is as lenient as
Jackson set up by Connect (leading zeros, trailing bytes, the last of two equal keys, integers wrapped to 64 bits) and as strict (no NaN).
"""

import base64
import json
import math
import re
from collections.abc import Mapping

from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk.java_numbers import double_text

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]

MAX_DEPTH = 200  # of nested maps and lists; far above what any worker writes, far below Python's limit of nested calls
MAX_DIGITS = 1000  # Jackson's limit for one number

_ESCAPED = re.compile('[\x00-\x1f"\\\\\ud800-\udfff\U00010000-\U0010ffff]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_LEADING_ZERO = re.compile(r"(?<![\d.eE+\-])-?0\d")
_STRING_OR_LEADING_ZEROS = re.compile(r'("(?:[^"\\]|\\.)*+"?)|(?<![\d.eE+\-])(-?)0+(?=\d)', re.DOTALL)


def dumps(value: object) -> bytes:
    """The bytes of ``value``: None, bool, int, float, str, bytes (as base64 text), and mappings, lists and tuples of these.

    Raises DataException for anything else, for keys that are not text, and for nesting deeper than ``MAX_DEPTH``.
    """
    parts: list[str] = []
    _write(value, parts, MAX_DEPTH)
    return "".join(parts).encode()


def _write(value: object, parts: list[str], depth: int) -> None:
    if depth < 0:
        raise DataException(f"JSON is nested deeper than {MAX_DEPTH} levels")
    match value:
        case Mapping():
            _write_map(value, parts, depth)
        case list() | tuple():
            _write_list(value, parts, depth)
        case _:
            parts.append(_scalar(value))


def _write_map(value: Mapping[object, object], parts: list[str], depth: int) -> None:
    separator = "{"
    for key, member in value.items():
        if not isinstance(key, str):
            raise DataException(f"JSON map keys must be text, got {key!r}")
        parts += separator, _quoted(key), ":"
        _write(member, parts, depth - 1)
        separator = ","
    parts.append("}" if value else "{}")


def _write_list(value: list[object] | tuple[object, ...], parts: list[str], depth: int) -> None:
    separator = "["
    for member in value:
        parts.append(separator)
        _write(member, parts, depth - 1)
        separator = ","
    parts.append("]" if value else "[]")


def _scalar(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return int.__repr__(value)
        case float():
            return double_text(value) if math.isfinite(value) else f'"{double_text(value)}"'
        case str():
            return _quoted(value)
        case bytes() | bytearray() | memoryview():
            return f'"{base64.b64encode(value).decode()}"'
        case _:
            raise DataException(f"JSON has no form for a {type(value).__name__}: {value!r}")


def _quoted(text: str) -> str:
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    if char in _SHORT:
        return _SHORT[char]
    code = ord(char)
    if code > 0xFFFF:
        code -= 0x10000
        return f"\\u{0xD800 + (code >> 10):04X}\\u{0xDC00 + (code & 0x3FF):04X}"
    return f"\\u{code:04X}"


def loads(data: bytes | bytearray | memoryview) -> JsonValue:
    """The value that ``data`` holds; maps keep the order of the text. Nothing, or white space alone, is null.

    Raises DataException, and nothing else, for bytes that are no UTF-8 or no JSON, and for what is nested too deeply.
    """
    try:
        text = bytes(data).decode("utf-8-sig").lstrip(" \t\r\n")
        if not text:
            return None
        if _LEADING_ZERO.search(text):
            text = _STRING_OR_LEADING_ZEROS.sub(r"\1\2", text)
        value: JsonValue = _DECODER.raw_decode(text)[0]
    except RecursionError:
        raise DataException(f"JSON is nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:
        raise DataException(f"not JSON: {error}") from None
    if text.count("[") + text.count("{") > MAX_DEPTH:
        _check_depth(value)
    return value


def _check_depth(value: JsonValue) -> None:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        inner = [member.values() if isinstance(member, dict) else member for member in level if isinstance(member, dict | list)]
        if not inner:
            return
        level = [member for members in inner for member in members]
    raise DataException(f"JSON is nested deeper than {MAX_DEPTH} levels")


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"a number of {len(text)} digits")
    return wrapped_int64(int(text))


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not a JSON value")


def wrapped_int64(number: int) -> int:
    """The low 64 bits of ``number`` as Java's long has them."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


_DECODER = json.JSONDecoder(parse_int=_integer, parse_constant=_no_constant)
