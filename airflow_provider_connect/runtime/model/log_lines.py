"""Log records as lines of text. In this form, the processes of a run send log records to the log of the run's Airflow task. Knows nothing
of Airflow.

A line is ``LEVEL logger: text``, which is readable in an executor's log. All lines of a longer text except the last have ``|`` instead of
``:``.
"""

import logging
import re
from collections import deque
from io import TextIOWrapper
from typing import TextIO

_LINE = re.compile(r"(DEBUG|INFO|WARNING|ERROR|CRITICAL) ([^\s:|]+)([:|]) ?(.*)")
KEPT_RECORDS = 1000


def write_logs(stream: TextIO | None = None) -> None:
    """Makes this process log lines, from INFO on, to ``stream`` (None: stderr). Does nothing if logging is already configured."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    quiet_libraries()


def escape_unprintable(stream: TextIO) -> None:
    """Makes ``stream`` escape characters that its encoding lacks, such as half a surrogate pair. Otherwise lines with such characters would
    be lost."""
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")


def quiet_libraries() -> None:
    """Limits libraries that log every call to warnings. An admin may set another level."""
    for name in ("py4j", "httpx", "httpx2", "pyiceberg.io"):
        logging.getLogger(name).setLevel(logging.WARNING)


class LineFormatter(logging.Formatter):
    """Formats a record as lines. The text includes the trace."""

    def format(self, record: logging.LogRecord) -> str:
        head = f"{record.levelname} {record.name}"
        *begin, end = super().format(record).splitlines() or [""]
        return "\n".join([*(f"{head}| {line}" for line in begin), f"{head}: {end}"])


class LineReader:
    """Reads lines of another process, one at a time and in order, and logs them here with their own level and logger."""

    def __init__(self) -> None:
        self._begun: dict[tuple[str, str], list[str]] = {}

    def read(self, line: str) -> bool:
        """Reads one line. Logs the text when its record is complete. False: the line is not a line of a log, and was ignored."""
        found = _LINE.fullmatch(line.rstrip("\r\n"))
        if found is None:
            return False
        level, name, mark, text = found.groups()
        lines = self._begun.setdefault((level, name), [])
        lines.append(text)
        if mark == ":":
            del self._begun[level, name]
            _log(name, getattr(logging, level), "\n".join(lines))
        return True


class KeptLines(logging.Handler):
    """Keeps the lines of the last ``KEPT_RECORDS`` records, for a process whose output no other process can read."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(LineFormatter())
        self._kept: deque[str] = deque(maxlen=KEPT_RECORDS)
        self._count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self._kept.append(self.format(record))
        self._count += 1

    def lines(self) -> list[str]:
        dropped = self._count - len(self._kept)
        first = [f"WARNING {__name__}: {dropped} earlier records of the log are in the executor's own log only"] if dropped else []
        return [*first, *(line for kept in self._kept for line in kept.splitlines())]


def _log(name: str, level: int, text: str) -> None:
    """Logs a text of another process. Also passes records below INFO, because that process has already applied its log levels."""
    logger = logging.getLogger(name)
    if level < logging.INFO or logger.isEnabledFor(level):
        record = logger.makeRecord(name, level, "", 0, text, (), None)
        for handler in logging.getLogger().handlers:
            handler.handle(record)
