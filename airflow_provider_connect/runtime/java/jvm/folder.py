"""A private folder for each JVM, in the temporary directory. The folder is removed with the JVM. If its owner was killed, the folder is
removed when the next folder is created.

The owner of a folder holds a lock on it. The kernel releases the lock however the owner ends. The suffix marks folders with a lock, because
older versions used no locks. In a shared directory, names prove nothing. So only folders of this user that no process has locked are
removed, and links are not followed.
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
    """``path`` exists from construction until ``remove``."""

    def __init__(self) -> None:
        """Removes folders of dead owners. Raises OSError if no folder can be created."""
        self._closing = threading.Lock()
        _sweep(Path(tempfile.gettempdir()))
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, suffix=_LOCKED))
            self._lock = _locked(self.path)
            if self._lock is not None:
                return

    def remove(self) -> None:
        """May be called repeatedly, from any thread."""
        shutil.rmtree(self.path, ignore_errors=True)
        with self._closing:
            lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)


def _locked(path: Path) -> int | None:
    """A descriptor of the new folder, which is locked. None: the folder was removed before it was locked."""
    try:
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    with suppress(OSError):  # without locks, no folder is removed either
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
                    _remove_orphan(Path(entry.path))


def _remove_orphan(path: Path) -> None:
    """Remove the folder if this user owns it and no process holds its lock. Raises OSError otherwise."""
    if not _is_own(path.lstat()):
        return  # checked before opening: opening another user's pipe would block
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
