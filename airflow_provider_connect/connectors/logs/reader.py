"""Reads a log file from its position to the end that it had when it was opened, piece by piece. Knows nothing of formats and topics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from airflow_provider_connect.connectors.logs.container_lines import ContainerLines
from airflow_provider_connect.connectors.logs.files import Content
from airflow_provider_connect.connectors.logs.folder_positions import Unread
from airflow_provider_connect.connectors.logs.gzip_content import Damage, GzipContent
from airflow_provider_connect.connectors.logs.lines import Encoding, Entries, Lines
from airflow_provider_connect.connectors.logs.position import FINGERPRINT_BYTES, Position, fingerprint
from airflow_provider_connect.data.arrow import np, pa
from airflow_provider_connect.data.expansion import MOST_FAULTS

if TYPE_CHECKING:
    from numpy.typing import NDArray

SKIP_BYTES: Final = 64 << 20  # bytes of a compressed file that are read at a time


class ReplacedException(Exception):
    """The content of the file was replaced (copytruncate). The data that was read last belongs to neither content."""


@dataclass(slots=True)
class Piece:
    """Entries, and the byte position in the file after each entry. ``errors`` has messages for invalid and overlong entries, by index; only
    the first ``MOST_FAULTS`` have a text. ``position`` is the position after all entries. Without entries, only the position has changed.
    ``position_at`` returns the position after a number of bytes of the file. ``damage`` is the reason why the data after the entries cannot
    be read. ``position`` skips the damage."""

    text: pa.Array
    ends: Sequence[int] | NDArray[np.int64]
    errors: dict[int, str]
    position: Position
    position_at: Callable[[int], Position]
    damage: str | None = None

    def unread(self, wrong: Sequence[int], blank: Sequence[int]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Two masks: of invalid entries, including entries with a ``wrong`` format, and of ``blank`` entries that are not invalid."""
        is_bad, is_blank = ~np.asarray(self.text.is_valid()), np.zeros(len(self.text), np.bool_)
        is_bad[[row for row in self.errors if row < len(is_bad)]] = True
        is_blank[list(blank)] = True
        is_blank &= ~is_bad
        is_bad[list(wrong)] = True
        return is_bad & ~is_blank, is_blank


@dataclass(frozen=True, slots=True)
class Limits:
    """Maximum bytes of a line, and approximate bytes of a piece."""

    line_bytes: int
    piece_bytes: int


class LogReader:
    """Reads ``content``, and closes it in ``close``. Hashes are computed from the data that was read, so positions always match the
    data."""

    def __init__(
        self, content: Content, unread: Unread, encoding: Encoding, limits: Limits, entries: Entries | ContainerLines | None
    ) -> None:
        self.unread = unread
        self.position = unread.position
        self._content = content
        self._limits = limits
        self._entries = entries
        self._is_compressed = unread.file.is_compressed
        self._is_final = unread.is_final or self._is_compressed
        self._damage: Damage | None = None
        self._head = self._read_content(FINGERPRINT_BYTES)
        self._encoding = encoding.with_byte_order(self._head)
        self._before = b""  # data before the position, for a hash
        self._rest = b""  # data that was read but not yet returned
        self._skipped = len(self._head)
        self._is_at_position = False

    def next(self) -> Piece | None:
        """The next entries. None if there are no entries yet: call again. The last piece's position has a ``size``. Raises
        ReplacedException."""
        if not self._is_at_position and not self._seek():
            return None
        wanted = max(self._limits.piece_bytes, len(self._rest) + self._limits.piece_bytes // 2)
        data, is_end = self._read(wanted)
        if not self._is_compressed and self._is_replaced():
            raise ReplacedException
        if self.position.is_inside:
            return self._skip_line(data, is_end=is_end)
        lines = self._lines(data, is_end=is_end)
        if self._entries is not None and not len(lines or ()) and len(data) > self._max_entry_bytes:
            lines = self._lines(data, is_end=is_end, is_too_long=True)  # so that lines are not skipped with an overlong one after them
        if lines is not None and len(lines):
            return self._piece(data, lines, is_end=is_end)
        if len(data) > self._max_entry_bytes:
            return self._skip_long_line(data)
        self._rest = data
        return self._last() if is_end else None

    def close(self) -> None:
        self._content.close()

    def _seek(self) -> bool:
        """Go to the position. Compressed data must be read up to the position, step by step. False if the position is not reached yet."""
        before = max(0, self.position.bytes - FINGERPRINT_BYTES)
        while self._is_compressed and self._skipped + SKIP_BYTES < before:
            self._skipped += SKIP_BYTES
            self._content.seek(self._skipped)
            return False
        self._content.seek(before)
        self._before = self._read_content(self.position.bytes - before)
        self._is_at_position = True
        return True

    def _read(self, wanted: int) -> tuple[bytes, bool]:
        """The remaining data and the data after it, up to ``wanted`` bytes, and whether the file ends there."""
        begin = self.position.bytes + len(self._rest)
        count = wanted - len(self._rest)
        if not self._is_compressed:
            count = max(0, min(count, self.unread.file.size - begin))
            self._content.seek(begin)
        more = self._read_content(count)
        is_end = len(more) < count if self._is_compressed else not more or begin + len(more) >= self.unread.file.size
        return self._rest + more, is_end

    def _read_content(self, count: int) -> bytes:
        """The next readable bytes."""
        if not isinstance(self._content, GzipContent):
            return self._content.read(count)
        taken = self._content.available(count)
        self._damage = self._content.damage if len(taken) < count else None
        return taken

    def _is_replaced(self) -> bool:
        """Whether the data before the position has changed. At position 0, which has no hash, the first bytes are compared."""
        self._content.seek(0)
        return self._content.read(len(self._head)) != self._head or not self.position.matches(self._content)

    @property
    def _max_entry_bytes(self) -> int:
        """The number of bytes that always contain a complete entry, because entries are split by size."""
        return self._limits.line_bytes if self._entries is None else 3 * self._limits.line_bytes

    def _lines(self, data: bytes, *, is_end: bool, is_too_long: bool = False) -> Lines | None:
        """The complete entries, including overlong lines. If the data ``is_too_long``, the entry of its last lines is complete."""
        ends = self._encoding.line_ends(data)
        is_last = is_end and (self._is_final if self._damage is None else self.unread.is_final)
        is_ended = self._is_compressed or self.unread.file.is_rotated
        if self._damage is not None:
            is_ended = self._damage.is_complete
        if is_last and is_ended and len(data) > (ends[-1] if len(ends) else 0):
            ends = np.append(ends, len(data))  # no process will complete the line
        if not len(ends):
            return None
        is_first, is_last = self.position.bytes == 0, is_last or is_too_long
        if isinstance(self._entries, ContainerLines):
            return self._entries.join(data, ends, self._encoding, is_first=is_first, is_final=is_last)
        lines = Lines(self._encoding.decode(data, ends, is_first=is_first), ends)
        return lines if self._entries is None else self._entries.join(lines, is_final=is_last)

    def _piece(self, data: bytes, lines: Lines, *, is_end: bool) -> Piece:
        end, first = int(lines.ends[-1]), self.position.bytes
        lengths = np.diff(lines.ends, prepend=0) if lines.sizes is None else lines.sizes
        bounds = self._limits.line_bytes if self._entries is None else 2 * self._limits.line_bytes
        errors = {row: self._decode_error(first, lines, row) for row in _rows(~np.asarray(lines.text.is_valid()))[:MOST_FAULTS]}
        long = _rows(lengths > bounds)
        errors |= {row: self._length_error(first + int(lines.ends[row - 1] if row else 0), int(lengths[row])) for row in long[:MOST_FAULTS]}
        errors |= dict.fromkeys(long[MOST_FAULTS:], "")
        position_at = self._positions(data)
        self._advance(data, end)
        if is_end:
            self.position = self._at_end()
        return Piece(lines.text, lines.ends + first, errors, self.position, position_at, self._damage_text if is_end else None)

    def _skip_line(self, data: bytes, *, is_end: bool) -> Piece:
        """Skip the rest of an overlong line."""
        ends = self._encoding.line_ends(data)
        self._advance(data, int(ends[0]) if len(ends) else self._whole_characters(data), is_inside=not len(ends))
        return self._last() if is_end and not self._rest else self._position_only({})

    def _skip_long_line(self, data: bytes) -> Piece:
        begin, length = self.position.bytes, self._whole_characters(data)
        self._advance(data, length, is_inside=True)
        return self._position_only({0: self._length_error(begin, length)})

    def _whole_characters(self, data: bytes) -> int:
        """The number of bytes of complete characters."""
        return len(data) - len(data) % self._encoding.width

    def _last(self) -> Piece:
        self.position = self._at_end()
        return self._position_only({}, self._damage_text)

    def _position_only(self, errors: dict[int, str], damage: str | None = None) -> Piece:
        return Piece(pa.array([], pa.string()), [], errors, self.position, lambda _: self.position, damage)

    @property
    def _damage_text(self) -> str | None:
        """A message about damage. None without damage, or if the file may still be written."""
        if self._damage is None or not self.unread.is_final:
            return None
        read, left = self.position.bytes, len(self._rest)
        return f"{self._damage.reason}, at its byte {self._damage.at}: {read} bytes of its content were read{_remainder_text(left)}"

    def _at_end(self) -> Position:
        file = self.unread.file
        is_settled = not len(self._encoding.line_ends(self._rest)) if self._damage is None else self.unread.is_final
        return replace(self.position, size=file.size, modified=file.modified, is_settled=is_settled)

    def _positions(self, data: bytes) -> Callable[[int], Position]:
        """A function that returns positions within ``data``, which starts at the current position."""
        begin, head, before = self.position.bytes, self._head[: self.position.bytes], self._before

        def position_at(end: int) -> Position:
            first = (head + data[: min(end - begin, FINGERPRINT_BYTES)])[:FINGERPRINT_BYTES]
            return Position(end, fingerprint(first), fingerprint(_last_bytes(before, data, end - begin)))

        return position_at

    def _advance(self, data: bytes, length: int, *, is_inside: bool = False) -> None:
        begin = self.position.bytes
        self.position = replace(self._positions(data)(begin + length), is_inside=is_inside)
        if begin < FINGERPRINT_BYTES:
            self._head = (self._head[:begin] + data[: min(length, FINGERPRINT_BYTES)])[:FINGERPRINT_BYTES]
        self._before = _last_bytes(self._before, data, length)
        self._rest = data[length:]

    def _decode_error(self, first: int, lines: Lines, row: int) -> str:
        begin = first + int(lines.ends[row - 1] if row else 0)
        return f"The line of {self.unread.file.name} at byte {begin} is not {self._encoding.name} (setting encoding)"

    def _length_error(self, begin: int, length: int) -> str:
        limit = f"a line may have {self._limits.line_bytes} bytes (setting line.max.bytes)"
        return f"The line of {self.unread.file.name} at byte {begin} has {length} bytes or more: {limit}"


def _remainder_text(count: int) -> str:
    return f", and {count} more are an incomplete line" if count else ""


def _last_bytes(before: bytes, data: bytes, length: int) -> bytes:
    """The last bytes of ``before`` and the first ``length`` bytes of ``data``, for a hash."""
    last = data[max(0, length - FINGERPRINT_BYTES) : length]
    return last if len(last) == FINGERPRINT_BYTES else (before + last)[-FINGERPRINT_BYTES:]


def _rows(mask: NDArray[np.bool_]) -> Sequence[int]:
    return [int(row) for row in np.flatnonzero(mask)]
