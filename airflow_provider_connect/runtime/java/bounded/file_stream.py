"""Kafka's FileStreamSource: a check, without a JVM, whether the file has more than the delivered lines."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Mapping
from typing import Final

from airflow_provider_connect.sdk.connector import OffsetReader

CLASS: Final = "org.apache.kafka.connect.file.FileStreamSourceConnector"
_FILE: Final = "file"
_SECONDS: Final = 30.0
"""The time limit for a stat, because a mount whose server is down does not answer."""


class FileStream:
    """See ``BoundedSource``. Its task reads within its polls, so an empty poll ends a run."""

    def task_defaults(self, config: Mapping[str, str], worker: Mapping[str, str], internal: Collection[str]) -> Mapping[str, str]:
        """Empty, because the task needs no defaults."""
        return {}

    def goal(self, config: Mapping[str, str], offsets: OffsetReader, within: Callable[..., object]) -> None:
        """None, because the source has no goal."""

    def has_new_data(self, config: Mapping[str, str], offsets: OffsetReader, within: Callable[..., object]) -> bool | None:
        """Whether the file is longer than the committed position. None if only a run can find out: for standard input, for a file that is
        missing on this host or shorter than before, and for files that are not regular. Reads no content of the file."""
        path = config.get(_FILE) or ""
        offset = offsets({"filename": path}) if path else None
        position = None if offset is None else offset.get("position")
        if not isinstance(position, int):
            return None
        found: list[os.stat_result] = []
        try:
            within(_SECONDS, lambda: found.append(os.stat(path)), f"a stat of {path}")
        except (OSError, ValueError):
            return None
        if not stat.S_ISREG(found[0].st_mode) or found[0].st_size < position:
            return None
        return found[0].st_size > position

    def retained_wal(self, config: Mapping[str, str], within: Callable[..., object]) -> None:
        """None: nothing is retained."""
