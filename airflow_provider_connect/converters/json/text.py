"""Parses JSON text as Connect's JsonConverter does with Jackson (contract §2.2). Knows nothing of schemas.

Also finds the end of an envelope's schema, and the records of a column that do not start or end like the first record.

Numbers with a point or an exponent are read as ``Decimal``, with full precision. The limits of ``data.json_text`` apply.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NoReturn

from airflow_provider_connect.data.arrow import np, pa, pc
from airflow_provider_connect.data.json_text import (
    MAX_DEPTH,
    MAX_NUMBER_LENGTH,
    SHORTEST_BEYOND,
    depth_of,
    may_have_long_number,
    without_leading_zeros,
)
from airflow_provider_connect.errors import DataException

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SPACE: Final = " \t\r\n"
_ESCAPED_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")


def read_json(data: bytes, max_depth: int = MAX_DEPTH) -> Any:  # Any: JSON
    """The first JSON value of ``data``. Ignores text after it, and leading zeros.

    Raises ValueError if there is no value, or if it exceeds a limit. Stricter than Jackson in two ways: it refuses unpaired surrogates, and
    ``max_depth`` is 200, where Jackson allows 1,000.
    """
    return _first_value(data.decode("utf-8-sig"), max_depth)[0]


def read_json_before(data: bytes, end: str) -> Any:  # Any: JSON
    """The JSON value at the start of ``data``. Raises ValueError unless ``end`` follows it."""
    value, behind = _first_value(data.decode(), MAX_DEPTH)
    if not behind.lstrip(_SPACE).startswith(end):
        raise ValueError(f"Expected {end} after the value")
    return value


def _first_value(text: str, max_depth: int) -> tuple[Any, str]:
    """The first value, and the text after it."""
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
        raise ValueError(f"Unexpected character ({text[end]!r}) after {text[:end]}")
    return value, text[end:]


def _refuse_half_pairs(value: Any) -> None:
    """Raise ValueError for an unpaired surrogate, which is not a character and cannot be stored by Arrow."""
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


_ENVELOPE: Final = re.compile(rb'\s*\{\s*"schema"\s*:')
_PAYLOAD: Final = re.compile(rb'\s*,\s*"payload"\s*:')
_STRING_OR_BRACE: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[{}]', re.DOTALL)
_FIRST_LOOK: Final = 64  # records in the first comparison; each further comparison has 16 times as many
_MOST_ODD: Final = 0.01  # the largest fraction of records that may be exceptions
_CLOSED_BY: Final = {b"{": b"}", b"[": b"]", b'"': b'"'}


@dataclass(frozen=True, slots=True)
class Envelope:
    """The start of a record. ``schema`` is the schema's text, ``prefix`` is everything before the payload."""

    schema: bytes
    prefix: bytes


def envelope_of(record: bytes) -> Envelope | None:
    """The envelope of ``record``. None if the record does not start with a schema followed by a payload."""
    opening = _ENVELOPE.match(record)
    end = _end_of_value(record, opening.end()) if opening else 0
    payload = _PAYLOAD.match(record, end) if end else None
    return Envelope(record[opening.end() : end], record[: payload.end()]) if opening and payload else None


def has_other_envelope(records: pa.Array) -> pa.Array:
    """A mask of the records whose envelope does not start as Connect and this package write it."""
    return pc.fill_null(pc.invert(pc.starts_with(records, b'{"schema":')), False)


def starts_document(texts: pa.Array) -> bool:
    """Whether the first text is an object or an array."""
    return texts[0].as_py().lstrip()[:1] in (b"{", b"[")


def count_leading(column: pa.Array, test: Callable[[pa.Array], pa.Array]) -> int:
    """The number of values from the start that pass ``test``, at least one. Checks a few values first, so that short runs are cheap."""
    start, look = 1, _FIRST_LOOK
    while start < len(column):
        first_failed = pc.index(test(column.slice(start, look)), False).as_py()
        if first_failed >= 0:
            return start + int(first_failed)
        start, look = start + look, look * 16
    return len(column)


def kinds_of(records: pa.Array, prefix_of: Callable[[bytes], bytes], most: int) -> NDArray[np.int64]:
    """The kind of each record: 0 for null, and one number for each prefix.

    The result ends before the first record without a valid prefix, or with a new prefix after ``most`` different prefixes.
    """
    unknown, found = -1, 0
    kinds = np.where(records.is_null().to_numpy(zero_copy_only=False), found, unknown)
    while len(left := np.flatnonzero(kinds == unknown)):
        try:
            prefix = prefix_of(records[int(left[0])].as_py()) if found < most else b""
        except DataException:
            prefix = b""
        if not prefix:
            return kinds[: left[0]]
        found += 1
        kinds[pc.fill_null(pc.starts_with(records, prefix), False).to_numpy(zero_copy_only=False)] = found
    return kinds


def find_odd_records(column: pa.Array, prefix_of: Callable[[bytes], bytes]) -> list[int]:
    """The indexes of the few records that do not start and end like the first record. ``prefix_of`` returns the expected start.

    Empty if many records differ.
    """
    first = next((value.as_py() for value in column if value.is_valid), b"")
    start = prefix_of(first)
    end = b"}}" if len(start) > 1 and first.endswith(b"}}") else _CLOSED_BY.get(start[:1], b"")
    if not (end and first.endswith(end)):
        return []
    looks_whole = pc.and_(pc.starts_with(column, start), pc.ends_with(column, end))
    odd = pc.indices_nonzero(pc.invert(looks_whole)).to_pylist()
    return odd if len(odd) <= 1 + _MOST_ODD * len(column) else []


def _end_of_value(record: bytes, start: int) -> int:
    """The end of the JSON object or ``null`` at ``start``. 0 if neither is there."""
    text = record[start:].lstrip()
    start = len(record) - len(text)
    if text.startswith(b"null"):
        return start + 4
    depth = 0
    for match in _STRING_OR_BRACE.finditer(record, start) if text.startswith(b"{") else ():
        depth += {b"{": 1, b"}": -1}.get(match[0], 0)
        if depth == 0:
            return match.end()
    return 0
