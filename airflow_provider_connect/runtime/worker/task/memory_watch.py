"""The program that watches the memory of one process from outside, and kills it at its limit. Imports the standard library only.

It is a separate process because a single call into compiled code may allocate any amount of memory while no other Python thread runs.
``memory_limit`` starts it. Its arguments are the watched process, the descriptor of the shared note, the descriptor of the connection to
the driver (-1 without one), and the numbers of the signals that halt and kill. It ends when its parent ends. Modules that only the report
needs are imported in the report's functions. This saves a tenth of a second at the start of ten tasks."""

from __future__ import annotations

import os
import struct
import sys
import time

LIMIT = struct.Struct("q")
"""The beginning of the note: the limit in bytes. The task and its position follow as JSON."""
NOTE_BYTES = 4096
_LOGGER = "airflow_provider_connect.runtime.worker.task.memory_limit"
WATCH_SECONDS, _LONGEST_SECONDS = 0.05, 0.5  # between two looks; the longer, the farther the process is from its limit
_BYTES_A_SECOND = 8 << 30  # no process allocates faster
_PS_SECONDS = 0.5
_COUNTED = (b"RssAnon:", b"RssShmem:", b"VmSwap:")


def used_bytes(status: int | None, pid: int) -> int:
    """The private memory of the process, without pages of files, because the kernel can drop such pages. ``status`` is the descriptor of
    Linux's ``/proc/«pid»/status``. None: ``ps`` reports the memory, including pages of files. Raises OSError if the process is gone."""
    if status is None:
        import subprocess

        shown = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, check=False).stdout.strip()
        if not shown:
            raise ProcessLookupError
        return int(shown) << 10
    lines = os.pread(status, 4096, 0).splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(_COUNTED)) << 10


def text_of(note: dict[str, str], used: int, limit: int) -> str:
    """The report for the log, and for the trace of the task's status."""
    return (
        f"airflow_provider_connect.errors.TaskMemoryException: {note['title']} needs more memory than task.memory.max allows: it held "
        f"{used >> 20} MiB, and the limit is {limit >> 20} MiB. It was at {note['at']}. Its process was ended alone; what was committed "
        f"before stays, and the next run continues from there. {note['remedy']}"
    )


def watch(pid: int, note: int, connection: int, halt: int, kill: int) -> None:
    """Watch the process until it exceeds its limit. Then report what it was doing, and kill it."""
    try:
        status: int | None = os.open(f"/proc/{pid}/status", os.O_RDONLY)
    except OSError:
        status = None
    while os.getppid() == pid:
        (limit,) = LIMIT.unpack_from(os.pread(note, LIMIT.size, 0))
        used = used_bytes(status, pid)
        if used > limit:
            if os.getppid() == pid:  # else the process has ended by itself
                os.kill(pid, halt)  # stops its allocations while the report is sent
                try:
                    _report(_note(note), used, limit, connection)
                finally:
                    os.kill(pid, kill)
            return
        wait = min(max(WATCH_SECONDS, (limit - used) / _BYTES_A_SECOND), _LONGEST_SECONDS)
        time.sleep(wait if status is not None else _PS_SECONDS)


def _note(note: int) -> dict[str, str]:
    import json

    written: dict[str, str] = json.loads(os.pread(note, NOTE_BYTES, LIMIT.size).rstrip(b"\0"))
    return written


def _report(note: dict[str, str], used: int, limit: int, connection: int) -> None:
    import json
    from contextlib import suppress

    text = text_of(note, used, limit)
    print(f"ERROR {_LOGGER}: {text}", file=sys.stderr, flush=True)
    if connection >= 0:
        with suppress(OSError):  # the driver is gone
            os.write(connection, f"{json.dumps([int(note['task']), text])}\n".encode())


if __name__ == "__main__":
    try:
        watch(*map(int, sys.argv[1:6]))
    except OSError:  # the process is gone
        sys.exit(0)
