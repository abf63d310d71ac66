"""Headers of records as Kafka encodes them, in columns: a count, then each header's key and value with their sizes as varints.

Any producer may have written a block, so it may be invalid. Then only the headers of its own record are unreadable.
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

_IN_STEP = 32  # up to so many headers per record, all records are read in parallel; one record with more would slow down all
_MOST_VARINT_BYTES = 10
MOST_HEADERS: Final = 1_000_000
"""Maximum headers of a record. A record of one mebibyte has at most half as many headers. A header of two bytes needs a hundred times as
many bytes as an object."""
_PIECE: Final = 100_000  # headers


def headers_of_blocks(blocks: pa.Array) -> pa.Array | None:
    """``blocks`` is binary without nulls. A record's headers are null if its block is incomplete, a key is not UTF-8, or there are more
    than ``MOST_HEADERS`` headers. None: no record has headers."""
    try:
        return _in_step(Cursor.of(blocks))
    except (DataException, pa.ArrowInvalid):
        return pa.concat_arrays(_columns(map(_of_block, blocks.to_pylist())))


def _columns(rows: Iterable[Headers | None]) -> Iterator[pa.Array]:
    """The rows in pieces, so that few headers are in memory as objects at the same time."""
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
    """Raises DataException or ArrowInvalid unless all blocks are readable and have few headers."""
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
    """The headers of one record. None: they are unreadable."""
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
    """The key or value that begins at ``at``, and the index at which the next one begins. Raises IndexError, or ValueError if it is
    incomplete."""
    size, at = _number(block, at)
    if size == -1:
        return None, at
    if not 0 <= size <= len(block) - at:
        raise ValueError("it ends within a value")
    return block[at : at + size], at + size


def _number(block: bytes, at: int) -> tuple[int, int]:
    """The varint at ``at``, and the index after it. Raises IndexError at the end of the block, ValueError if the varint is too long."""
    number = 0
    for index in range(_MOST_VARINT_BYTES):
        byte = block[at + index]
        number |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at + index + 1
    raise ValueError("an integer has more than 64 bits")
