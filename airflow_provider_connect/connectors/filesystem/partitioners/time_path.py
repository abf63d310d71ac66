"""A path that is formatted from a time with a pattern: ``'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH``, with the letters of Joda-Time and
Java."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from typing import Final

from airflow_provider_connect.connectors.filesystem.stores.store import path_part
from airflow_provider_connect.errors import ConfigException

_TOKEN: Final = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")
_EPOCH: Final = datetime.datetime(1970, 1, 1)  # local time, in any time zone
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_NUMBERS: Final[Mapping[str, Callable[[datetime.datetime], int]]] = {
    "Y": lambda time: time.year,
    "y": lambda time: time.year,
    "x": lambda time: time.isocalendar().year,
    "w": lambda time: time.isocalendar().week,
    "e": lambda time: time.isoweekday(),
    "D": lambda time: time.timetuple().tm_yday,
    "d": lambda time: time.day,
    "M": lambda time: time.month,
    "H": lambda time: time.hour,
    "k": lambda time: time.hour or 24,
    "K": lambda time: time.hour % 12,
    "h": lambda time: time.hour % 12 or 12,
    "m": lambda time: time.minute,
    "s": lambda time: time.second,
}
_TEXTS: Final[Mapping[str, Callable[[datetime.datetime], str]]] = {
    "E": lambda time: _DAYS[time.weekday()],
    "M": lambda time: _MONTHS[time.month - 1],
    "a": lambda time: "AM" if time.hour < 12 else "PM",
}


class TimePath:
    """A pattern of the setting ``key``. Raises ConfigException for unsupported letters, and for names of days and months in a language
    other than English."""

    def __init__(self, key: str, pattern: str, locale: str = "en") -> None:
        self._parts: list[str | Callable[[datetime.datetime], str]] = []
        position = 0
        while position < len(pattern):
            match = _TOKEN.match(pattern, position)
            if match is None:
                raise ConfigException.of(key, pattern, "A quoted text has no end. Write two quotes for a literal quote.")
            position = match.end()
            self._parts.append(self._part(key, pattern, match, locale))

    def of(self, local_ms: int) -> str:
        """The path for a local time, in milliseconds since 1970."""
        time = _EPOCH + datetime.timedelta(milliseconds=local_ms)
        text = "".join(part if isinstance(part, str) else part(time) for part in self._parts)
        return "/".join("=".join(map(path_part, part.split("="))) for part in text.split("/") if part)

    def _part(self, key: str, pattern: str, match: re.Match[str], locale: str) -> str | Callable[[datetime.datetime], str]:
        letter, text = match[2], match[0]
        if not letter:
            return text if match[1] is None else match[1].replace("''", "'") or "'"
        width = len(text)
        if letter == "S":
            return lambda time: f"{time.microsecond:06d}"[:width].ljust(width, "0")
        if letter in _TEXTS and (width > 2 or letter not in _NUMBERS):
            if not locale.lower().startswith("en") and letter != "a":
                reason = f"Names of days and months are in English only, and locale is {locale}. Use numbers, or set locale to en."
                raise ConfigException.of(key, pattern, reason)
            name = _TEXTS[letter]
            return name if width > 3 or letter == "a" else lambda time: name(time)[:3]
        number = _NUMBERS.get(letter)
        if number is None:
            raise ConfigException.of(key, pattern, f"The letter {letter} is not supported. Put text into quotes: 'year'=YYYY.")
        if letter in "Yyx" and width == 2:
            return lambda time: f"{number(time) % 100:02d}"
        return lambda time: f"{number(time):0{width}d}"
