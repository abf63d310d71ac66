"""The log levels of this process, as the REST API reads and sets them. Loggers are Python's own; this remembers what was set."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from airflow_provider_connect.errors import ConnectException, NotFoundException
from airflow_provider_connect.model.cluster_state import ClusterConfigState
from airflow_provider_connect.model.log_levels import level_word, logger_name, logger_names, logger_of, set_level
from airflow_provider_connect.model.views import LoggerView


class Loggers:
    """One for each process. ``now`` gives epoch seconds. Safe for many threads."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._modified: dict[str, int] = {}
        self._following = threading.Lock()
        self._followed: int | None = None

    def all(self) -> dict[str, LoggerView]:
        """Every logger that the process has used, sorted, and the root."""
        return {name: self._view(name) for name in sorted(logger_names())}

    def follow(self, state: ClusterConfigState) -> None:
        """Apply the requests to all workers since the last call (KIP-976). Requests before the first call are not for this process."""
        with self._following:
            since, self._followed = self._followed, state.offset
            if since is None:
                return
            for record in sorted(state.log_levels.values(), key=lambda record: record.offset):
                if record.offset >= since:
                    with suppress(ConnectException):  # an unknown level, which another program wrote
                        self.put(record.logger, record.level)

    def one(self, name: str) -> LoggerView:
        """The level in force. Raises NotFoundException for a logger that was not used yet."""
        name = logger_name(name)
        if name not in logger_names():
            raise NotFoundException(f"Logger {name} not found.")
        return self._view(name)

    def _view(self, name: str) -> LoggerView:
        return LoggerView(level_word(logger_of(name).getEffectiveLevel()), self._modified.get(name))

    def put(self, name: str, level: str) -> list[str]:
        """Set the level of the logger and of all whose names begin like it; the root's name means all.

        Returns the names, sorted, of those that had another level in force. Raises NotFoundException for a level that there is not,
        BadRequestException for an empty one.
        """
        with self._lock:
            changed = set_level(name, level)
            self._modified |= dict.fromkeys(changed, int(self._now() * 1000))
        return changed
