"""Processes with a mark in their environment. All descendants inherit the mark, even if they change group, session or parent.

So exactly the processes of one stack can be found and ended: the stack's servers, running tasks, and Spark processes.
"""

import os
import signal
import time
from collections.abc import Collection

import psutil

VARIABLE = "CONNECT_STACK_MARK"


def marked_processes(mark: str) -> list[psutil.Process]:
    """The living processes of this user with the mark, except this process and its ancestors."""
    current = psutil.Process()
    spared = {current.pid, *(parent.pid for parent in current.parents())}
    return [process for process in psutil.process_iter() if process.pid not in spared and _has_mark(process, mark)]


def is_marked(pid: int, mark: str) -> bool:
    """Whether a living process with this id has the mark. False if another process now has the id of an ended one."""
    try:
        return _has_mark(psutil.Process(pid), mark)
    except psutil.Error:
        return False


def end_marked(mark: str, *, first: Collection[int] = (), last: Collection[int] = (), seconds: float = 4) -> int:
    """End every process with the mark, and return their number.

    (1) The processes of ``first`` get SIGTERM and have ``seconds`` to end. (2) All processes except those of ``last`` are killed.
    (3) The processes of ``last`` get SIGTERM, with time to write their data. (4) Remaining processes are killed.
    """
    found = marked_processes(mark)
    _terminate([process for process in found if process.pid in first], seconds)
    _kill(mark, but=last)
    _terminate([process for process in found if process.pid in last], 4 * seconds)
    _kill(mark)
    return len(found)


def _terminate(processes: list[psutil.Process], seconds: float) -> None:
    for process in processes:
        _send(process, signal.SIGCONT)  # a frozen process would not receive SIGTERM
        _send(process, signal.SIGTERM)
    psutil.wait_procs(processes, timeout=seconds)


def _kill(mark: str, *, but: Collection[int] = ()) -> None:
    """Kill until no process is left, because processes may start children while they are killed."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        left = [process for process in marked_processes(mark) if process.pid not in but]
        if not left:
            return
        for process in left:
            _send(process, signal.SIGKILL)
        psutil.wait_procs(left, timeout=2)


def _has_mark(process: psutil.Process, mark: str) -> bool:
    try:
        if process.uids().real != os.getuid() or process.status() == psutil.STATUS_ZOMBIE:
            return False
        return bool(process.environ().get(VARIABLE) == mark)
    except psutil.Error:
        return False


def _send(process: psutil.Process, sign: signal.Signals) -> None:
    try:
        process.send_signal(sign)
    except psutil.Error:
        return
