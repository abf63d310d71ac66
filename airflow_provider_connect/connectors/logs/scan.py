"""Scans of folders with logs: the existing files, and the unread files with their positions. Reads no lines."""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Iterator, Mapping
from functools import partial

from airflow_provider_connect.connectors.logs.files import PATHS, Failures, FolderFiles, LogFile, PathPattern, path_text
from airflow_provider_connect.connectors.logs.folder_positions import Change, FolderPositions, Unread, folder_partition
from airflow_provider_connect.connectors.logs.settings import COMPLETE_MS, END, KEEPS_MS, START, LogSettings, has_open_entries
from airflow_provider_connect.sdk.allowed_paths import AllowedFolder, AllowedPaths
from airflow_provider_connect.sdk.config_def import Config
from airflow_provider_connect.sdk.connector import OffsetReader


class FolderScan:
    """Lists the folders of a task repeatedly, and keeps their positions between scans.

    With ``start.from=end``, an entry of ``paths`` has an offset from its first scan on, even if the scan finds nothing. Files and folders
    that appear later are read from their start."""

    def __init__(self, config: Config, allowed: AllowedPaths, offset: OffsetReader) -> None:
        self._settings = LogSettings.of(config)
        self._config, self._allowed, self._offset = config, allowed, offset
        self._positions: dict[str, FolderPositions] = {}
        self._files: dict[str, FolderFiles] = {}
        self._scanned: set[str] = set()  # entries of ``paths``
        self.failures: Failures = {}
        self.changes: list[Change] = []
        self.has_seen_files = False

    def unread(self) -> Iterator[tuple[AllowedFolder, FolderPositions, list[Unread]]]:
        """Each folder with its unread files. After the call, ``failures`` has the folders and files that could not be read, and ``changes``
        has the offsets of entries of ``paths`` that were scanned for the first time. Commit them last."""
        self.failures, self.changes = {}, []
        new = self._new_entries()
        for path, (folder, patterns) in self._folders().items():
            if not self._is_own(path):
                continue
            positions = self._folder_positions(path, folder)
            try:
                files = self._folder_files(path, patterns).list_files(folder, positions.read_inodes)
            except OSError as error:
                self.failures[path_text(path)] = error
                continue
            self.has_seen_files = self.has_seen_files or bool(files)
            unread = positions.unread(files, time.time_ns() // 1000, skips_old=any(each in new.values() for each in patterns))
            self.failures |= positions.failures
            yield folder, positions, unread
        self._note_scanned(new)

    def links(self) -> list[str]:
        """The included links whose targets are not in a folder of this share, and so are not read."""
        read = {(file.device, file.inode) for files in self._files.values() for file in files.found}
        links = ((path, name, at) for path, files in self._files.items() for name, at in files.links.items())
        return sorted(path_text(os.path.join(path, name)) for path, name, at in links if at not in read)

    def has_files(self) -> bool:
        """Whether there is a file. Also true if a folder cannot be listed, because a run would report this. Does not read files and
        offsets."""
        return any(True for _ in self.files()) or bool(self.failures)

    def files(self) -> Iterator[LogFile]:
        """The existing files. Folders that cannot be listed are added to ``failures``."""
        for path, (folder, patterns) in self._folders().items():
            try:
                yield from self._folder_files(path, patterns).list_files(folder)
            except OSError as error:
                self.failures[path_text(path)] = error

    @property
    def folders(self) -> list[str]:
        """The paths of the listed folders of this share."""
        return list(self._positions)

    def _new_entries(self) -> dict[str, PathPattern]:
        """With ``start.from=end``, the entries of ``paths`` that no scan has covered yet, by the folder of their offsets."""
        if self._config[START] != END:
            return {}
        entries = {self._root(each) if each.is_one_folder else each.written: each for each in self._settings.patterns}
        return {name: each for name, each in entries.items() if name not in self._scanned and not self._offset(folder_partition(name))}

    def _note_scanned(self, entries: Mapping[str, PathPattern]) -> None:
        """Note that a scan has covered these entries. An entry whose first folder could not be listed stays new."""
        for name in [name for name, each in entries.items() if path_text(self._root(each)) not in self.failures]:
            self._scanned.add(name)
            has_offset = name in self._positions and self._positions[name].known
            if self._is_own(name) and not has_offset:
                self.changes.append((folder_partition(name), {"files": []}))

    def _root(self, entry: PathPattern) -> str:
        return self._allowed.folder(PATHS, entry.root).path

    def _is_own(self, path: str) -> bool:
        number, count = self._settings.share
        return zlib.crc32(os.fsencode(path)) % count == number

    def _folders(self) -> dict[str, tuple[AllowedFolder, list[PathPattern]]]:
        found: dict[str, tuple[AllowedFolder, list[PathPattern]]] = {}
        for pattern in self._settings.patterns:
            for folder in pattern.list_folders(self._allowed, self.failures):
                found.setdefault(folder.path, (folder, []))[1].append(pattern)
        return found

    def _folder_files(self, path: str, patterns: list[PathPattern]) -> FolderFiles:
        names = self._settings.names(patterns)
        if path not in self._files or self._files[path].names != names:
            self._files[path] = FolderFiles(names)
        return self._files[path]

    def _folder_positions(self, path: str, folder: AllowedFolder) -> FolderPositions:
        if path not in self._positions:
            config = self._config
            self._positions[path] = FolderPositions(
                path,
                self._offset,
                partial(LogFile.open, folder=folder),
                retention=config[KEEPS_MS] * 1000,
                completion_time=config[COMPLETE_MS] * 1000,
                completes_open_entries=has_open_entries(config),
            )
            self._positions[path].load()
        return self._positions[path]
