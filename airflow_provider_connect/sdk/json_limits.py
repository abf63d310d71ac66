"""How deep JSON may nest and how long its numbers may be, and the check of whole columns of it. Knows nothing of schemas.

Python's interpreter ends a recursion after 1,000 calls, and reading, printing and changing a nested value takes up to three a level.
"""

from __future__ import annotations

import re
from typing import Final

MAX_DEPTH: Final = 200
"""Objects and arrays within one another."""
MAX_NUMBER_LENGTH: Final = 1000
"""Characters of one number, Jackson's limit."""

SHORTEST_BEYOND: Final = 2 * (MAX_DEPTH + 1)
"""Bytes of the shortest document that exceeds a limit: what opens has to close."""

_UNMARKED: Final = bytes(set(range(256)) - set(b'[]{}"'))
_STRING: Final = re.compile(rb'"[^"]*"')
_DIGITS: Final = bytes(ord("0") if byte in b"0123456789.eE+-" else ord(" ") for byte in range(256))
_STRIDE: Final = 100
_MANY_SAMPLES: Final = b"0" * (MAX_NUMBER_LENGTH // _STRIDE)
_LONG_NUMBER: Final = b"0" * (MAX_NUMBER_LENGTH + 1)


def depth_of(data: bytes) -> int:
    """How many objects and arrays lie within one another in valid JSON, one document or several in sequence."""
    import numpy as np

    if b"\\" in data:  # before anything else is taken out, which would bring backslashes of two escapes together
        data = data.replace(rb"\\", b"").replace(rb"\"", b"")
    marks = data.translate(None, _UNMARKED)
    marks = marks.replace(b'""', b"")  # texts without brackets
    if b'"' in marks:
        marks = _STRING.sub(b"", marks)
    steps = np.zeros(256, np.int8)
    steps[list(b"[{")], steps[list(b"]}")] = 1, -1
    depths = np.cumsum(steps[np.frombuffer(marks, np.uint8)], dtype=np.int32)
    return int(depths.max()) if len(depths) else 0


def may_have_long_number(data: bytes) -> bool:
    """Whether more than ``MAX_NUMBER_LENGTH`` characters in sequence could be a number; they may also be part of a text."""
    if len(data) <= MAX_NUMBER_LENGTH or _MANY_SAMPLES not in data[::_STRIDE].translate(_DIGITS):
        return False
    return _LONG_NUMBER in data.translate(_DIGITS)
