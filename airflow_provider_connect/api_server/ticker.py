"""Periodic work of an API server in named parts. Each part has its own interval, counts its own failures, and does not stop the others.

Knows nothing of Airflow, Kafka and databases.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence

from airflow_provider_connect.errors import ConnectException

_JOIN_SECONDS = 5.0

_log = logging.getLogger(__name__)


class Part:
    """One part. ``act`` does the work once. It returns the seconds until the next call, or None for the interval ``seconds``.

    Consecutive failures double the wait, up to ``longest_seconds``. A part that ``is_slow`` gets its own thread. ``close`` is called in the
    thread of ``act`` when the ticker stops.
    """

    def __init__(
        self,
        name: str,
        act: Callable[[], float | None],
        *,
        seconds: float,
        longest_seconds: float = 30.0,
        is_slow: bool = False,
        close: Callable[[], None] | None = None,
    ) -> None:
        self.name, self.is_slow = name, is_slow
        self.failures = 0
        """Consecutive failures; 0 after a success."""
        self.error: str | None = None
        """The reason of the last failure; None after a success."""
        self.due = 0.0
        self._act, self._close = act, close
        self._seconds, self._longest_seconds = seconds, longest_seconds

    def tick(self, now: Callable[[], float]) -> None:
        """Act if due. Logs a failure if its reason is new, and the recovery. Raises no exception."""
        if now() < self.due:
            return
        try:
            wait = self._act()
        except Exception as error:  # the boundary of the thread: no error may end it
            self.failures += 1
            wait = min(self._seconds * 2 ** min(self.failures, 16), self._longest_seconds)
            if (line := error_line(error)) != self.error:
                _log.warning("Part %r of the API server failed and is retried: %s", self.name, line)
                _log.debug("Part %r of the API server failed", self.name, exc_info=True)
            self.error = line
        else:
            if self.failures:
                _log.info("Part %r of the API server works again after %d failures", self.name, self.failures)
            self.failures, self.error = 0, None
        self.due = now() + (self._seconds if wait is None else wait)

    def close(self) -> None:
        """Called once, after the last ``tick``."""
        if self._close is not None:
            try:
                self._close()
            except Exception as error:  # the process is ending anyway
                _log.info("Part %r of the API server ended with: %s", self.name, error_line(error))


class Ticker:
    """Calls parts when they are due. Quick parts share one thread, in order; each slow part has its own thread."""

    def __init__(self, parts: Sequence[Part], *, now: Callable[[], float] = time.monotonic) -> None:
        self._parts, self._now = tuple(parts), now
        groups = [[part for part in parts if not part.is_slow], *([part] for part in parts if part.is_slow)]
        self._threads = [_TickerThread(group, now) for group in groups if group]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End all threads, the threads of slow parts first, and close the parts."""
        for thread in reversed(self._threads):
            thread.stop()

    def warnings(self) -> list[str]:
        """A sentence for each failing part, for ``/health``. The sentence does not have the reason, because the reason may contain names
        that some users may not see."""
        return [
            f"Part '{part.name}' of the API server has failed {part.failures} times in a row; the API server's log gives the reason."
            for part in self._parts
            if part.failures
        ]


class _TickerThread(threading.Thread):
    def __init__(self, parts: Sequence[Part], now: Callable[[], float]) -> None:
        super().__init__(name=f"connect-{parts[0].name.replace(' ', '-')}", daemon=True)
        self._parts, self._now = parts, now
        self._stopping = threading.Event()

    def run(self) -> None:
        while not self._stopping.wait(max(0.0, min(part.due for part in self._parts) - self._now())):
            for part in self._parts:
                part.tick(self._now)
        for part in reversed(self._parts):
            part.close()

    def stop(self) -> None:
        self._stopping.set()
        self.join(_JOIN_SECONDS)


def error_line(error: Exception) -> str:
    """The error in one line, without the parameters of an SQL statement."""
    if isinstance(error, ConnectException):
        return error.message
    lines = str(getattr(error, "orig", None) or error).strip().splitlines()
    return ": ".join([type(error).__name__, *lines[:1]])
