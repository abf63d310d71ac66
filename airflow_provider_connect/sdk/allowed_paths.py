"""Restricts connectors to files in the folders of the worker setting ``connectors.allowed.paths``.

The author of a config names paths, but does not own the worker's host. A path and its links are resolved first; the result must be below
one of these folders. The file is then opened folder by folder, without following links. So a link that is created after the check is
refused. Importing this module opens nothing.
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
"""The name of the default folder. It is below the worker's folder (``AIRFLOW_HOME``, or the folder of ``worker.properties``)."""

LOST_AND_FOUND: Final = "lost+found"
"""The name of a file system's own folder, which only root may list."""

LONGEST_PATH: Final = 4095
LONGEST_NAME: Final = 255
"""Linux's limits, in bytes."""

_STEP: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class AllowedPaths:
    """The folders that a worker's connectors may reach, as absolute paths. Without folders no path is allowed; ``/`` allows all.

    Each method gets ``key``, the name of a connector's setting, and ``path``, the setting's value. For a path outside of the allowed
    folders it raises ConfigException, which names the setting, the path and the allowed folders. An address such as ``s3://bucket`` is not
    a path, and raises ConfigException too."""

    folders: tuple[str, ...] = ()

    @property
    def allow_all(self) -> bool:
        """Whether every path is allowed."""
        return "/" in self.folders

    def resolve(self, key: str, path: str) -> str:
        """The real path of ``path``, without links. It need not exist. Raises ConfigException if it is outside of the allowed folders."""
        return self._rooted(key, path)[0]

    def file_path(self, key: str, path: str) -> str:
        """Like ``resolve``, for a library that opens or creates the file itself. A missing folder also raises ConfigException."""
        real = self.resolve(key, path)
        folder = os.path.dirname(real)
        if not os.path.isdir(folder):
            raise ConfigException.of(key, path, f"There is no folder {folder}. Create it, or set another path.")
        return real

    def _rooted(self, key: str, path: str) -> tuple[str, str]:
        """The real path, and the allowed folder that equals or contains this path."""
        if "\0" in path:
            raise ConfigException.of(key, path.replace("\0", "\\0"), "A path cannot contain NUL. Remove it.")
        if "://" in path and not path.startswith("/"):
            raise ConfigException.of(key, path, "This is an address, not a path: no scheme is allowed. Give the path alone.")
        try:
            encoded = path.encode()
        except UnicodeEncodeError:
            raise ConfigException.of(key, ascii(path), "Half of a surrogate pair is not a character. Remove it.") from None
        if len(encoded) > LONGEST_PATH or max(map(len, encoded.split(b"/"))) > LONGEST_NAME:
            raise ConfigException.of(key, f"{path[:200]}…", f"A path has at most {LONGEST_PATH} bytes, and each name in it {LONGEST_NAME}.")
        real = os.path.realpath(path)
        roots = (os.path.realpath(folder) for folder in self.folders)
        root = next((root for root in roots if real == root or real.startswith(root.rstrip("/") + "/")), None)
        if root is None:
            raise self.refusal(key, path)
        return real, root

    def refusal(self, key: str, path: str) -> ConfigException:
        """The ConfigException for a path that is not allowed. It does not reveal whether the path exists."""
        below = " or ".join(self.folders) or "nothing, since it is not set"
        return ConfigException.of(
            key,
            path,
            f"Connectors of this worker may only use files below {below} (worker setting {SETTING}). "
            "Use a path below that, or ask an admin to add the folder to the setting.",
        )

    def open(self, key: str, path: str, flags: int, mode: int = 0o666) -> int:
        """Open the file at ``path`` and return its descriptor. Raises ConfigException like ``resolve``, and OSError like ``os.open``."""
        folder, name = self.folder_of(key, path)
        return folder.open(name, flags, mode)

    def folder(self, key: str, path: str) -> AllowedFolder:
        """The folder at ``path``. It need not exist. Raises ConfigException as ``resolve`` does."""
        real, root = self._rooted(key, path)
        return AllowedFolder(self, key, path, root, real[len(root) :].strip("/"))

    def folder_of(self, key: str, path: str) -> tuple[AllowedFolder, str]:
        """The folder of the file at ``path``, and the file's name. Raises ConfigException as ``resolve`` does."""
        real, root = self._rooted(key, path)
        if real == root:
            raise ConfigException.of(key, path, "This is a folder. Give the path of a file.")
        below, _, name = real[len(root) :].lstrip("/").rpartition("/")
        return AllowedFolder(self, key, path, root, below), name


NOTHING_ALLOWED: Final = AllowedPaths()
ALL_ALLOWED: Final = AllowedPaths(("/",))
"""Allows every path. For tests."""


def add_path_errors(values: Iterable[ConfigValue], key: str, allowed: AllowedPaths, *, folder: bool = False) -> None:
    """Add an error to the value of ``key`` if the value is a path outside of the allowed folders, or the path of a folder.

    A connector's ``validate`` calls this. With ``folder``, the path of a file is refused instead. A path that does not exist is valid,
    because the tasks may run on another host.
    """
    for value in values:
        if value.name == key and value.value and not value.errors:
            try:
                real = allowed.resolve(key, str(value.value))
                if not folder and os.path.isdir(real):
                    raise ConfigException.of(key, value.value, "This is a folder. Set it to the path of a file.")
                if folder and os.path.isfile(real):
                    raise ConfigException.of(key, value.value, "This is a file. Set it to the path of a folder.")
            except ConfigException as error:
                value.errors += error.errors


@dataclass(frozen=True, slots=True)
class AllowedFolder:
    """An allowed folder, or a folder below one. The parameter ``name`` is always a plain file name.

    Each call opens the path again, without following links. A link in the path raises ConfigException; a failed system call raises OSError.
    """

    allowed: AllowedPaths
    key: str
    given: str
    root: str
    below: str

    @property
    def path(self) -> str:
        """The folder's real path. Use it for messages only: opening it would follow links."""
        return os.path.join(self.root, self.below) if self.below else self.root

    def open(self, name: str, flags: int, mode: int = 0o666) -> int:
        """Open the file ``name`` and return its descriptor. Refuses a link."""
        with self.open_directory() as folder:
            try:
                return os.open(name or ".", flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=folder)
            except OSError as error:
                raise self._refused(error) from None

    def stat(self, name: str) -> os.stat_result:
        """The status of ``name``. Does not follow a link."""
        with self.open_directory() as folder:
            return os.stat(name, dir_fd=folder, follow_symlinks=False)

    def names(self) -> list[str]:
        """The names of all entries."""
        descriptor = self.open(".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            return os.listdir(descriptor)
        finally:
            os.close(descriptor)

    def replace(self, name: str, new: str) -> None:
        """Rename the file ``name`` to ``new``, replacing an existing file."""
        with self.open_directory() as folder:
            os.replace(name, new, src_dir_fd=folder, dst_dir_fd=folder)

    def remove(self, name: str) -> None:
        """Delete the file ``name``."""
        with self.open_directory() as folder:
            os.remove(name, dir_fd=folder)

    def sync(self) -> None:
        """Make changes to this folder's entries durable (``fsync``)."""
        descriptor = self.open(".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def is_writable(self, name: str = ".") -> bool:
        """Whether this process may write to the file ``name``. Without ``name``: whether it may create files in the folder."""
        with self.open_directory() as folder:
            return os.access(name, os.W_OK, dir_fd=folder, effective_ids=True)

    @contextlib.contextmanager
    def open_directory(self) -> Iterator[int]:
        """Open the folder for the duration of the block. The descriptor is only for ``dir_fd``."""
        descriptor = os.open(self.root, _STEP)  # an allowed folder is resolved already and belongs to the worker's owner
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
        """The exception for ``error``. It is a ConfigException if a link was created after the path was resolved."""
        is_link = error.errno == errno.ELOOP
        if error.errno == errno.ENOTDIR and part:  # O_DIRECTORY raises this error for a link that is not followed
            with contextlib.suppress(OSError):
                is_link = os.path.islink(f"/proc/self/fd/{folder}/{part}")
        return self.allowed.refusal(self.key, self.given) if is_link else error
