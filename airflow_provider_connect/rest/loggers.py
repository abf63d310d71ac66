"""The log levels of this process, in Kafka Connect's words (KIP-495). Loggers are Python's own; this remembers what was set."""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from airflow_provider_connect.errors import BadRequestException, ConnectException, NotFoundException
from airflow_provider_connect.model.cluster_state import ClusterConfigState
from airflow_provider_connect.model.views import LoggerView

ROOT = "root"
_LEVELS = {
    "OFF": logging.CRITICAL + 50,
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG // 2,
    "ALL": 1,
}


class Loggers:
    """One for each process. ``now`` gives epoch seconds. Safe for many threads."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._modified: dict[str, int] = {}
        self._following = threading.Lock()
        self._followed: int | None = None

    def all(self) -> dict[str, LoggerView]:
        """Every logger that somebody has named, sorted, and the root."""
        return {name: self.one(name) for name in sorted(_names())}

    def follow(self, state: ClusterConfigState) -> None:
        """Do what was asked of all workers since the last call (KIP-976). What was asked before the first one is not for this process."""
        with self._following:
            since, self._followed = self._followed, state.offset
            if since is None:
                return
            for record in sorted(state.log_levels.values(), key=lambda record: record.offset):
                if record.offset >= since:
                    with suppress(ConnectException):  # a level that somebody else wrote and nobody knows
                        self.put(record.logger, record.level)

    def one(self, name: str) -> LoggerView:
        """The level in force. Raises NotFoundException for a logger that nobody has named yet."""
        name = ROOT if name.upper() == "ROOT" else name
        if name not in _names():
            raise NotFoundException(f"Logger {name} not found.")
        return LoggerView(_word(_logger(name).getEffectiveLevel()), self._modified.get(name))

    def put(self, name: str, level: str) -> list[str]:
        """Set the level of the logger and of all whose names begin like it; the root's name means all.

        Returns the names, sorted, of those that had another level in force. Raises NotFoundException for a level that there is not,
        BadRequestException for an empty one.
        """
        word = checked_level(level)
        name = ROOT if name.upper() == "ROOT" else name
        with self._lock:
            concerned = {name, *(known for known in _names() if name == ROOT or known.startswith(name))}
            changed = sorted(one for one in concerned if _logger(one).getEffectiveLevel() != _LEVELS[word])
            for one in concerned:
                _logger(one).setLevel(_LEVELS[word])
            self._modified |= dict.fromkeys(changed, int(self._now() * 1000))
        return changed


def checked_level(level: str) -> str:
    """``level`` as one of Log4j's words. Raises as ``Loggers.put``."""
    word = level.strip().upper()
    if not word:
        raise BadRequestException(f"'level' is empty; there are: {', '.join(_LEVELS)}")
    if word not in _LEVELS:
        raise NotFoundException(f"invalid log level '{level}'.")
    return word


def _names() -> Iterable[str]:
    known = {name for name, logger in list(logging.root.manager.loggerDict.items()) if isinstance(logger, logging.Logger)}
    return {ROOT, *known}


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def _word(level: int) -> str:
    """The word of a level; that of the next lower one for a level between two."""
    return max(((value, word) for word, value in _LEVELS.items() if value <= level), default=(1, "ALL"))[1]
