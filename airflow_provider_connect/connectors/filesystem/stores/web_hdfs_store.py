"""A folder of HDFS, accessed through the WebHDFS API of the active name node.

Renames are atomic. They fail if the target exists, unless it is to be replaced.
"""

from __future__ import annotations

import contextlib
import functools
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Final, cast

import requests
from fsspec.implementations.webhdfs import WebHDFS  # type: ignore[import-untyped]
from urllib3.exceptions import NewConnectionError

from airflow_provider_connect.connectors.filesystem.stores.store import (
    UNFINISHED,
    SkippedFiles,
    StoredFile,
    join_path,
    may_hold_paths_after,
)
from airflow_provider_connect.errors import ConfigException, RetriableException

_PART_BYTES: Final = 8 << 20
_SECONDS: Final = (10, 120)
"""Timeouts: to connect, and between two bytes of a response."""
_STANDBY: Final = ("StandbyException", "in state standby")
"""Parts of the responses of a standby name node, and of data nodes to which it has redirected a writer."""


class WebHdfsStore:
    """See ``Store``. ``key`` is the setting of the address ``given``. ``name_nodes`` are the WebHDFS hosts and ports of the name nodes.
    Folders are created when they are needed."""

    def __init__(self, name_nodes: Sequence[tuple[str, int]], user: str | None, folder: str, *, key: str, given: str) -> None:
        self._key, self._given, self._root = key, given, f"/{folder.strip('/')}".rstrip("/")
        self._cluster = _Cluster(name_nodes, user)
        self.skipped = SkippedFiles()

    def create(self, path: str, data: bytes) -> bool:
        """Steps: (1) write under a temporary name; (2) rename the file to the path, which fails if the path exists; (3) after a failure,
        remove the temporary name."""
        unfinished = f"{path}{UNFINISHED}{uuid.uuid4().hex}"
        file = self.new_file(unfinished)
        with self.translate_errors(path):
            file.stream.write(data)
        file.close()
        with self.translate_errors(path):
            is_created = self._rename(unfinished, path)
        if not is_created:
            self.remove(unfinished)
        return is_created

    def new_file(self, path: str) -> WebHdfsFile:
        with self.translate_errors(path):
            self._cluster.find_active()
            stream = self._cluster.open(self._path(path), "wb", block_size=_PART_BYTES)
        return WebHdfsFile(self, path, cast(BinaryIO, stream))

    def read(self, path: str) -> bytes:
        with self.translate_errors(path):
            return cast(bytes, self._cluster.cat_file(self._path(path)))

    def open(self, path: str) -> BinaryIO:
        with self.translate_errors(path):
            return cast(BinaryIO, self._cluster.open(self._path(path), "rb"))

    def move(self, path: str, to: str) -> bool:
        with self.translate_errors(path):
            try:
                self._cluster.info(self._path(path))
                self._cluster.mkdir(self._path(to).rpartition("/")[0])
                self._rename(path, to, renameoptions="OVERWRITE")
            except FileNotFoundError:
                return False
        return True

    def move_new(self, path: str, to: str) -> bool:
        with self.translate_errors(path):
            self._cluster.info(self._path(path))
            if self.file(to) is not None:  # if the target is a folder, a rename would move the file into it
                return False
            self._cluster.mkdir(self._path(to).rpartition("/")[0])
            return self._rename(path, to)

    def remove(self, path: str) -> None:
        with self.translate_errors(path), contextlib.suppress(FileNotFoundError):
            self._cluster.rm_file(self._path(path))

    def file(self, path: str) -> StoredFile | None:
        with self.translate_errors(path):
            try:
                return _stored_file(path, self._cluster.info(self._path(path)))
            except FileNotFoundError:
                return None

    def files(self, folder: str = "", after: str = "") -> Iterator[StoredFile]:
        with self.translate_errors(folder):
            try:
                found: list[Any] = self._cluster.ls(self._path(folder), detail=True)
            except FileNotFoundError:
                return
        paths = [(join_path(folder, each["name"].rpartition("/")[2]), each) for each in found]
        for path, each in sorted((f"{path}/" if each["type"] == "directory" else path, each) for path, each in paths):
            if not path.endswith("/"):
                if path > after:
                    yield _stored_file(path, each)
            elif may_hold_paths_after(path, after):
                yield from self._files_below(path.rstrip("/"), after)

    def _files_below(self, folder: str, after: str) -> Iterator[StoredFile]:
        try:
            yield from self.files(folder, after)
        except ConfigException as error:
            if not isinstance(error.__cause__, PermissionError):
                raise
            self.skipped.refuse(folder, error)

    def check_root(self, *, may_be_empty: bool) -> None:
        if self.file("") is None:
            raise ConfigException.of(self._key, self._given, "There is no such folder. Create it, or set another.")

    def close(self) -> None:
        self._cluster.session.close()

    @contextlib.contextmanager
    def translate_errors(self, path: str) -> Iterator[None]:
        where = join_path(self._given.rstrip("/"), path)
        try:
            yield
        except FileNotFoundError:
            raise
        except (RuntimeError, OSError, ValueError) as error:  # RuntimeError: a name node in safe mode; requests' errors are OSErrors
            is_standby = _is_standby(error)
            if isinstance(error, PermissionError | ValueError) or (_status_code(error) in (401, 403) and not is_standby):
                reason = f"The cluster refuses access to {where}. Check hdfs.user and its permissions."
                raise ConfigException.of(self._key, self._given, reason) from error
            reason = str(error)[:300]
            if is_standby:
                reason = "Its name node is on standby. List all name nodes of the cluster: webhdfs://first:port,second:port/folder"
                if len(self._cluster.urls) > 1:
                    reason = "No name node is active"
            raise RetriableException(f"{where} cannot be used now: {reason}") from error

    def _rename(self, path: str, to: str, **options: str) -> bool:
        """Rename a file. Returns whether the cluster has renamed it, which the library's ``mv`` does not return."""
        answer = self._cluster._call("RENAME", method="put", path=self._path(path), destination=self._path(to), **options)
        return bool(answer.json()["boolean"]) if answer.content else True

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}"


class _Cluster(WebHDFS):  # type: ignore[misc]  # the library has no types
    """Calls the active name node. If a name node is on standby or unreachable, the call goes to the next name node. A call that may have
    been executed is not repeated."""

    def __init__(self, name_nodes: Sequence[tuple[str, int]], user: str | None) -> None:
        super().__init__(*name_nodes[0], user=user, skip_instance_cache=True, use_listings_cache=False)
        self.urls = [f"http://{host}:{port}/webhdfs/v1" for host, port in name_nodes]
        self.session.trust_env = False  # the host's proxies and passwords are not used
        self.session.request = functools.partial(self.session.request, timeout=_SECONDS)

    def _call(self, op: str, *args: Any, **options: Any) -> requests.Response:
        for others in range(len(self.urls) - 1, -1, -1):
            try:
                return cast(requests.Response, super()._call(op, *args, **options))
            except (RuntimeError, requests.ConnectionError, requests.Timeout) as error:
                if isinstance(error, RuntimeError) and not _is_standby(error):
                    raise
                self.urls.append(self.urls.pop(0))
                self.url = self.urls[0]
                if not others or not (isinstance(error, RuntimeError) or _was_never_sent(error)):
                    raise
        raise AssertionError

    def find_active(self) -> None:
        """Find the active name node before a file is started, because a standby node redirects the writer to a data node, which refuses
        it."""
        if len(self.urls) > 1:
            self._call("GETFILESTATUS", path="/")


def _is_standby(error: Exception) -> bool:
    text = f"{error}{getattr(getattr(error, 'response', None), 'text', '')}"
    return any(each in text for each in _STANDBY)


def _was_never_sent(error: requests.RequestException) -> bool:
    cause = error.args[0] if error.args else None
    return isinstance(error, requests.ConnectTimeout) or isinstance(getattr(cause, "reason", None), NewConnectionError)


class WebHdfsFile:
    """See ``NewFile``."""

    def __init__(self, store: WebHdfsStore, path: str, stream: BinaryIO) -> None:
        self._store, self._path, self.stream = store, path, stream

    def close(self) -> None:
        with self._store.translate_errors(self._path):
            self.stream.close()

    def discard(self) -> None:
        """Does nothing, because the next claim removes the file."""


def _stored_file(path: str, status: Mapping[str, Any]) -> StoredFile:
    return StoredFile(path, status["size"], status["modificationTime"])


def _status_code(error: Exception) -> int:
    """The status code of an error's response. 0 if there is no response."""
    return int(getattr(getattr(error, "response", None), "status_code", 0))
