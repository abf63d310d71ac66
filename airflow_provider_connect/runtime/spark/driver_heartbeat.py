"""The heartbeat of a driver: it touches its file ``driver.pid`` every few seconds, and Airflow's task kills it when it no longer does.

A driver whose process is suspended does not end, and its connector would stay RUNNING without delivering.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

HEARTBEAT_SECONDS: Final = 5.0


def send_heartbeats(file: Path) -> None:
    """Touch ``file`` from a thread until it is removed."""

    def touch() -> None:
        while file.exists():
            with suppress(OSError):  # such as an error of a network file system
                os.utime(file)
            time.sleep(HEARTBEAT_SECONDS)

    threading.Thread(target=touch, name="heartbeat", daemon=True).start()


@contextmanager
def watching_heartbeat(file: Path, seconds: float, on_silence: Callable[[], None]) -> Iterator[None]:
    """Until the end of the block, call ``on_silence`` in a thread, once, when ``file`` has not been touched for ``seconds``.

    The time starts when the file exists. Rounds are counted instead of time, because the machine or this process may be suspended too.
    """
    is_over = threading.Event()

    def watch() -> None:
        last, silent = 0, 0
        while silent * HEARTBEAT_SECONDS < seconds:
            if is_over.wait(HEARTBEAT_SECONDS):
                return
            touched = _touched(file)
            silent = silent + 1 if touched and touched == last else 0
            last = touched
        on_silence()

    thread = threading.Thread(target=watch, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _touched(file: Path) -> int:
    """When ``file`` was touched, in nanoseconds. 0: it does not exist."""
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0
