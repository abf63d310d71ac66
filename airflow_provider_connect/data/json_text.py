"""JSON text as Kafka Connect's Jackson reads and writes it (docs/contract.md §2.2), with limits that are checked for whole columns.

Python limits recursion to 1,000 calls. Reading, printing or changing a nested value needs up to three calls per level.
"""

from __future__ import annotations

import re
from typing import Final

from airflow_provider_connect.data.arrow import np

MAX_DEPTH: Final = 200
"""Maximum nesting of objects and arrays."""
MAX_NUMBER_LENGTH: Final = 1000
"""Maximum number of characters in a number, as in Jackson."""

SHORTEST_BEYOND: Final = 2 * (MAX_DEPTH + 1)
"""Size, in bytes, of the shortest document that exceeds ``MAX_DEPTH``: each level has an opening and a closing bracket."""

_UNMARKED: Final = bytes(set(range(256)) - set(b'[]{}"'))
_STRING: Final = re.compile(rb'"[^"]*"')
_DIGITS: Final = bytes(ord("0") if byte in b"0123456789.eE+-" else ord(" ") for byte in range(256))
_STRIDE: Final = 100
_MANY_SAMPLES: Final = b"0" * (MAX_NUMBER_LENGTH // _STRIDE)
_LONG_NUMBER: Final = b"0" * (MAX_NUMBER_LENGTH + 1)
_TO_ESCAPE: Final = re.compile('["\\\\\x00-\x1f\ud800-\udfff\U00010000-\U0010ffff]')
_SHORT: Final = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_STRING_OR_ZEROS: Final = re.compile(r'("(?:[^"\\]|\\.)*+"?)|(?<![\d.eE+-])(-?)0+(?=\d)', re.DOTALL)
_LEADING_ZERO: Final = re.compile(r"(?<![\d.eE+-])-?0\d")


def quoted(text: str) -> str:
    """``text`` as a JSON string. Characters beyond the basic plane and unpaired surrogates are escaped."""
    return f'"{_TO_ESCAPE.sub(_escape, text)}"'


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if character in _SHORT:
        return _SHORT[character]
    units = memoryview(character.encode("utf-16-le", "surrogatepass")).cast("H")
    return "".join(f"\\u{unit:04X}" for unit in units)


def has_half_pair(text: str) -> bool:
    """Whether ``text`` has half of a surrogate pair. JSON can represent it, but UTF-8 cannot, and so columns cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def without_leading_zeros(text: str) -> str:
    """``text`` without leading zeros. They are not valid JSON, but Connect's Jackson accepts them: ``007``."""
    return _STRING_OR_ZEROS.sub(r"\1\2", text) if _LEADING_ZERO.search(text) else text


def depth_of(data: bytes) -> int:
    """The nesting depth of valid JSON, which may be several documents in sequence."""
    if b"\\" in data:  # first, because removing other bytes would join the backslashes of two escapes
        data = data.replace(rb"\\", b"").replace(rb"\"", b"")
    marks = data.translate(None, _UNMARKED)
    marks = marks.replace(b'""', b"")  # strings without brackets
    if b'"' in marks:
        marks = _STRING.sub(b"", marks)
    steps = np.zeros(256, np.int8)
    steps[list(b"[{")], steps[list(b"]}")] = 1, -1
    depths = np.cumsum(steps[np.frombuffer(marks, np.uint8)], dtype=np.int32)
    return int(depths.max()) if len(depths) else 0


def may_have_long_number(data: bytes) -> bool:
    """Whether more than ``MAX_NUMBER_LENGTH`` consecutive characters could be a number. Also true if these characters are in a string."""
    if len(data) <= MAX_NUMBER_LENGTH or _MANY_SAMPLES not in data[::_STRIDE].translate(_DIGITS):
        return False
    return _LONG_NUMBER in data.translate(_DIGITS)
