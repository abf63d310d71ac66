"""The memory fence of a task: the process that runs it is killed when it holds more than ``task.memory.max``, and its end has a name.

A killed process leaves what SIGKILL leaves: what was committed stays, the rest comes again. Nothing of the task's own code runs at the
fence, so no ``except`` of a plugin can take the end for the failure of a record.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from signal import SIGKILL, SIGSTOP
from types import TracebackType
from typing import Final

from airflow_provider_connect.spark.parent_death import dies_with_parent
from airflow_provider_connect.worker.task.memory_watch import LIMIT, NOTE_BYTES

log = logging.getLogger(__name__)
_PROGRAM: Final = Path(__file__).with_name("memory_watch.py")
_START: Final = "its start, before its first record"
_END_SECONDS: Final = 5.0
_LONGEST_POSITION: Final = 500
_REMEDY: Final = (
    "Give it smaller batches (batch.max.rows, consumer.override.max.partition.fetch.bytes or the like of the connector), find the record "
    "or file that expands, or raise task.memory.max: in the connector up to the worker's, above that in the worker's settings."
)


class MemoryFence:
    """Around a task in this process. ``enter`` starts the watching process; ``at`` may be called for each batch, and costs a
    microsecond. ``wire`` is the descriptor of the connection by which the driver is notified; None: the log alone is."""

    def __init__(self, title: str, task: int, limit: int, *, wire: int | None = None) -> None:
        self._note = {"title": title, "task": str(task), "at": _START, "remedy": _REMEDY}
        self._limit = limit
        self._wire = -1 if wire is None else wire
        self._file: int | None = None
        self._watching: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> MemoryFence:
        self._file = _shared_file()
        self._write()
        passed = [self._file, *([self._wire] if self._wire >= 0 else [])]
        command = [sys.executable, "-I", "-S", str(_PROGRAM), *map(str, (os.getpid(), self._file, self._wire, int(SIGSTOP), int(SIGKILL)))]
        try:
            self._watching = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=passed,
                preexec_fn=dies_with_parent(own_group=True),  # noqa: PLW1509 - calls the kernel only
            )
        except OSError as error:
            log.warning("%s runs without a memory fence, which could not be started: %s", self._note["title"], error)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._watching is not None:
            self._watching.kill()
            self._watching.wait(_END_SECONDS)
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def lower(self, limit: int | None) -> None:
        """The connector asks for less than the worker allows."""
        self._limit = min(self._limit, limit or self._limit)
        self._write()

    def at(self, position: str) -> None:
        """What the task is at from now on: "t-0, offsets 5 to 9"."""
        self._note["at"] = position[:_LONGEST_POSITION]
        self._write()

    def _write(self) -> None:
        if self._file is not None:
            text = json.dumps(self._note).encode()
            os.pwrite(self._file, (LIMIT.pack(self._limit) + text).ljust(NOTE_BYTES, b"\0"), 0)


def _shared_file() -> int:
    """A file in memory where the system has such; without a name."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("connect-memory-fence")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
