"""Limits on configs, and on the parts of a config that a response repeats. Knows nothing of plugins or HTTP.

A request body of one megabyte may name twenty thousand aliases, each with a dozen settings to define and errors to list. The limits keep
the work for such a request, and the response, small.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.config_def import ListOf

ALIAS_KEYS: Final = ("transforms", "predicates", "topic.creation.groups")
MOST_ALIASES: Final = 100
MOST_ERRORS: Final = 100
LONGEST_VALUE: Final = 200
MOST_TASKS: Final = 100_000
"""The maximum number of tasks of a connector. Readers of the config topic count up to the number of tasks in a record."""
LONGEST_NOTE: Final = 1_000
"""The maximum length of the note about what a source is missing, in characters."""
LONGEST_ERROR: Final = 2000
_LONGEST_KEY: Final = 200
TASK_MEMORY: Final = "task.memory.max"
LEAST_TASK_MEMORY: Final = 256 << 20
"""The minimum: a Python worker with its libraries needs 80 to 150 MB before its first record."""
_MEMORY: Final = re.compile(r"([1-9][0-9]{0,14})([kmgKMG]?)")
_SHIFTS: Final = {"": 0, "k": 10, "m": 20, "g": 30}


def memory_bytes(text: str) -> int:
    """The bytes of a memory size such as ``512m`` or ``2g``. Raises ValueError for a size that is malformed or out of range."""
    found = _MEMORY.fullmatch(text.strip())
    size = int(found[1]) << _SHIFTS[found[2].lower()] if found else 0
    if not LEAST_TASK_MEMORY <= size <= 1024 << 30:
        raise ValueError("give a size such as 512m or 2g, from 256m to 1024g")
    return size


def check_memory(name: str, value: Any) -> None:
    """The validator of the key ``task.memory.max``."""
    if value is None:
        return
    try:
        memory_bytes(str(value))
    except ValueError as error:
        raise ConfigException.of(name, cut(str(value)), str(error)) from None


def check_aliases(name: str, value: Any) -> None:
    """The validator of the keys that list aliases: no duplicates, and not too many."""
    ListOf(unique=True)(name, value)
    if value is not None and len(value) > MOST_ALIASES:
        raise _too_many(name, ",".join(map(str, value)), len(value))


def refuse_many_aliases(config: Mapping[str, str | None]) -> None:
    """Raises ConfigException if a key lists more than ``MOST_ALIASES``. Call this before any work that is done for each alias."""
    for key in ALIAS_KEYS:
        listed = config.get(key) or ""
        count = listed.count(",") + 1
        if count > MOST_ALIASES:
            raise _too_many(key, listed, count)


def _too_many(key: str, listed: str, count: int) -> ConfigException:
    return ConfigException.of(key, cut(listed), f"It lists {count} aliases; at most {MOST_ALIASES} are allowed.")


def cut(text: str, longest: int = LONGEST_VALUE) -> str:
    """``text``, or its first ``longest`` characters and an ellipsis."""
    return text if len(text) <= longest else f"{text[:longest]}…"


def cache_key_part(text: str | None) -> str | None:
    """A setting's value as part of a cache key. A long value is replaced by its digest, because a value may be as long as a request
    body."""
    if text is None or len(text) <= _LONGEST_KEY:
        return text
    return f"sha256:{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()}"


def limit_errors(errors: Iterable[str], config: Mapping[str, str | None]) -> list[str]:
    """The first ``MOST_ERRORS`` of ``errors``, then the number of further errors. In each error, long values of ``config`` are truncated.
    An error is not much longer than ``LONGEST_ERROR``.

    Hide secrets before this call, because a truncated secret is not recognized.
    """
    texts = list(errors)
    shown = texts[:MOST_ERRORS]
    if any(len(text) > LONGEST_VALUE for text in shown):
        long = sorted({form for value in config.values() for form in _forms(value)}, key=len, reverse=True)
        shown = [_shortened(text, long) for text in shown]
    return shown if len(texts) <= MOST_ERRORS else [*shown, f"and {len(texts) - MOST_ERRORS} more"]


def _forms(value: str | None) -> Iterable[str]:
    """The forms in which a message may repeat a long value: unchanged, trimmed, and as Java prints a list."""
    if value is None or len(value) <= LONGEST_VALUE:
        return ()
    return value, value.strip(), ", ".join(part.strip() for part in value.split(","))


def _shortened(text: str, long: Iterable[str]) -> str:
    for value in long:
        if len(text) <= LONGEST_VALUE:
            return text
        if value in text:
            text = text.replace(value, cut(value))
    half = LONGEST_ERROR // 2
    return text if len(text) <= LONGEST_ERROR else f"{text[:half]}…{text[-half:]}"
