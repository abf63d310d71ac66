"""Source offsets in a local file, in the format of Kafka Connect's standalone worker. Either worker can continue with the other's file.

The file is replaced as a whole: a new file is written next to it, fsynced and renamed. So it contains either all of a commit or nothing of
it, whenever the process or the machine dies. A lock on another file ensures that one process at a time uses it. The kernel releases the
lock when the process ends.
"""

import contextlib
import fcntl
import logging
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from airflow_provider_connect.errors import ConfigException, DataException, RetriableException
from airflow_provider_connect.runtime.model.offsets import OffsetRecord
from airflow_provider_connect.runtime.stores.offset_store import Offset, Partition, ProducedOffset, SourceOffsets
from airflow_provider_connect.runtime.wire import java_map, offset_topic

SETTING = "offset.storage.file.filename"
_MODE = 0o600
_log = logging.getLogger(__name__)


class OffsetFile:
    """See the module. Safe to share between threads. Raises ConfigException if another process uses the file, or if it has other
    content."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._lock = threading.Lock()
        self._guard = _locked(self._beside("lock"), self.path)
        try:
            self._values: Mapping[bytes, bytes | None] = _loaded(self.path)
        except BaseException:
            self.close()
            raise

    def read(self, connector: str) -> SourceOffsets:
        """The connector's last committed offsets."""
        with self._lock:
            return _offsets_of(connector, self._values)

    def put(self, changes: Mapping[bytes, bytes | None]) -> None:
        """Commits the changes durably. None removes an offset. Raises RetriableException, and changes nothing, if the file cannot be
        written."""
        with self._lock:
            values = {key: value for key, value in {**self._values, **changes}.items() if value is not None}
            try:
                self._replace(java_map.encode(values))
            except OSError as error:
                raise RetriableException(
                    f"Offsets could not be written to {self.path}: {error.strerror}. A later try may succeed."
                ) from error
            self._values = values

    def close(self) -> None:
        """Releases the file for other processes."""
        if self._guard >= 0:
            os.close(self._guard)
            self._guard = -1

    def _replace(self, content: bytes) -> None:
        """Steps: 1 write a new file to disk; 2 rename it; 3 write the rename to disk."""
        fresh = self._beside("new")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, _MODE)
        try:
            os.fchmod(descriptor, _MODE)
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            os.fsync(descriptor)  # 1
        finally:
            os.close(descriptor)
        os.rename(fresh, self.path)  # 2
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)  # 3
        finally:
            os.close(folder)

    def _beside(self, ending: str) -> Path:
        return self.path.with_name(f".{self.path.name}.{ending}")


def read_offset_file(path: Path, connector: str) -> SourceOffsets:
    """The connector's last committed offsets, read without the lock. Raises ConfigException if the file has other content."""
    return _offsets_of(connector, _loaded(path.absolute()))


def _offsets_of(connector: str, values: Mapping[bytes, bytes | None]) -> SourceOffsets:
    found = [offset_topic.decode(key, value) for key, value in values.items()]
    offsets = [record for record in found if isinstance(record, OffsetRecord)]
    return SourceOffsets(connector, {each.key: each for each in offsets if each.connector == connector and each.offset is not None})


class FileOffsets:
    """The file as an OffsetStore, for one task at a time."""

    def __init__(self, file: OffsetFile) -> None:
        self.topic = str(file.path)
        self._file = file

    def ensure(self) -> None:
        """Does nothing: the file exists or can be created, because its lock is held."""

    def read(self, connector: str) -> SourceOffsets:
        return self._file.read(connector)

    def records(self, connector: str, offsets: Iterable[tuple[Partition, Offset | None]]) -> list[ProducedOffset]:
        wires = (offset_topic.encode(connector, partition, offset) for partition, offset in offsets)
        return [ProducedOffset(0, wire.key, wire.value) for wire in wires]

    def repair(self, connector: str) -> list[ProducedOffset]:
        """Nothing to repair: a commit to a file is never aborted."""
        return []

    def copy(self, records: Sequence[ProducedOffset]) -> None:
        """Does nothing: there is no second location."""

    def remove_from_worker(self, records: Sequence[ProducedOffset]) -> None:
        """Does nothing: there is no second location."""

    def close(self) -> None:
        """Leaves the file open, because its owner closes it."""


def _locked(guard: Path, path: Path) -> int:
    try:
        descriptor = os.open(guard, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _MODE)
    except OSError as error:
        raise ConfigException.of(SETTING, path, f"The folder cannot be written to: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise ConfigException.of(
            SETTING, path, "Another worker keeps its offsets in this file, and runs. Give each worker a file."
        ) from error
    return descriptor


def _loaded(path: Path) -> dict[bytes, bytes | None]:
    """The offsets in the file. Empty if it is missing or empty."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigException.of(SETTING, path, f"The file cannot be read: {error.strerror}") from error
    if not content:
        return {}
    try:
        values = java_map.decode(content)
    except DataException as error:
        raise ConfigException.of(SETTING, path, f"This is not a file of offsets: {error.message}") from error
    with contextlib.suppress(OSError):  # another user's file is replaced at the first commit
        os.chmod(path, _MODE)
    _log.info("%d source offsets found in %s", len(values), path)
    return values
