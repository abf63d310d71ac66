"""What processes cost: CPU seconds and peak memory, of one that stands and of a whole tree that comes and goes. Linux only."""

import ctypes
import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from airflow_provider_connect.runtime.spark.parent_death import dies_with_parent

_SAMPLE_SECONDS = 0.1
_ORPHAN_SECONDS = 10.0
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True, slots=True)
class Cost:
    """``peak_rss_bytes`` adds up what the processes held at one instant; a page that several share counts once for each."""

    cpu_seconds: float
    peak_rss_bytes: int


class StandingProcess:
    """The cost of a process that was there before and stays, from now on until ``cost`` is asked."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._before = _own_seconds(self._process)
        self._peak = 0
        self._sampler = _Sampler(self._sample)

    def cost(self) -> Cost:
        self._sampler.end()
        return Cost(_own_seconds(self._process) - self._before, self._peak)

    def _sample(self) -> None:
        self._peak = max(self._peak, self._process.memory_info().rss)


class StartedTree:
    """A command and all its descendants, and what they cost from the start of the first to the end of the last.

    The kernel adds up exactly what ended children used, provided that a process waits for them. So this process adopts orphans and waits
    for them. Children of a process that ignores SIGCHLD (pyspark's daemon does) count for no process: for these the last sample
    of their CPU time stands.
    """

    def __init__(self, command: list[str], *, environ: Mapping[str, str], log: Path) -> None:
        _adopt_orphans(True)
        self._before, self._others = _ended_children_seconds(), _children()
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                command,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=dies_with_parent(),  # noqa: PLW1509 - calls the kernel only
            )
        self._root = psutil.Process(self.process.pid)
        self._peak, self._unaccounted = 0, dict[int, float]()
        self._sampler = _Sampler(self._sample)

    def wait(self, timeout_seconds: float) -> int:
        """The exit code of the command, once it and all its descendants have ended. Kills them when it takes longer."""
        try:
            return self.process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            for process in [*self._root.children(recursive=True), self._root]:
                process.kill()
            raise
        finally:
            self.process.wait()
            self._wait_for_orphans()
            self._sampler.end()
            _adopt_orphans(False)

    def cost(self) -> Cost:
        """To be asked after ``wait``."""
        return Cost(_ended_children_seconds() - self._before + sum(self._unaccounted.values()), self._peak)

    def _sample(self) -> None:
        resident = 0
        for process in [self._root, *self._root.children(recursive=True)]:
            try:
                resident += process.memory_info().rss
                if _ignores_its_children(process.ppid()):
                    self._unaccounted[process.pid] = _own_seconds(process)
            except (psutil.NoSuchProcess, FileNotFoundError):
                continue
        self._peak = max(self._peak, resident)

    def _wait_for_orphans(self) -> None:
        until = time.monotonic() + _ORPHAN_SECONDS
        while orphans := _children() - self._others:
            for pid in orphans:
                if time.monotonic() > until:
                    os.kill(pid, signal.SIGKILL)
                if os.waitpid(pid, os.WNOHANG)[0]:
                    self._unaccounted.pop(pid, None)
            time.sleep(0.01)


class _Sampler:
    """Calls a function ten times a second in a thread of its own."""

    def __init__(self, sample: Callable[[], None]) -> None:
        self._sample, self._ended = sample, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(_SAMPLE_SECONDS):
            try:
                self._sample()
            except psutil.NoSuchProcess:
                return


def tree_seconds(pid: int) -> float:
    """CPU seconds that a process, its living descendants and the ended children of each have used so far."""
    total = 0.0
    root = psutil.Process(pid)
    for process in [root, *root.children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def with_descendants(pid: int) -> set[int]:
    """The ids of a process and of its living descendants."""
    root = psutil.Process(pid)
    return {root.pid, *(child.pid for child in root.children(recursive=True))}


def cpu_seconds_of(pids: Iterable[int]) -> dict[int, float]:
    """What the living threads of each process have run so far, to the nanosecond: a process at rest uses less than a tick of the clock."""
    found = {}
    for pid in pids:
        with suppress(OSError):
            threads = [each.read_text() for each in Path(f"/proc/{pid}/task").glob("*/schedstat")]
            found[pid] = sum(int(text.split()[0]) for text in threads) / 1e9
    return found


def proportional_bytes(pids: Iterable[int]) -> int:
    """The memory of the processes together. A page that several share counts once."""
    total = 0
    for pid in pids:
        with suppress(OSError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total


def _own_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _ended_children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _children() -> set[int]:
    return {child.pid for child in psutil.Process().children()}


def _adopt_orphans(wanted: bool) -> None:
    """Whether descendants that lose their parent become children of this process."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def _ignores_its_children(pid: int) -> bool:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("SigIgn:"):
            return bool(int(line.split()[1], 16) >> (signal.SIGCHLD - 1) & 1)
    return False
