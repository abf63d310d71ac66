"""The position up to which a log file was read, with hashes that show whether it is still the same file. Positions count uncompressed
bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from airflow_provider_connect.connectors.logs.files import Content, LogFile
from airflow_provider_connect.connectors.logs.gzip_content import DamagedException
from airflow_provider_connect.errors import ConnectException

FINGERPRINT_BYTES: Final = 1024


class Identity(NamedTuple):
    """A file, independent of its name. With a ``generation``, it is one of the file's earlier contents."""

    device: int
    inode: int
    generation: int = 0

    @property
    def partition(self) -> dict[str, object]:
        partition: dict[str, object] = {"device": self.device, "inode": self.inode}
        return partition | ({"generation": self.generation} if self.generation else {})


@dataclass(frozen=True, slots=True)
class Position:
    """The position up to which a file was read: ``bytes``, with the hashes of the first bytes (``head``) and the last bytes before the
    position (``tail``). ``is_inside``: the position is within an overlong line, whose rest is skipped. ``size`` and ``modified`` are the
    file's values when its end was reached. ``is_settled``: the bytes from the position to that end have no line end. ``is_noted``: the loss
    of the file was reported."""

    bytes: int = 0
    head: str = ""
    tail: str = ""
    size: int = -1
    modified: int = -1
    is_settled: bool = False
    is_inside: bool = False
    is_noted: bool = False

    @classmethod
    def of(cls, offset: Mapping[str, Any] | None) -> Position:
        """The position in an offset. Raises ConnectException for an invalid offset."""
        given = offset or {}
        position = given.get("position", 0)
        if type(position) is not int or position < 0:
            raise ConnectException(f"Offset 'position' of a log file must be a number ≥ 0, got {position!r}")
        texts, numbers = [str(given.get(key, "")) for key in ("head", "tail")], [int(given.get(key, -1)) for key in ("size", "modified")]
        is_settled, is_inside, is_noted = (bool(given.get(key)) for key in ("settled", "inside", "noted"))
        return cls(position, texts[0], texts[1], numbers[0], numbers[1], is_settled, is_inside, is_noted)

    def offset(self, path: str) -> dict[str, object]:
        """The position as an offset. ``path`` is information for users."""
        offset: dict[str, object] = {"position": self.bytes, "head": self.head, "tail": self.tail, "path": path}
        if self.size >= 0:
            offset |= {"size": self.size, "modified": self.modified, "settled": self.is_settled}
        return offset | ({"inside": True} if self.is_inside else {}) | ({"noted": True} if self.is_noted else {})

    def is_at_rest(self, file: LogFile) -> bool:
        """Whether the file is unchanged since its end was reached."""
        return (self.size, self.modified) == (file.size, file.modified)

    def matches(self, content: Content, *, as_far_as_readable: bool = False) -> bool:
        """Whether ``content`` starts with the data that was read. An offset that a user has set has no hashes, and matches any content that
        is long enough. With ``as_far_as_readable``, only the first bytes are compared if damage precedes the position."""
        length = min(self.bytes, FINGERPRINT_BYTES)
        for begin, wanted in ((0, self.head), (self.bytes - length, self.tail)):
            try:
                found = at(content, begin, length)
            except DamagedException:
                if begin and as_far_as_readable:
                    return True
                raise
            if len(found) < length or (wanted and fingerprint(found) != wanted):
                return False
        return True


def fingerprint(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def at(content: Content, begin: int, length: int) -> bytes:
    content.seek(begin)
    return content.read(length)


def manual_positions(offsets: Iterable[tuple[Mapping[str, Any], Mapping[str, Any] | None]]) -> dict[tuple[object, object], int]:
    """The positions that a user has set, by device and inode. They lack the hashes of committed positions."""
    given = ((at, offset) for at, offset in offsets if offset and "inode" in at and not offset.get("head"))
    return {(at["device"], at["inode"]): position for at, offset in given if (position := Position.of(offset).bytes)}


def check_not_beyond_end(wanted: Mapping[tuple[object, object], int], files: Iterable[LogFile]) -> None:
    """Raise ConnectException for a position beyond the end of one of ``files``, except for compressed files, whose length is unknown."""
    for file in files:
        position = wanted.get((file.device, file.inode), 0)
        if position > file.size and not file.is_compressed:
            raise ConnectException(f"The position {position} is beyond the end of {file.name}, which has {file.size} bytes")
