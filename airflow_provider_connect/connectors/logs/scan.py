"""Scans of folders with logs: the existing files, and the unread files with their positions. Reads no lines."""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Iterator
from functools import partial

from airflow_provider_connect.connectors.logs.files import Failures, FolderFiles, LogFile, PathPattern, path_text
from airflow_provider_connect.connectors.logs.folder_positions import FolderPositions, Unread
from airflow_provider_connect.connectors.logs.settings import COMPLETE_MS, END, KEEPS_MS, START, LogSettings, has_open_entries
from airflow_provider_connect.sdk.allowed_paths import AllowedFolder, AllowedPaths
from airflow_provider_connect.sdk.config_def import Config
from airflow_provider_connect.sdk.connector import OffsetReader


class FolderScan:
    """Lists the folders of a task repeatedly, and keeps their positions between scans."""

    def __init__(self, config: Config, allowed: AllowedPaths, offset: OffsetReader) -> None:
        self._settings = LogSettings.of(config)
        self._config, self._allowed, self._offset = config, allowed, offset
        self._positions: dict[str, FolderPositions] = {}
        self._files: dict[str, FolderFiles] = {}
        self.failures: Failures = {}
        self.has_seen_files = False

    def unread(self) -> Iterator[tuple[AllowedFolder, FolderPositions, list[Unread]]]:
        """Each folder with its unread files. After the call, ``failures`` has the folders and files that could not be read."""
        self.failures = {}
        number, count = self._settings.share
        for path, (folder, patterns) in self._folders().items():
            if zlib.crc32(os.fsencode(path)) % count != number:
                continue
            positions = self._folder_positions(path, folder)
            try:
                files = self._folder_files(path, patterns).list_files(folder, positions.read_inodes)
            except OSError as error:
                self.failures[path_text(path)] = error
                continue
            self.has_seen_files = self.has_seen_files or bool(files)
            unread = positions.unread(files, time.time_ns() // 1000, skips_old=self._config[START] == END)
            self.failures |= positions.failures
            yield folder, positions, unread

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
