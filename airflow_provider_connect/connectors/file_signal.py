"""A signal for the changes of one file, by Linux's inotify. Knows nothing of lines and positions."""

from __future__ import annotations

import contextlib
import os
from typing import Final

from inotify_simple import INotify, flags

from airflow_provider_connect.sdk.allowed_paths import AllowedPaths

_OF_FILE: Final = flags.MODIFY | flags.ATTRIB | flags.MOVE_SELF | flags.DELETE_SELF  # ATTRIB also reports another file renamed to the path
_OF_FOLDER: Final = flags.CREATE | flags.MOVED_TO


class FileSignal:
    """A DataSignal: reports that a file was written to, truncated, replaced or created.

    Watches the file, or its folder while there is no such file. Each ``wait`` opens the path as AllowedPaths does, without following links,
    and watches what it has opened. So a file is also found if a folder above it was replaced. Changes that other hosts make on a network
    file system are not reported.
    """

    def __init__(self, key: str, path: str, allowed: AllowedPaths) -> None:
        """Raises OSError if the user has no inotify instance left."""
        self._key, self._path, self._allowed = key, path, allowed
        self._inotify = INotify()
        self._watch: int | None = None
        self._name = ""

    def wait(self, timeout_seconds: float) -> bool:
        """See ``DataSignal``. Raises OSError if the user has no watch left, and ConfigException for a path that is not allowed."""
        if self._renew_watch():
            return True
        events = self._inotify.read(timeout=round(timeout_seconds * 1000))
        return any(event.name in {"", self._name} for event in events)  # no name: the watched file itself, or events were lost

    def close(self) -> None:
        self._inotify.close()

    def _renew_watch(self) -> bool:
        """Watch what the path leads to now. Returns whether it was not watched before."""
        before, self._watch = self._watch, self._add_watch()
        if before is not None and before != self._watch:
            with contextlib.suppress(OSError):  # the kernel has removed the watch of a deleted file
                self._inotify.rm_watch(before)
        return self._watch is not None and before != self._watch

    def _add_watch(self) -> int | None:
        """The number of the watch of the file or of its folder. A watch that exists keeps its number. None: there is no folder."""
        folder, self._name = self._allowed.folder_of(self._key, self._path)
        try:
            descriptor, mask = folder.open(self._name, os.O_RDONLY | os.O_NONBLOCK), _OF_FILE
        except FileNotFoundError:
            try:
                descriptor, mask = folder.open(".", os.O_RDONLY | os.O_DIRECTORY), _OF_FOLDER
            except FileNotFoundError:
                return None
        try:
            return int(self._inotify.add_watch(f"/proc/self/fd/{descriptor}", mask))
        finally:
            os.close(descriptor)
