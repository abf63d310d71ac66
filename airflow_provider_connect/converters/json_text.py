"""JSON text as Connect's JsonConverter reads and writes it with Jackson (contract 2.6). Knows nothing of schemas.

Numbers with a point or an exponent are read as ``Decimal``, in full precision.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any, Final, NoReturn

_SPACE: Final = " \t\r\n"
_TO_ESCAPE: Final = re.compile('["\\\\\x00-\x1f\ud800-\udfff\U00010000-\U0010ffff]')
_ESCAPED_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_SHORT: Final = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_STRING_OR_ZEROS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|(?<![\d.eE+])-?0+(?=\d)', re.DOTALL)
_LEADING_ZEROS: Final = re.compile(r"(?<![\d.eE+-])-?0\d")


def read_json(data: bytes) -> Any:  # Any: what JSON text can hold
    """The first JSON value of ``data``; what follows it is ignored, as is a leading zero. Raises ValueError if there is none.

    Stricter than Jackson in one thing: half of a surrogate pair is refused.
    """
    text = data.decode("utf-8-sig").lstrip(_SPACE)
    if _LEADING_ZEROS.search(text):
        text = _STRING_OR_ZEROS.sub(lambda match: match[0] if match[0][0] == '"' else match[0].rstrip("0"), text)
    value, end = _DECODER.raw_decode(text)
    if _ESCAPED_SURROGATE.search(text):
        _refuse_half_pairs(value)
    if end < len(text) and text[end] not in _SPACE and not isinstance(value, dict | list | str):
        raise ValueError(f"Unexpected character ({text[end]!r}) behind {text[:end]}")
    return value


def _refuse_half_pairs(value: Any) -> None:
    """Half of a surrogate pair is no text, and no Arrow column could hold it. Raises ValueError."""
    try:
        json.dumps(value, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError as error:
        raise ValueError("Half of a surrogate pair") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"Non-standard token '{name}'")


_DECODER: Final = json.JSONDecoder(parse_float=Decimal, parse_constant=_refuse_constant)


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
