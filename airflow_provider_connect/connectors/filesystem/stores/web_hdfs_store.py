"""A folder of HDFS, by the name node's WebHDFS. A rename there is atomic, and fails where its target exists unless asked to replace it."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, Final, cast

from fsspec.implementations.webhdfs import WebHDFS  # type: ignore[import-untyped]

from airflow_provider_connect.connectors.filesystem.stores.store import UNFINISHED, StoredFile, joined
from airflow_provider_connect.errors import ConfigException, RetriableException

_PART_BYTES: Final = 8 << 20


class WebHdfsStore:
    """See ``Store``. ``key`` is the setting of the address ``given``. Folders are created as they are needed."""

    def __init__(self, host: str, port: int, user: str | None, folder: str, *, key: str, given: str) -> None:
        self._key, self._given, self._root = key, given, f"/{folder.strip('/')}".rstrip("/")
        self._cluster = WebHDFS(host, port, user=user, skip_instance_cache=True, use_listings_cache=False)
        self._cluster.session.trust_env = False  # neither proxies nor passwords of the host

    def create(self, path: str, data: bytes) -> bool:
        """1 write under another name 2 rename it to the path, which fails where there is one 3 where it did, remove the other name."""
        unfinished = f"{path}{UNFINISHED}{uuid.uuid4().hex}"
        file = self.new_file(unfinished)
        with self.explained(path):
            file.stream.write(data)
        file.close()
        with self.explained(path):
            is_created = self._renamed(unfinished, path)
        if not is_created:
            self.remove(unfinished)
        return is_created

    def new_file(self, path: str) -> WebHdfsFile:
        with self.explained(path):
            stream = self._cluster.open(self._path(path), "wb", block_size=_PART_BYTES)
        return WebHdfsFile(self, path, cast(BinaryIO, stream))

    def read(self, path: str) -> bytes:
        with self.explained(path):
            return cast(bytes, self._cluster.cat_file(self._path(path)))

    def open(self, path: str) -> BinaryIO:
        with self.explained(path):
            return cast(BinaryIO, self._cluster.open(self._path(path), "rb"))

    def move(self, path: str, to: str) -> bool:
        with self.explained(path):
            try:
                self._cluster.info(self._path(path))
                self._cluster.mkdir(self._path(to).rpartition("/")[0])
                self._renamed(path, to, renameoptions="OVERWRITE")
            except FileNotFoundError:
                return False
        return True

    def remove(self, path: str) -> None:
        with self.explained(path), contextlib.suppress(FileNotFoundError):
            self._cluster.rm_file(self._path(path))

    def file(self, path: str) -> StoredFile | None:
        with self.explained(path):
            try:
                return _stored(path, self._cluster.info(self._path(path)))
            except FileNotFoundError:
                return None

    def files(self, folder: str = "", after: str = "") -> Iterator[StoredFile]:
        with self.explained(folder):
            try:
                found: list[Any] = self._cluster.ls(self._path(folder), detail=True)
            except FileNotFoundError:
                return
        paths = [(joined(folder, each["name"].rpartition("/")[2]), each) for each in found]
        for path, each in sorted((f"{path}/" if each["type"] == "directory" else path, each) for path, each in paths):
            if not path.endswith("/"):
                if path > after:
                    yield _stored(path, each)
            elif path > after or after.startswith(path):
                yield from self.files(path.rstrip("/"), after)

    def close(self) -> None:
        self._cluster.session.close()

    @contextlib.contextmanager
    def explained(self, path: str) -> Iterator[None]:
        where = joined(self._given.rstrip("/"), path)
        try:
            yield
        except FileNotFoundError:
            raise
        except (RuntimeError, OSError, ValueError) as error:  # a name node in safe mode raises the first; requests' errors are OSErrors
            if isinstance(error, PermissionError | ValueError) or _status_of(error) in (401, 403):
                reason = f"The cluster refuses {where}. Check hdfs.user, and what that user is allowed."
                raise ConfigException.of(self._key, self._given, reason) from error
            raise RetriableException(f"{where} cannot be used now: {str(error)[:300]}") from error

    def _renamed(self, path: str, to: str, **options: str) -> bool:
        """By the library's own call, whose ``mv`` hides whether the cluster has renamed the file."""
        answer = self._cluster._call("RENAME", method="put", path=self._path(path), destination=self._path(to), **options)
        return bool(answer.json()["boolean"]) if answer.content else True

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}"


class WebHdfsFile:
    """See ``NewFile``."""

    def __init__(self, store: WebHdfsStore, path: str, stream: BinaryIO) -> None:
        self._store, self._path, self.stream = store, path, stream

    def close(self) -> None:
        with self._store.explained(self._path):
            self.stream.close()

    def discard(self) -> None:
        """The next claim removes it."""


def _stored(path: str, status: Mapping[str, Any]) -> StoredFile:
    return StoredFile(path, status["size"], status["modificationTime"])


def _status_of(error: Exception) -> int:
    """The status code of an answer that the library has not understood; 0: there was none."""
    return int(getattr(getattr(error, "response", None), "status_code", 0))
