"""The parent of spark-submit, which ends with the task of Airflow that has started it, unless the driver has sent SIGUSR1. A JVM cannot
change what happens to it when its parent ends.

A program without imports of this package: ``keeper.py FILE PID``. It is forked from the process that becomes spark-submit. It writes its
process id into the file, and removes the file when it has become independent. Its exit code is that of spark-submit.
"""

import contextlib
import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def keep(file: str, child: int) -> int:
    """Wait for the child. Returns its exit code, or ends as the child did, by the same signal."""

    def become_independent(*_: object) -> None:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, 0)
        os.unlink(file)

    signal.signal(signal.SIGUSR1, become_independent)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(descriptor, str(os.getpid()).encode())
    os.close(descriptor)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code < 0:
        with contextlib.suppress(OSError):  # SIGKILL has no handler
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(keep(sys.argv[1], int(sys.argv[2])))
