"""A folder of an SFTP server. Links and renames are atomic. They use OpenSSH's SFTP extensions, which the server must support."""

from __future__ import annotations

import contextlib
import io
import uuid
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, BinaryIO, Final, TypeVar, cast

import asyncssh

from airflow_provider_connect.connectors.filesystem.stores.sftp_connection import SftpConnection, SftpLogin
from airflow_provider_connect.connectors.filesystem.stores.store import (
    UNFINISHED,
    SkippedFiles,
    StoredFile,
    is_hidden,
    join_path,
    may_hold_paths_after,
)
from airflow_provider_connect.errors import ConfigException, RetriableException

T = TypeVar("T")
_BUFFER_BYTES: Final = 1 << 20
_WRITTEN_BYTES: Final = 4 << 20
_MISSING: Final = (asyncssh.SFTPNoSuchFile, asyncssh.SFTPNoSuchPath)
_EXTENSIONS: Final = "posix-rename@openssh.com and hardlink@openssh.com"


class SftpStore:
    """See ``Store``. ``keys`` names the settings of the address ``given``, of the credentials and of the host keys. Folders are created
    when they are needed. The root must exist."""

    def __init__(self, login: SftpLogin, folder: str, given: str, *, keys: tuple[str, str, str]) -> None:
        self._connection = SftpConnection(login)
        self.skipped = SkippedFiles()
        self._root, self._given, self._keys = f"/{folder.strip('/')}".rstrip("/"), given, keys

    def create(self, path: str, data: bytes) -> bool:
        """Steps: (1) write under a temporary name; (2) link the file to the path, which fails if the path exists; (3) remove the temporary
        name. Also False if another process has removed the temporary name."""
        unfinished = f"{path}{UNFINISHED}{uuid.uuid4().hex}"
        file = self.new_file(unfinished)
        try:
            with self.translate_errors(path):
                file.stream.write(data)
            file.close()
            with self.translate_errors(path):
                return self._link(unfinished, path)
        finally:
            file.discard()

    def new_file(self, path: str) -> SftpFile:
        with self.translate_errors(path):
            try:
                file = self.call(lambda client: client.open(self._path(path), "wb", encoding=None))
            except _MISSING:
                self._create_folder(path.rpartition("/")[0])
                file = self.call(lambda client: client.open(self._path(path), "wb", encoding=None))
        return SftpFile(self, path, file)

    def read(self, path: str) -> bytes:
        with self.open(path) as file, self.translate_errors(path):
            return file.read()

    def open(self, path: str) -> BinaryIO:
        with self.translate_errors(path):
            file = self.call(lambda client: client.open(self._path(path), "rb", encoding=None))
            size = self.call(lambda _: file.stat()).size or 0
        return io.BufferedReader(_Reader(self, file, size), _BUFFER_BYTES)

    def move(self, path: str, to: str) -> bool:
        with self.translate_errors(to):
            if not self._exists(path):
                return False
            self._create_folder(to.rpartition("/")[0])
            try:
                self.call(lambda client: client.posix_rename(self._path(path), self._path(to)))
            except _MISSING:
                return False
        return True

    def move_new(self, path: str, to: str) -> bool:
        """Uses SFTP's own rename, which fails if the target exists."""
        with self.translate_errors(to):
            self.call(lambda client: client.lstat(self._path(path)))
            self._create_folder(to.rpartition("/")[0])
            try:
                self.call(lambda client: client.rename(self._path(path), self._path(to)))
            except (asyncssh.SFTPFailure, asyncssh.SFTPFileAlreadyExists):
                if self._exists(to):
                    return False
                raise
        return True

    def remove(self, path: str) -> None:
        with self.translate_errors(path), contextlib.suppress(*_MISSING):
            self.call(lambda client: client.remove(self._path(path)))

    def file(self, path: str) -> StoredFile | None:
        with self.translate_errors(path):
            try:
                status = self.call(lambda client: client.lstat(self._path(path)))
            except _MISSING:
                return None
        return StoredFile(path, status.size, status.mtime * 1000)

    def files(self, folder: str = "", after: str = "") -> Iterator[StoredFile]:
        """Links are not followed. Times have a resolution of one second, as in SFTP."""
        try:
            with self.translate_errors(folder):
                entries: list[Any] = self.call(lambda client: client.readdir(self._path(folder) or "/"))
        except FileNotFoundError:
            return
        found = []
        for entry in entries:
            path = join_path(folder, entry.filename)
            if path != path.encode(errors="replace").decode():
                self.skipped.add(path)
            elif entry.attrs.type == asyncssh.FILEXFER_TYPE_DIRECTORY and entry.filename not in (".", ".."):
                found.append((f"{path}/", entry.attrs))
            elif entry.attrs.type == asyncssh.FILEXFER_TYPE_REGULAR and path > after:
                found.append((path, entry.attrs))
            elif entry.attrs.type == asyncssh.FILEXFER_TYPE_SYMLINK and not is_hidden(path) and self._leaves_store(path):
                self.skipped.links.add(path)
        for path, status in sorted(found, key=lambda each: each[0]):
            if not path.endswith("/"):
                yield StoredFile(path, status.size, status.mtime * 1000)
            elif may_hold_paths_after(path, after):
                yield from self._files_below(path.rstrip("/"), after)

    def _files_below(self, folder: str, after: str) -> Iterator[StoredFile]:
        try:
            yield from self.files(folder, after)
        except ConfigException as error:
            if not isinstance(error.__cause__, asyncssh.SFTPPermissionDenied):
                raise
            self.skipped.refuse(folder, error)

    def _leaves_store(self, link: str) -> bool:
        """Whether a link's target is outside the store or hidden, so that it is not read under its own path. Some servers cannot resolve a
        dangling link."""
        try:
            root, target = self._real(self._root or "/"), self._real(self._path(link))
        except (asyncssh.SFTPError, OSError):
            return True
        root = f"{root.rstrip('/')}/"
        return not target.startswith(root) or is_hidden(target.removeprefix(root))

    def _real(self, path: str) -> str:
        return str(self.call(lambda client: client.realpath(path)))

    def check_root(self, *, may_be_empty: bool) -> None:
        with self.translate_errors(""):
            self.call(lambda client: client.stat(self._root or "/"))

    def close(self) -> None:
        self._connection.close()

    @contextlib.contextmanager
    def translate_errors(self, path: str) -> Iterator[None]:
        where = join_path(self._given.rstrip("/"), path)
        address, credentials, host_keys = self._keys
        try:
            yield
        except _MISSING as error:
            with self.translate_errors(""):
                is_there = self.call(lambda client: client.isdir(self._root or "/"))
            if is_there:
                raise FileNotFoundError(where) from error
            raise ConfigException.of(address, self._given, "There is no such folder. Create it, or set another.") from error
        except FileNotFoundError:
            raise
        except (asyncssh.HostKeyNotVerifiable, asyncssh.KeyExchangeFailed) as error:
            reason = f"The server {self._given} does not have these keys ({error.reason}). Compare them with the server's own."
            raise ConfigException.of(host_keys, "[not shown]", reason) from error
        except asyncssh.PermissionDenied as error:
            raise ConfigException.of(credentials, "[hidden]", f"The server {self._given} refuses the login. Check them.") from error
        except asyncssh.SFTPPermissionDenied as error:
            raise ConfigException.of(address, self._given, f"The user may not use {where}. Grant access, or set another folder.") from error
        except asyncssh.SFTPOpUnsupported as error:
            reason = f"The server lacks {error.reason}: it must support {_EXTENSIONS}, like OpenSSH. Use another server."
            raise ConfigException.of(address, self._given, reason) from error
        except (asyncssh.Error, OSError) as error:
            raise RetriableException(f"{where} cannot be used now: {str(error)[:300] or type(error).__name__}") from error

    def call(self, act: Callable[[Any], Awaitable[T]]) -> T:
        """Call the library's client. Must be used in a block of ``translate_errors``."""
        return self._connection.call(act)

    def _link(self, path: str, to: str) -> bool:
        try:
            self.call(lambda client: client.link(self._path(path), self._path(to)))
        except _MISSING:
            self._exists(path)
            return False
        except (asyncssh.SFTPFailure, asyncssh.SFTPFileAlreadyExists):  # SFTP 3 has no separate error for this
            if self._exists(to):
                return False
            raise
        return True

    def _exists(self, path: str) -> bool:
        """Whether the path exists. Raises SFTPNoSuchFile if the root does not."""
        is_there: bool = self.call(lambda client: client.exists(self._path(path)))
        if not is_there:
            self.call(lambda client: client.stat(self._root or "/"))
        return is_there

    def _create_folder(self, folder: str) -> None:
        """Create the folder and its parents, up to the root. A missing root is not created, because it may be a mount."""
        if not folder:
            return
        if self.call(lambda client: client.isdir(self._path(folder))):
            return
        self._create_folder(folder.rpartition("/")[0])
        try:
            self.call(lambda client: client.mkdir(self._path(folder)))
        except (asyncssh.SFTPFailure, asyncssh.SFTPFileAlreadyExists):
            if not self.call(lambda client: client.isdir(self._path(folder))):  # another process has created it
                raise

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}"


class SftpFile:
    """See ``NewFile``."""

    def __init__(self, store: SftpStore, path: str, file: Any) -> None:  # Any: asyncssh.SFTPClientFile
        self._store, self._path, self._file = store, path, file
        self._writer = _Writer(store, file)
        self.stream: BinaryIO = io.BufferedWriter(self._writer, _WRITTEN_BYTES)

    def close(self) -> None:
        """The file is durable if the server supports ``fsync@openssh.com``."""
        with self._store.translate_errors(self._path):
            self.stream.flush()
            with contextlib.suppress(asyncssh.SFTPOpUnsupported):
                self._store.call(lambda _: self._file.fsync())
            self._store.call(lambda _: self._file.close())

    def discard(self) -> None:
        self._writer.is_discarded = True
        self.stream.close()
        with contextlib.suppress(RetriableException, ConfigException), self._store.translate_errors(self._path):
            with contextlib.suppress(asyncssh.Error):
                self._store.call(lambda _: self._file.close())
            self._store.remove(self._path)


class _Writer(io.RawIOBase):
    """Does not close the file on the server, because ``SftpFile`` does. Once it is discarded, it drops what is written: buffers before it
    write their rest when they are closed."""

    def __init__(self, store: SftpStore, file: Any) -> None:
        super().__init__()
        self._store, self._file = store, file
        self.is_discarded = False

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:  # Any: a buffer
        content = bytes(data)
        if self.is_discarded:
            return len(content)
        return cast(int, self._store.call(lambda _: self._file.write(content)))


class _Reader(io.RawIOBase):
    def __init__(self, store: SftpStore, file: Any, size: int) -> None:
        super().__init__()
        self._store, self._file, self._size, self._position = store, file, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = max(0, offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence])
        return self._position

    def readinto(self, target: Any) -> int:  # Any: a writable buffer
        position, count = self._position, len(target)
        data: bytes = self._store.call(lambda _: self._file.read(count, position))
        target[: len(data)] = data
        self._position += len(data)
        return len(data)

    def close(self) -> None:
        if not self.closed:
            with contextlib.suppress(asyncssh.Error, OSError):
                self._store.call(lambda _: self._file.close())
        super().close()
