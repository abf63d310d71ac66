"""Log lines of a JVM with Kafka Connect's classes: the log4j pattern, the Python level, logger and text of a line, and which repeated lines
are dropped."""

from __future__ import annotations

import logging
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

LOG4J: Final = """\
rootLogger.level = WARN
rootLogger.appenderRef.err.ref = err
appender.err.type = Console
appender.err.name = err
appender.err.target = SYSTEM_ERR
appender.err.layout.type = PatternLayout
appender.err.layout.alwaysWriteExceptions = false
appender.err.layout.pattern = |%p|%c|%enc{%X{connector.context}%m%n%ex}{CRLF}%n
"""
"""Traces do not show the jars of their frames (``%xEx``). To find the jars, log4j would load the classes of all frames. If a plugin's class
cannot be initialized, log4j fails with dozens of lines."""
_LEVELS: Final = {"FATAL": logging.CRITICAL, "ERROR": logging.ERROR, "WARN": logging.WARNING, "INFO": logging.INFO}
_SCANNED: Final = "org.apache.kafka.connect.runtime.isolation."
MOST_LINES: Final = 10
"""The lines of one kind that are logged within ``WINDOW_SECONDS``."""
MOST_LINES_OF_LOGGER: Final = 200
"""The lines of one logger that are logged within ``WINDOW_SECONDS``, whatever their kinds."""
WINDOW_SECONDS: Final = 60.0
_VARIES: Final = re.compile(r"[\d=\"']")
_EXAMPLE_CHARACTERS: Final = 200
_RETRIED: Final = ("org.apache.kafka.clients.NetworkClient", "reported a recoverable issue", "UNKNOWN_TOPIC_OR_PARTITION")


def parse_line(line: str) -> tuple[int, str, str]:
    """Level, logger and text of a line. A line that the JVM itself prints is a warning.

    Two kinds of Connect's warnings become INFO. The first is about a plugin that cannot be loaded, such as a converter for another version
    of Connect. It affects only configs that name the plugin, which Connect refuses. This line contains the reason. The second is about a
    producer that requests a topic before the topic exists. The producer repeats the request.
    """
    parts = line.split("|", 3)
    if len(parts) < 4 or parts[0] or parts[1] not in (*_LEVELS, "DEBUG", "TRACE"):
        return logging.WARNING, "java", line
    level, name = _LEVELS.get(parts[1], logging.DEBUG), parts[2]
    text = parts[3].replace("\\r", "").replace("\\n", "\n").rstrip("\n")
    if name.startswith(_SCANNED):
        level, text = min(level, logging.INFO), _with_cause_alone(text)
    elif name == _RETRIED[0] and all(part in text for part in _RETRIED[1:]):
        level = min(level, logging.INFO)
    return level, f"java.{name}", text


class RepeatedLines:
    """Drops lines that a plugin repeats without an end, because they would fill the disk of Airflow's logs. Lines of one kind have the same
    logger, and the same text except for words with digits or values. ``now`` is a clock in seconds."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._until = -math.inf
        self._logged: Counter[str] = Counter()  # by logger
        self._kinds: Counter[tuple[str, str]] = Counter()  # by logger and kind, as many as were logged
        self._dropped: dict[tuple[str, str], _Dropped] = {}

    def admitted(self, level: int, name: str, text: str) -> Iterator[tuple[int, str, str]]:
        """The lines to log now: what was dropped, if a window has ended, and this line, unless it is dropped."""
        if self._now() >= self._until:
            yield from self.rest()
            self._until = self._now() + WINDOW_SECONDS
        kind = (name, _kind(text))
        if self._logged[name] >= MOST_LINES_OF_LOGGER:
            kind = (name, "")
        elif self._kinds[kind] < MOST_LINES:
            self._logged[name] += 1
            self._kinds[kind] += 1
            yield level, name, text
            return
        self._dropped.setdefault(kind, _Dropped(level, text)).count += 1

    def rest(self) -> Iterator[tuple[int, str, str]]:
        """One line for each kind of lines that were dropped since the last call."""
        for (name, kind), dropped in self._dropped.items():
            like = f"lines like: {dropped.example}" if kind else "lines of this logger"
            yield dropped.level, name, f"{dropped.count} more {like} (dropped, because a minute may have {MOST_LINES} of a kind)"
        self._logged.clear()
        self._kinds.clear()
        self._dropped.clear()


class _Dropped:
    def __init__(self, level: int, text: str) -> None:
        self.level, self.example, self.count = level, text.partition("\n")[0][:_EXAMPLE_CHARACTERS], 0


def _kind(text: str) -> str:
    """The first line without what varies. The frames of a trace that a plugin prints, each of which is a line, are not of one kind."""
    first = text.partition("\n")[0][:_EXAMPLE_CHARACTERS]
    return first if first[:1].isspace() else " ".join("*" if _VARIES.search(word) else word for word in first.split())


def _with_cause_alone(text: str) -> str:
    """The first line, followed by the last cause of a trace."""
    first, *trace = text.split("\n")
    causes = [line.removeprefix("Caused by: ") for number, line in enumerate(trace) if number == 0 or line.startswith("Caused by: ")]
    return f"{first.rstrip()} ({causes[-1]})" if causes else first
