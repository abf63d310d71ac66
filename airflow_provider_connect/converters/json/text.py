"""JSON text as Connect's JsonConverter reads and writes it with Jackson (contract §2.2). Knows nothing of schemas.

Numbers with a point or an exponent are read as ``Decimal``, in full precision. The limits of ``sdk.json_limits`` hold.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any, Final, NoReturn

from airflow_provider_connect.sdk.json_limits import MAX_DEPTH, MAX_NUMBER_LENGTH, SHORTEST_BEYOND, depth_of, may_have_long_number

_SPACE: Final = " \t\r\n"
_TO_ESCAPE: Final = re.compile('["\\\\\x00-\x1f\ud800-\udfff\U00010000-\U0010ffff]')
_ESCAPED_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_SHORT: Final = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_STRING_OR_ZEROS: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?|(?<![\d.eE+])-?0+(?=\d)', re.DOTALL)
_LEADING_ZEROS: Final = re.compile(r"(?<![\d.eE+-])-?0\d")


def read_json(data: bytes, max_depth: int = MAX_DEPTH) -> Any:  # Any: what JSON text can hold
    """The first JSON value of ``data``; what follows it is ignored, as is a leading zero. Raises ValueError if there is none, or where it
    exceeds a limit.

    Stricter than Jackson in two things: half of a surrogate pair is refused, and ``max_depth`` is 200 where Jackson allows 1,000.
    """
    value, _ = _first_value(data.decode("utf-8-sig"), max_depth)
    return value


def read_json_before(data: bytes, end: str) -> Any:  # Any: what JSON text can hold
    """The JSON value that ``data`` begins with, where ``end`` is what follows it. Raises ValueError where it is not so."""
    value, behind = _first_value(data.decode(), MAX_DEPTH)
    if not behind.lstrip(_SPACE).startswith(end):
        raise ValueError(f"Expected {end} behind the value")
    return value


def _first_value(text: str, max_depth: int) -> tuple[Any, str]:
    """The first value, and the text behind it."""
    text = text.lstrip(_SPACE)
    if _LEADING_ZEROS.search(text):
        text = _STRING_OR_ZEROS.sub(lambda match: match[0] if match[0][0] == '"' else match[0].rstrip("0"), text)
    decoder = _DECODER_OF_LONG if len(text) > MAX_NUMBER_LENGTH and may_have_long_number(text.encode()) else _DECODER
    try:
        value, end = decoder.raw_decode(text)
    except RecursionError as error:
        raise ValueError(f"Document nesting depth exceeds the maximum allowed ({max_depth})") from error
    if end >= SHORTEST_BEYOND:
        refuse_depth(text[:end].encode(), max_depth)
    if _ESCAPED_SURROGATE.search(text):
        _refuse_half_pairs(value)
    if end < len(text) and text[end] not in _SPACE and not isinstance(value, dict | list | str):
        raise ValueError(f"Unexpected character ({text[end]!r}) behind {text[:end]}")
    return value, text[end:]


def refuse_depth(document: bytes, max_depth: int = MAX_DEPTH) -> None:
    """Raise ValueError where objects and arrays of valid JSON lie deeper within one another than ``max_depth``."""
    depth = depth_of(document)
    if depth > max_depth:
        raise ValueError(f"Document nesting depth ({depth}) exceeds the maximum allowed ({max_depth})")


def _refuse_half_pairs(value: Any) -> None:
    """Half of a surrogate pair is no text, and no Arrow column could hold it. Raises ValueError."""
    try:
        json.dumps(value, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError as error:
        raise ValueError("Half of a surrogate pair") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"Non-standard token '{name}'")


def _checked_number(number: str) -> str:
    if len(number) > MAX_NUMBER_LENGTH:
        raise ValueError(f"Number value length ({len(number)}) exceeds the maximum allowed ({MAX_NUMBER_LENGTH})")
    return number


_DECODER: Final = json.JSONDecoder(parse_float=Decimal, parse_constant=_refuse_constant)
_DECODER_OF_LONG: Final = json.JSONDecoder(
    parse_float=lambda number: Decimal(_checked_number(number)),
    parse_int=lambda number: int(_checked_number(number)),
    parse_constant=_refuse_constant,
)


def quoted(text: str) -> str:
    """``text`` as a JSON string, half of a surrogate pair too."""
    return f'"{_TO_ESCAPE.sub(_escape, text)}"'


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    short = _SHORT.get(character)
    if short is not None:
        return short
    units = memoryview(character.encode("utf-16-le", "surrogatepass")).cast("H")
    return "".join(f"\\u{unit:04X}" for unit in units)
