"""The positions up to which files of a folder were read. Files are recognized by identity and content, not by name. Knows nothing of lines
and topics.

A file is identified by device and inode. Hashes (``position``) show whether the file still has the content that was read, because
copytruncate truncates files, and inodes are reused. Content that is no longer in its inode gets a generation. The hashes identify such
content in a copy: copytruncate's copy, a compressed file, or a file that replaced the original.

There is one source partition per file, and one per folder. The offset of a folder lists the files with positions, so that missing files are
known.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, Final

from airflow_provider_connect.connectors.logs.files import Content, Failures, LogFile, path_text
from airflow_provider_connect.connectors.logs.gzip_content import DamagedException, GzipContent
from airflow_provider_connect.connectors.logs.position import FINGERPRINT_BYTES, Identity, Position, at, fingerprint
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.sdk.connector import OffsetReader

MAX_MISSING: Final = 1000
"""Maximum number of missing files of a folder whose positions are kept."""

Change = tuple[dict[str, object], dict[str, object]]
"""A source partition and its new offset. An empty offset removes the partition."""
ContentOpener = Callable[[LogFile], Content | None]


@dataclass(slots=True)
class Unread:
    """A file with unread data after its position. ``is_final``: the file has been unchanged for so long that its last line is treated as
    complete."""

    identity: Identity
    file: LogFile
    position: Position
    is_final: bool


@dataclass(slots=True)
class FolderPositions:
    """The positions of one folder's files. ``offset`` returns committed offsets, ``open_content`` opens a file. ``retention`` of missing
    files and ``completion_time`` of last lines are in microseconds. ``lost`` has messages about lost data."""

    path: str
    offset: OffsetReader
    open_content: ContentOpener
    retention: int
    completion_time: int
    completes_open_entries: bool  # whether entries have several lines: then the last entry of a file that may grow completes with time
    changes: list[Change] = field(default_factory=list)
    known: dict[Identity, Position] = field(default_factory=dict)
    failures: Failures = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    _paths: dict[Identity, str] = field(default_factory=dict)
    _sizes: dict[Identity, int] = field(default_factory=dict)
    _ignored: int = 0
    _missing: dict[Identity, int] = field(default_factory=dict)
    _seen: set[Identity] = field(default_factory=set)
    _listed: list[list[int]] | None = None
    _ends: dict[tuple[int, int, int, int], tuple[int, bytes]] = field(default_factory=dict)
    _unchanged_files: Sequence[LogFile] = ()
    _unchanged_until: float = 0
    _now: int = 0

    def load(self) -> None:
        """Load the committed positions of the files in the folder's offset."""
        listed = self.offset(self.partition)
        if listed:
            self._listed = list(_parse_files(listed))
            for *file, since in self._listed:
                identity = Identity(*file)
                self._load(identity, self.offset(identity.partition))
                if since:
                    self._missing[identity] = since

    def _load(self, identity: Identity, offset: Mapping[str, Any] | None) -> None:
        self.known[identity] = Position.of(offset)
        self._paths[identity] = str((offset or {}).get("path", ""))

    @property
    def read_inodes(self) -> set[int]:
        return {identity.inode for identity in self.known if not identity.generation}

    @property
    def partition(self) -> dict[str, object]:
        return folder_partition(self.path)

    def path_of(self, file: LogFile) -> str:
        """The path for messages, in which bytes that are not text are replaced."""
        return path_text(f"{self.path}/{file.name}")

    def unread(self, files: Sequence[LogFile], now: int, *, skips_old: bool = False) -> list[Unread]:
        """The files with unread data, in the order of ``files``. After the call, ``changes`` has the offsets to commit before the files'
        records, and ``failures`` has the files that could not be read. With ``skips_old``, reading of a new folder starts at the ends of
        its files."""
        self.failures = {}
        self._now = now
        if self._unchanged_files and now < self._unchanged_until and files == self._unchanged_files:
            return []
        found, arrived = self._recognize(files, now)
        skips_old = skips_old and self._listed is None
        for file in arrived:
            try:
                identity = self._admit(file, files, skips_old=skips_old)
            except OSError as error:
                self.failures[self.path_of(file)] = error
                continue
            if identity is not None:
                found[identity] = file
        self._note_lost(now)
        self._forget(now)
        self._list()
        unread = ((identity, file, self.known[identity], self._is_final(file)) for identity, file in found.items())
        for identity, file in found.items():
            self._paths[identity], self._sizes[identity] = self.path_of(file), file.size
        order = {(file.device, file.inode): number for number, file in enumerate(files)}
        waiting = sorted((Unread(*each) for each in unread if self._is_unread(*each)), key=lambda each: order[each.identity[:2]])
        self._unchanged_files = ()
        if not waiting and not self.changes and len(found) + self._ignored == len(files):
            self._rest(files, found)
        return waiting

    def _rest(self, files: Sequence[LogFile], found: Mapping[Identity, LogFile]) -> None:
        """After everything was read, compute how long there is nothing to read if no file changes."""
        left = (file for identity, file in found.items() if self._is_unread(identity, file, self.known[identity], is_final=True))
        ends = [*(file.modified + self.completion_time for file in left), *(since + self.retention for since in self._missing.values())]
        self._unchanged_files, self._unchanged_until = files, min(ends, default=math.inf)

    def _is_unread(self, identity: Identity, file: LogFile, position: Position, is_final: bool) -> bool:
        if not position.is_at_rest(file):
            return file.size > 0 or position.size >= 0
        if file.is_compressed:
            return is_final and not position.is_settled
        is_left = position.bytes < file.size
        return is_left and is_final and (file.is_rotated or (self.completes_open_entries and not position.is_settled))

    def _is_final(self, file: LogFile) -> bool:
        """Whether probably no process writes to the file any more."""
        return self._now - file.modified > self.completion_time

    def _recognize(self, files: Sequence[LogFile], now: int) -> tuple[dict[Identity, LogFile], list[LogFile]]:
        """Separate files with known content from other files. Known content that is no longer in its file gets a generation."""
        found: dict[Identity, LogFile] = {}
        arrived = []
        self._ignored = 0
        for file in files:
            identity = Identity(file.device, file.inode)
            position = self._known(identity)
            if position is not None and self._is_same(file, position) and not self._reuses_inode(file, position, files):
                found[identity] = file
                self._missing.pop(identity, None)
                continue
            if not file.stem:  # another file now has the inode, under a name that is not included
                self._ignored += 1
                continue
            arrived.append(file)
            if position is not None and position.bytes:
                number = 1 + max(known.generation for known in self.known if known[:2] == identity[:2])
                before = identity._replace(generation=number)
                self._paths[before] = self._paths.get(identity) or self.path_of(file)
                self.known[before], self._missing[before] = self._drop(identity), now
                self.changes.append((before.partition, position.offset(self._paths[before])))
        for identity in self.known.keys() - found.keys():
            self._missing.setdefault(identity, now)
        return found, arrived

    def _known(self, identity: Identity) -> Position | None:
        """The position of a file. Committed positions are read once, so removed positions stay removed."""
        if identity not in self.known and identity not in self._seen:
            offset = self.offset(identity.partition)
            if offset:
                self._load(identity, offset)
        self._seen.add(identity)
        return self.known.get(identity)

    def _is_same(self, file: LogFile, position: Position) -> bool:
        if position.is_at_rest(file):
            return True
        if position.bytes == 0 or (not file.is_compressed and file.size < position.bytes):
            return False
        try:
            content = self.open_content(file)
            if content is None:  # already renamed: the next scan decides
                return True
            with closing(content):
                return position.matches(content, as_far_as_readable=self._is_final(file))
        except DamagedException:
            return False
        except OSError as error:  # the next scan decides
            self.failures[self.path_of(file)] = error
            return True

    def _reuses_inode(self, file: LogFile, position: Position, files: Sequence[LogFile]) -> bool:
        """Whether a compressed file with the content of ``position`` is an unfinished copy of an existing file. In this case, the copy has
        reused the inode of another file, to which the position belonged."""
        if not file.is_compressed or position.is_at_rest(file):
            return False
        try:
            with contextlib.ExitStack() as open_files:
                content = self._open_in(open_files, file)
                if content is None:
                    return False
                head = at(content, 0, FINGERPRINT_BYTES)
                originals = (self._open_in(open_files, other) for other in files if _may_be_copy(other, file))
                return any(original is not None and self._is_prefix(file, content, head, original) for original in originals)
        except (OSError, DamagedException):  # reading the file will show the reason
            return False

    def _open_in(self, open_files: contextlib.ExitStack, file: LogFile) -> Content | None:
        content = self.open_content(file)
        return content if content is None else open_files.enter_context(closing(content))

    def _admit(self, file: LogFile, files: Sequence[LogFile], *, skips_old: bool) -> Identity | None:
        """Give a file without a position its origin's position, or a new one. None if the file is still an unfinished copy."""
        content = None if file.is_rotated and not file.size else self.open_content(file)
        if content is None:
            return None
        with closing(content):
            head, is_damaged = _read_head(content)
            if is_damaged and not self._is_final(file):
                return None
            try:
                origin = self._origin(file, content, head)
                is_copy = origin is None and file.is_rotated and any(self._is_copied(file, content, head, other) for other in files)
                if is_copy or (file.is_rotated and not head and not is_damaged):
                    return None
            except DamagedException:
                return None
            end = _end_position(content, file, is_final=self._is_final(file)) if skips_old else Position()
        identity = Identity(file.device, file.inode)
        self._missing.pop(identity, None)
        self.known[identity] = end if origin is None else self._drop(origin)
        if self.known[identity] != Position():
            self.changes.append((identity.partition, self.known[identity].offset(self.path_of(file))))
        return identity

    def _origin(self, file: LogFile, content: Content, head: bytes) -> Identity | None:
        """The missing or overwritten file whose content is at the start of this file. If there are several, the file that was read
        furthest.

        Short files may be equal by chance, so a short file must meet a further condition: it is compressed, the origin's file has new
        content, or the names are equal. Names are equal if a copy replaced a file, or a mount has another device number."""
        found = []
        for identity in self._missing:
            position = self.known[identity]
            begin = head[: min(position.bytes, FINGERPRINT_BYTES)]
            if position.bytes == 0 or not position.head or fingerprint(begin) != position.head:
                continue
            is_short = position.bytes < FINGERPRINT_BYTES
            is_enough = file.is_compressed or identity.generation or not is_short or self._paths.get(identity) == self.path_of(file)
            if is_enough and position.matches(content, as_far_as_readable=self._is_final(file)):
                found.append(identity)
        return max(found, key=lambda identity: self.known[identity].bytes, default=None)

    def _is_copied(self, file: LogFile, content: Content, head: bytes, other: LogFile) -> bool:
        """Whether ``file`` is a copy of the unchanged file ``other``. Then ``other`` is read until it is truncated or removed.

        Also true if ``other`` was truncated after it was recognized. The next scan then finds the former content of ``other`` as the
        origin."""
        if not _may_be_copy(other, file):
            return False
        original = self.open_content(other)
        if original is None:
            return True  # already renamed: the next scan decides
        with closing(original):
            if self._is_prefix(file, content, head, original):
                return True
            position = self.known.get(Identity(other.device, other.inode))
            return position is not None and position.bytes > 0 and not position.matches(original)

    def _is_prefix(self, file: LogFile, content: Content, head: bytes, original: Content) -> bool:
        """Whether the content of ``file`` is a prefix of ``original``, according to its first and last kilobyte. For a compressed file that
        may still be written, only the first kilobyte is compared."""
        begin = at(original, 0, FINGERPRINT_BYTES)
        length = min(len(begin), len(head))
        if not length or begin[:length] != head[:length]:
            return False
        if file.is_compressed and not self._is_final(file):
            return True
        end, tail = self._end(file, content)
        return at(original, end - len(tail), len(tail)) == tail

    def _end(self, file: LogFile, content: Content) -> tuple[int, bytes]:
        """The number of readable bytes of a file, and its last bytes. Compressed files are read once to determine this."""
        if not isinstance(content, GzipContent):
            length = min(file.size, FINGERPRINT_BYTES)
            return file.size, at(content, file.size - length, length)
        key = (file.device, file.inode, file.size, file.modified)
        if key not in self._ends:
            end = content.seek(sys.maxsize)
            length = min(end, FINGERPRINT_BYTES)
            self._ends[key] = end, at(content, end - length, length)
        return self._ends[key]

    def _drop(self, identity: Identity) -> Position:
        self._missing.pop(identity, None)
        self.changes.append((identity.partition, {}))
        return self.known.pop(identity)

    def _note_lost(self, now: int) -> None:
        """Report, once, unread data of missing files, and truncated files without a copy."""
        for identity, since in self._missing.items():
            position = self.known[identity]
            if position.is_noted or now - since <= self.completion_time:
                continue
            path, left = self._paths.get(identity, ""), max(position.size, self._sizes.get(identity, -1)) - position.bytes
            is_cut = identity.generation and self._paths.get(Identity(*identity[:2])) == path
            if left > 0:
                self.lost.append(f"{path} is gone, and its last {left} bytes, from byte {position.bytes}, were not read")
            elif is_cut:
                begin = position.bytes
                self.lost.append(f"{path} was truncated, and its folder has no copy of it: its data after byte {begin} is lost")
            else:
                continue
            self.known[identity] = replace(position, is_noted=True)
            self.changes.append((identity.partition, self.known[identity].offset(path)))

    def _forget(self, now: int) -> None:
        """Remove the positions of files that have been missing for too long, and of the oldest files if there are too many."""
        oldest = sorted(self._missing, key=lambda identity: self._missing[identity])
        for number, identity in enumerate(oldest):
            if number < len(oldest) - MAX_MISSING or now - self._missing[identity] > self.retention:
                self._drop(identity)

    def _list(self) -> None:
        listed = [[*identity, self._missing.get(identity, 0)] for identity in sorted(self.known)]
        if listed != self._listed and (listed or self._listed):
            self._listed = listed
            self.changes.insert(0, (self.partition, {"files": listed}))


def folder_partition(path: str) -> dict[str, object]:
    """The source partition of a folder."""
    return {"folder": path_text(path)}


def _may_be_copy(other: LogFile, file: LogFile) -> bool:
    """Whether ``file`` may be a copy of ``other``, according to their names. The name of ``other`` may end with a number itself."""
    return other is not file and not other.is_compressed and file.stem in (other.stem, other.name)


def _read_head(content: Content) -> tuple[bytes, bool]:
    """The first bytes, and whether there are fewer than usual because of damage."""
    if not isinstance(content, GzipContent):
        return at(content, 0, FINGERPRINT_BYTES), False
    content.seek(0)
    head = content.available(FINGERPRINT_BYTES)
    return head, len(head) < FINGERPRINT_BYTES and content.damage is not None


def _end_position(content: Content, file: LogFile, *, is_final: bool) -> Position:
    """The position after all readable data. Unless this data ends with a line end, the data after it is the rest of a line."""
    size = content.seek(sys.maxsize) if isinstance(content, GzipContent) else content.seek(0, 2)
    length = min(size, FINGERPRINT_BYTES)
    is_damaged = isinstance(content, GzipContent) and content.damage is not None
    head, tail = at(content, 0, length), at(content, size - length, length)
    is_inside = size > 0 and not tail.rstrip(b"\0").endswith(b"\n")
    end = Position(size, fingerprint(head), fingerprint(tail), is_inside=is_inside)
    return replace(end, size=file.size, modified=file.modified, is_settled=True) if is_damaged and is_final else end


def _parse_files(listed: Mapping[str, Any]) -> list[list[int]]:
    """The files in a folder's offset. Raises ConnectException for an invalid offset."""
    files = listed.get("files")
    if not isinstance(files, list) or not all(
        isinstance(row, list) and len(row) == 4 and all(type(n) is int for n in row) for row in files
    ):
        raise ConnectException("Offset 'files' of a folder must be a list of [device, inode, generation, missing since]")
    return files


def check_offset(partition: Any, offset: Any) -> None:
    """Raise ConnectException for a user's offset from which a run could not continue. Any: JSON from a user."""
    if not isinstance(partition, Mapping) or set(partition) not in ({"folder"}, {"device", "inode"}, set(Identity._fields)):
        raise ConnectException("Partition objects must have the key 'folder', or 'device' and 'inode'")
    if offset is None:
        return
    if not isinstance(offset, Mapping):
        raise ConnectException("Offset objects must be maps, or null")
    if "folder" in partition:
        _parse_files(offset)
    else:
        Position.of(offset)
