"""FileStreamSink: appends the text of each value to a file as a line. Has Kafka Connect's settings.

With at least once, the file is fsynced before offsets are committed. With exactly once, one claim at a time owns the file. Data, offsets
and claim are then committed together (see ``transactional_file``). Standard output is not supported.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import ClassVar, Final

from airflow_provider_connect.connectors.commit_files import try_lock
from airflow_provider_connect.connectors.lines import as_text
from airflow_provider_connect.connectors.transactional_file import TransactionalFile, alter_offsets, forget_commits
from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.data.columns import as_data_exception, is_json, values_of
from airflow_provider_connect.data.java_text import NULL, in_hash_order, text_of
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.data.schema import Schema
from airflow_provider_connect.errors import ConfigException, ConnectException, RetriableException
from airflow_provider_connect.sdk.allowed_paths import AllowedFolder, add_path_errors
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config, ConfigDef, ConfigKey, ConfigValue, Importance, Type
from airflow_provider_connect.sdk.connector import ExactlyOnceSupport, SinkConnector
from airflow_provider_connect.sdk.datasets import Dataset
from airflow_provider_connect.sdk.offset_row import ADOPT
from airflow_provider_connect.sdk.task import SinkTask

FILE = "file"
APPEND_LOCK_SECONDS: Final = 30.0
_NO_STATE_FILE: Final = (
    "Exactly once keeps its state next to the file, and this folder is not writable. "
    "Make it writable, or set delivery.guarantee to at_least_once."
)
_NO_APPEND_LOCK: Final = (
    "Several tasks share a lock file next to the file, and this folder is not writable. Make it writable, or set tasks.max to 1."
)
MAX_BUFFERED_BYTES: Final = 64 << 20  # tasks that share a file request a commit when they buffer more than this


class AppendFile:
    """The file for at-least-once delivery. Each task appends whole lines.

    Tasks that share the file lock ``.out.txt.lock.append`` for each append. Without the lock, another task's line could come between two
    parts of a line, because the kernel may write only part of a buffer.

    If the file was moved, the next lines go to a new file.
    """

    def __init__(self, folder: AllowedFolder, name: str, *, is_shared: bool = False) -> None:
        self._folder, self._name = folder, name
        self._path = os.path.join(folder.path, name)
        self._descriptor = self._append_lock = -1
        self._has_unsynced = False
        forget_commits(folder, name)
        if is_shared:
            _check_folder_writable(folder, _NO_APPEND_LOCK)
        try:
            self._is_regular = _is_regular(folder, name)
            self._open()
            if is_shared and self._is_regular:
                self._append_lock = folder.open(f".{name}.lock.append", os.O_RDWR | os.O_CREAT)
        except BaseException:
            self.close()
            raise

    def append(self, pieces: list[memoryview]) -> None:
        """Write whole lines, without another task's lines between them. If another task keeps the lock, writes nothing and raises
        RetriableException."""
        if self._is_moved() and not self._has_lost_lines():
            self.sync()
            before = self._descriptor
            self._open()
            os.close(before)
        if self._append_lock < 0:
            self._write(pieces)
            return
        if not try_lock(self._append_lock, fcntl.LOCK_EX, seconds=APPEND_LOCK_SECONDS, poll_seconds=0.001):
            text = f"{self._path} has been locked by another task for {APPEND_LOCK_SECONDS:g} s. A later attempt may succeed."
            raise RetriableException(text)
        try:
            end_last_line(self._descriptor)  # a task that was killed during a write has left part of a line
            self._write(pieces)
        finally:
            fcntl.flock(self._append_lock, fcntl.LOCK_UN)

    def _open(self) -> None:
        reads = os.O_RDWR if self._is_regular else os.O_WRONLY  # O_RDWR would open a pipe for reading too
        self._descriptor = self._folder.open(self._name, reads | os.O_APPEND | os.O_CREAT)
        if self._is_regular:
            self._end_last_line()

    def _is_moved(self) -> bool:
        try:
            return self._is_regular and self._folder.stat(self._name).st_ino != os.fstat(self._descriptor).st_ino
        except FileNotFoundError:
            return True

    def _has_lost_lines(self) -> bool:
        return self._has_unsynced and os.fstat(self._descriptor).st_nlink == 0

    def _write(self, pieces: list[memoryview]) -> None:
        self._has_unsynced = self._is_regular
        for piece in pieces:
            rest = piece
            while len(rest):
                rest = rest[os.write(self._descriptor, rest) :]

    def sync(self) -> None:
        """Make the lines durable. Raises RetriableException if the file was removed with lines that were not durable."""
        if self._is_regular:
            os.fsync(self._descriptor)
            if self._has_lost_lines():
                raise RetriableException(f"{self._path} was removed or replaced after lines were written to it. They are written again.")
        self._has_unsynced = False

    def close(self) -> None:
        for descriptor in (self._descriptor, self._append_lock):
            if descriptor >= 0:
                os.close(descriptor)
        self._descriptor = self._append_lock = -1

    def _end_last_line(self) -> None:
        """End an unfinished line of a killed process, so that the next line is not joined to it. Does nothing while another task writes."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            end_last_line(self._descriptor)
        except BlockingIOError:
            pass
        fcntl.flock(self._descriptor, fcntl.LOCK_SH)


class FileStreamSinkTask(SinkTask):
    """Writes the file. Each value is a line: its text (``convert_to_string``) and ``\\n``. Null becomes the word null, as in Connect."""

    class_name = "org.apache.kafka.connect.file.FileStreamSinkTask"
    required_columns: ClassVar[frozenset[str]] = frozenset()  # only values

    def start(self, config: Config) -> None:
        """Raises ConfigException if the file cannot be written to."""
        path = self._path = _path_of(config)
        self._transactional_file: TransactionalFile | None = None
        self._append_file: AppendFile | None = None
        try:
            folder, name = self.allowed_paths.folder_of(FILE, path)
            is_shared = int(config.originals.get("tasks.max", "1")) > 1
            if self.context.exactly_once:
                with contextlib.suppress(FileNotFoundError):  # ``take_over`` creates it, and detects that a committed file is gone
                    os.close(folder.open(name, os.O_RDWR | os.O_APPEND))
                _check_folder_writable(folder, _NO_STATE_FILE)
                self._transactional_file = TransactionalFile(
                    folder,
                    name,
                    self.context.claim,
                    self.context.claim_epoch,
                    is_shared=is_shared,
                    connector=self.context.config.get("name", ""),
                    topic_ids=self.context.topic_ids,
                    adopts=self.context.config.get(ADOPT),
                )
            else:
                self._append_file = AppendFile(folder, name, is_shared=is_shared)
        except OSError as error:
            raise ConfigException.of(FILE, path, f"Couldn't find or create file for FileStreamSinkTask: {error.strerror}") from error

    def open(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int] | None:
        """With exactly once, take over the file, and return its committed offsets of ``partitions``, if any."""
        if self._transactional_file is None:
            return None
        with self._named_failures():
            found = self._transactional_file.take_over(keep_all=self.context.has_external_commits)
        return {partition: found[partition] for partition in partitions if partition in found}

    def holds_records(self, partition: TopicPartition, offset: int | None) -> bool:
        """Whether the file has lines, from any writer. Lines after a known offset are truncated."""
        return offset is None and os.path.getsize(self._path) > 0

    def put(self, batch: Batch) -> None:
        count = batch.num_records
        if count == 0:
            return
        pieces = [memoryview(f"{NULL}\n".encode() * count)] if batch.value is None else _lines(text_column(batch.value, batch.value_schema))
        try:
            self._append(pieces)
        except OSError as error:
            text = f"Writing {count} records of topic {batch.topic} to {self._path} failed: {error.strerror or error}"
            raise ConnectException(text) from error

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        if self._append_file is not None:
            with self._named_failures():
                self._append_file.sync()

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        if self._transactional_file is None:
            self.flush(offsets)
        else:
            with self._named_failures():
                self._transactional_file.commit(offsets)
        return offsets

    @contextlib.contextmanager
    def _named_failures(self) -> Iterator[None]:
        """Raise RetriableException with the file's path for errors of the operating system, such as a full disk."""
        try:
            yield
        except OSError as error:
            raise RetriableException(f"{self._path} cannot be written now: {error.strerror or error}") from error

    def datasets(self) -> Iterable[Dataset]:
        return [Dataset("file", os.path.abspath(self._path))]

    def stop(self) -> None:
        for file in (self._transactional_file, self._append_file):
            if file is not None:
                file.close()

    def _append(self, pieces: list[memoryview]) -> None:
        if self._transactional_file is not None:
            self._transactional_file.append(pieces)
            if self._transactional_file.buffered_bytes > MAX_BUFFERED_BYTES:
                self.context.request_commit()
        elif self._append_file is not None:
            self._append_file.append(pieces)


class FileStreamSinkConnector(SinkConnector):
    """Writes the values of topics to one text file, one line per record.

    With several tasks (``tasks.max``), all write to the same file, as in Connect, and the order of lines is kept only within a partition.
    With exactly once, such tasks buffer their lines until a commit, up to about 64 MiB. A single task is fastest.
    """

    class_name = "org.apache.kafka.connect.file.FileStreamSinkConnector"
    aliases = ("FileStreamSink", "FileStreamSinkConnector")
    task_class: ClassVar[type[SinkTask]] = FileStreamSinkTask
    location_settings: ClassVar[tuple[str, ...]] = (FILE,)  # because the offsets are stored next to the file
    config_def = ConfigDef(
        ConfigKey(
            FILE,
            Type.STRING,
            None,
            importance=Importance.HIGH,
            doc="Destination filename. If not specified, the standard output will be used",
        )
    )

    def start(self, config: Config) -> None:
        super().start(config)
        _path_of(config)

    def validate(self, config: Mapping[str, str]) -> list[ConfigValue]:
        values = super().validate(config)
        add_path_errors(values, FILE, self.allowed_paths)
        return values

    def check(self, config: Mapping[str, str]) -> None:
        _check_writable(*self.allowed_paths.folder_of(FILE, _path_of(self.config_def.parse(config))))

    def task_configs(self, max_tasks: int) -> list[Mapping[str, str]]:
        return [self.config.originals] * max_tasks

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        """Supported for regular and missing files, but not for devices, pipes and standard output."""
        path = self.config_def.parse(config)[FILE]
        if not path:
            return ExactlyOnceSupport.UNSUPPORTED
        try:
            real = self.allowed_paths.resolve(FILE, path)
        except ConfigException:  # a path that is not allowed must not be described
            return ExactlyOnceSupport.SUPPORTED
        is_file = not real.startswith("/dev/") and (os.path.isfile(real) or not os.path.lexists(real))
        return ExactlyOnceSupport.SUPPORTED if is_file else ExactlyOnceSupport.UNSUPPORTED

    def alter_offsets(self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Also writes the offsets to the state next to the file, if it exists. This fences a task that is still writing."""
        path = self.config_def.parse(config)[FILE]
        if path:
            folder, name = self.allowed_paths.folder_of(FILE, path)
            with contextlib.suppress(FileNotFoundError):  # without the folder there is no state
                alter_offsets(folder, name, offsets)
        return True


def _lines(text: pa.Array) -> list[memoryview]:
    """The values of a string column joined by line feeds, and a final line feed. These are two pieces, which saves a copy."""
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(text)], type=pa.int32()), text), "\n")
    return [memoryview(joined[0].as_buffer()), memoryview(b"\n")]


def _path_of(config: Config) -> str:
    path: str | None = config[FILE]
    if not path:
        raise ConfigException.of(
            FILE,
            "null" if path is None else path,
            "Without a file Kafka Connect writes to standard output, which is lost in a scheduled run. "
            "Set it to the path of the file to write.",
        )
    return path


def _check_writable(folder: AllowedFolder, name: str) -> None:
    path = folder.given
    try:
        found = folder.stat(name)
    except FileNotFoundError:
        found = None
    except NotADirectoryError:
        raise ConfigException.of(FILE, path, f"{folder.path} is not a folder. Set another path.") from None
    if found is not None and stat.S_ISDIR(found.st_mode):
        raise ConfigException.of(FILE, path, "This is a folder. Set it to the path of a file.")
    try:
        is_writable = folder.is_writable(name if found is not None else ".")
    except FileNotFoundError:
        reason = f"There is no folder {folder.path}. Create it, or set another path."
        raise ConfigException.of(FILE, path, reason) from None
    if not is_writable:
        wanted = path if found is not None else folder.path
        reason = f"User {os.geteuid()} may not write to {wanted}. Grant write access, or set another path."
        raise ConfigException.of(FILE, path, reason)


def _check_folder_writable(folder: AllowedFolder, why: str) -> None:
    if not folder.is_writable():
        raise ConfigException.of(FILE, folder.path, why)


def _is_regular(folder: AllowedFolder, name: str) -> bool:
    """Whether the file is regular. True for a missing file, because it will be created as a regular file."""
    try:
        return stat.S_ISREG(folder.stat(name).st_mode)
    except FileNotFoundError:
        return True


def end_last_line(descriptor: int) -> None:
    """Append a line feed to an open file whose last line is incomplete, because a process was killed during a write."""
    length = os.fstat(descriptor).st_size
    if length and os.pread(descriptor, 1, length - 1) != b"\n":
        os.write(descriptor, b"\n")


def text_column(column: pa.Array, schema: Schema | None) -> pa.Array:
    """The text of each value, as a string column without nulls. Text, bytes, integers and booleans are converted as whole columns. Raises
    DataException for a value without a text."""
    kind = column.type
    if pa.types.is_string(kind):
        text = column
    elif pa.types.is_binary(kind):
        text = as_text(column)
    elif (pa.types.is_integer(kind) and not (schema is not None and schema.logical_name)) or pa.types.is_boolean(kind):
        text = column.cast(pa.string())
    elif pa.types.is_null(kind):
        text = pa.nulls(len(column), pa.string())
    elif is_json(kind):
        read = json.JSONDecoder(object_pairs_hook=in_hash_order)
        with as_data_exception():
            text = pa.array([None if v is None else text_of(read.decode(v), None) for v in column.storage.to_pylist()], type=pa.string())
    else:
        with as_data_exception():
            text = pa.array([text_of(value, schema) for value in values_of(column, schema)], type=pa.string())
    return pc.fill_null(text, NULL) if text.null_count else text
