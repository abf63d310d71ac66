"""The folder for files that are built once and used by every run: Java and Spark shims, class-data archives, zips of code, jars.

The folder's content can be deleted at any time, and is rebuilt when needed. Knows nothing of Java or Spark.
"""

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from airflow_provider_connect.errors import ConnectException

CACHE_VARIABLE = "AIRFLOW_PROVIDER_CONNECT_CACHE"


def cache_directory(environ: Mapping[str, str] | None = None) -> Path:
    """The cache folder, created with mode 0700: the folder in the environment variable, or else the user's cache folder, or else a folder
    in the temporary directory.

    Raises ConnectException for a folder that another user owns or may write to, because JVMs run code from the folder.
    """
    environ = os.environ if environ is None else environ
    if CACHE_VARIABLE in environ:
        candidates = [Path(environ[CACHE_VARIABLE])]
    else:
        homes = (
            [environ["XDG_CACHE_HOME"]] if environ.get("XDG_CACHE_HOME") else [f"{environ['HOME']}/.cache"] if environ.get("HOME") else []
        )
        candidates = [Path(home) / "airflow-provider-connect" for home in homes]
        candidates.append(Path(tempfile.gettempdir()) / f"airflow-provider-connect-{os.getuid()}")
    for candidate in candidates[:-1]:
        try:
            return _private(candidate)
        except OSError:
            continue
    try:
        return _private(candidates[-1])
    except OSError as error:
        raise ConnectException(
            f"Cannot write to the cache folder {candidates[-1]}: {error}. Set {CACHE_VARIABLE} to a folder that can be written."
        ) from error


def _private(directory: Path) -> Path:
    directory = directory.expanduser().absolute()
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = directory.stat()
    if found.st_uid != os.getuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ConnectException(f"The cache folder {directory} must belong to this user only. Set {CACHE_VARIABLE} to a private folder.")
    if not os.access(directory, os.W_OK):
        raise PermissionError(f"{directory} is read-only")
    return directory


def made_once(target: Path, make: Callable[[Path], None], *, waits: bool = True) -> Path:
    """Returns ``target``, a file or folder. If it is missing, ``make`` fills a path next to it, which is then renamed.

    If several processes call this at the same time, one process builds, and the others wait. After a ``make`` that raised, its leftovers
    are removed, and the next of the waiting processes builds. Without ``waits``, raises BlockingIOError while another process builds.
    """
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked(target.with_name(f".{target.name}.lock"), waits=waits):
        if not target.exists():
            scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
            try:
                make(scratch / target.name)
                (scratch / target.name).rename(target)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    return target


def forget_old(folder: Path, now: float, *, days: float = 14, pattern: str = "*") -> None:
    """Deletes folders in ``folder`` that are older than ``days`` and match ``pattern``. Folders that are still needed are rebuilt. A
    process can still use files that it has open."""
    for entry in folder.glob(pattern):
        if entry.is_dir() and not entry.name.startswith(".") and entry.stat().st_mtime < now - days * 86400:
            shutil.rmtree(entry, ignore_errors=True)


def note_use(folder: Path, now: float, *, days: float = 1) -> None:
    """Marks ``folder`` as new for ``forget_old``, at most once in ``days``. Does nothing if the folder cannot be changed."""
    with suppress(OSError):
        if folder.stat().st_mtime < now - days * 86400:
            os.utime(folder)


@contextmanager
def locked(path: Path, *, waits: bool = True) -> Iterator[None]:
    """Hold an inter-process lock on ``path`` during the block. The lock is released if the process dies. Without ``waits``, raises
    BlockingIOError if another process holds it."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX if waits else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
