"""JSON text as Connect's JsonConverter reads it with Jackson (contract §2.2). Knows nothing of schemas.

Numbers with a point or an exponent are read as ``Decimal``, in full precision. The limits of ``sdk.json_text`` hold.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any, Final, NoReturn

from airflow_provider_connect.sdk.json_text import (
    MAX_DEPTH,
    MAX_NUMBER_LENGTH,
    SHORTEST_BEYOND,
    depth_of,
    may_have_long_number,
    without_leading_zeros,
)

_SPACE: Final = " \t\r\n"
_ESCAPED_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")


def read_json(data: bytes, max_depth: int = MAX_DEPTH) -> Any:  # Any: what JSON text can hold
    """The first JSON value of ``data``; what follows it is ignored, as is a leading zero. Raises ValueError if there is none, or where it
    exceeds a limit.

    Stricter than Jackson in two things: half of a surrogate pair is refused, and ``max_depth`` is 200 where Jackson allows 1,000.
    """
    return _first_value(data.decode("utf-8-sig"), max_depth)[0]


def read_json_before(data: bytes, end: str) -> Any:  # Any: what JSON text can hold
    """The JSON value that ``data`` begins with, which ``end`` must follow. Raises ValueError otherwise."""
    value, behind = _first_value(data.decode(), MAX_DEPTH)
    if not behind.lstrip(_SPACE).startswith(end):
        raise ValueError(f"Expected {end} behind the value")
    return value


def _first_value(text: str, max_depth: int) -> tuple[Any, str]:
    """The first value, and the text behind it."""
    text = without_leading_zeros(text.lstrip(_SPACE))
    decoder = _DECODER_OF_LONG if len(text) > MAX_NUMBER_LENGTH and may_have_long_number(text.encode()) else _DECODER
    try:
        value, end = decoder.raw_decode(text)
    except RecursionError as error:
        raise ValueError(f"Document nesting depth exceeds the maximum allowed ({max_depth})") from error
    if end >= SHORTEST_BEYOND and (depth := depth_of(text[:end].encode())) > max_depth:
        raise ValueError(f"Document nesting depth ({depth}) exceeds the maximum allowed ({max_depth})")
    if _ESCAPED_SURROGATE.search(text):
        _refuse_half_pairs(value)
    if end < len(text) and text[end] not in _SPACE and not isinstance(value, dict | list | str):
        raise ValueError(f"Unexpected character ({text[end]!r}) behind {text[:end]}")
    return value, text[end:]


def _refuse_half_pairs(value: Any) -> None:
    """Raise ValueError for half of a surrogate pair: it is not text, and no Arrow column could hold it."""
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
