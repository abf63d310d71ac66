"""Child processes that the kernel kills when their parent ends, and whose output cannot fill the parent's memory.

The kernel kills children only on Linux. On other systems, children are not killed.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Iterator
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


def bounded_lines(output: IO[AnyStr], longest: int = LONGEST_LINE) -> Iterator[AnyStr]:
    """The lines that a child prints, with their line ends. Code of a connector may print a record of any length, so a line longer than
    ``longest`` bytes or characters is truncated."""
    while line := output.readline(longest):
        yield line
        while line and not _is_ended(line):
            line = output.readline(longest)


def _is_ended(line: str | bytes) -> bool:
    return line.endswith("\n") if isinstance(line, str) else line.endswith(b"\n")
