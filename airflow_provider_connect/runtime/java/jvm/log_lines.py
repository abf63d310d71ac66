"""Log lines of a JVM with Kafka Connect's classes: the log4j pattern, and the Python level, logger and text of a line."""

from __future__ import annotations

import logging
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


def _with_cause_alone(text: str) -> str:
    """The first line, followed by the last cause of a trace."""
    first, *trace = text.split("\n")
    causes = [line.removeprefix("Caused by: ") for number, line in enumerate(trace) if number == 0 or line.startswith("Caused by: ")]
    return f"{first.rstrip()} ({causes[-1]})" if causes else first
