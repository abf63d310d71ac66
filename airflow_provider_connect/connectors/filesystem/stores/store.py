"""What sinks and sources of files ask of a store, whatever it is: a folder, a bucket, a cluster. Knows no library.

Paths are relative to the store's root, with ``/`` between their parts. Every method raises RetriableException where the store cannot be
reached, and ConfigException, with the settings to change, where it refuses the credentials or where its root does not exist.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import BinaryIO, Final, Protocol

_SPECIAL: Final = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{[\]^]""")
UNFINISHED: Final = ".unfinished-"
"""In the name of what ``create`` has not finished, where a store needs two steps."""


PROBE_FILE: Final = ".connect-check"
"""Read to check access to a store. It need not exist."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as a listing shows it. ``tag`` is that of its content, which object stores have."""

    path: str
    size: int
    modified_ms: int
    tag: str = ""

    def is_same(self, other: StoredFile) -> bool:
        """Whether both are one version. Where files have tags, listings may show finer times than other answers: seconds are compared."""
        fraction = 1000 if self.tag and other.tag else 1
        mine, others = ((each.path, each.size, each.modified_ms // fraction, each.tag) for each in (self, other))
        return mine == others


@dataclass(slots=True)
class SkippedFiles:
    """What listings of a store have left out: files that no path leads to, and links out of the store, which are not followed."""

    names: set[str] = field(default_factory=set)
    links: set[str] = field(default_factory=set)

    def add(self, name: str) -> None:
        self.names.add(name.encode(errors="backslashreplace").decode())

    def clear(self) -> None:
        self.names.clear()
        self.links.clear()

    @property
    def text(self) -> str:
        """For people; empty where there are none."""
        names = _skipped_text(self.names, "file", "no path leads to a name like this. Rename what is to be read")
        links = _skipped_text(self.links, "link", "links are not followed. Set url to the folder that holds the files, or move them here")
        return ". ".join(filter(None, (names, links)))


def _skipped_text(names: set[str], kind: str, reason: str) -> str:
    if not names:
        return ""
    first, count = min(names), len(names)
    which = f"The {kind} {first!r} is" if count == 1 else f"{count} {kind}s, {first!r} the first of them, are"
    return f"{which} not read: {reason}"


class NewFile(Protocol):
    """A file that is being written. It is whole only after ``close``; before that object stores show nothing, others what there is.

    Writes to ``stream`` belong in a block of the store's ``translate_errors``."""

    @property
    def stream(self) -> BinaryIO: ...

    def close(self) -> None:
        """Make the file durable."""

    def discard(self) -> None:
        """Remove what there is. Never raises."""


class Store(Protocol):
    """One store. Calls come from one thread at a time."""

    skipped: SkippedFiles

    def create(self, path: str, data: bytes) -> bool:
        """Write a small file at once; False, and nothing is written, where there is one. Of several processes one succeeds."""
        ...

    def new_file(self, path: str) -> NewFile:
        """Begin a file, which replaces one of the same path."""
        ...

    def read(self, path: str) -> bytes:
        """A small file. Raises FileNotFoundError."""
        ...

    def open(self, path: str) -> BinaryIO:
        """A file to read, which can be sought in. Raises FileNotFoundError."""
        ...

    def move(self, path: str, to: str) -> bool:
        """Give a file another path and replace what is there; readers find the whole file under it, or the one before. False: there is
        no such file, so that another process has moved or removed it."""
        ...

    def move_new(self, path: str, to: str) -> bool:
        """Give a file another path where there is no file; False, and nothing is changed, where there is one. The next call ends what a
        killed process has begun. Raises FileNotFoundError: there is no such file."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""

    def file(self, path: str) -> StoredFile | None:
        """A file as it is now; None: there is none."""
        ...

    def files(self, folder: str = "", after: str = "") -> Iterator[StoredFile]:
        """All files below a folder, in the order of their paths, from behind the path ``after``; none where there is no such folder."""
        ...

    def check_root(self, *, may_be_empty: bool) -> None:
        """Raise ConfigException where the root is not there. A bucket has no folders: there has to be an object below it, unless
        ``may_be_empty``."""

    def translate_errors(self, path: str) -> AbstractContextManager[None]:
        """Around calls of the library itself: its errors become exceptions of this package."""
        ...

    def close(self) -> None:
        """Let go of connections."""


def path_part(text: str) -> str:
    """``text`` as one part of a path: what means something there is percent-encoded, as Hive and Spark do in names of partitions."""
    part = _SPECIAL.sub(lambda match: f"%{ord(match[0]):02X}", text)
    return part if part.strip(".") else part.replace(".", "%2E")


def is_hidden(path: str) -> bool:
    """Whether a part of a path begins as in names of files that are not meant as data."""
    return any(part.startswith((".", "_")) for part in path.split("/"))


def may_hold_paths_after(folder: str, after: str) -> bool:
    """Whether paths that begin with ``folder``, a path with ``/`` at its end, may follow the path ``after``."""
    return folder > after or after.startswith(folder)


def join_path(*parts: str) -> str:
    """A path of parts; empty ones are left out."""
    return "/".join(part for part in parts if part)
