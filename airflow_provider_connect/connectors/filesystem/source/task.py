"""The task of FileSystemSource. Reads its share of the files, one after another in the order of the listing."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO, Final

from airflow_provider_connect.connectors.filesystem.formats.contract import Piece, Split
from airflow_provider_connect.connectors.filesystem.formats.text import EXTENSIONS
from airflow_provider_connect.connectors.filesystem.source.progress import (
    FINISHED,
    FORGOTTEN,
    ROWS,
    SPLIT_BYTES,
    VERSION,
    Fold,
    Leftover,
    Part,
    Progress,
    Share,
    Watermark,
    Work,
    version_of,
)
from airflow_provider_connect.connectors.filesystem.source.settings import CONFIG_DEF, Cleanup, SourceSettings
from airflow_provider_connect.connectors.filesystem.stores.location import dataset_at, open_store
from airflow_provider_connect.connectors.filesystem.stores.store import Store, StoredFile, join_path
from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.data.schema import Schema
from airflow_provider_connect.errors import ConfigException, ConnectException, DataException, RetriableException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config, ConfigKey, Type
from airflow_provider_connect.sdk.datasets import Dataset
from airflow_provider_connect.sdk.task import SourceTask

log = logging.getLogger(__name__)

NUMBER, COUNT = "task.number", "task.count"
TOLERANCE: Final = "errors.tolerance"
_MOST_LEFT: Final = 20  # if more files cannot be read, probably none can
MAX_UNCLEAN: Final = 1000
"""Maximum number of files that wait for a commit before they are archived or deleted, because their names are in one offset."""


class FileSystemSourceTask(SourceTask):
    """Each batch has the offset of its file or split; the last batch marks it as finished.

    Files are archived or deleted in ``commit``, when all their records are in Kafka. Until then their names are in this task's own offset,
    written in the transaction of their last records. So a run after a crash cleans up and reads nothing twice. A file or folder to which
    the store refuses access, or a file with an error that fails the task, costs no other: the task fails with its error when the others are
    read. If names are ascending, so that the order of files may matter, such an error fails the task at once.
    """

    config_def = CONFIG_DEF.with_keys(
        ConfigKey(NUMBER, Type.INT, 0, doc="The number of this task, from 0."), ConfigKey(COUNT, Type.INT, 1, doc="The number of tasks.")
    )

    def start(self, config: Config) -> None:
        self._reading = threading.Lock()
        self._is_stopped = False
        self._store: Store | None = None
        self._file: BinaryIO | None = None
        self._settings = SourceSettings.of(config)  # may raise, so the attributes that ``stop`` needs are set before
        self._config = config
        self._committed: dict[str, Mapping[str, object]] = {}  # offsets of the current file that were returned
        self._progress = Progress(self._settings, self._offset)
        self._share = Share(config[NUMBER], config[COUNT], self._splits_of)
        self._uncleaned: dict[str, str] = {}  # files that must still be archived or deleted, with their versions
        for number in self._share.cleaners(self._progress):
            self._uncleaned |= self._progress.cleaners[number]
        self._inherited = set(self._uncleaned)
        self._returned: list[StoredFile] = []  # files finished with the last poll
        self._delivered: list[StoredFile] = []  # files finished with an earlier poll
        self._store = open_store(config, self.allowed_paths)
        self._reader: PartReader | None = None
        self._part: Part | None = None
        self._left: dict[str, ConnectException] = {}  # the errors of files that were left, by path
        self._leaves_errors = not self._settings.is_ascending and str(config.originals.get(TOLERANCE, "none")).lower() != "all"
        self._path = ""  # path of the current file
        self._before = ""  # the path after which the listing restarts after an error
        self._work = self._list_work()

    def poll(self) -> Batch | Sequence[Batch] | None:
        with self._reading:
            if self._is_stopped:
                return None
            self._delivered += self._returned
            self._returned = []
            if len(self._uncleaned) - len(self._inherited) >= MAX_UNCLEAN:
                return []
            try:
                return self._next()
            except RetriableException:
                self._close_part()
                self._work = self._list_work()
                raise

    def commit(self) -> None:
        """Clean up the files that ended before the last poll. The records of the last poll may not be committed yet."""
        while self._delivered:
            self._clean(self._delivered[-1])
            self._uncleaned.pop(self._delivered.pop().path, None)

    def datasets(self) -> Iterable[Dataset]:
        """The folder that is listed."""
        return [dataset_at(self._config, self._settings.prefix.rpartition("/")[0])]

    def stop(self) -> None:
        self._is_stopped = True
        with self._reading:
            self._close_part()
            if self._store is not None:
                self._store.close()
                self._store = None

    def _next(self) -> list[Batch] | None:
        while (step := self._next_step()) is not None:
            try:
                batches = step()
            except ConfigException as error:
                self._leave_file(error)
                continue
            except DataException as error:
                if not self._leaves_errors:
                    raise
                self._leave_file(error)
                continue
            if batches:
                return batches
        self._forget_inherited(list(self._inherited))  # files that were not listed no longer exist
        self._report_skipped()
        self._raise_errors()
        return None

    def _next_step(self) -> Callable[[], list[Batch]] | None:
        """Reads on in the current file, or starts the next work. None after the last work."""
        if self._part is not None:
            return partial(self._rows, self._part)
        work = next(self._work, None)
        return None if work is None else partial(self._start_work, work)

    def _leave_file(self, error: ConnectException) -> None:
        """Keep the error of the current file, so that the next one is read."""
        self._close_part()
        self._left.setdefault(self._path, error)
        if len(self._left) == _MOST_LEFT:
            self._raise_errors()

    def _raise_errors(self) -> None:
        """Raise the errors of the files that were left, as one."""
        errors, self._left = list(self._left.values()), {}
        if len(errors) == 1:
            raise errors[0]
        if errors:
            texts = [error.message for error in errors]
            text = "\n".join((f"{len(errors)} files could not be read:", *texts))
            raise DataException(text) if any(isinstance(error, DataException) for error in errors) else ConfigException(text, errors=texts)

    def _report_skipped(self) -> None:
        """Done by the first task, because all tasks list the same files."""
        assert self._store is not None
        skipped = self._store.skipped
        if skipped.text and self._config[NUMBER] == 0:
            log.warning("%s: %s", self._settings.url, skipped.text)
        if self._config[NUMBER] == 0:
            self._left.update((f"{folder}/", error) for folder, error in skipped.folders.items())
        skipped.clear()

    def _start_work(self, work: Work) -> list[Batch]:
        """Open a part, or return the offsets to commit for work without reading."""
        if isinstance(work, Watermark):
            forgotten = [self._offset_batch(self._progress.partition(file.path), FORGOTTEN) for file in work.files]
            return [self._offset_batch(self._progress.partition(), {"after": work.after}), *forgotten]
        if work.file.path != self._path:
            self._before, self._path = self._path, work.file.path
            self._committed.clear()
        if isinstance(work, Leftover):
            self._clean(work.file)
            self._forget_inherited([work.file.path])
            return []
        if isinstance(work, Fold):
            forgotten = [self._offset_batch(self._progress.partition(work.file.path, split), FORGOTTEN) for split in work.splits]
            return [*self._finish_file(work.file, pa.array([], pa.string()), None, 0), *forgotten]
        self._open(work)
        return []

    def _open(self, part: Part) -> None:
        assert self._store is not None
        try:
            self._file = self._store.open(part.file.path)
        except FileNotFoundError:
            log.warning("File %s disappeared after it was listed: it is skipped", part.file.path)
            return
        pieces = self._settings.format_of(part.file.path).read(self._file, part.split)
        self._reader = PartReader(pieces, part.rows, self._settings.batch_rows)
        self._part = part

    def _rows(self, part: Part) -> list[Batch]:
        assert self._store is not None
        assert self._reader is not None
        try:
            with self._store.translate_errors(part.file.path):
                rows = self._reader.next()
        except DataException as error:
            where = part.file.path if part.split is None else f"{part.file.path}, split {part.split}"
            raise DataException(f"File {where}, after record {self._rows_read(part)}: {error.message}") from error
        if rows.is_last and part.split is None:
            batches = self._finish_file(part.file, rows.values, rows.schema, rows.read)
        else:
            batches = [self._part_batch(part, rows.values, rows.schema, rows.read, is_finished=rows.is_last)]
        if rows.is_last:
            self._close_part()
        return batches

    def _finish_file(self, file: StoredFile, values: pa.Array, schema: Schema | None, read: int) -> list[Batch]:
        """The last records of a file, with the offsets that mark it as finished."""
        whole = Part(file, None, 0)
        if self._settings.cleanup is Cleanup.NONE:
            return [self._part_batch(whole, values, schema, read, is_finished=True)]
        self._part_batch(whole, values, schema, read, is_finished=True)  # if the listing restarts
        self._uncleaned[file.path] = version_of(file)
        self._returned.append(file)
        last = self._offset_batch(self._progress.partition(file.path), FORGOTTEN).replace(value=values, value_schema=schema)
        return [last, self._offset_batch(self._progress.cleaner(self._share.number), {FINISHED: dict(self._uncleaned)})]

    def _part_batch(self, part: Part, values: pa.Array, schema: Schema | None, read: int, *, is_finished: bool) -> Batch:
        partition = self._progress.partition(part.file.path, part.split)
        offset: dict[str, object] = {ROWS: read, VERSION: version_of(part.file)}
        if is_finished:
            offset[FINISHED] = True
        self._committed[_key(partition)] = offset
        return self._offset_batch(partition, offset).replace(value=values, value_schema=schema)

    def _offset_batch(self, partition: Mapping[str, object], offset: Mapping[str, object]) -> Batch:
        """A batch with an offset and without records."""
        return Batch(self._settings.topic, pa.array([], pa.string()), source_partition=partition, source_offset=offset)

    def _rows_read(self, part: Part) -> int:
        offset = self._committed.get(_key(self._progress.partition(part.file.path, part.split)), {})
        return int(str(offset.get(ROWS, part.rows)))

    def _offset(self, partition: Mapping[str, object]) -> Mapping[str, object] | None:
        found: Mapping[str, object] | None = self._committed.get(_key(partition)) or self.context.offset(partition)
        return found

    def _list_work(self) -> Iterator[Work]:
        assert self._store is not None
        files = self._settings.files(self._store, int(time.time() * 1000), max(self._before, self._progress.after))
        return self._share.work(self._progress, files)

    def _splits_of(self, file: StoredFile) -> list[Split]:
        assert self._store is not None
        translate_errors, suppress = self._store.translate_errors(file.path), contextlib.suppress
        with (
            suppress(ConfigException),  # the reading of the file raises it again
            translate_errors,
            suppress(FileNotFoundError),
            contextlib.closing(self._store.open(file.path)) as opened,
        ):
            return self._settings.format_of(file.path).splits(opened, file.size, SPLIT_BYTES)
        return []

    def _clean(self, file: StoredFile) -> None:
        """Archive or delete a file, unless it was replaced since it was listed. A later run reads the new file."""
        assert self._store is not None
        found = self._store.file(file.path)
        if found is None:
            return
        if not found.is_same(file):
            log.warning("File %s was replaced while it was read: it stays, and the next run reads the new one", file.path)
        elif self._settings.cleanup is Cleanup.ARCHIVE:
            archive(self._store, file.path, self._settings.finished_path)
        else:
            self._store.remove(file.path)

    def _forget_inherited(self, paths: Sequence[str]) -> None:
        for path in paths:
            if path in self._inherited:
                self._inherited.discard(path)
                self._uncleaned.pop(path, None)

    def _close_part(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = self._reader = self._part = None


def _key(partition: Mapping[str, object]) -> str:
    return json.dumps(partition, sort_keys=True)


@dataclass(frozen=True, slots=True)
class Rows:
    """Consecutive records of a file. ``read`` is the number of records in the file up to the last of these. ``is_last``: no records
    follow."""

    values: pa.Array
    schema: Schema | None
    read: int
    is_last: bool


class PartReader:
    """Reads the records of a part. The first ``rows`` records, and the errors among them, are skipped, because they were already read."""

    def __init__(self, pieces: Iterator[Piece], rows: int, max_rows: int) -> None:
        self._pieces = pieces
        self._passing = rows
        self._most = max_rows
        self._read = rows
        self._ahead: list[Piece] = []  # at most one
        self._values: pa.Array | None = None
        self._schema: Schema | None = None

    def next(self) -> Rows:
        """The next records. Must not be called after the last records. Raises DataException for an unreadable record or rest of a file. The
        next call continues after it."""
        while self._values is None or not len(self._values):
            if not self._peek():
                return Rows(pa.array([], pa.string()), None, self._read, True)
            piece = self._ahead.pop()
            if isinstance(piece, DataException):
                raise piece
            self._values, self._schema = piece
        values, self._values = self._values.slice(0, self._most), self._values.slice(self._most)
        self._read += len(values)
        return Rows(values, self._schema, self._read, not len(self._values) and not self._peek())

    def _peek(self) -> bool:
        """Whether there is another non-empty piece."""
        while not self._ahead:
            piece = next(self._pieces, None)
            if piece is None:
                return False
            if isinstance(piece, DataException):
                if not self._passing:
                    self._ahead.append(piece)
                continue
            passed = min(self._passing, len(piece[0]))
            self._passing -= passed
            if passed < len(piece[0]):
                self._ahead.append((piece[0].slice(passed), piece[1]))
        return True


def archive(store: Store, path: str, folder: str) -> None:
    """Move a file below ``folder``, under a name that no other file has. If the file is missing, another process has moved it."""
    number = 0
    try:
        while not store.move_new(path, join_path(folder, _numbered_path(path, number))):
            number = number + 1 if number else _last_used_number(store, path, folder)
    except FileNotFoundError:
        return


def _last_used_number(store: Store, path: str, folder: str) -> int:
    """The last used number, including numbers that killed moves have used. It is found by doubling and halving, because a name may have
    thousands of numbers."""

    def is_used(number: int) -> bool:
        return store.file(join_path(folder, _numbered_path(path, number))) is not None

    used, free = 0, 1
    while is_used(free):
        used, free = free, free * 2
    while free - used > 1:
        middle = (used + free) // 2
        used, free = (middle, free) if is_used(middle) else (used, middle)
    return max(used, 1)


def _numbered_path(path: str, number: int) -> str:
    """The path with the number before its extensions: ``orders-1.json.gz``."""
    if not number:
        return path
    folder, slash, name = path.rpartition("/")
    compression = next((name[-len(each) :] for each in EXTENSIONS.values() if each and name.lower().endswith(each)), "")
    stem, dot, extension = name.removesuffix(compression).rpartition(".")
    plain = f"{stem}-{number}.{extension}" if dot and stem else f"{name.removesuffix(compression)}-{number}"
    return f"{folder}{slash}{plain}{compression}"
