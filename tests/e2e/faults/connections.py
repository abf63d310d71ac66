"""What a run has open to others, and loses: connections to the broker, and the backends that a database has for it. Knows nothing of steps.

Called by tests, and at a step of a commit by the run's own process.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import psycopg2

CUT_EVERY_SECONDS = 0.005
_CUTTER = "cutter"


def cut(address: str, seconds: float = 0.0) -> bool:
    """Shut down each connection of this process to the port of ``address``; for so long, meanwhile, each that it makes anew. False: there
    was none. What was sent has gone; the answer does not come."""
    port = int(address.rpartition(":")[2])
    if not _shut_down(port):
        return False
    if seconds:
        threading.Thread(target=_keep_cutting, args=(port, seconds), name=_CUTTER, daemon=True).start()
    return True


def wait_until_calm() -> None:
    """Until no connection of this process is cut any more."""
    for thread in threading.enumerate():
        if thread.name == _CUTTER:
            thread.join()


def end_backends(database: str, application: str, sign: str) -> bool:
    """Send the signal to each backend of ``application``: SIGTERM as ``pg_terminate_backend`` does; after SIGKILL the database restarts
    all that it has. ``database`` is SQLAlchemy's address of it. False: there was none."""
    with closing(psycopg2.connect(database.replace("+psycopg2", "", 1))) as connection:
        found = backends(connection, application)
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.Signals[sign])
    return bool(found)


def backends(connection: Any, application: str) -> list[int]:
    """Processes that the database has for other connections of that ``application_name``. Any: psycopg2 has no types."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pid FROM pg_stat_activity WHERE application_name = %s AND pid <> pg_backend_pid()", (application,))
        return [pid for (pid,) in cursor.fetchall()]


def _keep_cutting(port: int, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        _shut_down(port)
        time.sleep(CUT_EVERY_SECONDS)


def _shut_down(port: int) -> int:
    """How many were."""
    count = 0
    for own in _sockets():
        with own, suppress(OSError):  # (not connected, or gone meanwhile)
            if own.family in (socket.AF_INET, socket.AF_INET6) and own.getpeername()[1] == port:
                own.shutdown(socket.SHUT_RDWR)
                count += 1
    return count


def _sockets() -> Iterator[socket.socket]:
    """Each socket of this process, by a number of its own: closing that one closes nothing."""
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # (no socket, or closed meanwhile)
            copy = os.dup(int(name))
            try:
                found = socket.socket(fileno=copy)
            except OSError:
                os.close(copy)
                raise
            yield found
