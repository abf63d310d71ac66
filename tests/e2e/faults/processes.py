"""The processes of a run, found by its directory, which each has in its command line or environment; and whether they are gone."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from tests.waiting import HANG_SECONDS, wait_until


def processes_with(directory: Path, name: str = "") -> list[psutil.Process]:
    """Living processes that have the run's ``directory``, and ``name``, in their command line or environment.

    To be inspected only: what a test kills it takes from what it started itself (``descendants``), never from a search. A directory that
    is none is refused: its text might be found anywhere.
    """
    assert directory.is_absolute(), directory
    assert directory.is_dir(), directory
    assert len(directory.parts) > 3, directory
    own = psutil.Process()
    spared = {own.pid, *(parent.pid for parent in own.parents())}
    return [process for process in psutil.process_iter() if process.pid not in spared and _has(process, (str(directory), name))]


def descendants(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> list[psutil.Process]:
    """What ``process``, which the caller started, has started, and so on; empty when it has ended."""
    try:
        return psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    except psutil.NoSuchProcess:
        return []


def is_gone(process: psutil.Process) -> bool:
    """Whether it has ended; a zombie, in the system's sense, has."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_until_gone(processes: Sequence[psutil.Process]) -> float:
    """Seconds until the last of them has ended. Raises AssertionError if one has not in time."""
    started = time.monotonic()
    try:
        wait_until(lambda: all(map(is_gone, processes)))
    except AssertionError as error:
        raise AssertionError(f"left after {HANG_SECONDS:g} s: {[process for process in processes if not is_gone(process)]}") from error
    return time.monotonic() - started


def _has(process: psutil.Process, marks: Sequence[str]) -> bool:
    if is_gone(process):
        return False
    try:
        text = " ".join([*process.cmdline(), *(f"{name}={value}" for name, value in process.environ().items())])
    except psutil.Error:
        return False
    return all(mark in text for mark in marks)
