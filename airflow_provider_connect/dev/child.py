"""A child process that ends with its parent, whatever becomes of the parent."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


def dies_with_parent() -> Callable[[], None] | None:
    """A ``preexec_fn``: the kernel kills the child when the thread that started it ends. None where the system cannot (not Linux).

    Start such a child from a thread that lives as long as the child should, as a rule the main thread.
    """
    if not sys.platform.startswith("linux"):
        return None
    parent, libc = os.getpid(), ctypes.CDLL(None)

    def before_exec() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent ended in between
            os._exit(1)

    return before_exec
