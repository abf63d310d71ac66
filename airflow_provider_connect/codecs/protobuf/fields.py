"""The fields of messages in a batch of records: the position of each field, and the numbers. All records are read together.

Fields may be in any order. A pass goes over a message's fields by their numbers, and reads each field from the records in which it is next.
Records whose fields are in order need only one pass. Writers usually write them in order.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_connect.codecs.protobuf.messages import ProtoField, ProtoMessage
from airflow_provider_connect.codecs.record_bytes import Cursor, Pieces, from_zigzag
from airflow_provider_connect.data.arrow import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

VARINT, FIXED64, BYTES, GROUP, GROUP_END, FIXED32 = range(6)
FIXED_TYPES: Final = {"double": "<f8", "float": "<f4", "fixed64": "<i8", "sfixed64": "<i8", "fixed32": "<u4", "sfixed32": "<i4"}
_MOST_PASSES: Final = 64
_STEPS, _FEW_ROWS = 64, 200
"""After ``_STEPS`` entries of a list, fewer than ``_FEW_ROWS`` remaining rows are read one by one. A step costs more than reading 100
single entries."""


def wire_type(kind: str) -> int:
    """The encoding of values of a kind of field."""
    if kind in ("string", "bytes", "message"):
        return BYTES
    return VARINT if kind not in FIXED_TYPES else FIXED64 if FIXED_TYPES[kind].endswith("8") else FIXED32


class UnusualError(Exception):
    """google.protobuf must first convert a record to the usual form."""


@dataclass(slots=True)
class FoundField:
    """The content of a field in each row: numbers, or the bytes between ``starts`` and ``ends``. A repeated field has a list of pieces."""

    field: ProtoField
    tags: tuple[int, ...]
    has: NDArray[np.bool_]
    numbers: NDArray[Any] | None = None
    starts: NDArray[np.int64] | None = None
    ends: NDArray[np.int64] | None = None
    pieces: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]] = dataclasses.field(default_factory=list)

    @classmethod
    def of(cls, field: ProtoField, cursor: Cursor, begins: NDArray[np.int64]) -> FoundField:
        own = wire_type(field.kind)
        tags = [field.number << 3 | own] + ([field.number << 3 | BYTES] if field.is_repeated and own != BYTES else [])
        found = cls(field, tuple(tags), np.zeros(len(cursor), np.bool_))
        if field.is_repeated:
            return found
        if own == BYTES:
            found.starts = found.ends = begins
        else:
            found.numbers = np.full(len(cursor), 0 if field.default is None else field.default, FIXED_TYPES.get(field.kind, "<i8"))
        return found

    def take(self, part: Cursor, rows: NDArray[np.int64], tag: int) -> None:
        """Read a field of some rows. The rows' cursor is after the field's tag."""
        type, kind = tag & 7, self.field.kind
        if type == BYTES:
            lengths = part.varints().view(np.int64)
            starts = part.skip(lengths)
        elif self.field.is_repeated:
            starts = part.at.copy()
            _skip_number(part, type)
        else:
            numbers = part.numbers(FIXED_TYPES[kind]) if type != VARINT else numbers_of(kind, part.varints())
            assert self.numbers is not None
            where = slice(None) if len(rows) == len(self.has) else rows
            self.numbers[where], self.has[where] = numbers, True
            return
        if self.field.is_repeated:
            self.pieces.append((rows, starts, part.at.copy()))
            return
        assert self.starts is not None
        assert self.ends is not None
        if kind == "message" and self.has[rows].any():
            raise UnusualError("a message has two parts")
        if len(rows) == len(self.has):
            self.starts, self.ends = starts, part.at.copy()
            self.has[:] = True
            return
        if not self.has.any():
            self.starts, self.ends = self.starts.copy(), self.ends.copy()
        self.starts[rows], self.ends[rows], self.has[rows] = starts, part.at, True

    def take_all(self, part: Cursor, rows: NDArray[np.int64], tag: int) -> None:
        """Like ``take`` for a repeated field, but with all entries that follow, row by row."""
        data, again = part.data.data, bytes(Pieces.of_varints(np.array([tag], np.uint64)).data)
        reached = part.at.copy()
        for row, end in enumerate(part.ends.tolist()):
            starts, ends = _run(data, int(part.at[row]), end, tag & 7, again)
            if ends[-1] > end:
                part.fail_where(np.arange(len(part)) == row, "it ends within a value")
            reached[row] = ends[-1]
            self.pieces.append((np.full(len(starts), rows[row]), np.array(starts, np.int64), np.array(ends, np.int64)))
        part.at = reached


def _run(data: memoryview, at: int, end: int, type: int, again: bytes) -> tuple[list[int], list[int]]:
    """The starts and ends of a list's entries. The first entry is at ``at``. Each further entry follows its tag, ``again``."""
    starts, ends, width = list[int](), list[int](), {FIXED64: 8, FIXED32: 4}.get(type, 0)
    while True:
        start, length, shift = at, width, 0
        if not width:
            while data[at] >= 0x80 and shift < 63:
                length |= (data[at] & 0x7F) << shift
                at, shift = at + 1, shift + 7
            length, at = length | data[at] << shift, at + 1
        starts.append(at if type == BYTES else start)
        at += 0 if type == VARINT else length
        ends.append(min(at, end + 1))
        if at + len(again) > end or data[at : at + len(again)] != again:
            return starts, ends
        at += len(again)


def numbers_of(kind: str, values: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Variable-length integers as numbers of a kind. For kinds of 32 bits, only the lower 32 bits are used."""
    if kind in ("int64", "uint64"):
        return np.asarray(values.view(np.int64), np.int64)
    if kind == "sint64":
        return from_zigzag(values)
    if kind == "bool":
        return np.asarray(values != 0, np.int64)
    low = values.astype(np.uint32)
    if kind == "sint32":
        low = from_zigzag(low.astype(np.uint64)).astype(np.uint32)
    return np.asarray(low if kind == "uint32" else low.view(np.int32), np.int64)


def _skip_number(part: Cursor, type: int) -> None:
    if type == VARINT:
        part.varints()
    else:
        part.skip(8 if type == FIXED64 else 4)


def scan(message: ProtoMessage, cursor: Cursor) -> tuple[dict[str, FoundField], dict[str, NDArray[np.int64]]]:
    """The fields by name, and for each oneof the number of the field that is set in each row, or 0."""
    begins = np.minimum(cursor.at, cursor.ends)
    found = {each.name: FoundField.of(each, cursor, begins) for each in sorted(message.fields, key=lambda each: each.number)}
    winners = {oneof: np.zeros(len(cursor), np.int64) for oneof in message.oneofs}
    rows, tags = np.arange(len(cursor)), _next_tags(cursor)
    for _ in range(_MOST_PASSES):
        left = np.flatnonzero(tags)
        if not len(left):
            return found, winners
        if len(left) < len(rows):
            rows, cursor, tags = rows[left], cursor.part(left), tags[left]
        if not _pass(found.values(), winners, cursor, rows, tags):
            _skip_unknown(cursor, tags)
            tags = _next_tags(cursor)
    if not tags.any():
        return found, winners
    raise UnusualError(f"fields come in a different order more than {_MOST_PASSES} times")


def _pass(
    found: Iterable[FoundField],
    winners: Mapping[str, NDArray[np.int64]],
    cursor: Cursor,
    rows: NDArray[np.int64],
    tags: NDArray[np.int64],
) -> bool:
    """Read each field from the rows in which it is next. False if no row's next field is known."""
    has_known = False
    for each in found:
        for tag in each.tags:
            steps = 0
            while (count := np.count_nonzero(is_next := tags == tag)) > 0:
                has_known = True
                steps += 1
                where = slice(None) if count == len(rows) else np.flatnonzero(is_next)
                part = Cursor(cursor.data, cursor.at[where], cursor.ends[where], cursor.records[where])
                take = each.take_all if each.field.is_repeated and steps > _STEPS and count < _FEW_ROWS else each.take
                take(part, rows[where], tag)
                if each.field.oneof is not None:
                    winners[each.field.oneof][rows[where]] = each.field.number
                tags[where] = _next_tags(part)
                cursor.at[where] = part.at
                if not each.field.is_repeated:
                    break
    return has_known


def _next_tags(cursor: Cursor) -> NDArray[np.int64]:
    """Read the tag of each row's next field. 0 at the end of a row."""
    first = cursor.data[cursor.at].astype(np.int64)
    is_over = cursor.at >= cursor.ends
    first[is_over] = 0
    if (first < 0x80).all():
        cursor.fail_where(~is_over & (first < 8), "a field has the number 0")
        cursor.at = cursor.at + ~is_over
        return first
    rows = np.flatnonzero(~is_over)
    part = cursor.part(rows)
    tags = part.varints().view(np.int64)
    part.fail_where((tags < 8) | (tags >= 1 << 32), "a field has no number that Protobuf allows")
    cursor.at = cursor.at.copy()
    cursor.follow(part, rows)
    first[rows] = tags
    return first


def _skip_unknown(cursor: Cursor, tags: NDArray[np.int64]) -> None:
    types = tags & 7
    for type in np.unique(types).tolist():
        rows = np.flatnonzero(types == type)
        part = cursor.part(rows)
        if type in (GROUP, GROUP_END):
            raise UnusualError("a group")
        part.fail_where(np.full(len(rows), type > FIXED32), f"a field has the type {type}, which Protobuf has not")
        if type == BYTES:
            part.skip(part.varints().view(np.int64))
        else:
            _skip_number(part, type)
        cursor.follow(part, rows)
