"""The content of a gzip file. For a damaged file, this is the readable part, with the reason of the damage. Knows nothing of lines and
positions.

Python's own reader raises an exception at damage, and discards data that it has already read.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import BinaryIO, Final

_CHUNK_BYTES: Final = 64 << 10
_GZIP: Final = 31  # zlib reads header and checksum
_CHECKSUM_BYTES: Final = 4
"""The size of the checksum, and of the length after it."""


class DamagedException(Exception):
    """The requested bytes are missing in a damaged or incomplete file."""


@dataclass(frozen=True, slots=True)
class Damage:
    """The reason why a file cannot be read further, and the byte at which reading ends. ``is_complete``: no byte is missing before the end
    of the data that was read."""

    reason: str
    at: int
    is_complete: bool


class GzipContent:
    """The uncompressed data of all members, as gzip reads them. Trailing zeros are not damage. ``damage`` is the damage found so far.
    Reading continues after a wrong checksum. Seeking back restarts from the start of the file."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._begin()

    def _begin(self) -> None:
        self.damage: Damage | None = None
        self._raw.seek(0)
        self._position = 0
        self._member = zlib.decompressobj(_GZIP)
        self._members = 0
        self._is_between = self._is_over = False
        self._input, self._input_at = b"", 0
        self._skipped = 0  # input bytes that are still to be skipped after a wrong checksum

    def read(self, count: int) -> bytes:
        """Like ``read`` of a file. Raises DamagedException if damage leaves fewer than ``count`` bytes."""
        found = self.available(count)
        if len(found) < count and self.damage is not None:
            raise DamagedException(self.damage.reason)
        return found

    def available(self, count: int) -> bytes:
        """The next ``count`` bytes, or fewer if the file ends or is damaged."""
        parts, left = [], count
        while left > 0 and not self._is_over:
            part = self._next(left)
            parts.append(part)
            left -= len(part)
        self._position += count - left
        return b"".join(parts)

    def seek(self, position: int) -> int:
        """Go to ``position``, or to the last readable position before it. Returns the new position."""
        if position < self._position:
            self._begin()
        while self._position < position and self.available(min(position - self._position, 1 << 20)):
            pass
        return self._position

    def close(self) -> None:
        self._raw.close()

    def _next(self, most: int) -> bytes:
        """Some of the next bytes. May be empty before the end."""
        self._input = self._input or self._raw.read(_CHUNK_BYTES)
        if not self._input:
            return self._finish(most)
        if self._is_between:
            self._skip_to_member()
            return b""
        before = self._member.copy()
        try:
            found = self._member.decompress(self._input, most)
        except zlib.error:
            return self._rescue(before)
        rest = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
        self._consume(len(self._input) - len(rest))
        if self._member.eof:
            self._end_member()
        return found

    def _finish(self, most: int) -> bytes:
        """The remaining output at the end of the file."""
        is_within = not self._is_between and self._input_at > 0
        found = self._member.decompress(b"", most) if is_within else b""
        if not found:
            self._is_over = True
            if is_within:
                self._record_damage("it ends before its compressed data does", is_complete=False)
        return found

    def _skip_to_member(self) -> None:
        """Skip to the start of the next member."""
        rest = self._input[self._skipped :]
        self._skipped = max(0, self._skipped - len(self._input))
        rest = rest if self._skipped else rest.lstrip(b"\0")
        self._consume(len(self._input) - len(rest))
        if rest:
            self._member, self._is_between = zlib.decompressobj(_GZIP), False

    def _rescue(self, member: zlib._Decompress) -> bytes:
        """The output before an error, found byte by byte."""
        found: list[bytes] = []
        is_first = self._members == 0
        for index in range(len(self._input)):
            try:
                found.append(member.decompress(self._input[index : index + 1]))
            except zlib.error as error:
                self._consume(index + 1)
                text = str(error).rpartition(": ")[2]
                if text in ("incorrect data check", "incorrect length check"):
                    self._skipped = _CHECKSUM_BYTES if "data" in text else 0
                    self._record_damage(f"its checksum is wrong ({text})", is_complete=True)
                    self._end_member()
                    break
                self._is_over = True
                if "header" in text and not is_first:
                    self._record_damage("the data after it is not compressed", is_complete=True)
                else:
                    self._record_damage(
                        "it is not gzip" if "header" in text else f"its compressed data is invalid ({text})", is_complete=False
                    )
                break
        return b"".join(found)

    def _end_member(self) -> None:
        self._members += 1
        self._is_between = True

    def _consume(self, count: int) -> None:
        self._input = self._input[count:]
        self._input_at += count

    def _record_damage(self, reason: str, *, is_complete: bool) -> None:
        """Record damage. The first damage is reported. The last damage determines whether bytes are missing at the end."""
        first = self.damage
        self.damage = Damage(reason if first is None else first.reason, self._input_at if first is None else first.at, is_complete)
