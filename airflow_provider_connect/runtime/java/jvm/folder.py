"""A private folder for each JVM, in the temporary directory: it goes with the JVM, or where its owner was killed, when another is made.

Its owner holds a lock on it, which the kernel lets go of however the owner ends; the end of its name marks a folder with a lock, since the
owners of former versions held none. Names prove nothing there: only folders of this user, that no process holds, are removed, and no link
is followed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

_PREFIX: Final = "connect-java-"
_LOCKED: Final = ".locked"


class JvmFolder:
    """``path`` is there from the start until ``remove``."""

    def __init__(self) -> None:
        """Removes what dead owners have left. Raises OSError where there can be no folder."""
        self._closing = threading.Lock()
        _sweep(Path(tempfile.gettempdir()))
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, suffix=_LOCKED))
            self._lock = _locked(self.path)
            if self._lock is not None:
                return

    def remove(self) -> None:
        """May be called again, from any thread."""
        shutil.rmtree(self.path, ignore_errors=True)
        with self._closing:
            lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)


def _locked(path: Path) -> int | None:
    """The new folder, opened and locked; None: it was swept before it had its lock."""
    try:
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    with suppress(OSError):  # where there are no locks, nothing is swept either
        fcntl.flock(lock, fcntl.LOCK_EX)
    if _is_at(lock, path):
        return lock
    os.close(lock)
    return None


def _sweep(directory: Path) -> None:
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX) and entry.name.endswith(_LOCKED):
                with suppress(OSError):
                    _remove_left(Path(entry.path))


def _remove_left(path: Path) -> None:
    """Remove the folder, if it is one of this user and no process holds its lock. Raises OSError where it is not, or a process does."""
    if not _is_own(path.lstat()):
        return  # before it is opened: to open a stranger's pipe waits
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_own(os.fstat(lock)) and _is_at(lock, path):
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)


def _is_own(found: os.stat_result) -> bool:
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _is_at(opened: int, path: Path) -> bool:
    with suppress(OSError):
        return os.path.samestat(os.fstat(opened), path.lstat())
    return False
