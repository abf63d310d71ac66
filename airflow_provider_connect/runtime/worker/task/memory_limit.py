"""The memory limit of a task: its process is killed when it exceeds ``task.memory.max``, and a report names the reason.

As after any SIGKILL, committed records stay and the rest is delivered again. No code of the task runs at the kill, so no ``except`` of a
plugin can mistake the kill for the failure of a record.
"""

from __future__ import annotations

import json
import logging
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGKILL, SIGSTOP
from threading import Lock
from types import TracebackType
from typing import Final, Protocol

from airflow_provider_connect.runtime.spark.parent_death import dies_with_parent
from airflow_provider_connect.runtime.worker.task.memory_watch import LIMIT, NOTE_BYTES

log = logging.getLogger(__name__)
_PROGRAM: Final = Path(__file__).with_name("memory_watch.py")
_START: Final = "its start, before its first record"
_END_SECONDS: Final = 5.0
_LONGEST_POSITION: Final = 500
REMEDY: Final = (
    "Give it smaller batches (of a source batch.max.rows or the like, of a sink consumer.override.queued.max.messages.kbytes, 32768 by "
    "default, and for batches that expand consumer.override.max.partition.fetch.bytes), find the record or file that expands, or raise "
    "task.memory.max: in the connector up to the worker's, above that in the worker's settings."
)


class TaskMemoryLimit(Protocol):
    """The part of a limit that its task uses."""

    def lower(self, limit: int | None) -> None: ...

    def at(self, position: str) -> None: ...


class MemoryLimit:
    """The limit of a task in this process. Entering starts the watching process. ``at`` may be called for each batch, and costs a
    microsecond. ``connection`` is the descriptor of the connection that notifies the driver. None: only the log is written."""

    def __init__(self, title: str, task: int, limit: int, *, connection: int | None = None) -> None:
        self._note = {"title": title, "task": str(task), "at": _START, "remedy": REMEDY}
        self._limit = limit
        self._connection = -1 if connection is None else connection
        self._file: int | None = None
        self._watching: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> MemoryLimit:
        self._file = _shared_file()
        self._write()
        passed = [self._file, *([self._connection] if self._connection >= 0 else [])]
        command = [
            sys.executable,
            "-I",
            "-S",
            str(_PROGRAM),
            *map(str, (os.getpid(), self._file, self._connection, int(SIGSTOP), int(SIGKILL))),
        ]
        try:
            self._watching = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=passed,
                preexec_fn=dies_with_parent(own_group=True),  # noqa: PLW1509 - calls the kernel only
            )
        except OSError as error:
            log.warning("%s runs without a memory limit, which could not be started: %s", self._note["title"], error)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._watching is not None:
            self._watching.kill()
            self._watching.wait(_END_SECONDS)
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def lower(self, limit: int | None) -> None:
        """Lower the limit to the connector's limit. None: the connector has no limit of its own."""
        self._limit = min(self._limit, limit or self._limit)
        self._write()

    def at(self, position: str) -> None:
        """Note the task's position from now on, such as "t-0, offsets 5 to 9"."""
        self._note["at"] = position[:_LONGEST_POSITION]
        self._write()

    def set(self, limit: int, position: str) -> None:
        """Set another limit, and note a position."""
        self._limit = limit
        self.at(position)

    def _write(self) -> None:
        if self._file is not None:
            text = json.dumps(self._note).encode()
            os.pwrite(self._file, (LIMIT.pack(self._limit) + text).ljust(NOTE_BYTES, b"\0"), 0)


class SharedMemoryLimit:
    """The limit of a process that hosts tasks of several connectors, each in a thread. It is the sum of the running tasks'
    limits, at least ``each`` and at most ``most``. A kill ends all of these tasks. The report of the kill names them with their positions,
    the latest position first."""

    def __init__(self, title: str, each: int, *, most: float = math.inf) -> None:
        self._of_process = MemoryLimit(title, 0, each)
        self._each = each
        self._most = most
        self._lock = Lock()
        self._shares: dict[str, tuple[int, str]] = {}

    def __enter__(self) -> SharedMemoryLimit:
        self._of_process.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._of_process.__exit__(kind, error, trace)

    @contextmanager
    def share(self, task: str) -> Iterator[TaskMemoryLimit]:
        """The share of ``task`` while it runs."""
        share = _Share(self, task, self._each)
        share.at(_START)
        try:
            yield share
        finally:
            self.note(task, None)

    def note(self, task: str, share: tuple[int, str] | None) -> None:
        """``share``: the limit of the task, and its position. None: the task has ended."""
        with self._lock:
            self._shares.pop(task, None)
            if share is not None:
                self._shares[task] = share
            limit = int(min(self._most, max(self._each, sum(each for each, _ in self._shares.values()))))
            positions = (f"{name}: {position}" for name, (_, position) in reversed(self._shares.items()))
            self._of_process.set(limit, "; ".join(positions) or "no task")


class _Share:
    def __init__(self, shared: SharedMemoryLimit, task: str, limit: int) -> None:
        self._shared, self._task, self._limit, self._position = shared, task, limit, _START

    def lower(self, limit: int | None) -> None:
        self._limit = min(self._limit, limit or self._limit)
        self.at(self._position)

    def at(self, position: str) -> None:
        self._position = position
        self._shared.note(self._task, (self._limit, position))


def _shared_file() -> int:
    """An anonymous file, in memory if the system supports it."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("connect-memory-limit")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
