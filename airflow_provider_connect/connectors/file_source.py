"""FileStreamSource: the lines of a growing text file as records. Has Kafka Connect's settings, offsets and messages.

Differences from Connect: A run ends at the size that the file had when it was opened. Positions count bytes, even if the text is not ASCII.
Truncated and replaced files are detected. Standard input is not supported.
"""

from __future__ import annotations

import logging
import os
import re
import stat
import sys
import threading
from collections.abc import Iterable, Mapping
from io import FileIO
from typing import Any, ClassVar, Final

from airflow_provider_connect.connectors.lines import MAX_LINE_BYTES, Lines, split_lines
from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.data.records import BYTES, Distance
from airflow_provider_connect.data.schema import STRING_SCHEMA
from airflow_provider_connect.errors import ConfigException, ConnectException, DataException
from airflow_provider_connect.sdk.allowed_paths import AllowedPaths, add_path_errors
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config, ConfigDef, ConfigKey, ConfigValue, Importance, NonEmptyString, Type
from airflow_provider_connect.sdk.connector import DataSignal, ExactlyOnceSupport, OffsetReader, SourceConnector
from airflow_provider_connect.sdk.datasets import Dataset
from airflow_provider_connect.sdk.task import SourceTask

log = logging.getLogger(__name__)

FILE, TOPIC, BATCH_SIZE = "file", "topic", "batch.size"
FILENAME, POSITION = "filename", "position"
CHUNK_BYTES: Final = 8 << 20
PEEK_BYTES: Final = 64 << 10


_LINE_END: Final = re.compile(rb"\r\n?|\n")


class FileReader:
    """The complete lines of one open file, from a position to the size that the file had when it was opened."""

    def __init__(self, path: str, position: int, allowed: AllowedPaths, *, chunk_bytes: int = CHUNK_BYTES) -> None:
        """Raises ConfigException for a path outside the allowed folders, OSError if the file cannot be opened. A position beyond the end
        means that the file was truncated: reading restarts at 0."""
        self._path = path
        self._chunk_bytes = chunk_bytes
        self._allowed = allowed
        self._fd = allowed.open(FILE, path, os.O_RDONLY | os.O_NONBLOCK)
        status = os.fstat(self._fd)
        if not stat.S_ISREG(status.st_mode):
            self.close()
            raise ConfigException.of(FILE, path, "This is not a regular file, so it has no positions to continue from.")
        self._identity = (status.st_dev, status.st_ino)
        self._base = position  # the start of the current lines
        self._end = status.st_size
        self._is_last = False
        self._lines: Lines | None = None
        self._next_line = 0
        if position > self._end:
            self._restart()
        elif position and os.pread(self._fd, 1, position - 1) not in (b"\n", b"\r"):
            log.warning(
                "Position %d of file %s is within a line: the file was written anew after it was read, or the offset was altered. Lines of "
                "the new file before this position are not read. To read it from its start, reset the connector's offsets",
                *(position, path),
            )

    def next(self, most: int) -> tuple[pa.Array, int] | None:
        """Up to ``most`` lines and the position after them. None if there is no complete line before the end.

        Raises DataException for a line of more than ``MAX_LINE_BYTES`` and skips it: the next call returns the lines after it.
        """
        if self._lines is None or self._next_line == len(self._lines):
            self._lines = self._read()
            self._next_line = 0
        if self._lines is None:
            return None
        first, self._next_line = self._next_line, min(self._next_line + most, len(self._lines))
        return self._lines.text.slice(first, self._next_line - first), self._base + int(self._lines.ends[self._next_line - 1])

    def was_replaced(self) -> bool:
        """Whether the path now leads to another file, or no file."""
        folder, name = self._allowed.folder_of(FILE, self._path)
        try:
            status = folder.stat(name)
        except FileNotFoundError:
            return True
        return (status.st_dev, status.st_ino) != self._identity

    def finish(self) -> bool:
        """Called when no process writes to the file any more. Also reads lines that were written since the file was opened, and a last line
        without a line end. False if already called."""
        was_last, self._is_last = self._is_last, True
        self._end = max(self._end, os.fstat(self._fd).st_size)
        return not was_last

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _read(self) -> Lines | None:
        """The next lines. Moves ``_base`` to their start."""
        if self._lines is not None:
            self._base += int(self._lines.ends[-1])
        chunk = self._chunk_bytes
        while self._base < self._end:
            wanted = min(chunk, self._end - self._base)
            piece = os.pread(self._fd, wanted, self._base)
            if os.fstat(self._fd).st_size < self._base:
                self._restart()
                continue
            lines = split_lines(piece, is_last=self._is_last and self._base + len(piece) >= self._end)
            if len(lines):
                return lines
            if self._base + wanted >= self._end:
                return None
            if wanted >= MAX_LINE_BYTES:
                self._skip_line()
            chunk = min(2 * chunk, MAX_LINE_BYTES)  # one line is longer than the chunk
        return None

    def _skip_line(self) -> None:
        """Skip the current line, a piece at a time, and raise DataException for it.

        Raises ConnectException if the line has no end yet: a remainder that is written later would be read as a separate line.
        """
        begin, at = self._base, self._base + MAX_LINE_BYTES - 1  # the last byte may be a \r, whose \n would be the next byte
        self._lines = None
        while at < self._end:
            piece = os.pread(self._fd, min(self._chunk_bytes, self._end - at), at)
            if not piece:
                break
            found = _LINE_END.search(piece)
            if found is not None and (found.end() < len(piece) or piece[-1:] == b"\n"):
                self._base = at + found.end()
                raise self._length_error(begin)
            at += len(piece) - (1 if piece[-1:] == b"\r" and len(piece) > 1 else 0)  # the line feed after \r may be in the next piece
        if self._is_last:
            self._base = self._end
            raise self._length_error(begin)
        raise ConnectException(
            f"The line of {self._path} at position {begin} has no end within {self._end - begin} bytes: a line "
            f"may have {MAX_LINE_BYTES} bytes. End the line, or replace the file"
        )

    def _length_error(self, begin: int) -> DataException:
        length = self._base - begin
        return DataException(
            f"The line of {self._path} from position {begin} to {self._base} is {length} bytes long: a line may have {MAX_LINE_BYTES} bytes"
        )

    @property
    def position(self) -> int:
        """The start of the next lines."""
        return self._base

    @property
    def end(self) -> int:
        """The position up to which the file will be read."""
        return self._end

    def _restart(self) -> None:
        size = os.fstat(self._fd).st_size
        log.warning(
            "File %s has %d bytes, but was already read up to byte %d: it was truncated, reading from 0", self._path, size, self._base
        )
        self._base, self._end = 0, size


class FileStreamSourceTask(SourceTask):
    """Reads the file. The source partition is ``{"filename": path}``. The source offset is ``{"position": bytes}``, the start of the next
    line.

    Values are text (a required STRING), keys are null. A last line without a line end, or with only ``\\r`` at the end of the file, waits
    for the next run. If the path leads to another file when the end is reached, the old file is read to its end, including its last line.
    The new file is read from 0 to the size that it has at that time. A replacement between two runs is detected only if the new file is
    shorter than the position. If the new file has no line end before the position, a warning is logged.
    """

    class_name = "org.apache.kafka.connect.file.FileStreamSourceTask"

    def start(self, config: Config) -> None:
        self._reader: FileReader | None = None
        self._skipped_to: int | None = None  # the position after a line that was too long, to be committed
        self._is_missing = False
        self._is_stopped = False
        self._reading = threading.Lock()
        self._path = _path_of(config)  # may raise, so the attributes that ``stop`` needs are set before
        self._topic: str = config[TOPIC]
        self._batch_size = max(1, config[BATCH_SIZE])
        self._partition = {FILENAME: self._path}
        self._position = _position_of(self._partition, self.context.offset(self._partition))

    def poll(self) -> Batch | None:
        """At most ``batch.size`` lines, a slice of a larger piece of the file."""
        with self._reading:
            if self._is_stopped or not self._open():
                return None
            if self._skipped_to is not None:
                position, self._skipped_to = self._skipped_to, None
                return self._batch(pa.array([], type=pa.string()), position)
            try:
                return self._next_batch()
            except DataException:
                self._skipped_to = None if self._reader is None else self._reader.position
                raise

    def distance(self) -> Distance | None:
        return None if self._reader is None else Distance(max(self._reader.end - self._position, 0), BYTES)

    def datasets(self) -> Iterable[Dataset]:
        return [Dataset("file", os.path.abspath(self._path))]

    def stop(self) -> None:
        with self._reading:
            self._is_stopped = True
            self._close()

    def _open(self) -> bool:
        if self._reader is None:
            try:
                self._reader = FileReader(self._path, self._position, self.allowed_paths)
            except FileNotFoundError:
                if not self._is_missing:
                    log.warning("Couldn't find file %s: nothing to read until it is created", self._path)
                self._is_missing = True
            except OSError as error:
                raise ConnectException(f"Couldn't open file '{self._path}' for FileStreamSourceTask: {error.strerror}") from error
        return self._reader is not None

    def _next_batch(self) -> Batch | None:
        reader = self._reader
        while reader is not None:
            lines = reader.next(self._batch_size)
            if lines is not None:
                return self._batch(*lines)
            if not reader.was_replaced():
                return None
            if not reader.finish():  # the old file was read to its end, so further positions are in the new file
                log.info("File %s was replaced: reading the new file from 0", self._path)
                self._close()
                return self._batch(pa.array([], type=pa.string()), 0)
        return None

    def _batch(self, text: pa.Array, position: int) -> Batch:
        self._position = position
        return Batch(self._topic, text, value_schema=STRING_SCHEMA, source_partition=self._partition, source_offset={POSITION: position})

    def _close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None


class FileStreamSourceConnector(SourceConnector):
    """Reads the lines of a text file into a topic, one record per line. Always has one task, regardless of ``tasks.max``."""

    class_name = "org.apache.kafka.connect.file.FileStreamSourceConnector"
    aliases = ("FileStreamSource", "FileStreamSourceConnector")
    check_seconds = 0.02
    task_class: ClassVar[type[SourceTask]] = FileStreamSourceTask
    config_def = ConfigDef(
        ConfigKey(
            FILE, Type.STRING, None, importance=Importance.HIGH, doc="Source filename. If not specified, the standard input will be used"
        ),
        ConfigKey(TOPIC, Type.STRING, validator=NonEmptyString(), importance=Importance.HIGH, doc="The topic to publish data to"),
        ConfigKey(
            BATCH_SIZE,
            Type.INT,
            2000,
            importance=Importance.LOW,
            doc="The maximum number of records the source task can read from the file each time it is polled",
        ),
    )

    def start(self, config: Config) -> None:
        super().start(config)
        _path_of(config)

    def validate(self, config: Mapping[str, str]) -> list[ConfigValue]:
        values = super().validate(config)
        add_path_errors(values, FILE, self.allowed_paths)
        return values

    def check(self, config: Mapping[str, str]) -> None:
        """Reports a missing file, but does not refuse it. Raises ConfigException for a missing path, and for a path outside the allowed
        folders."""
        path = _path_of(self.config_def.parse(config))
        self.allowed_paths.resolve(FILE, path)
        folder, name = self.allowed_paths.folder_of(FILE, path)
        try:
            folder.stat(name)
        except FileNotFoundError:
            self._report_missing(path)

    def _report_missing(self, path: str) -> None:
        self.missing = f"There is no file {path}: nothing is read until there is"

    def task_configs(self, max_tasks: int) -> list[Mapping[str, str]]:
        return [self.config.originals]  # a file has one reader

    def output_topics(self, config: Mapping[str, str]) -> list[str]:
        return [self.config_def.parse(config)[TOPIC]]

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        """Supported for files; standard input has no positions."""
        return ExactlyOnceSupport.SUPPORTED if self.config_def.parse(config)[FILE] else ExactlyOnceSupport.UNSUPPORTED

    def has_new_data(self, config: Config, offsets: OffsetReader) -> bool | None:
        """Whether a complete line may follow the committed position. Costs a stat. If the file has grown, also costs a read of the next
        bytes, because an unfinished last line must not start every scheduled run."""
        path = config[FILE]
        if not path:
            return None
        partition = {FILENAME: path}
        position = _position_of(partition, offsets(partition))
        try:
            descriptor = self.allowed_paths.open(FILE, path, os.O_RDONLY | os.O_NONBLOCK)
        except FileNotFoundError:
            self._report_missing(path)
            return False
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            if size < position:  # the file was truncated
                position = 0
            return size > position and _may_hold_line(file, position)

    def open_data_signal(self, config: Config) -> DataSignal | None:
        """On Linux, a FileSignal."""
        path = config[FILE]
        if not path or sys.platform != "linux":
            return None
        from airflow_provider_connect.connectors.file_signal import FileSignal  # its library is for Linux only

        return FileSignal(FILE, path, self.allowed_paths)

    def alter_offsets(self, config: Mapping[str, str], offsets: Any) -> bool:  # Any: JSON from a user, checked here
        """Has Connect's checks, in the same order and with the same messages. Null offsets are accepted for any partition, so that offsets
        can be removed."""
        path = self.config_def.parse(config)[FILE]
        if not path:
            raise ConnectException(
                f"Offsets cannot be modified if the '{FILE}' configuration is unspecified. "
                "This is because stdin is used for input and offsets are not tracked."
            )
        for partition, offset in offsets.items() if isinstance(offsets, Mapping) else offsets:
            if offset is not None:
                _check_offset(partition, offset)
                if partition == {FILENAME: path}:
                    self._check_not_beyond_end(path, offset[POSITION])
        return True

    def _check_not_beyond_end(self, path: str, position: int) -> None:
        """Raise ConnectException for a position beyond the end: a run would consider the file truncated. Missing and disallowed files are
        not checked."""
        try:
            folder, name = self.allowed_paths.folder_of(FILE, path)
            found = folder.stat(name)
        except (ConfigException, OSError):
            return
        if stat.S_ISREG(found.st_mode) and position > found.st_size:
            raise ConnectException(f"The position {position} is beyond the end of {path}, which has {found.st_size} bytes")


def _check_offset(partition: Any, offset: Any) -> None:
    if POSITION not in offset:
        raise ConnectException(f"Offset objects should either be null or contain the key '{POSITION}'")
    position = offset[POSITION]
    if not isinstance(position, int) or isinstance(position, bool):
        raise ConnectException(f"The value for the '{POSITION}' key in the offset is expected to be a Long value")
    if position < 0:
        raise ConnectException(f"The value for the '{POSITION}' key in the offset should be a non-negative value")
    if partition is None:
        raise ConnectException("Partition objects cannot be null")
    if FILENAME not in partition:
        raise ConnectException(f"Partition objects should contain the key '{FILENAME}'")


def _path_of(config: Config) -> str:
    path: str | None = config[FILE]
    if not path:
        raise ConfigException.of(
            FILE,
            "null" if path is None else path,
            "Without a file Kafka Connect reads standard input, which a scheduled run does not have. "
            "Set it to the path of the file to read.",
        )
    return path


def _position_of(partition: Mapping[str, object], offset: Mapping[str, object] | None) -> int:
    position = (offset or {}).get(POSITION)
    if position is None:
        return 0
    if not isinstance(position, int) or isinstance(position, bool) or position < 0:
        raise ConnectException(f"Offset '{POSITION}' of {dict(partition)} must be a number ≥ 0, got {position!r}")
    return position


def _may_hold_line(file: FileIO, position: int) -> bool:
    """Whether a line ends in the next ``PEEK_BYTES`` after ``position``. Also true if these bytes have no line end, but more bytes
    follow."""
    file.seek(position)
    ahead = file.read(PEEK_BYTES)
    return len(ahead) == PEEK_BYTES or b"\n" in ahead or b"\r" in ahead[:-1]
