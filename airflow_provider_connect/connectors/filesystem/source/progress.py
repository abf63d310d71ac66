"""The progress of reading files, from a connector's offsets, and the resulting work of a task: read, fold or clean up. Reads no file.

=============================================  ==========================================================================
``{"url": …, "file": …}``                      ``{"rows": 7, "version": "size-modified"}``; with ``"finished": true``
``{"url": …, "file": …, "split": "0-9"}``      the same, of a part of a large file that several tasks read
``{"url": …, "cleaner": 0}``                   ``{"finished": {path: version}}``: read, but not yet archived or deleted
``{"url": …}``                                 ``{"after": path}``: all files up to this path are finished
=============================================  ==========================================================================

A file whose version differs from the version in its offset is a new file. Folded or cleaned-up offsets are removed: their partitions no
longer have a record on the offsets topic.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_provider_connect.connectors.filesystem.formats.contract import Split
from airflow_provider_connect.connectors.filesystem.source.settings import Cleanup, SourceSettings
from airflow_provider_connect.connectors.filesystem.stores.store import StoredFile
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.sdk.connector import OffsetReader

FILE, SPLIT, ROWS, VERSION, FINISHED, AFTER, CLEANER = "file", "split", "rows", "version", "finished", "after", "cleaner"
SPLIT_BYTES: Final = 128 << 20
"""Approximate size of a split. Must not change, because a file that was started in splits continues with the same splits."""
MAX_TASKS: Final = 64
"""Maximum number of tasks of a connector. A task checks this many earlier tasks for files to clean up."""
MAX_FOLDED: Final = 1000
"""Maximum number of files in a fold, which is one transaction."""

Partition = dict[str, object]
Offset = dict[str, object]
FORGOTTEN: Final[Mapping[str, object]] = {}
"""The offset that removes a partition from the offsets topic."""


@dataclass(frozen=True, slots=True)
class Part:
    """A file, or a split of it, to read after its first ``rows`` records."""

    file: StoredFile
    split: Split | None
    rows: int


@dataclass(frozen=True, slots=True)
class Fold:
    """A file whose splits are all read. One offset replaces the offsets of the splits."""

    file: StoredFile
    splits: Sequence[Split]


@dataclass(frozen=True, slots=True)
class Watermark:
    """All files up to ``after`` are read. One offset replaces their offsets."""

    after: str
    files: Sequence[StoredFile]


@dataclass(frozen=True, slots=True)
class Leftover:
    """A file that an earlier run read, but did not archive or delete."""

    file: StoredFile


Work = Part | Fold | Watermark | Leftover


def version_of(file: StoredFile) -> str:
    return f"{file.size}-{file.modified_ms}" + (f"-{file.tag}" if file.tag else "")


@dataclass(slots=True)
class Progress:
    """The progress of reading files. ``offset`` reads committed offsets."""

    settings: SourceSettings
    offset: OffsetReader
    cleaners: list[dict[str, str]] = field(init=False)
    after: str = field(init=False)

    def __post_init__(self) -> None:
        found = [self.offset(self.cleaner(number)) or {} for number in range(MAX_TASKS)] if self._has_cleanup else []
        self.cleaners = [dict(_mapping(each.get(FINISHED))) for each in found]
        self.after = str((self.offset(self.partition()) or {}).get(AFTER, ""))

    @property
    def _has_cleanup(self) -> bool:
        return self.settings.cleanup is not Cleanup.NONE

    def partition(self, path: str | None = None, split: Split | None = None) -> Partition:
        """The source partition of all files, of a file, or of a split."""
        found: Partition = {"url": self.settings.url}
        if path is not None:
            found[FILE] = path
        if split is not None:
            found[SPLIT] = str(split)
        return found

    def cleaner(self, number: int) -> Partition:
        return {"url": self.settings.url, CLEANER: number}

    def rows(self, file: StoredFile, split: Split | None = None) -> int | None:
        """The number of records read from a file or split. None if it was not started."""
        offset = self._offset(file, split)
        return None if offset is None else int(str(offset.get(ROWS, 0)))

    def is_finished(self, file: StoredFile, split: Split | None = None) -> bool:
        if split is None and (file.path <= self.after or self.is_leftover(file)):
            return True
        offset = self._offset(file, split)
        return offset is not None and bool(offset.get(FINISHED))

    def is_leftover(self, file: StoredFile) -> bool:
        """Whether the file must still be archived or deleted."""
        return any(each.get(file.path) == version_of(file) for each in self.cleaners)

    def _offset(self, file: StoredFile, split: Split | None) -> Mapping[str, object] | None:
        offset = self.offset(self.partition(file.path, split))
        return offset if offset and offset.get(VERSION) == version_of(file) else None

    def is_waiting(self, file: StoredFile) -> bool:
        """Whether a run has work to do for a listed file."""
        return not self.is_finished(file) or self.is_leftover(file)


@dataclass(frozen=True, slots=True)
class Share:
    """The work of task ``number`` of ``count``. ``splits_of`` opens a file to find its splits."""

    number: int
    count: int
    splits_of: Callable[[StoredFile], Sequence[Split]]

    def work(self, progress: Progress, files: Iterator[StoredFile]) -> Iterator[Work]:
        """The work in the order of ``files``, which are listed while the work is done."""
        passed: list[StoredFile] = []
        is_leading = progress.settings.is_ascending and self.number == 0
        for file in files:
            is_finished = progress.is_finished(file)
            if is_leading and is_finished and file.path > progress.after:
                passed.append(file)
            if passed and (not is_finished or len(passed) == MAX_FOLDED):
                yield Watermark(passed[-1].path, passed)
                passed = []
            is_leading = is_leading and is_finished
            if not is_finished:
                yield from self._parts(progress, file)
            elif self._has_cleanup(progress, file):
                yield Leftover(file)
        if passed:
            yield Watermark(passed[-1].path, passed)

    def _parts(self, progress: Progress, file: StoredFile) -> Iterator[Work]:
        rows = progress.rows(file)
        splits = self.splits_of(file) if rows is None and file.size > SPLIT_BYTES else ()
        is_split = len(splits) > 1 and (self.count > 1 or any(progress.rows(file, split) is not None for split in splits))
        if not is_split:
            if self._is_assigned(file.path):
                yield Part(file, None, rows or 0)
            return
        left = [split for split in splits if not progress.is_finished(file, split)]
        if not left and self._is_assigned(file.path):
            yield Fold(file, splits)
        for split in left:
            if self._is_assigned(f"{file.path} {split}"):
                yield Part(file, split, progress.rows(file, split) or 0)

    def _is_assigned(self, name: str) -> bool:
        return zlib.crc32(name.encode()) % self.count == self.number

    def _has_cleanup(self, progress: Progress, file: StoredFile) -> bool:
        return any(progress.cleaners[number].get(file.path) == version_of(file) for number in self.cleaners(progress))

    def cleaners(self, progress: Progress) -> range:
        """The numbers of the earlier tasks whose files this task cleans up."""
        return range(self.number, len(progress.cleaners), self.count)


def count_tasks(progress: Progress, files: Iterator[StoredFile], most: int) -> int:
    """The number of tasks that have work, up to ``most``, where counting stops."""
    count, most = 0, min(most, MAX_TASKS)
    for file in files:
        if progress.is_waiting(file):
            count += max(1, file.size // SPLIT_BYTES)
        if count >= most:
            return most
    return count


def check_offset(partition: Any, offset: Any) -> None:  # Any: JSON from a user, checked here
    """Raise ConnectException for an offset from which this source cannot continue."""
    if offset is None:
        return
    if (
        not isinstance(partition, Mapping)
        or not isinstance(partition.get("url"), str)
        or not partition.keys() <= {"url", FILE, SPLIT, CLEANER}
    ):
        raise ConnectException(f'Partition objects must be {{"url":…,"file":…}}, with "split" for a part of a file, got {partition}')
    if not isinstance(offset, Mapping) or not offset.keys() <= {ROWS, VERSION, FINISHED, AFTER}:
        raise ConnectException(f"Offset objects must have '{ROWS}', '{VERSION}' and '{FINISHED}', or '{AFTER}', got {offset}")
    rows = offset.get(ROWS, 0)
    if not isinstance(rows, int) or isinstance(rows, bool) or rows < 0:
        raise ConnectException(f"Offset '{ROWS}' must be a whole number ≥ 0, got {rows!r}")
    if not isinstance(offset.get(AFTER, ""), str):
        raise ConnectException(f"Offset '{AFTER}' must be the path of a file, got {offset[AFTER]!r}")


def _mapping(found: object) -> Mapping[str, str]:
    return found if isinstance(found, Mapping) else {}
