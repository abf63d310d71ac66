"""A folder of the host below the worker's allowed paths. Links are never followed (``sdk.allowed_paths``)."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import BinaryIO, Final

from airflow_provider_connect.connectors.filesystem.stores.store import (
    UNFINISHED,
    SkippedFiles,
    StoredFile,
    is_hidden,
    join_path,
    may_hold_paths_after,
)
from airflow_provider_connect.errors import ConfigException, RetriableException
from airflow_provider_connect.sdk.allowed_paths import AllowedFolder

_BUFFER_BYTES: Final = 1 << 20
_NO_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""Errors of file systems without hard links. Linux's ``fs.protected_hardlinks`` also raises EPERM for files of other users."""


class LocalStore:
    """See ``Store``. Folders are created when they are needed. The root must exist."""

    def __init__(self, root: AllowedFolder) -> None:
        self._root = root
        self.skipped = SkippedFiles()

    def create(self, path: str, data: bytes) -> bool:
        """Steps: (1) write under a temporary name, and fsync; (2) link the file to the path, which fails if the path exists; (3) remove the
        temporary name. Also False if another process has removed the temporary name."""
        folder, name = self._folder_of(path)
        unfinished = f"{name}{UNFINISHED}{uuid.uuid4().hex}"
        with self.translate_errors(path):
            with os.fdopen(self._create_file(folder, unfinished), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            try:
                with folder.open_directory() as opened:
                    os.link(unfinished, name, src_dir_fd=opened, dst_dir_fd=opened, follow_symlinks=False)
            except FileExistsError:
                return False
            except FileNotFoundError:
                with folder.open_directory():  # raises if the folder is gone
                    return False  # a newer claim has removed the temporary name
            finally:
                with contextlib.suppress(FileNotFoundError):
                    folder.remove(unfinished)
            folder.sync()
        return True

    def new_file(self, path: str) -> LocalFile:
        folder, name = self._folder_of(path)
        with self.translate_errors(path):
            return LocalFile(self, path, self._create_file(folder, name))

    def read(self, path: str) -> bytes:
        with self.open(path) as file:
            return file.read()

    def open(self, path: str) -> BinaryIO:
        folder, name = self._folder_of(path)
        with self.translate_errors(path):
            return os.fdopen(folder.open(name, os.O_RDONLY), "rb")

    def move(self, path: str, to: str) -> bool:
        (folder, name), (target, new) = self._folder_of(path), self._folder_of(to)
        with self.translate_errors(to):
            try:
                folder.stat(name)
            except FileNotFoundError:
                return False
            self._create_folder(target)
            try:
                with folder.open_directory() as source, target.open_directory() as destination:
                    os.rename(name, new, src_dir_fd=source, dst_dir_fd=destination)
            except FileNotFoundError:
                return False
            target.sync()
            folder.sync()
        return True

    def move_new(self, path: str, to: str) -> bool:
        """Steps: (1) link the file to the new path; (2) remove the old path. If the file system has no links, (1) is only a check."""
        (folder, name), (target, new) = self._folder_of(path), self._folder_of(to)
        with self.translate_errors(to):
            mine = folder.stat(name)
            self._create_folder(target)
            with folder.open_directory() as source, target.open_directory() as destination:
                try:
                    os.link(name, new, src_dir_fd=source, dst_dir_fd=destination, follow_symlinks=False)
                except FileExistsError:
                    if not os.path.samestat(mine, target.stat(new)):
                        return False
                except OSError as error:
                    if error.errno not in _NO_LINKS:
                        raise
                    if new in target.names():
                        return False
                    os.rename(name, new, src_dir_fd=source, dst_dir_fd=destination)
            target.sync()
            self.remove(path)
            folder.sync()
        return True

    def remove(self, path: str) -> None:
        folder, name = self._folder_of(path)
        with self.translate_errors(path), contextlib.suppress(FileNotFoundError):
            folder.remove(name)

    def file(self, path: str) -> StoredFile | None:
        folder, name = self._folder_of(path)
        with self.translate_errors(path):
            try:
                return _stored_file(path, folder.stat(name))
            except FileNotFoundError:
                return None

    def files(self, folder: str = "", after: str = "") -> Iterator[StoredFile]:
        with self.translate_errors(folder):
            yield from self._files(folder, after)

    def check_root(self, *, may_be_empty: bool) -> None:
        with self.translate_errors(""):
            self._root.names()

    def close(self) -> None:
        """Does nothing, because no file or connection is kept open."""

    def _files(self, folder: str, after: str) -> Iterator[StoredFile]:
        here = self._folder(folder)
        try:
            names = here.names()
        except FileNotFoundError:
            if not os.path.isdir(self._root.path):
                raise
            return
        found: list[tuple[str, os.stat_result]] = []
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # already removed
                status = here.stat(name)
                path = join_path(folder, name)
                if not _is_text(path):
                    self.skipped.add(path)
                    continue
                if stat.S_ISDIR(status.st_mode):
                    found.append((f"{path}/", status))
                elif stat.S_ISREG(status.st_mode) and path > after:
                    found.append((path, status))
                elif stat.S_ISLNK(status.st_mode) and not is_hidden(path) and self._leaves_store(path):
                    self.skipped.links.add(path)
        for path, status in sorted(found, key=lambda entry: entry[0]):
            if not path.endswith("/"):
                yield _stored_file(path, status)
            elif may_hold_paths_after(path, after):
                yield from self._files_below(path.rstrip("/"), after)

    def _files_below(self, folder: str, after: str) -> Iterator[StoredFile]:
        try:
            yield from self._files(folder, after)
        except PermissionError as error:
            self.skipped.refuse(folder, self._refusal(folder, error))

    def _leaves_store(self, link: str) -> bool:
        """Whether a link's target is outside the store or hidden, so that it is not read under its own path."""
        root = os.path.join(self._root.path, "")
        target = os.path.realpath(root + link)
        return not target.startswith(root) or is_hidden(target.removeprefix(root))

    def _folder(self, path: str) -> AllowedFolder:
        if not {".", ".."}.isdisjoint(path.split("/")):
            raise ConfigException.of(self._root.key, self._root.given, f"The path {path} leads out of it. Remove . and .. from all paths.")
        return replace(self._root, below=join_path(self._root.below, path))

    def _folder_of(self, path: str) -> tuple[AllowedFolder, str]:
        folder, _, name = path.rpartition("/")
        return self._folder(folder), name

    def _create_file(self, folder: AllowedFolder, name: str) -> int:
        """The descriptor of a new or emptied file. A missing folder is created."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        try:
            return folder.open(name, flags)
        except FileNotFoundError:
            self._create_folder(folder)
            return folder.open(name, flags)

    def _create_folder(self, folder: AllowedFolder) -> None:
        """Create the folder and its parents, up to the root. A missing root is not created, because it may be a mount."""
        if folder.below == self._root.below:
            with folder.open_directory():
                return
        with contextlib.suppress(FileNotFoundError), folder.open_directory():
            return
        above, _, name = folder.below.rpartition("/")
        parent = replace(folder, below=above)
        self._create_folder(parent)
        with parent.open_directory() as opened, contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=opened)

    @contextlib.contextmanager
    def translate_errors(self, path: str) -> Iterator[None]:
        """Translate errors of system calls in the block."""
        try:
            yield
        except FileNotFoundError:
            if os.path.isdir(self._root.path):
                raise
            reason = f"There is no folder {self._root.path}. Create it, or set another path."
            raise ConfigException.of(self._root.key, self._root.given, reason) from None
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR):
                raise self._refusal(path, error) from error
            where = os.path.join(self._root.path, path)
            raise RetriableException(f"{where} cannot be used now: {error.strerror or error}") from error

    def _refusal(self, path: str, error: OSError) -> ConfigException:
        where = os.path.join(self._root.path, path)
        reason = f"User {os.geteuid()} cannot use {where}: {error.strerror}. Fix that, or set another path."
        return ConfigException.of(self._root.key, self._root.given, reason)


def _is_text(path: str) -> bool:
    """Whether a name is UTF-8. Names are bytes. Python decodes other bytes with surrogates."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _stored_file(path: str, status: os.stat_result) -> StoredFile:
    return StoredFile(path, status.st_size, status.st_mtime_ns // 1_000_000)


class LocalFile:
    """See ``NewFile``."""

    def __init__(self, store: LocalStore, path: str, descriptor: int) -> None:
        self._store, self._path = store, path
        self._folder, self._name = store._folder_of(path)
        self.stream: BinaryIO = os.fdopen(descriptor, "wb", buffering=_BUFFER_BYTES)

    def close(self) -> None:
        with self._store.translate_errors(self._path):
            self.stream.flush()
            os.fsync(self.stream.fileno())
            self.stream.close()
            self._folder.sync()

    def discard(self) -> None:
        for step in (self.stream.close, lambda: self._folder.remove(self._name)):
            with contextlib.suppress(OSError, ValueError, ConfigException):
                step()
