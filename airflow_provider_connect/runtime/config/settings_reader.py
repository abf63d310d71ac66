"""Reads typed worker settings from texts. Collects all errors, and notes which keys were read."""

import difflib
import logging
import math
from collections.abc import Mapping
from typing import overload

from airflow_provider_connect.data.java_text import parse_double, parse_integer
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.config.key_values import duration_seconds
from airflow_provider_connect.runtime.model.config_limits import cut, memory_bytes

_log = logging.getLogger(__name__)
_KINDS = {16: "SHORT", 32: "INT", 64: "LONG"}
_checked_keys: set[str] = set()
_MOST_CHECKED_KEYS = 1000  # each takes up to a millisecond
_LONGEST_KEY = 100
_OF_OTHERS = (
    "key.converter.",
    "value.converter.",
    "header.converter.",
    "version_ranges.",
    "config.providers.",
    "producer.",
    "consumer.",
    "admin.",
)
_LIKENESS = 0.85
"""The least similarity that counts as a misspelling. Kafka's client settings, and Kafka Connect's settings that this package does not read,
are less similar to any known setting."""


class SettingsReader:
    """Reads typed values from a mapping and collects all errors."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.values = values
        self.asked: set[str] = set()
        self.errors: list[str] = []
        self.keys: list[str] = []

    @overload
    def given(self, name: str) -> str | None: ...

    @overload
    def given(self, name: str, default: str) -> str: ...

    def given(self, name: str, default: str | None = None) -> str | None:
        """The setting's text. Notes the name as known."""
        self.asked.add(name)
        return self.values.get(name, default)

    def refuse(self, name: str, value: object, reason: str) -> None:
        self.note(name, ConfigException.of(name, value, reason).message)

    def note(self, name: str, error: str) -> None:
        self.errors.append(error)
        self.keys.append(name)

    def raise_errors(self) -> None:
        if len(self.errors) == 1:
            raise ConfigException(self.errors[0], keys=self.keys)
        if self.errors:
            message = f"The worker settings contain {len(self.errors)} errors: " + "; ".join(self.errors)
            raise ConfigException(message, errors=self.errors, keys=self.keys)

    def text(self, name: str, default: str = "") -> str:
        return self.given(name, default).strip()

    def filled(self, name: str, default: str, blank: str = "") -> str:
        text = self.text(name, default)
        if not text:
            self.note(name, blank or f"Invalid value  for configuration {name}: String must be non-empty")
        return text

    def names(self, name: str) -> tuple[str, ...]:
        return tuple(part.strip() for part in self.text(name).split(",") if part.strip())

    def flag(self, name: str, default: bool) -> bool:
        text = self.given(name, str(default))
        if text.strip().lower() not in ("true", "false"):
            self.refuse(name, text, "Expected value to be either true or false")
        return text.strip().lower() == "true"

    def number(self, name: str, default: int, at_least: int = 0, *, at_most: int | None = None, bits: int = 64) -> int:
        text = self.given(name)
        if text is None:
            return default
        value = parse_integer(text.strip(), bits)
        if value is None:
            self.refuse(name, text, f"Not a number of type {_KINDS[bits]}")
            return default
        if value < at_least:
            self.refuse(name, value, f"Value must be at least {at_least}")
        if at_most is not None and value > at_most:
            self.refuse(name, value, f"Value must be no more than {at_most}")
        return value

    def positive_or_default(self, name: str, default: int, reason: str, *, bits: int) -> int:
        value = self.number(name, default, -(1 << (bits - 1)), bits=bits)
        if value != -1 and value < 1:
            self.refuse(name, value, reason)
        return value

    def real(self, name: str, default: float, at_least: float, at_most: float = math.inf) -> float:
        text = self.given(name)
        if text is None:
            return default
        value = parse_double(text)
        if value is None:
            self.refuse(name, text, "Not a number of type DOUBLE")
            return default
        if not value >= at_least:
            self.refuse(name, text, f"Value must be at least {at_least:g}")
        elif not value <= at_most or math.isinf(value):
            self.refuse(name, text, f"Value must be no more than {at_most:g}")
        return value

    def duration(self, name: str, default: float) -> float:
        """A duration in seconds, given as a number of seconds or a number with a unit."""
        text = self.given(name)
        if text is None:
            return default
        try:
            return duration_seconds(text)
        except ValueError as error:
            self.refuse(name, text, str(error))
            return default

    def memory(self, name: str, default: str) -> int:
        """A size in bytes, given as a text such as 512m or 2g."""
        text = self.given(name, default)
        try:
            return memory_bytes(text)
        except ValueError as error:
            self.refuse(name, text, str(error))
            return memory_bytes(default)

    def choice(self, name: str, default: str, *choices: str) -> str:
        text = self.text(name, default)
        if text.lower() not in choices:
            self.refuse(name, text, f"String must be one of (case insensitive): {', '.join(choices).upper()}")
        return text.lower()

    def under(self, prefix: str) -> Mapping[str, str]:
        return {name[len(prefix) :]: value for name, value in self.values.items() if name.startswith(prefix)}

    def warn_misspelled_settings(self) -> None:
        """Logs each unread setting whose name is similar to a known name, once per process and key. Other settings may belong to clients,
        converters and other readers."""
        for key in sorted(self.values.keys() - self.asked - _checked_keys):
            if len(_checked_keys) < _MOST_CHECKED_KEYS and not key.startswith(_OF_OTHERS):
                _checked_keys.add(key)
                for near in difflib.get_close_matches(cut(key, _LONGEST_KEY), sorted(self.asked), n=1, cutoff=_LIKENESS):
                    _log.warning("Nothing reads the worker setting %r: did you mean %r?", cut(key, _LONGEST_KEY), near)
