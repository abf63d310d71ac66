"""Buckets of S3, Google Cloud Storage and Azure, accessed with obstore. The host's credentials are never used."""

from __future__ import annotations

import contextlib
import datetime
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import AzureStore, GCSStore, S3Store

from airflow_provider_connect.connectors.bucket_access import ACCESS_DENIED, MISSING_BUCKET, client_options, hide_environment
from airflow_provider_connect.connectors.filesystem.stores.s3_listing import S3Listing
from airflow_provider_connect.connectors.filesystem.stores.store import SkippedFiles, StoredFile, join_path
from airflow_provider_connect.errors import ConfigException, RetriableException

if TYPE_CHECKING:
    from obstore import WritableFile

_PART_BYTES: Final = 8 << 20
_INVALID_PATH: Final = "invalid path"
"""Part of the library's error message for a key that is not a valid path."""
_UPLOADS: Final = 4  # concurrent uploads of a file's parts
_RETRIES: Final[Any] = {
    "max_retries": 8,
    "retry_timeout": datetime.timedelta(seconds=60),
    "backoff": {"init_backoff": datetime.timedelta(milliseconds=100), "max_backoff": datetime.timedelta(seconds=10), "base": 2},
}
Bucket = S3Store | GCSStore | AzureStore


def open_bucket(scheme: str, name: str, folder: str, settings: Mapping[str, Any]) -> Bucket:
    """The bucket or container ``name``, with the prefix ``folder``. ``settings`` are the library's settings. Without credentials, requests
    are not signed."""
    kind: Any = {"s3": S3Store, "gs": GCSStore, "az": AzureStore}[scheme]
    options = client_options(str(settings.get("endpoint", "")))
    with hide_environment():
        return cast(Bucket, kind(name, prefix=folder or None, client_options=options, retry_config=_RETRIES, **settings))


class ObjectStore:
    """See ``Store``. For messages, ``keys`` names the settings of the address and of the credentials, and ``given`` is the address."""

    def __init__(self, bucket: Bucket, given: str, *, keys: tuple[str, str], listing: S3Listing | None = None) -> None:
        self._bucket, self._given, self._keys, self._listing = bucket, given, keys, listing
        self._root = join_path(str(bucket.prefix or "").strip("/"), "")
        self.skipped = SkippedFiles()

    def create(self, path: str, data: bytes) -> bool:
        with self.translate_errors(path):
            try:
                obstore.put(self._bucket, path, data, mode="create")
            except (AlreadyExistsError, PreconditionError):
                return False
        return True

    def new_file(self, path: str) -> ObjectFile:
        with self.translate_errors(path):
            writer = obstore.open_writer(self._bucket, path, buffer_size=_PART_BYTES, max_concurrency=_UPLOADS)
        return ObjectFile(self, path, writer)

    def read(self, path: str) -> bytes:
        with self.translate_errors(path):
            return bytes(obstore.get(self._bucket, path).bytes())

    def open(self, path: str) -> BinaryIO:
        with self.translate_errors(path):
            return cast(BinaryIO, obstore.open_reader(self._bucket, path))

    def move(self, path: str, to: str) -> bool:
        """Steps: (1) copy in the store; (2) remove the original."""
        with self.translate_errors(path):
            try:
                obstore.copy(self._bucket, path, to)
            except FileNotFoundError:
                return False
            self.remove(path)
        return True

    def move_new(self, path: str, to: str) -> bool:
        """Steps: (1) create a note of this move at the new path, which fails if an object exists there; (2) copy the object over the note;
        (3) remove the original."""
        found = self.file(path)
        if found is None:
            raise FileNotFoundError(path)
        note = f"{path} ({found.size} bytes, {found.modified_ms}, {found.tag}) is being moved here".encode()
        there = self.file(to)
        if there is None and not self.create(to, note):
            there = self.file(to)
        if there is not None and not (there.size == len(note) and self.read(to) == note):
            is_begun = there.size == found.size and there.modified_ms >= found.modified_ms and self._are_equal(path, to)
            if is_begun:
                self.remove(path)
            return is_begun
        return self.move(path, to)

    def _are_equal(self, path: str, other: str) -> bool:
        with self.translate_errors(path), contextlib.closing(self.open(path)) as first, contextlib.closing(self.open(other)) as second:
            while (data := bytes(first.read(_PART_BYTES))) == bytes(second.read(_PART_BYTES)):
                if not data:
                    return True
        return False

    def remove(self, path: str) -> None:
        with self.translate_errors(path), contextlib.suppress(FileNotFoundError):
            obstore.delete(self._bucket, path)

    def file(self, path: str) -> StoredFile | None:
        with self.translate_errors(path):
            try:
                return _stored_file(path, obstore.head(self._bucket, path))
            except FileNotFoundError:
                return None

    def files(self, folder: str = "", after: str = "") -> Iterator[StoredFile]:
        """Lists pages of a thousand files, in the store's order. Folder markers are not files. They are empty objects whose keys end with a
        slash, which the library removes."""
        try:
            with self.translate_errors(folder):
                for page in obstore.list(self._bucket, folder or None, offset=after or None, chunk_size=1000):
                    for each in cast(Sequence[Any], page):
                        file = _stored_file(each["path"], each)
                        if file.size or (file.path and self.file(file.path) is not None):
                            after = file.path
                            yield file
        except _InvalidKeyException:
            yield from self._files_by_key(folder, after)

    def check_root(self, *, may_be_empty: bool) -> None:
        try:
            with self.translate_errors(""):
                is_there = may_be_empty or any(obstore.list(self._bucket, chunk_size=1))
        except _InvalidKeyException:
            return
        if not is_there:
            raise ConfigException.of(
                self._keys[0], self._given, "There is no object with this prefix. Set another prefix, or create an empty object there."
            )

    def _files_by_key(self, folder: str, after: str) -> Iterator[StoredFile]:
        """Like ``files``, but skips keys that are not valid paths."""
        if self._listing is None:
            reason = "A key there has an empty part, a part . or .. or a control character, and cannot be listed. Rename the object."
            raise ConfigException.of(self._keys[0], join_path(self._given.rstrip("/"), folder), reason)
        root = f"{self._root}/" if self._root else ""
        with self.translate_errors(folder):
            for file in self._listing.files(f"{root}{folder}/" if folder else root, f"{root}{after}" if after else ""):
                path = file.path.removeprefix(root)
                if _is_path(path):
                    yield replace(file, path=path)
                elif file.size or not file.path.endswith("/"):
                    self.skipped.add(path)

    @contextlib.contextmanager
    def translate_errors(self, path: str) -> Iterator[None]:
        address, credentials = self._keys
        where = join_path(self._given.rstrip("/"), path)
        try:
            yield
        except FileNotFoundError as error:
            self._reject_missing_bucket(error)
            raise
        except (BaseError, OSError) as error:
            if _INVALID_PATH in str(error):
                raise _InvalidKeyException(f"{where}: {_first_line(error)}") from error
            self._reject_missing_bucket(error)
            if isinstance(error, PermissionDeniedError | UnauthenticatedError) or any(status in str(error) for status in ACCESS_DENIED):
                reason = f"The store refuses access to {where}. Check {credentials}, and their permissions: list, read, write and delete."
                raise ConfigException.of(address, self._given, reason) from error
            raise RetriableException(f"{where} cannot be used now: {_first_line(error)}") from error

    def close(self) -> None:
        """Does nothing, because the library closes its connections itself."""

    def _reject_missing_bucket(self, error: Exception) -> None:
        if any(word in str(error) for word in MISSING_BUCKET):
            raise ConfigException.of(self._keys[0], self._given, "There is no such bucket. Create it, or set another.") from error


class _InvalidKeyException(ConfigException):
    """A key is not a valid path. The library rejects it, and each page of a listing that contains it."""


class ObjectFile:
    """See ``NewFile``. The file is uploaded in parts, and is not visible before ``close``."""

    def __init__(self, store: ObjectStore, path: str, writer: WritableFile) -> None:
        self._store, self._path, self._writer = store, path, writer
        self.stream = cast(BinaryIO, _Stream(writer))

    def close(self) -> None:
        with self._store.translate_errors(self._path):
            self._writer.close()

    def discard(self) -> None:
        """Uploaded parts stay invisible until the bucket's rule for incomplete uploads removes them."""


class _Stream(io.RawIOBase):
    """Accepts buffers of any element type. Closing it does not end the upload."""

    def __init__(self, writer: WritableFile) -> None:
        super().__init__()
        self._writer = writer

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:  # Any: a buffer
        return self._writer.write(memoryview(data).cast("B"))


def _is_path(key: str) -> bool:
    return {"", ".", ".."}.isdisjoint(key.split("/")) and not any(each < " " or each == "\x7f" for each in key)


def _stored_file(path: str, found: Any) -> StoredFile:  # Any: obstore's ObjectMeta
    tag = (found["e_tag"] or "").strip('"')  # Azure's listings have no quotes
    return StoredFile(path, found["size"], int(found["last_modified"].timestamp() * 1000), tag)


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0][:300]
