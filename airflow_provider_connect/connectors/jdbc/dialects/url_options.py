"""The options of a product's URL that its driver accepts, and options that are ignored, refused or translated. Only handles text.

Java's drivers have other names for options. Translations keep a Java connector's URL valid here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

ZERO_DATES: Final = "zerodatetimebehavior"
"""The value that replaces MySQL's 0000-00-00: one of the following three."""
TO_NULL, TO_FIRST_DAY, TO_ERROR = "convert_to_null", "round", "exception"
TINY_AS_BOOLEAN: Final = "tinyint1isbit"
READ_ONLY: Final = "readonly"

Translation = Callable[[str], Mapping[str, str] | None]
"""Converts an option's value, in any case, to options of our driver. Returns None for an unknown value."""


class UnknownOptionError(Exception):
    """An option, or its value, is unknown. ``reason`` has details, if any."""

    def __init__(self, name: str, reason: str | None = None) -> None:
        super().__init__(name)
        self.name = name
        self.reason = reason


@dataclass(frozen=True, slots=True)
class UrlOptions:
    """The options of a product. All names are in lower case. ``fixed`` has options whose behavior cannot be changed here. For each, it has
    the values that select this behavior, and the reason to show for any other value."""

    accepted: frozenset[str] = frozenset()
    """Options of our own driver."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """Options that our own driver gets unless the URL has them: how long a silent server is waited for."""
    files: frozenset[str] = frozenset()
    """Options of our own driver that have a path of the host."""
    ignored: frozenset[str] = frozenset()
    """Options that only tune a Java driver and change no value."""
    fixed: Mapping[str, tuple[tuple[str, ...], str]] = field(default_factory=dict)
    translations: Mapping[str, Translation] = field(default_factory=dict)
    """Options of Java's drivers that have another name or other values here."""
    pem: str = ""
    """The options that accept PEM files instead of Java key stores."""
    without_stores: str = ""
    """Advice for replacing key stores if there is no ``pem``."""
    without_files: str = ""
    """Advice for replacing an option that reads files."""

    @property
    def used(self) -> list[str]:
        """The options that have an effect, for error messages."""
        return sorted(self.accepted | self.files | self.translations.keys())


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


def renamed(name: str) -> Translation:
    """An option with another name and the same values."""
    return lambda value: {name: value}


def by_word(options: Mapping[str, Mapping[str, str]]) -> Translation:
    """An option with a fixed set of words as values. ``-`` and ``_`` are equal in these words."""
    return lambda value: options.get(value.lower().replace("-", "_"))


def switch(on: Mapping[str, str]) -> Translation:
    """An option that is true, false, or given without a value."""
    return by_word({"true": on, "": on, "false": {}})


def seconds(*names: str) -> Translation:
    """Milliseconds as seconds, rounded up. 0 means no limit."""

    def options(value: str) -> Mapping[str, str] | None:
        if not (value.isascii() and value.isdigit()):
            return None
        return dict.fromkeys(names, str(-(-int(value) // 1000))) if int(value) else {}

    return options
