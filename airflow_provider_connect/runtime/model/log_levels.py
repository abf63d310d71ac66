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
    """Sets the level of a logger and of all loggers whose names begin with its name. The root's name means all loggers.

    Returns the sorted names of the loggers whose effective level changed. Raises NotFoundException for an unknown level,
    BadRequestException for an empty level.
    """
    number, name = _LEVELS[checked_level(level)], logger_name(name)
    concerned = {name, *(known for known in logger_names() if name == ROOT or known.startswith(name))}
    changed = sorted(one for one in concerned if logger_of(one).getEffectiveLevel() != number)
    for one in concerned:
        logger_of(one).setLevel(number)
    return changed


def apply_levels(records: Iterable[LoggerRecord]) -> None:
    """Sets the levels in the order of the records. Ignores unknown levels: another client may have written them."""
    for record in sorted(records, key=lambda record: record.offset):
        with suppress(ConnectException):
            set_level(record.logger, record.level)


def checked_level(level: str) -> str:
    """``level`` as one of Log4j's levels. Raises the same exceptions as ``set_level``."""
    word = level.strip().upper()
    if not word:
        raise BadRequestException(f"'level' is empty; valid levels: {', '.join(_LEVELS)}")
    if word not in _LEVELS:
        raise NotFoundException(f"invalid log level '{level}'.")
    return word


def logger_name(name: str) -> str:
    """The name as Kafka Connect shows it, with the root's name in lower case."""
    return ROOT if name.upper() == "ROOT" else name


def logger_names() -> Iterable[str]:
    """Every logger that this process has created, and the root."""
    known = {name for name, logger in list(logging.root.manager.loggerDict.items()) if isinstance(logger, logging.Logger)}
    return {ROOT, *known}


def logger_of(name: str) -> logging.Logger:
    """The logger of the name, created if it does not exist."""
    return logging.getLogger(None if name == ROOT else name)


def level_word(level: int) -> str:
    """The name of a level. A level between two named levels has the name of the lower level."""
    return max(((value, word) for word, value in _LEVELS.items() if value <= level), default=(1, "ALL"))[1]
