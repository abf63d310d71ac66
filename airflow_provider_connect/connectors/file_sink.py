"""FileStreamSink: the text of each value as a line of one file, with Kafka Connect's settings.

At least once the file is appended to and fsynced before offsets are committed. Exactly once the file belongs to one claim at a time, and
data, offsets and claim are committed together (see ``claimed_file``). Standard output is refused.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Collection, Mapping
from typing import ClassVar, Final

from airflow_provider_connect.connectors.claimed_file import ClaimedFile, alter_offsets, forget
from airflow_provider_connect.connectors.value_text import text_column
from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.sdk.arrow import pa, pc
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config, ConfigDef, ConfigKey, Importance, Type
from airflow_provider_connect.sdk.connector import ExactlyOnceSupport, SinkConnector
from airflow_provider_connect.sdk.java_text import NULL
from airflow_provider_connect.sdk.records import TopicPartition
from airflow_provider_connect.sdk.task import SinkTask

FILE = "file"
WAITING_BYTES: Final = 64 << 20  # several tasks of one file keep this much, then they ask for a commit


class AppendedFile:
    """The file at least once: everybody appends whole batches to its end."""

    def __init__(self, path: str) -> None:
        forget(path)
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        self._is_regular = stat.S_ISREG(os.fstat(self._descriptor).st_mode)
        if self._is_regular:
            self._end_last_line(path)

    def append(self, pieces: list[memoryview]) -> None:
        for piece in pieces:
            rest = piece
            while len(rest):
                rest = rest[os.write(self._descriptor, rest) :]

    def sync(self) -> None:
        if self._is_regular:
            os.fsync(self._descriptor)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _end_last_line(self, path: str) -> None:
        """A line that a killed process has left unfinished must not swallow the next one. Only where no other task is writing."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            end_last_line(path)
        except BlockingIOError:
            pass
        fcntl.flock(self._descriptor, fcntl.LOCK_SH)


class FileStreamSinkTask(SinkTask):
    """Writes the file. Each value is one line: its text (``value_text``) and ``\\n``; null is the word null, as in Connect."""

    class_name = "org.apache.kafka.connect.file.FileStreamSinkTask"
    reads: ClassVar[frozenset[str]] = frozenset()  # nothing but values

    def start(self, config: Config) -> None:
        """Raises ConfigException if the file cannot be written to."""
        path = _path_of(config)
        self._claimed: ClaimedFile | None = None
        self._appended: AppendedFile | None = None
        try:
            if self.context.exactly_once:
                os.close(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666))
                _refuse_read_only(os.path.dirname(os.path.realpath(path)))
                is_shared = int(config.originals.get("tasks.max", "1")) > 1
                self._claimed = ClaimedFile(path, self.context.claim, self.context.claim_order, is_shared=is_shared)
            else:
                self._appended = AppendedFile(path)
        except OSError as error:
            raise ConfigException.of(FILE, path, f"Couldn't find or create file for FileStreamSinkTask: {error.strerror}") from error

    def open(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int] | None:
        """Exactly once: take the file over. Of the offsets found in it those of ``partitions`` are returned, if they are known there."""
        if self._claimed is None:
            return None
        found = self._claimed.take_over(keep_all=self.context.moved_by_others)
        return {partition: found[partition] for partition in partitions if partition in found}

    def put(self, batch: Batch) -> None:
        count = batch.num_records
        if count == 0:
            return
        pieces = [memoryview(f"{NULL}\n".encode() * count)] if batch.value is None else _lines(text_column(batch.value, batch.value_schema))
        try:
            self._append(pieces)
        except OSError as error:
            raise ConnectException(f"Writing {count} records of topic {batch.topic} failed: {error}") from error

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        if self._appended is not None:
            self._appended.sync()

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        if self._claimed is None:
            self.flush(offsets)
        else:
            self._claimed.commit(offsets)
        return offsets

    def stop(self) -> None:
        for file in (self._claimed, self._appended):
            if file is not None:
                file.close()

    def _append(self, pieces: list[memoryview]) -> None:
        if self._claimed is not None:
            self._claimed.append(pieces)
            if self._claimed.waiting_bytes > WAITING_BYTES:
                self.context.request_commit()
        elif self._appended is not None:
            self._appended.append(pieces)


class FileStreamSinkConnector(SinkConnector):
    """Takes the values of some topics into one text file, one line a record.

    With several tasks (``tasks.max``) all write to the same file, as in Connect; the order of lines is kept only within a partition.
    Exactly once such tasks keep their lines until they commit, some 64 MiB, so one task is the fastest.
    """

    class_name = "org.apache.kafka.connect.file.FileStreamSinkConnector"
    aliases = ("FileStreamSink", "FileStreamSinkConnector")
    task_class: ClassVar[type[SinkTask]] = FileStreamSinkTask
    config_def = ConfigDef(
        ConfigKey(
            FILE,
            Type.STRING,
            None,
            importance=Importance.HIGH,
            doc="Destination filename. If not specified, the standard output will be used",
        ),
    )

    def start(self, config: Config) -> None:
        super().start(config)
        _path_of(config)

    def check(self, config: Mapping[str, str]) -> None:
        _refuse_unwritable(_path_of(self.config_def.parse(config)))

    def task_configs(self, max_tasks: int) -> list[Mapping[str, str]]:
        return [self.config.originals] * max_tasks

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        """Supported for regular files and for what is not there yet, not for devices, pipes and standard output."""
        path = self.config_def.parse(config)[FILE]
        is_file = bool(path) and not os.path.realpath(path).startswith("/dev/") and (os.path.isfile(path) or not os.path.lexists(path))
        return ExactlyOnceSupport.SUPPORTED if is_file else ExactlyOnceSupport.UNSUPPORTED

    def alter_offsets(self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Writes the offsets to the state beside the file too, where there is one. A task that still writes is fenced by that."""
        path = self.config_def.parse(config)[FILE]
        if path and os.path.isdir(os.path.dirname(os.path.realpath(path))):
            alter_offsets(path, offsets)
        return True


def _lines(text: pa.Array) -> list[memoryview]:
    """The values of a string column joined by line feeds, and one behind the last: two pieces, so that nothing is copied again."""
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(text)], type=pa.int32()), text), "\n")
    return [memoryview(joined[0].as_buffer()), memoryview(b"\n")]


def _path_of(config: Config) -> str:
    path: str | None = config[FILE]
    if not path:
        raise ConfigException.of(
            FILE,
            "null" if path is None else path,
            "Without a file Kafka Connect writes to standard output, which nobody sees of a scheduled run. "
            "Set it to the path of the file to write.",
        )
    return path


def _refuse_unwritable(path: str) -> None:
    directory = os.path.dirname(os.path.realpath(path))
    if os.path.isdir(path):
        raise ConfigException.of(FILE, path, "This is a folder. Set it to the path of a file.")
    if not os.path.isdir(directory):
        raise ConfigException.of(FILE, path, f"There is no folder {directory}. Make it, or set the path of a file elsewhere.")
    wanted = path if os.path.exists(path) else directory
    if not os.access(wanted, os.W_OK, effective_ids=True):
        reason = f"User {os.geteuid()} may not write to {wanted}. Grant that, or set the path of a file elsewhere."
        raise ConfigException.of(FILE, path, reason)


def _refuse_read_only(directory: str) -> None:
    if not os.access(directory, os.W_OK):
        raise ConfigException.of(
            FILE,
            directory,
            "Exactly once keeps its state beside the file, and this folder cannot be written to. "
            "Make it writable, or set delivery.guarantee to at_least_once.",
        )


def end_last_line(path: str) -> int:
    """Give the last line of a file that exists its end, if it has none (a process was killed as it wrote); the file's length."""
    with open(path, "r+b") as file:
        length = file.seek(0, os.SEEK_END)
        if length:
            file.seek(length - 1)
            if file.read(1) != b"\n":
                file.write(b"\n")
                length += 1
                file.flush()
                os.fsync(file.fileno())
    return length
