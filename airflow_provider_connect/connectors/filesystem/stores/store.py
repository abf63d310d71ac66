"""The interface of stores for file sinks and sources: a folder, a bucket, a server or a cluster. Knows nothing of libraries.

Paths are relative to the store's root, with ``/`` between their parts. Every method raises RetriableException if the store cannot be
reached. If the store refuses the credentials, or its root does not exist, every method raises ConfigException, which names the settings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import BinaryIO, Final, Protocol

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.allowed_paths import LOST_AND_FOUND

_SPECIAL: Final = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{[\]^]""")
UNFINISHED: Final = ".unfinished-"
"""Part of temporary names in ``create``, for stores that need two steps."""


PROBE_FILE: Final = ".connect-check"
"""This file is read to check access to a store. It need not exist."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A listed file. ``tag`` identifies its content, in object stores only."""

    path: str
    size: int
    modified_ms: int
    tag: str = ""

    def is_same(self, other: StoredFile) -> bool:
        """Whether both are the same version. With tags, times are compared only to the second, because listings may have finer times than
        other requests."""
        fraction = 1000 if self.tag and other.tag else 1
        mine, others = ((each.path, each.size, each.modified_ms // fraction, each.tag) for each in (self, other))
        return mine == others


@dataclass(slots=True)
class SkippedFiles:
    """Files that listings of a store have skipped: files whose names are not valid paths, links out of the store, which are not followed,
    and folders to which the store refuses access, with the errors. Folders that hold no data are left out."""

    names: set[str] = field(default_factory=set)
    links: set[str] = field(default_factory=set)
    folders: dict[str, ConfigException] = field(default_factory=dict)

    def add(self, name: str) -> None:
        self.names.add(name.encode(errors="backslashreplace").decode())

    def refuse(self, folder: str, error: ConfigException) -> None:
        """Note that the folder cannot be listed."""
        if not is_hidden(folder) and folder.rpartition("/")[2] != LOST_AND_FOUND:
            self.folders[folder] = error

    def clear(self) -> None:
        self.names.clear()
        self.links.clear()
        self.folders.clear()

    @property
    def text(self) -> str:
        """A text for users. Empty if no file was skipped."""
        names = _skipped_text(self.names, "file", "the name is not a valid path. Rename files to be read")
        links = _skipped_text(self.links, "link", "links are not followed. Set url to the folder of the files, or move them here")
        return ". ".join(filter(None, (names, links)))


def _skipped_text(names: set[str], kind: str, reason: str) -> str:
    if not names:
        return ""
    first, count = min(names), len(names)
    which = f"The {kind} {first!r} is" if count == 1 else f"{count} {kind}s, {first!r} the first of them, are"
    return f"{which} not read: {reason}"


class NewFile(Protocol):
    """A file that is being written. It is complete after ``close``. Before that, it is not visible in object stores, and partial in other
    stores.

    Write to ``stream`` in a block of the store's ``translate_errors``."""

    @property
    def stream(self) -> BinaryIO: ...

    def close(self) -> None:
        """Make the file durable."""

    def discard(self) -> None:
        """Remove the incomplete file. Never raises."""


class Store(Protocol):
    """One store. Called from one thread at a time."""

    skipped: SkippedFiles

    def create(self, path: str, data: bytes) -> bool:
        """Create a small file atomically. If it exists, writes nothing and returns False. Of several processes, only one succeeds."""
        ...

    def new_file(self, path: str) -> NewFile:
        """Start writing a file. It replaces a file with the same path."""
        ...

    def read(self, path: str) -> bytes:
        """The content of a small file. Raises FileNotFoundError."""
        ...

    def open(self, path: str) -> BinaryIO:
        """Open a seekable file for reading. Raises FileNotFoundError."""
        ...

    def move(self, path: str, to: str) -> bool:
        """Move a file and replace an existing one. Readers find the complete new or old file. False if the file does not exist, because
        another process has moved or removed it."""
        ...

    def move_new(self, path: str, to: str) -> bool:
        """Move a file to a new path. If the path exists, changes nothing and returns False. The next call completes the move of a killed
        process. Raises FileNotFoundError if the file does not exist."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file if it exists."""

    def file(self, path: str) -> StoredFile | None:
        """The current state of a file. None if it does not exist."""
        ...

    def files(self, folder: str = "", after: str = "") -> Iterator[StoredFile]:
        """All files below a folder that come after the path ``after``, in the order of their paths. Empty if the folder does not exist.
        Folders below it to which the store refuses access are added to ``skipped``."""
        ...

    def check_root(self, *, may_be_empty: bool) -> None:
        """Raise ConfigException if the root does not exist. A bucket has no folders, so it must contain an object with the prefix, unless
        ``may_be_empty``."""

    def translate_errors(self, path: str) -> AbstractContextManager[None]:
        """Translate errors of the store's library in the block to exceptions of this package."""
        ...

    def close(self) -> None:
        """Close connections."""


def path_part(text: str) -> str:
    """``text`` as one part of a path. Special characters are percent-encoded, as in Hive's and Spark's partition names."""
    part = _SPECIAL.sub(lambda match: f"%{ord(match[0]):02X}", text)
    return part if part.strip(".") else part.replace(".", "%2E")


def is_hidden(path: str) -> bool:
    """Whether a part of the path starts with ``.``, or with ``_`` unless it is ``_field=value``. Such files are not data, as in Spark."""
    return any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in path.split("/"))


def may_hold_paths_after(folder: str, after: str) -> bool:
    """Whether paths that start with ``folder``, a path with ``/`` at its end, may follow the path ``after``."""
    return folder > after or after.startswith(folder)


def join_path(*parts: str) -> str:
    """Join parts to a path, without empty parts."""
    return "/".join(part for part in parts if part)
