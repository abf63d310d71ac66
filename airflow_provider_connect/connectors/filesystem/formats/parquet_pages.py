"""What the pages of a Parquet column become, by the headers that stand before them: the end of a file may claim anything, and with brotli
three kilobytes are a page of two gigabytes, which the library makes as one piece.

Headers are messages of Thrift's compact protocol (parquet.thrift, PageHeader).
"""

from __future__ import annotations

from typing import Any, Final

from airflow_provider_connect.connectors.filesystem.formats.contract import KeptOpen
from airflow_provider_connect.connectors.filesystem.formats.orc_runs import varint
from airflow_provider_connect.errors import DataException

_UNPACKED, _PACKED = 2, 3  # fields of a header
_FLAGS: Final = (1, 2)
_BYTE, _INTEGERS, _DOUBLE, _BINARY, _STRUCT = 3, (4, 5, 6), 7, 8, 12
_MOST_LEVELS: Final = 20


def unpacked_bytes(file: KeptOpen, column: Any) -> int:  # Any: pyarrow has no types
    """The bytes of all pages of a column of a row group. Reads the whole column. Raises DataException for headers that are none."""
    start = column.data_page_offset
    if column.has_dictionary_page and 0 < column.dictionary_page_offset < start:
        start = column.dictionary_page_offset
    file.seek(max(start, 0))
    data, at, total = file.read(max(column.total_compressed_size, 0)), 0, 0
    try:
        while at < len(data):
            unpacked, packed, at = _header(data, at)
            total += unpacked
            at += packed
    except (LookupError, ValueError) as error:
        raise DataException("the header of one of its pages cannot be read") from error
    return total


def _header(data: bytes, at: int) -> tuple[int, int, int]:
    """How many bytes the page behind a header becomes and has, and where it begins."""
    sizes = {_UNPACKED: 0, _PACKED: 0}
    field = 0
    while head := data[at]:
        field, kind, at = _field(data, at, field, head)
        if kind in _INTEGERS and field in sizes:
            number, at = varint(data, at)
            sizes[field] = max(sizes[field], number >> 1) if field == _UNPACKED else number >> 1
            if number & 1:
                raise ValueError("a size below zero")
        else:
            at = _skipped(data, at, kind, 0)
    return sizes[_UNPACKED], sizes[_PACKED], at + 1


def _field(data: bytes, at: int, before: int, head: int) -> tuple[int, int, int]:
    """Number and kind of a field, and where its value begins."""
    if head >> 4:
        return before + (head >> 4), head & 15, at + 1
    number, at = varint(data, at + 1)
    return number >> 1, head & 15, at


def _skipped(data: bytes, at: int, kind: int, level: int) -> int:
    """Where a value ends."""
    if level > _MOST_LEVELS:
        raise ValueError("levels without end")
    if kind in _FLAGS:
        return at
    if kind in (_BYTE, _DOUBLE):
        return at + (1 if kind == _BYTE else 8)
    if kind in _INTEGERS:
        return varint(data, at)[1]
    if kind == _BINARY:
        size, at = varint(data, at)
        return at + size
    if kind == _STRUCT:
        field = 0
        while head := data[at]:
            field, inner, at = _field(data, at, field, head)
            at = _skipped(data, at, inner, level + 1)
        return at + 1
    raise ValueError("a kind that no header has")
