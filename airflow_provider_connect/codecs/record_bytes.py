"""The bytes of many records: a cursor that reads all records in parallel, and pieces that are joined to records.

Formats with consecutive values in each record (Avro, Protobuf) are read and written without a Python object per record. The module knows
nothing about formats, except variable-length integers with seven bits per byte, lowest first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_connect.data.arrow import np, pa, pc
from airflow_provider_connect.errors import DataException

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PADDING: Final = 16  # zero bytes after the data, so that words can be read at its end
_HIGH_BITS: Final = 0x8080808080808080
MOST_BYTES: Final = (1 << 31) - 1  # in one Arrow column


@dataclass(slots=True)
class Cursor:
    """A position ``at`` in each of several rows. ``ends`` are the ends of the rows (exclusive). ``records`` has the index of each row's
    record, for errors.

    Each reading method advances all positions, or raises DataException with the first unreadable ``record``.
    """

    data: NDArray[np.uint8]
    at: NDArray[np.int64]
    ends: NDArray[np.int64]
    records: NDArray[np.int64]

    @classmethod
    def of(cls, column: pa.Array, skipped: int = 0) -> Cursor:
        """A cursor at the start of each value of a binary column without nulls, after ``skipped`` bytes."""
        _, offsets_buffer, values = column.buffers()
        offsets = np.frombuffer(offsets_buffer, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
        size = int(offsets[-1] - offsets[0])
        data = np.zeros(size + _PADDING, np.uint8)
        if size:
            data[:size] = np.frombuffer(values, np.uint8)[offsets[0] : offsets[-1]]
        offsets -= offsets[0]
        return cls(data, offsets[:-1] + skipped, offsets[1:], np.arange(len(column)))

    def __len__(self) -> int:
        return len(self.at)

    def part(self, index: NDArray[Any]) -> Cursor:
        """A cursor for some of the rows, by mask or index. ``follow`` copies its positions back."""
        return Cursor(self.data, self.at[index], self.ends[index], self.records[index])

    def follow(self, part: Cursor, index: NDArray[Any]) -> None:
        """Copy the positions of ``part``, a cursor for the rows ``index``."""
        self.at[index] = part.at

    def fail_where(self, is_wrong: NDArray[np.bool_], reason: str) -> None:
        """Raise DataException for the first row that is wrong, if any."""
        if is_wrong.any():
            error = DataException(f"The record cannot be read: {reason}")
            error.record = int(self.records[is_wrong].min())
            raise error

    def skip(self, lengths: NDArray[np.int64] | int) -> NDArray[np.int64]:
        """Advance by ``lengths`` bytes and return the previous positions."""
        starts = self.at
        self.fail_where((lengths > self.ends - starts) | (np.asarray(lengths) < 0), "it ends within a value")
        self.at = starts + lengths
        return starts

    def bytes(self, lengths: NDArray[np.int64] | int) -> pa.Array:
        """Read ``lengths`` bytes from each row, as a binary column."""
        return self.spans(self.skip(lengths), self.at)

    def spans(self, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> pa.Array:
        """The bytes between two positions of each row, as a binary column. The positions must be in the order of the rows."""
        count = len(starts)
        offsets = np.empty(2 * count + 1, np.int32)
        offsets[0 : 2 * count : 2], offsets[1::2] = starts, ends
        offsets[2 * count] = ends[-1] if count else 0
        every = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(offsets), pa.py_buffer(self.data)])
        return every.take(pa.array(np.arange(0, 2 * count, 2)))

    def numbers(self, dtype: str) -> NDArray[Any]:
        """Read a little-endian number of fixed width from each row."""
        width = np.dtype(dtype).itemsize
        starts = self.skip(width)
        if width == 1:
            return self.data[starts].view(dtype)
        view: NDArray[Any] = np.ndarray((len(self.data) - width + 1,), dtype, self.data.data, 0, (1,))
        return view[starts]

    def varints(self) -> NDArray[np.uint64]:
        """Read a variable-length integer of up to 64 bits from each row."""
        first = self.data[self.at]
        if not (first & 0x80).any():
            self.skip(1)
            return np.asarray(first, np.uint64)
        words = np.ndarray((len(self.data) - 7,), "<u8", self.data.data, 0, (1,))[self.at]
        stops = ~words & _HIGH_BITS
        below = (stops & (~stops + 1)) - 1  # all bits before the top bit of the last byte
        values: Any = words & below & ~np.uint64(_HIGH_BITS)  # numpy's stubs infer a signed type
        values = (values & 0x007F007F007F007F) | ((values & 0x7F007F007F007F00) >> 1)
        values = (values & 0x00003FFF00003FFF) | ((values & 0x3FFF00003FFF0000) >> 2)
        values = (values & 0x000000000FFFFFFF) | ((values & 0x0FFFFFFF00000000) >> 4)
        lengths = np.bitwise_count(below & _HIGH_BITS).astype(np.int64) + 1
        if (is_long := lengths > 8).any():
            self._read_ends(values, lengths, np.flatnonzero(is_long))
        self.skip(lengths)
        return np.asarray(values, np.uint64)

    def _read_ends(self, values: NDArray[np.uint64], lengths: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        """Add the ninth and tenth byte of numbers that have them."""
        ninth, tenth = (self.data[self.at[rows] + n].astype(np.uint64) for n in (8, 9))
        has_tenth = ninth >= 0x80
        self.part(rows).fail_where(has_tenth & (tenth > 1), "an integer has more than 64 bits")
        values[rows] |= ((ninth & 0x7F) << 56) | np.where(has_tenth, tenth << 63, 0).astype(np.uint64)
        lengths[rows] = 9 + has_tenth

    def signed(self) -> NDArray[np.int64]:
        """Read a variable-length integer with zigzag encoding from each row."""
        return from_zigzag(self.varints())


def from_zigzag(values: NDArray[np.uint64]) -> NDArray[np.int64]:
    """0, 1, 2, 3 … → 0, -1, 1, -2 …"""
    return (values >> 1).view(np.int64) ^ -(values & 1).view(np.int64)


def to_zigzag(values: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The inverse of ``from_zigzag``."""
    return ((values << 1) ^ (values >> 63)).view(np.uint64)


def spread(dense: pa.Array, is_valid: NDArray[np.bool_]) -> pa.Array:
    """A column with the values of ``dense`` in the rows where ``is_valid`` is true, and null in the other rows."""
    if is_valid.all():
        return dense
    return dense.take(pa.array(np.cumsum(is_valid) - 1, mask=~is_valid))


@dataclass(slots=True)
class Pieces:
    """The bytes of each row: ``data`` is split at ``offsets``, which has one more entry than there are rows."""

    offsets: NDArray[np.int64]
    data: pa.Buffer

    @classmethod
    def of(cls, column: pa.Array) -> Pieces:
        """The values of a binary or string column without nulls."""
        _, buffer, data = column.buffers()
        offsets = np.frombuffer(buffer, np.int32)[column.offset : column.offset + len(column) + 1]
        return cls(offsets.astype(np.int64), data if data is not None else pa.py_buffer(b""))

    @classmethod
    def of_numbers(cls, values: NDArray[Any], before: bytes = b"") -> Pieces:
        """Little-endian numbers of fixed width, each after the bytes ``before``."""
        values = np.ascontiguousarray(values)
        stored: NDArray[Any] = values if not before else _behind(before, values.view(np.uint8).reshape(len(values), values.dtype.itemsize))
        return cls(np.arange(len(values) + 1) * (values.dtype.itemsize + len(before)), pa.py_buffer(stored))

    @classmethod
    def of_varints(cls, values: NDArray[np.uint64], before: bytes = b"") -> Pieces:
        """Variable-length integers, each after the bytes ``before``."""
        if not len(values) or values.max() < 0x80:
            return cls.of_numbers(values.astype(np.uint8), before)
        most = -(-int(values.max()).bit_length() // 7)
        groups = (values[:, None] >> (7 * np.arange(most, dtype=np.uint64))).astype(np.uint8) & 0x7F
        lengths = np.ones(len(values), np.int64)
        for n in range(1, most):
            lengths += values >= np.uint64(1 << (7 * n))
        index = np.arange(most)
        groups |= (index < lengths[:, None] - 1).astype(np.uint8) << 7
        if before:
            groups = _behind(before, groups)
            index = np.concatenate([np.full(len(before), -1), index])
        return cls(_offsets(lengths + len(before)), pa.py_buffer(groups[index < lengths[:, None]]))

    @classmethod
    def repeated(cls, value: bytes, count: int) -> Pieces:
        """The same bytes in each row."""
        return cls(np.arange(count + 1) * len(value), pa.py_buffer(value * count))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.offsets)

    def spread(self, is_valid: NDArray[np.bool_]) -> Pieces:
        """These bytes in the rows where ``is_valid`` is true, and no bytes in the other rows."""
        if is_valid.all():
            return self
        lengths = np.zeros(len(is_valid), np.int64)
        lengths[is_valid] = self.lengths
        return Pieces(_offsets(lengths) + self.offsets[0], self.data)

    def grouped(self, ends: NDArray[Any]) -> Pieces:
        """Join the bytes of several rows. Row n of the result has the rows from ``ends[n]`` to ``ends[n + 1]`` (exclusive)."""
        return Pieces(self.offsets[ends], self.data)

    def column(self) -> pa.Array:
        """The rows as a binary column. Raises DataException if they are too large for one column."""
        if len(self.offsets):
            _refuse_large(int(self.offsets[-1]))
        return pa.Array.from_buffers(pa.binary(), len(self), [None, pa.py_buffer(self.offsets.astype(np.int32)), self.data])


def _behind(before: bytes, rows: NDArray[Any]) -> NDArray[Any]:
    found = np.empty((len(rows), len(before) + rows.shape[1]), np.uint8)
    found[:, : len(before)], found[:, len(before) :] = np.frombuffer(before, np.uint8), rows
    return found


def _offsets(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _refuse_large(size: int) -> None:
    if size > MOST_BYTES:
        raise DataException(f"The records of a batch have more than {MOST_BYTES} bytes; reduce batch.max.records")


def join_pieces(pieces: Iterable[Pieces]) -> Pieces:
    """Concatenate the pieces of each row."""
    columns = [piece.column() for piece in pieces]
    _refuse_large(sum(column.nbytes for column in columns))
    return Pieces.of(pc.binary_join_element_wise(*columns, b"") if len(columns) > 1 else columns[0])
