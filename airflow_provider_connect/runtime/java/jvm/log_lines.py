"""A line of the log of a JVM with Kafka Connect's classes: how log4j writes it, and the level, logger and text of Python's."""

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
"""Traces without the jars of their frames (``%xEx``): to find these, log4j loads the classes of all frames, and fails where a plugin's
class cannot be initialized, in dozens of lines."""
_LEVELS: Final = {"FATAL": logging.CRITICAL, "ERROR": logging.ERROR, "WARN": logging.WARNING, "INFO": logging.INFO}
_SCANNED: Final = "org.apache.kafka.connect.runtime.isolation."
_RETRIED: Final = ("org.apache.kafka.clients.NetworkClient", "reported a recoverable issue", "UNKNOWN_TOPIC_OR_PARTITION")


def parsed(line: str) -> tuple[int, str, str]:
    """Level, logger and text of a line; one that the JVM itself wrote is a warning.

    What Connect reports of ordinary work is no warning. A plugin that cannot be loaded, such as a converter that is built for another
    version of Connect, harms no config that does not name it, and Connect refuses one that does; this line then has the reason. A producer
    asks for a topic that is not created yet, and asks again.
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
    """The first line, and of a trace the last cause."""
    first, *trace = text.split("\n")
    causes = [line.removeprefix("Caused by: ") for number, line in enumerate(trace) if number == 0 or line.startswith("Caused by: ")]
    return f"{first.rstrip()} ({causes[-1]})" if causes else first
