"""The outer form of JSON texts: the end of an envelope's schema, and the texts of a column that differ from the first."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from airflow_provider_connect.sdk.arrow import pa, pc

_ENVELOPE: Final = re.compile(rb'\s*\{\s*"schema"\s*:')
_PAYLOAD: Final = re.compile(rb'\s*,\s*"payload"\s*:')
_STRING_OR_BRACE: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[{}]', re.DOTALL)
_FIRST_LOOK: Final = 64  # records that are compared with the first; then 16 times as many, and so on
_MOST_ODD: Final = 0.01  # of the records; where more look broken, that is their look
_CLOSED_BY: Final = {b"{": b"}", b"[": b"]", b'"': b'"'}


@dataclass(frozen=True, slots=True)
class Envelope:
    """The beginning of a record: ``schema`` is the schema's text, ``prefix`` everything up to the payload."""

    schema: bytes
    prefix: bytes


def envelope_of(record: bytes) -> Envelope | None:
    """None: the record does not begin with a schema that its payload follows."""
    opening = _ENVELOPE.match(record)
    end = _end_of_value(record, opening.end()) if opening else 0
    payload = _PAYLOAD.match(record, end) if end else None
    return Envelope(record[opening.end() : end], record[: payload.end()]) if opening and payload else None


def is_written_otherwise(records: pa.Array) -> pa.Array:
    """Records whose envelope does not begin as Connect and we write it."""
    return pc.fill_null(pc.invert(pc.starts_with(records, b'{"schema":')), False)


def begins_document(texts: pa.Array) -> bool:
    """Whether the first of these texts is an object or an array."""
    return texts[0].as_py().lstrip()[:1] in (b"{", b"[")


def leading(column: pa.Array, test: Callable[[pa.Array], pa.Array]) -> int:
    """How many values from the front pass. Checks few first, so that short runs in a long column cost little."""
    start, look = 1, _FIRST_LOOK
    while start < len(column):
        first_failed = pc.index(test(column.slice(start, look)), False).as_py()
        if first_failed >= 0:
            return start + int(first_failed)
        start, look = start + look, look * 16
    return len(column)


def odd_ones(column: pa.Array, prefix_of: Callable[[bytes], bytes]) -> list[int]:
    """The few records that do not begin and end as the first one does. ``prefix_of`` gives the beginning that all should have."""
    first = next((value.as_py() for value in column if value.is_valid), b"")
    start = prefix_of(first)
    end = b"}}" if len(start) > 1 and first.endswith(b"}}") else _CLOSED_BY.get(start[:1], b"")
    if not (end and first.endswith(end)):
        return []
    looks_whole = pc.and_(pc.starts_with(column, start), pc.ends_with(column, end))
    odd = pc.indices_nonzero(pc.invert(looks_whole)).to_pylist()
    return odd if len(odd) <= 1 + _MOST_ODD * len(column) else []


def _end_of_value(record: bytes, start: int) -> int:
    """Where the JSON object or ``null`` at ``start`` ends; 0 if there is neither."""
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
