"""Child processes that the kernel kills when their parent ends, and whose output cannot fill the parent's memory.

The kernel kills children only on Linux. On other systems, children are not killed.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, AnyStr, Final

LONGEST_LINE: Final = 1 << 20
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if sys.platform.startswith("linux") else None


def die_with_parent(parent: int | None = None) -> None:
    """Has the kernel kill this process when the thread that started it ends. Exits immediately if the parent is no longer ``parent``.

    Without ``parent``, this process does not notice a parent that ended before the call. This is acceptable for processes that next send a
    request to their parent, because the request then fails. It is not acceptable for Spark's Python worker daemon, whose parent is a thread
    of the JVM that may end while the JVM lives.
    """
    if _libc is None:
        return
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:  # the parent ended before the call, so no signal will arrive
        os._exit(1)


def outlive_parent() -> None:
    """Has the kernel no longer kill this process when its parent ends. Called from the main thread."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, 0)


def may_outlive_parent() -> bool:
    """Whether a child could live on when this process, a task of Airflow, has ended. Not if its supervisor is the main process of a
    container, as in a pod of KubernetesExecutor: the container ends with it."""
    try:
        status = Path(f"/proc/{os.getppid()}/stat").read_text()
    except OSError:  # not on Linux
        return False
    return os.getppid() != 1 and int(status.rpartition(")")[2].split()[1]) != 1


def discard_output() -> None:
    """Discard what this process prints from now on, because its reader ends."""
    null = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(null, descriptor)
    os.close(null)


def dies_with_parent(*, own_group: bool = False) -> Callable[[], None]:
    """A ``preexec_fn`` with which a child of this process dies with its parent. The child may have its own process group.

    Start such a child from a thread that lives as long as the child should, usually the main thread.
    """
    parent = os.getpid()

    def before_exec() -> None:
        if own_group:
            os.setpgid(0, 0)
        die_with_parent(parent)

    return before_exec


def under_keeper(file: Path) -> Callable[[], None]:
    """As ``dies_with_parent(own_group=True)``, but the child's parent is a keeper (``runtime.spark.keeper``), which dies with this process
    unless the keeper has become independent. ``file`` is where the keeper writes its process id."""
    die = dies_with_parent(own_group=True)
    command = [sys.executable, "-I", "-S", str(Path(__file__).with_name("keeper.py")), str(file)]

    def before_exec() -> None:
        die()
        if _libc is None:
            return
        keeper = os.getpid()
        if child := os.fork():
            os.execv(sys.executable, [*command, str(child)])
        die_with_parent(keeper)

    return before_exec


def bounded_lines(output: IO[AnyStr], longest: int = LONGEST_LINE) -> Iterator[AnyStr]:
    """The lines that a child prints, with their line ends. Code of a connector may print a record of any length, so a line longer than
    ``longest`` bytes or characters is truncated."""
    while line := output.readline(longest):
        yield line
        while line and not _is_ended(line):
            line = output.readline(longest)


def _is_ended(line: str | bytes) -> bool:
    return line.endswith("\n") if isinstance(line, str) else line.endswith(b"\n")
