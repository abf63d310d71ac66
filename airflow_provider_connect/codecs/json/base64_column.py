"""Columns of bytes and of decimals as base64 text and back, without a Python object per value.

A Connect Decimal is the big-endian two's complement of its unscaled value, in as few bytes as possible.
"""

from __future__ import annotations

from airflow_provider_connect.data.arrow import np, pa, pl


def base64_text(column: pa.Array) -> pa.Array:
    """Each value of a binary column without nulls in base64, as a string column without nulls."""
    encoded = pl.Series(pl.from_arrow(column.cast(pa.large_binary()))).bin.encode("base64")
    return encoded.to_arrow().cast(pa.string())


def decimal_bytes(column: pa.Array) -> pa.Array:
    """The unscaled values of a decimal128 or decimal256 column without nulls, as a binary column."""
    width = column.type.byte_width
    stored = np.frombuffer(column.buffers()[1], np.uint8).reshape(-1, width)[column.offset : column.offset + len(column)]
    largest_first = stored[:, ::-1]
    sign = (largest_first[:, 0] >> 7) * np.uint8(255)
    is_filler = largest_first == sign[:, None]
    skipped = np.where(is_filler.all(axis=1), width - 1, is_filler.argmin(axis=1))
    first = largest_first[np.arange(len(column)), skipped]
    skipped -= (first >> 7) * np.uint8(255) != sign  # the first remaining byte must have the sign
    kept = np.arange(width) >= skipped[:, None]
    offsets = np.zeros(len(column) + 1, np.int32)
    np.cumsum(width - skipped, out=offsets[1:])
    return pa.Array.from_buffers(pa.binary(), len(column), [None, pa.py_buffer(offsets), pa.py_buffer(largest_first[kept])])


def bytes_of(text: pa.Array) -> pa.Array | None:
    """The bytes of a string column of base64, as a binary column. None if ``base64_text`` would not write every value in the same way."""
    series = pl.Series(pl.from_arrow(text.cast(pa.large_string())), dtype=pl.String)
    decoded = series.str.decode("base64", strict=False)
    if decoded.null_count() or not (decoded.bin.encode("base64") == series).all():
        return None
    return decoded.to_arrow().cast(pa.binary())


def decimals_of(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The inverse of ``decimal_bytes``, as decimals of type ``wanted``. Raises ArrowInvalid for a value that is empty or does not fit."""
    width = wanted.byte_width
    offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
    lengths = np.diff(offsets)
    if len(column) and not (lengths.min() >= 1 and lengths.max() <= width):
        raise pa.ArrowInvalid(f"not all decimals have from 1 to {width} bytes")
    given = np.frombuffer(column.buffers()[2] or b"", np.uint8)
    sign = (given[offsets[:-1]] >> 7) * np.uint8(255)
    largest_first = np.repeat(sign[:, None], width, axis=1)
    largest_first[np.arange(width) >= (width - lengths)[:, None]] = given[offsets[0] : offsets[-1]]
    stored = np.ascontiguousarray(largest_first[:, ::-1])
    decimals = pa.Array.from_buffers(wanted, len(column), [None, pa.py_buffer(stored)])
    decimals.validate(full=True)
    return decimals
