"""LogSource: reads the lines of growing, rotated and compressed files as records, each line once."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from airflow_provider_connect.connectors.logs.files import PATHS
from airflow_provider_connect.connectors.logs.folder_positions import FolderPositions, Unread, check_offset
from airflow_provider_connect.connectors.logs.formats import Parsed
from airflow_provider_connect.connectors.logs.position import Position, check_not_beyond_end, manual_positions
from airflow_provider_connect.connectors.logs.reader import LogReader, Piece, ReplacedException
from airflow_provider_connect.connectors.logs.scan import FolderScan
from airflow_provider_connect.connectors.logs.settings import (
    CONFIG_DEF,
    FOLLOW,
    HEADER,
    POLL_MS,
    SHARE,
    TOPIC,
    LineSettings,
    LogSettings,
)
from airflow_provider_connect.data.arrow import np, pa
from airflow_provider_connect.data.expansion import MOST_FAULTS
from airflow_provider_connect.errors import ConfigException, ConnectException, DataException, RetriableException
from airflow_provider_connect.sdk.allowed_paths import AllowedFolder
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config, ConfigKey, ConfigValue, Type, add_errors
from airflow_provider_connect.sdk.connector import ExactlyOnceSupport, OffsetReader, SourceConnector
from airflow_provider_connect.sdk.datasets import Dataset
from airflow_provider_connect.sdk.record_columns import headers_type
from airflow_provider_connect.sdk.task import SourceTask

if TYPE_CHECKING:
    from numpy.typing import NDArray

log = logging.getLogger(__name__)

MAX_SCANS: Final = 5
"""Maximum number of scans in a bounded run. Several may be needed, because files may be renamed while the run reads."""
SCAN_SHARE: Final = 100
"""Scans use at most this fraction (1/100) of the time."""
MAX_INTERVALS: Final = 10
"""However, a scan is delayed by at most this number of intervals."""
TOLERANCE: Final = "errors.tolerance"
_REMEDY: Final = f"Replace it with an intact copy, or skip the rest with {TOLERANCE}=all"
_ROTATE: Final = "Rotate by renaming within the folder, or run more often. Name copies like the log with a number or date: app.log.1"
MAX_NAMED: Final = 5
"""Maximum number of paths in a message."""


@dataclass(frozen=True, slots=True)
class Flaw:
    """A part of a file that cannot become a record, and the position after it."""

    error: DataException
    position_after: Position


class LogSourceTask(SourceTask):
    """Reads the files in the task's share of the folders, least recently changed first. Each file is read up to its size when it was
    listed.

    For source partitions and offsets, see ``folder_positions``. With ``follow``, folders are listed again after everything was read.
    """

    config_def = CONFIG_DEF.with_keys(ConfigKey(SHARE, Type.STRING, "0/1", doc="The task's number, and the number of tasks."))

    def start(self, config: Config) -> None:
        self._reader: LogReader | None = None
        self._is_stopped = False
        self._reading = threading.Lock()
        self._ready: deque[Batch | Flaw | list[Batch]] = deque()
        self._unread: deque[tuple[AllowedFolder, FolderPositions, Unread]] = deque()
        self._opened: tuple[AllowedFolder, FolderPositions, Unread] | None = None
        self._deferred: deque[tuple[Flaw, AllowedFolder, FolderPositions, Unread]] = deque()
        self._links: set[str] = set()  # links that were reported
        self._scans, self._next_scan = 0, 0.0
        self._is_incomplete = True  # whether a scan may have missed files
        self._fails_at_errors = str(config.originals.get(TOLERANCE, "none")).lower() != "all"
        self._config = config  # may raise, so the attributes that ``stop`` needs are set before
        self._lines = LineSettings.of(config)
        self._scan = FolderScan(config, self.allowed_paths, self.context.offset)

    def poll(self) -> Batch | Sequence[Batch] | None:
        with self._reading:
            if self._is_stopped:
                return None
            return self._next()

    def datasets(self) -> Iterable[Dataset]:
        return [Dataset("file", folder) for folder in self._scan.folders]

    def stop(self) -> None:
        self._is_stopped = True
        with self._reading:
            self._close()

    def _next(self) -> Batch | Sequence[Batch] | None:
        while True:
            if self._ready:
                ready = self._ready[0]
                if isinstance(ready, Flaw) and self._unread and self._fails_at_errors:
                    self._defer(ready)
                    continue
                self._ready.popleft()
                if isinstance(ready, Flaw):
                    raise ready.error
                return ready
            if self._reader is not None:
                if not self._read(self._reader):
                    return []
            elif self._unread:
                self._open(*self._unread.popleft())
            elif self._deferred:
                self._resume(*self._deferred.popleft())
            elif self._scan.failures and (self._config[FOLLOW] or not self._is_due()):
                raise self._failure()
            elif self._is_due():
                self._list()
            else:
                return [] if self._config[FOLLOW] else None

    def _defer(self, flaw: Flaw) -> None:
        """Postpone an error until all other files are read, because it ends the run. Reading of this file then continues after the
        error."""
        assert self._opened is not None
        self._deferred.append((flaw, *self._opened))
        self._ready.clear()
        self._close()

    def _resume(self, flaw: Flaw, folder: AllowedFolder, positions: FolderPositions, unread: Unread) -> None:
        """Continue after a postponed error, and raise it."""
        self._opened = folder, positions, unread
        positions.known[unread.identity] = flaw.position_after
        if flaw.position_after.size >= 0:
            self._ready.append([self._marker(unread.identity.partition, flaw.position_after.offset(positions.path_of(unread.file)))])
        else:
            self._unread.append((folder, positions, replace(unread, position=flaw.position_after)))
        raise flaw.error

    def _is_due(self) -> bool:
        if self._config[FOLLOW]:
            return time.monotonic() >= self._next_scan
        return self._is_incomplete and self._scans < MAX_SCANS

    def _failure(self) -> ConnectException:
        """The exception for files that could not be read, after all other files were read. The next poll lists folders again."""
        failures, self._scan.failures = self._scan.failures, {}
        self._scans, self._next_scan, self._is_incomplete = 0, 0.0, True
        named = [f"{path} ({error.strerror or error})" for path, error in sorted(failures.items())]
        more = f" and {len(named) - MAX_NAMED} more" if len(named) > MAX_NAMED else ""
        text = f"Cannot read {', '.join(named[:MAX_NAMED])}{more}, which {PATHS} names. Other files were read"
        is_refused = any(isinstance(error, PermissionError) for error in failures.values())
        return ConnectException(text) if is_refused else RetriableException(text)

    def _list(self) -> None:
        begun = time.thread_time()
        self._scans, self._is_incomplete = self._scans + 1, False
        for folder, positions, unread in self._scan.unread():
            self._warn_lost(positions)
            if positions.changes:
                changes, positions.changes = positions.changes, []
                self._ready.append([self._marker(*change) for change in changes])
            self._unread.extend((folder, positions, each) for each in unread)
        if self._scan.changes:
            self._ready.append([self._marker(*change) for change in self._scan.changes])
        if links := set(self._scan.links()) - self._links:
            self._links |= links
            log.warning("%s", links_text(sorted(links)))
        interval = self._config[POLL_MS] / 1000
        wait = min(max(interval, SCAN_SHARE * (time.thread_time() - begun)), MAX_INTERVALS * interval)
        self._next_scan = time.monotonic() + wait

    def _warn_lost(self, positions: FolderPositions) -> None:
        lost, positions.lost = positions.lost, []
        if lost:
            named = "; ".join(lost[:MAX_NAMED]) + (f"; and {len(lost) - MAX_NAMED} more" if len(lost) > MAX_NAMED else "")
            log.warning("%d log files: %s. %s", len(lost), named, _ROTATE)

    def _open(self, folder: AllowedFolder, positions: FolderPositions, unread: Unread) -> None:
        content = None
        try:
            content = unread.file.open(folder)
            if content is None:  # already renamed
                self._is_incomplete = True
                return
            self._opened = folder, positions, unread
            self._reader = LogReader(content, unread, self._lines.encoding, self._lines.limits, self._lines.entries)
        except OSError as error:
            self._scan.failures[positions.path_of(unread.file)] = error
            if content is not None:
                content.close()

    def _read(self, reader: LogReader) -> bool:
        """Read a piece. False if there is no complete entry yet."""
        assert self._opened is not None
        positions = self._opened[1]
        try:
            piece = reader.next()
        except ReplacedException:
            self._is_incomplete = True
            self._close()
            return True
        except OSError as error:
            self._scan.failures[positions.path_of(reader.unread.file)] = error
            self._close()
            return True
        if piece is None:
            return False
        identity, file = reader.unread.identity, reader.unread.file
        if piece.position != positions.known[identity]:
            positions.known[identity] = piece.position
            self._ready.extend(self._records(piece, identity.partition, positions.path_of(file)))
        if piece.position.size >= 0:
            self._close()
        return True

    def _records(self, piece: Piece, partition: Mapping[str, object], path: str) -> Iterator[Batch | Flaw]:
        """Batches of lines, and the errors between them, each with the position after it. After ``MOST_FAULTS`` errors, the remaining valid
        lines are one batch, and the remaining errors are one error."""
        parsed = self._lines.format.parse(piece.text, None if self._lines.time is None else self._lines.time.field)
        is_bad, is_blank = piece.unread(parsed.errors, parsed.blank)
        bad = np.flatnonzero(is_bad).tolist() or sorted(piece.errors)
        batch = self._batch(parsed, piece.text, path)
        begin = 0
        for row in bad[:MOST_FAULTS]:
            if row > begin:
                offset = piece.position_at(int(piece.ends[row - 1])).offset(path)
                yield _without(batch, is_blank, begin, row).replace(source_partition=partition, source_offset=offset)
            text = piece.errors.get(row) or f"A line of {path} up to byte {piece.ends[row]} is not of format {self._lines.format.name}"
            yield Flaw(DataException(text), piece.position_at(int(piece.ends[row])) if row < len(batch) else piece.position)
            begin = min(row + 1, len(batch))
        if len(bad) > MOST_FAULTS:
            good = _without(batch, is_bad | is_blank, begin, len(batch))
            yield from _remaining_lines(piece, good.replace(source_partition=partition), path, len(bad) - MOST_FAULTS)
            begin = len(batch)
        rest = _without(batch, is_blank, begin, len(batch))
        if piece.damage is not None:
            if begin < len(batch):
                yield rest.replace(source_partition=partition, source_offset=piece.position_at(int(piece.ends[-1])).offset(path))
            yield Flaw(DataException(f"File {path} is damaged: {piece.damage}. {_REMEDY}"), piece.position)
            rest = rest.slice(0, 0)
        yield rest.replace(source_partition=partition, source_offset=piece.position.offset(path))

    def _batch(self, parsed: Parsed, lines: pa.Array, path: str) -> Batch:
        batch = Batch(self._config[TOPIC], parsed.value, value_schema=parsed.schema)
        if self._lines.time is not None:
            batch = batch.replace(timestamp=self._lines.time.of(lines, parsed))
        name = self._config[HEADER]
        if name is not None:
            pair = {"key": name, "value": path.encode()}
            batch = batch.replace(headers=pa.repeat(pa.scalar([pair], headers_type()), len(batch)))
        return batch

    def _marker(self, partition: Mapping[str, object], offset: Mapping[str, object]) -> Batch:
        return Batch(self._config[TOPIC], pa.array([], pa.string()), source_partition=partition, source_offset=offset)

    def _close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None


def _without(batch: Batch, is_dropped: NDArray[np.bool_], begin: int, end: int) -> Batch:
    """The records from ``begin`` to ``end`` without the dropped ones."""
    part, is_kept = batch.slice(begin, end - begin), ~is_dropped[begin:end]
    return part if is_kept.all() else part.filter(pa.array(is_kept))


def _remaining_lines(piece: Piece, good: Batch, path: str, count: int) -> Iterator[Batch | Flaw]:
    """The part after the individually reported errors: its valid lines, then one error."""
    end = piece.position_at(int(piece.ends[-1]))
    if len(good):
        yield good.replace(source_offset=end.offset(path))
    text = f"{count} more lines of {path} up to byte {piece.ends[-1]} cannot be read: check the settings encoding and line.format"
    yield Flaw(DataException(text), end)


def links_text(links: Sequence[str]) -> str:
    """A message that ``links`` are not read, with a remedy. Empty without links."""
    if not links:
        return ""
    named = ", ".join(links[:MAX_NAMED]) + (f" and {len(links) - MAX_NAMED} more" if len(links) > MAX_NAMED else "")
    return f"Not read, because links are not followed: {named}. Set {PATHS} to their targets"


class LogSourceConnector(SourceConnector):
    """Reads the lines of log files into a topic, one record per line or entry. Folders are distributed among the tasks."""

    aliases = ("LogSource", "LogSourceConnector")
    task_class: ClassVar[type[SourceTask]] = LogSourceTask
    config_def = CONFIG_DEF

    def start(self, config: Config) -> None:
        super().start(config)
        self._check_settings(config)

    def validate(self, config: Mapping[str, str]) -> list[ConfigValue]:
        values = super().validate(config)
        if not any(value.errors for value in values):
            try:
                self._check_settings(self.config_def.parse(config))
            except ConfigException as error:
                add_errors(values, [error], PATHS)
        return values

    def check(self, config: Mapping[str, str]) -> None:
        """Raises ConfigException for a disallowed path and an invalid pattern, format or encoding. Missing files are only reported."""
        parsed = self.config_def.parse(config)
        self._check_settings(parsed)
        scan = FolderScan(parsed, self.allowed_paths, lambda _: None)
        self._report_missing(parsed, scan, has_files=scan.has_files())

    def _report_missing(self, config: Config, scan: FolderScan, *, has_files: bool) -> None:
        text = f"There is no file like {', '.join(config[PATHS])}: nothing is read until there is"
        self.missing = None if has_files else links_text(scan.links()) or text

    def _check_settings(self, parsed: Config) -> None:
        for pattern in LogSettings.of(parsed).patterns:
            self.allowed_paths.resolve(PATHS, pattern.root)
        LineSettings.of(parsed)

    def task_configs(self, max_tasks: int) -> list[Mapping[str, str]]:
        """One task for each folder that there may be. Each task finds its own folders, including new folders."""
        patterns = LogSettings.of(self.config).patterns
        is_fixed = all(pattern.is_one_folder for pattern in patterns)
        count = min(max_tasks, len({pattern.root for pattern in patterns})) if is_fixed else max_tasks
        return [{**self.config.originals, SHARE: f"{number}/{count}"} for number in range(count)]

    def output_topics(self, config: Mapping[str, str]) -> list[str]:
        return [self.config_def.parse(config)[TOPIC]]

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        return ExactlyOnceSupport.SUPPORTED

    def has_new_data(self, config: Config, offsets: OffsetReader) -> bool | None:
        """Whether a file has changed since it was read to its end. Also true if a file cannot be read, because a run would report this, and
        if a run would note that it found nothing (``start.from=end``). Lists the folders."""
        scan = FolderScan(config, self.allowed_paths, offsets)
        if any(unread for _, _, unread in scan.unread()) or scan.failures or scan.changes:
            return True
        self._report_missing(config, scan, has_files=scan.has_seen_files)
        return False

    def alter_offsets(self, config: Mapping[str, str], offsets: Any) -> bool:  # Any: JSON from a user, checked here
        pairs = list(offsets.items() if isinstance(offsets, Mapping) else offsets)
        for partition, offset in pairs:
            check_offset(partition, offset)
        if wanted := manual_positions(pairs):
            check_not_beyond_end(wanted, FolderScan(self.config_def.parse(config), self.allowed_paths, lambda _: None).files())
        return True
