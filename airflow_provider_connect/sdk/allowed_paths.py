"""Which files of a worker's host a connector may open: those below the folders of the worker setting ``connectors.allowed.paths``.

A config's author names paths, and does not own the host. A path is resolved first, links included, and must then lie below one of the
folders. What is opened is opened folder by folder from there, and no step follows a link: one that is put in between check and opening
leads nowhere. Opens nothing at import.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_provider_connect.errors import ConfigException

if TYPE_CHECKING:
    from airflow_provider_connect.sdk.config_def import ConfigValue

SETTING: Final = "connectors.allowed.paths"
DATA_FOLDER: Final = "connect-data"
"""The default: this folder below the worker's own (``AIRFLOW_HOME``, or where ``worker.properties`` lies)."""

LONGEST_PATH: Final = 4095
LONGEST_NAME: Final = 255
"""What Linux takes, in bytes."""

_STEP: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class AllowedPaths:
    """The folders that connectors of a worker may reach, absolute paths; none at all allow nothing, ``/`` allows everything."""

    folders: tuple[str, ...] = ()

    @property
    def allow_all(self) -> bool:
        """Whether the worker's owner has put no limit."""
        return "/" in self.folders

    def resolved(self, key: str, path: str) -> str:
        """The path without links that ``path`` leads to now, whether something is there or not. Raises ConfigException, which names the
        setting ``key`` of the connector and the worker's folders, when it lies outside of all of them."""
        return self._rooted(key, path)[0]

    def file_path(self, key: str, path: str) -> str:
        """As ``resolved``, for a library that opens or creates the file itself. Raises ConfigException also where its folder is missing."""
        real = self.resolved(key, path)
        folder = os.path.dirname(real)
        if not os.path.isdir(folder):
            raise ConfigException.of(key, path, f"There is no folder {folder}. Create it, or set another path.")
        return real

    def _rooted(self, key: str, path: str) -> tuple[str, str]:
        """As ``resolved``, with the allowed folder that the path is or lies below."""
        if "\0" in path:
            raise ConfigException.of(key, path.replace("\0", "\\0"), "A path holds no NUL. Take it out.")
        try:
            encoded = path.encode()
        except UnicodeEncodeError:
            raise ConfigException.of(key, ascii(path), "It has half of a surrogate pair, which is no character. Take it out.") from None
        if len(encoded) > LONGEST_PATH or max(map(len, encoded.split(b"/"))) > LONGEST_NAME:
            raise ConfigException.of(key, f"{path[:200]}…", f"A path has at most {LONGEST_PATH} bytes, and each name in it {LONGEST_NAME}.")
        real = os.path.realpath(path)
        roots = (os.path.realpath(folder) for folder in self.folders)
        root = next((root for root in roots if real == root or real.startswith(root.rstrip("/") + "/")), None)
        if root is None:
            raise self.refusal(key, path)
        return real, root

    def refusal(self, key: str, path: str) -> ConfigException:
        """The exception for a path outside. It is the same whether something is there or not."""
        below = " or ".join(self.folders) or "nothing, since it is not set"
        return ConfigException.of(
            key,
            path,
            f"Connectors of this worker may only reach what lies below {below} (worker setting {SETTING}). "
            "Use a path below that, or ask an admin to add the folder to the setting.",
        )

    def open(self, key: str, path: str, flags: int, mode: int = 0o666) -> int:
        """A descriptor of the file that ``path`` leads to. Raises ConfigException as ``resolved`` does, and OSError as ``os.open``."""
        folder, name = self.folder_of(key, path)
        return folder.open(name, flags, mode)

    def folder(self, key: str, path: str) -> AllowedFolder:
        """The folder that ``path`` leads to. Raises ConfigException as ``resolved`` does."""
        real, root = self._rooted(key, path)
        return AllowedFolder(self, key, path, root, real[len(root) :].strip("/"))

    def folder_of(self, key: str, path: str) -> tuple[AllowedFolder, str]:
        """The folder of the file that ``path`` leads to, and the file's name. Raises ConfigException as ``resolved`` does."""
        real, root = self._rooted(key, path)
        if real == root:
            raise ConfigException.of(key, path, "This is a folder. Give the path of a file.")
        below, _, name = real[len(root) :].lstrip("/").rpartition("/")
        return AllowedFolder(self, key, path, root, below), name


NOTHING_ALLOWED: Final = AllowedPaths()
ALL_ALLOWED: Final = AllowedPaths(("/",))
"""For an author's own tests."""


def add_path_errors(values: Iterable[ConfigValue], key: str, allowed: AllowedPaths, *, folder: bool = False) -> None:
    """Add an error to the value of ``key`` where it leads out of the allowed folders or is a folder instead of a file.

    For a connector's ``validate``. With ``folder`` a file is refused instead. What does not exist passes: this process may run on another
    host than the tasks.
    """
    for value in values:
        if value.name == key and value.value and not value.errors:
            try:
                real = allowed.resolved(key, str(value.value))
                if not folder and os.path.isdir(real):
                    raise ConfigException.of(key, value.value, "This is a folder. Set it to the path of a file.")
                if folder and os.path.isfile(real):
                    raise ConfigException.of(key, value.value, "This is a file. Set it to the path of a folder.")
            except ConfigException as error:
                value.errors += error.errors


@dataclass(frozen=True, slots=True)
class AllowedFolder:
    """A folder below one that is allowed. Each call walks there anew without following a link; ``name`` is always a plain file name.

    Raises ConfigException when a link lies on the way, OSError as the system calls do.
    """

    allowed: AllowedPaths
    key: str
    given: str
    root: str
    below: str

    @property
    def path(self) -> str:
        """The folder's real path, for messages."""
        return os.path.join(self.root, self.below) if self.below else self.root

    def open(self, name: str, flags: int, mode: int = 0o666) -> int:
        """A descriptor of the file ``name``. A link under that name is refused."""
        with self.opened() as folder:
            try:
                return os.open(name or ".", flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=folder)
            except OSError as error:
                raise self._refused(error) from None

    def stat(self, name: str) -> os.stat_result:
        """What lies under ``name`` itself: a link is not followed."""
        with self.opened() as folder:
            return os.stat(name, dir_fd=folder, follow_symlinks=False)

    def names(self) -> list[str]:
        """Of all that lies in the folder."""
        descriptor = self.open(".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            return os.listdir(descriptor)
        finally:
            os.close(descriptor)

    def replace(self, name: str, new: str) -> None:
        """Rename a file over another one."""
        with self.opened() as folder:
            os.replace(name, new, src_dir_fd=folder, dst_dir_fd=folder)

    def remove(self, name: str) -> None:
        with self.opened() as folder:
            os.remove(name, dir_fd=folder)

    def sync(self) -> None:
        """Make changes of this folder durable."""
        descriptor = self.open(".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def is_writable(self, name: str = ".") -> bool:
        """Whether this process may write to a file that is here; to the folder itself, whether it may make files."""
        with self.opened() as folder:
            return os.access(name, os.W_OK, dir_fd=folder, effective_ids=True)

    @contextlib.contextmanager
    def opened(self) -> Iterator[int]:
        """A descriptor of the folder for the time of the block, good for ``dir_fd`` alone."""
        descriptor = os.open(self.root, _STEP)  # the allowed folder itself was resolved, and its owner is the worker's
        try:
            for part in filter(None, self.below.split("/")):
                try:
                    step = os.open(part, _STEP, dir_fd=descriptor)
                except OSError as error:
                    raise self._refused(error, part=part, folder=descriptor) from None
                os.close(descriptor)
                descriptor = step
            yield descriptor
        finally:
            os.close(descriptor)

    def _refused(self, error: OSError, *, part: str = "", folder: int = -1) -> Exception:
        """A link that was not there when the path was resolved: another process has created it since."""
        is_link = error.errno == errno.ELOOP
        if error.errno == errno.ENOTDIR and part:  # the error of O_DIRECTORY for a link that is not followed
            with contextlib.suppress(OSError):
                is_link = os.path.islink(f"/proc/self/fd/{folder}/{part}")
        return self.allowed.refusal(self.key, self.given) if is_link else error
