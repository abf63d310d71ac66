"""Log levels in Kafka Connect's words (KIP-495), set on Python's own loggers."""

import logging
from collections.abc import Iterable
from contextlib import suppress

from airflow_provider_connect.errors import BadRequestException, ConnectException, NotFoundException
from airflow_provider_connect.runtime.model.records import LoggerRecord

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


def set_level(name: str, level: str) -> list[str]:
    """Set the level of the logger and of all whose names begin like it; the root's name means all.

    Returns the names, sorted, of those that had another level in force. Raises NotFoundException for an unknown level,
    BadRequestException for an empty one.
    """
    number, name = _LEVELS[checked_level(level)], logger_name(name)
    concerned = {name, *(known for known in logger_names() if name == ROOT or known.startswith(name))}
    changed = sorted(one for one in concerned if logger_of(one).getEffectiveLevel() != number)
    for one in concerned:
        logger_of(one).setLevel(number)
    return changed


def apply_levels(records: Iterable[LoggerRecord]) -> None:
    """Set the levels in the order of the records; a level of an unknown word is passed over, for another client may have written it."""
    for record in sorted(records, key=lambda record: record.offset):
        with suppress(ConnectException):
            set_level(record.logger, record.level)


def checked_level(level: str) -> str:
    """``level`` as one of Log4j's words. Raises as ``set_level``."""
    word = level.strip().upper()
    if not word:
        raise BadRequestException(f"'level' is empty; there are: {', '.join(_LEVELS)}")
    if word not in _LEVELS:
        raise NotFoundException(f"invalid log level '{level}'.")
    return word


def logger_name(name: str) -> str:
    """The name as Kafka Connect shows it: the root's in lower case."""
    return ROOT if name.upper() == "ROOT" else name


def logger_names() -> Iterable[str]:
    """Every logger that has been requested in this process, and the root."""
    known = {name for name, logger in list(logging.root.manager.loggerDict.items()) if isinstance(logger, logging.Logger)}
    return {ROOT, *known}


def logger_of(name: str) -> logging.Logger:
    """The logger of the name, created if it does not exist."""
    return logging.getLogger(None if name == ROOT else name)


def level_word(level: int) -> str:
    """The word of a level; that of the next lower one for a level between two."""
    return max(((value, word) for word, value in _LEVELS.items() if value <= level), default=(1, "ALL"))[1]
