"""Child processes: the kernel kills them when their parent ends, however that ends, and their lines do not fill their parent's memory.

The former on Linux; elsewhere nothing of it happens.
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
    """From now on this process is killed when the thread that started it ends; at once, if its parent is no longer ``parent``.

    Without ``parent`` an end before the call goes unseen: for processes that next send a request to their parent, and fail then. Not for
    Spark's Python worker daemon: its parent is a thread of the JVM, which may end while the JVM lives.
    """
    if _libc is None:
        return
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:  # it ended in between, and no signal will come
        os._exit(1)


def dies_with_parent(*, own_group: bool = False) -> Callable[[], None]:
    """A ``preexec_fn`` for a child of this process, in a process group of its own if so wanted.

    Start such a child from a thread that lives as long as the child should, as a rule the main thread.
    """
    parent = os.getpid()

    def before_exec() -> None:
        if own_group:
            os.setpgid(0, 0)
        die_with_parent(parent)

    return before_exec


def bounded_lines(output: IO[AnyStr], longest: int = LONGEST_LINE) -> Iterator[AnyStr]:
    """The lines that a child prints, with their ends: code of a connector may print a record of any length. Of a line that is longer than
    ``longest`` bytes or characters, its beginning alone."""
    while line := output.readline(longest):
        yield line
        while line and not _is_ended(line):
            line = output.readline(longest)


def _is_ended(line: str | bytes) -> bool:
    return line.endswith("\n") if isinstance(line, str) else line.endswith(b"\n")
