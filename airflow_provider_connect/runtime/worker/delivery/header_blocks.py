"""Headers of records as Kafka encodes them, in columns: a count, then for each header its key and value with their sizes as varints.

Any producer writes them, so a block may be anything: then the headers of its record cannot be read, and those of the others can.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_connect.codecs.record_bytes import Cursor
from airflow_provider_connect.errors import DataException
from airflow_provider_connect.runtime.stores.log_consumer import Headers
from airflow_provider_connect.runtime.worker.delivery.raw_batch import HEADERS_TYPE, headers_column

_IN_STEP = 32  # headers of a record up to which all records are read side by side; beyond, that takes long for a single one
_MOST_VARINT_BYTES = 10
MOST_HEADERS: Final = 1_000_000
"""Of a record; one of a mebibyte has half as many at most. A header may have two bytes, and takes a hundred times as many as an object."""
_PIECE: Final = 100_000  # headers


def headers_of_blocks(blocks: pa.Array) -> pa.Array | None:
    """``blocks`` is binary without nulls. A record's headers are null where its block is not whole, the key of one is not UTF-8, or
    there are more than ``MOST_HEADERS``; None: no record has any."""
    try:
        return _in_step(Cursor.of(blocks))
    except (DataException, pa.ArrowInvalid):
        return pa.concat_arrays(_columns(map(_of_block, blocks.to_pylist())))


def _columns(rows: Iterable[Headers | None]) -> Iterator[pa.Array]:
    """The rows in pieces, so that the objects of few headers are in memory at once."""
    piece: list[Headers | None] = []
    count = 0
    for row in rows:
        piece.append(row)
        count += len(row or ())
        if count > _PIECE:
            yield headers_column(piece)
            piece, count = [], 0
    yield headers_column(piece)


def _in_step(cursor: Cursor) -> pa.Array | None:
    """Raises DataException or ArrowInvalid unless all can be read, and have few headers."""
    counts = np.zeros(len(cursor), np.int64)
    present = np.flatnonzero(cursor.ends > cursor.at)
    part = cursor.part(present)
    counts[present] = part.signed()
    cursor.follow(part, present)
    cursor.fail_where((counts < 0) | (counts > _IN_STEP), "it has too many headers")
    if not counts.any():
        return None
    rows, keys, values = [], [], []
    for number in range(int(counts.max())):
        rows.append(np.flatnonzero(counts > number))
        part = cursor.part(rows[-1])
        keys.append(part.bytes(part.signed()))
        sizes = part.signed()
        is_null = sizes == -1
        values.append(pc.if_else(pa.array(is_null), None, part.bytes(np.where(is_null, 0, sizes))))
        cursor.follow(part, rows[-1])
    order = pa.array(np.argsort(np.concatenate(rows), kind="stable"))
    key, value = (pa.concat_arrays(columns).take(order) for columns in (keys, values))
    entries = pa.StructArray.from_arrays([key.cast(pa.string()), value], fields=list(HEADERS_TYPE.value_type))
    starts = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(starts), entries, type=HEADERS_TYPE)


def _of_block(block: bytes) -> Headers | None:
    """The headers of one record; None where they cannot be read."""
    if not block:
        return []
    headers: Headers = []
    try:
        count, at = _number(block, 0)
        if not 0 <= count <= MOST_HEADERS:
            return None
        for _ in range(count):
            key, at = _part(block, at)
            value, at = _part(block, at)
            if key is None:
                return None
            headers.append((key.decode(), value))
    except (IndexError, ValueError):
        return None
    return headers


def _part(block: bytes, at: int) -> tuple[bytes | None, int]:
    """The key or value that begins at ``at``, and where the next one does. Raises IndexError, and ValueError where it is not whole."""
    size, at = _number(block, at)
    if size == -1:
        return None, at
    if not 0 <= size <= len(block) - at:
        raise ValueError("it ends within a value")
    return block[at : at + size], at + size


def _number(block: bytes, at: int) -> tuple[int, int]:
    """The varint at ``at``, and what follows it. Raises IndexError at the end of the block, ValueError for one that is too long."""
    number = 0
    for index in range(_MOST_VARINT_BYTES):
        byte = block[at + index]
        number |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at + index + 1
    raise ValueError("an integer has more than 64 bits")
