"""Parsers for the values of the ``airflow.*`` keys. Each raises ValueError with advice. Knows no key.

Durations are numbers of seconds, or numbers with a unit: ``10``, ``500ms``, ``10s``, ``5m``, ``2h``, ``1d``.
"""

import re
from collections.abc import Callable

from airflow_provider_connect.data.java_text import parse_double, parse_integer

_DAY_SECONDS = 86_400.0
_YEAR_SECONDS = 366 * _DAY_SECONDS  # longer times may overflow Airflow's dates
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")  # not every database stores all of these
_RANDOM = re.compile(r"(?:^|[\s,])[hHrR](?=$|[\s,(/])")
_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_HEAP = re.compile(r"([1-9][0-9]{0,14})([kmgKMG]?)")
_SHIFTS = {"": 0, "k": 10, "m": 20, "g": 30}
_LEAST_HEAP, _LARGEST_HEAP = 64 << 20, 1024 << 30
_DURATION = re.compile(r"(\d++(?:\.\d++)?)\s*+(ms|s|m|h|d|)")


def duration_seconds(text: str) -> float:
    """The duration in seconds. Raises ValueError for anything but a number, optionally with one of the units ms, s, m, h and d."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise ValueError("expected a duration such as 500ms, 10s, 5m or 2h")
    return float(found.group(1)) * _UNITS[found.group(2)]


def schedule_of(text: str) -> str | float | None:
    """A cron expression or a preset, a number of seconds, or None for ``none``. Raises ValueError for anything else."""
    if text.strip().lower() in ("", "none"):
        return None
    if _DURATION.fullmatch(text.strip()) and not text.strip().isdecimal():
        seconds = positive_duration(text)
        if seconds < 1:
            raise ValueError("runs must be a second apart at least")
        return seconds
    if len(text) > 250 or (not text.startswith("@") and len(text.split()) not in (5, 6)):
        raise ValueError("expected a cron expression, a preset such as @hourly, a duration such as 30s, or none")
    if _RANDOM.search(text):
        raise ValueError("R and H in a cron expression are not supported: each process would compute other times; write numbers")
    return text.strip()


def names(at_most: int, what: str) -> Callable[[str], tuple[str, ...]]:
    def parse(text: str) -> tuple[str, ...]:
        names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
        if len(names) > at_most:
            raise ValueError(f"there are {len(names)} {what}; give no more than {at_most}")
        for name in names:
            text_of(100)(name)
        return names

    return parse


def text_of(at_most: int) -> Callable[[str], str]:
    """Text that Airflow's database can store: at most ``at_most`` characters, without control characters."""

    def parse(text: str) -> str:
        if not text.strip():
            raise ValueError("it must not be empty; omit the key instead")
        if len(text) > at_most:
            raise ValueError(f"it is {len(text)} characters long; give no more than {at_most}")
        if _CONTROL.search(text):
            raise ValueError("it must not have control characters")
        return text

    return parse


def positive_duration(text: str) -> float:
    seconds = duration_seconds(text)
    if not 0 < seconds <= _YEAR_SECONDS:
        raise ValueError("the duration must be longer than 0 and no longer than 366d")
    return seconds


def duration(at_least_seconds: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        seconds = duration_seconds(text)
        if not at_least_seconds <= seconds <= _YEAR_SECONDS:
            raise ValueError(f"give a duration from {at_least_seconds:g}s to 366d")
        return seconds

    return parse


def heap_size(text: str) -> str:
    """A heap size of a JVM, as for ``-Xmx``."""
    found = _HEAP.fullmatch(text.strip())
    if found is None or not _LEAST_HEAP <= int(found[1]) << _SHIFTS[found[2].lower()] <= _LARGEST_HEAP:
        raise ValueError("give a size such as 512m or 2g, from 64m to 1024g")
    return found[0]


def heap_bytes(size: str) -> int:
    """The bytes of a ``heap_size``."""
    digits = size.rstrip("kmgKMG")
    return int(digits) << _SHIFTS[size[len(digits) :].lower()]


def delay(text: str) -> float:
    seconds = duration_seconds(text)
    if seconds > 30 * _DAY_SECONDS:
        raise ValueError("the duration must be no longer than 30d")
    return seconds


def count(at_least: int, at_most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = whole_number(text)
        if value is None or not at_least <= value <= at_most:
            raise ValueError(f"give a whole number from {at_least} to {at_most}")
        return value

    return parse


def one_of(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.strip() not in words:
            raise ValueError(f"give one of {', '.join(words)}")
        return text.strip()

    return parse


def factor(at_least: float, at_most: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        value = parse_double(text)
        if value is None or not at_least <= value <= at_most:
            raise ValueError(f"give a number from {at_least:g} to {at_most:g}")
        return value

    return parse


def whole_number(text: str) -> int | None:
    """A 32-bit integer. None for anything else."""
    return parse_integer(text.strip(), 32)
