"""The files that a config names: patterns of paths, and files in folders. Lists folders and opens files, but does not read them."""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import os
import re
import stat
import time
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, Final, cast

from airflow_provider_connect.connectors.logs.gzip_content import GzipContent
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.allowed_paths import LOST_AND_FOUND, AllowedFolder, AllowedPaths
from airflow_provider_connect.sdk.bounded_regex import BoundedRegex

PATHS: Final = "paths"
COMPRESSED: Final = ".gz"
MAX_LISTINGS: Final = 3
QUIET_NS: Final = 20_000_000
"""A listing is complete if the folder has not changed during it, and for this duration before it."""
_WILDCARDS: Final = frozenset("*?[")
_ANY_DEPTH: Final = "**"
_OLD: Final = frozenset({"old", "bak"})

Content = BinaryIO | GzipContent
Failures = dict[str, OSError]
"""The reasons why folders and files could not be read, by path."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file that a scan has found. ``modified`` is in microseconds. ``stem`` is the included name: the file's own name, or its name before
    rotation. It is empty for a file that was read earlier and now has a name that is not included."""

    name: str
    device: int
    inode: int
    size: int
    modified: int
    stem: str

    @property
    def is_compressed(self) -> bool:
        return self.name.lower().endswith(COMPRESSED)

    @property
    def is_rotated(self) -> bool:
        return self.name != self.stem

    def open(self, folder: AllowedFolder) -> Content | None:
        """Open the uncompressed content. None if the name now belongs to another file, or to no file.

        An inode may be reused as soon as its file is removed, for example for the next copy. So a rotated file must be unchanged since it
        was listed. Without a file of the name before rotation, the number or date belongs to the log's own name, and the log may grow.
        """
        try:
            descriptor = folder.open(self.name, os.O_RDONLY | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        found = os.fstat(descriptor)
        is_changed = (found.st_size, found.st_mtime_ns // 1000) != (self.size, self.modified)
        if (found.st_dev, found.st_ino) != (self.device, self.inode) or (self.is_rotated and is_changed and self._has_log(folder)):
            os.close(descriptor)
            return None
        raw = cast("BinaryIO", os.fdopen(descriptor, "rb", buffering=0))
        return GzipContent(raw) if self.is_compressed else raw

    def _has_log(self, folder: AllowedFolder) -> bool:
        """Whether a file has the name before rotation. Also true if this is unknown."""
        if not self.stem:
            return True
        try:
            folder.stat(self.stem)
        except OSError as error:
            return not isinstance(error, FileNotFoundError)
        return True


@dataclass(frozen=True, slots=True)
class PathPattern:
    """An entry of ``paths``: its folders as written, the folder before the first wildcard, a pattern for each folder below it (None: any
    depth), and a pattern for names."""

    written: str
    root: str
    folders: tuple[BoundedRegex | None, ...]
    names: BoundedRegex

    @classmethod
    def of(cls, path: str) -> PathPattern:
        """Parse an entry. Raises ConfigException for a path that is not absolute or has no file name."""
        parts = path.split("/")
        if parts[0] or not parts[-1]:
            raise ConfigException.of(PATHS, path, "Not an absolute path of files. Begin it with / and end it with a name or a pattern.")
        fixed = next((number for number, part in enumerate(parts[:-1]) if _WILDCARDS & set(part)), len(parts) - 1)
        folders = tuple(None if part == _ANY_DEPTH else _expression(part) for part in parts[fixed:-1])
        return cls("/".join(parts[:-1]) or "/", "/".join(parts[:fixed]) or "/", folders, _expression(parts[-1]))

    @property
    def is_one_folder(self) -> bool:
        return not self.folders

    def list_folders(self, allowed: AllowedPaths, failures: Failures) -> Iterator[AllowedFolder]:
        """The existing folders. Links below ``root`` are not followed. Folders that cannot be listed are added to ``failures``. Raises
        ConfigException if ``root`` is not allowed."""
        return _below(allowed.folder(PATHS, self.root), self.folders, failures)


@dataclass(frozen=True, slots=True)
class NameFilter:
    """The included file names: names that match one of ``patterns`` and ``included``, but not ``excluded``."""

    patterns: Sequence[BoundedRegex]
    included: BoundedRegex | None
    excluded: BoundedRegex | None

    def stem(self, name: str) -> str | None:
        """The shortest included name among ``name`` and its forms without a rotation's numbers, dates and ``.gz``. None if there is no
        included name."""
        if self.is_excluded(name):
            return None
        return min(filter(self._is_included, _unrotated_names(name)), key=len, default=None)

    def is_excluded(self, name: str) -> bool:
        return self.excluded is not None and self.excluded.matches(name)

    def _is_included(self, name: str) -> bool:
        return any(each.matches(name) for each in self.patterns) and (self.included is None or self.included.matches(name))


def path_text(path: str) -> str:
    """A path as text. Bytes that are not UTF-8 become replacement characters."""
    return os.fsencode(path).decode(errors="replace")


@dataclass(slots=True)
class FolderFiles:
    """The included files of a folder, listed repeatedly. An unchanged file costs little more than a stat."""

    names: NameFilter
    links: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Included names that are links, with the device and inode of the links' targets. Links are not followed."""
    _stems: dict[str, str | None] = field(default_factory=dict)
    _found: dict[tuple[int, int], LogFile] = field(default_factory=dict)
    _sorted: Sequence[LogFile] = ()

    def list_files(self, folder: AllowedFolder, read: Container[int] = ()) -> Sequence[LogFile]:
        """The current files, least recently changed first. Each file has one entry, even with several names. If nothing has changed,
        returns the same list object. Files with inodes in ``read`` were read earlier, and are returned even under names that are not
        included.

        A listing may miss a file that is being renamed. So a folder that is changing is listed again, and the results are merged.
        """
        found: dict[tuple[int, int], LogFile] = {}
        stems: dict[str, str | None] = {}
        self.links = {}
        for _ in range(MAX_LISTINGS):
            begun = time.time_ns()
            with _open_listing(folder) as (entries, descriptor):
                for entry in entries:
                    self._add(entry, found, stems, read)
                if descriptor < 0 or os.fstat(descriptor).st_mtime_ns < begun - QUIET_NS:
                    break
        self._stems = stems
        if found != self._found:
            self._found = found
            self._sorted = sorted(found.values(), key=lambda file: (file.modified, not file.is_rotated, file.name))
        return self._sorted

    @property
    def found(self) -> Iterable[LogFile]:
        """The files of the last listing."""
        return self._found.values()

    def _add(
        self, entry: os.DirEntry[str], found: dict[tuple[int, int], LogFile], stems: dict[str, str | None], read: Container[int]
    ) -> None:
        name = entry.name
        stem = stems[name] = self._stems[name] if name in self._stems else self.names.stem(name)
        if stem is None and entry.inode() in read and not self.names.is_excluded(name):
            stem = ""
        if stem and entry.is_symlink():
            self.links[name] = _link_target(entry)
        if stem is None or not entry.is_file(follow_symlinks=False):
            return
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:  # already renamed
            return
        if stat.S_ISREG(status.st_mode):
            key, size, modified = (status.st_dev, status.st_ino), status.st_size, status.st_mtime_ns // 1000
            file = self._found.get(key)
            if file is None or (file.name, file.size, file.modified, file.stem) != (name, size, modified, stem):
                file = LogFile(name, *key, size, modified, stem)
            found[key] = file


def _link_target(link: os.DirEntry[str]) -> tuple[int, int]:
    """The device and inode of a link's target. -1 if there is no target."""
    try:
        status = link.stat()
    except OSError:
        return -1, -1
    return status.st_dev, status.st_ino


@contextlib.contextmanager
def _open_listing(folder: AllowedFolder) -> Iterator[tuple[Iterable[os.DirEntry[str]], int]]:
    """The entries of a folder, and its descriptor. If the folder no longer exists, no entries and -1."""
    try:
        descriptor = folder.open(".", os.O_RDONLY | os.O_DIRECTORY)
    except (FileNotFoundError, NotADirectoryError):
        yield (), -1
        return
    try:
        with os.scandir(descriptor) as entries:
            yield entries, descriptor
    finally:
        os.close(descriptor)


def _below(folder: AllowedFolder, patterns: Sequence[BoundedRegex | None], failures: Failures) -> Iterator[AllowedFolder]:
    if not patterns:
        yield folder
        return
    first, rest = patterns[0], patterns[1:]
    if first is None:
        yield from _below(folder, rest, failures)
    try:
        with _open_listing(folder) as (entries, _):
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False) and entry.name != LOST_AND_FOUND)
    except OSError as error:
        failures[path_text(folder.path)] = error
        return
    for name in names:
        if first is None or first.matches(name):
            below = dataclasses.replace(folder, below=os.path.join(folder.below, name))
            yield from _below(below, patterns if first is None else rest, failures)


def _expression(pattern: str) -> BoundedRegex:
    try:
        return BoundedRegex(fnmatch.translate(pattern), PATHS)
    except re.error as error:
        raise ConfigException.of(PATHS, pattern, f"Not a pattern: {error}") from error


def _unrotated_names(name: str) -> Iterable[str]:
    """Names before rotation: ``app.log.1`` and ``app.log`` for ``app.log.1.gz``; ``app.log`` for ``app-20260102.log``."""
    plain = name[: -len(COMPRESSED)] if name.lower().endswith(COMPRESSED) else name
    body, dot, ending = plain.rpartition(".")
    yield from _without_suffixes(plain)
    if dot:
        yield from (f"{each}.{ending}" for each in _without_suffixes(body) if each)


def _without_suffixes(text: str) -> Iterator[str]:
    """``text`` itself, then ``text`` without its trailing numbers and dates, which are removed one after another."""
    yield text
    while (cut := max(text.rfind(mark) for mark in "-._")) > 0:
        mark = text[cut + 1 :]
        if not mark.replace(":", "").replace("T", "").isdecimal() and mark not in _OLD:
            return
        text = text[:cut]
        yield text
