"""Limits the Spark data sources of connectors to the worker settings ``connectors.spark.formats`` and ``connectors.spark.options``.

A format names a class that Spark loads, and an option may name files, hosts, commands and classes. So everything that the worker's owner
has not listed is refused. Knows nothing of Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from airflow_provider_connect.errors import ConfigException

SPARK_FORMATS: Final = "connectors.spark.formats"
SPARK_OPTIONS: Final = "connectors.spark.options"
MOST_OPTIONS: Final = 50
LONGEST_OPTION: Final = 8192
"""The longest value of an option, in characters."""

_PATHS: Final = frozenset({"path", "paths"})


@dataclass(frozen=True, slots=True)
class AllowedSpark:
    """The formats and options that connectors may use. ``format.option`` allows any value; ``format.option=value`` allows only this value.

    Formats and option names are case-insensitive, as in Spark."""

    formats: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    def mistakes(self, key: str, format: str, prefix: str, options: Mapping[str, str]) -> Iterator[ConfigException]:
        """One ConfigException for each violation. ``key`` is the setting with the format; ``prefix`` is the prefix of the settings with
        options.

        No message contains the value of an option, because the value may be a password."""
        if format.lower() not in {name.lower() for name in self.formats}:
            listed = ", ".join(self.formats) or "none, since it is not set"
            reason = f"Connectors of this worker may use these formats of Spark: {listed} (worker setting {SPARK_FORMATS})."
            yield ConfigException.of(key, format[:100], f"{reason} Use one of them, or ask an admin to add it to the setting.")
            return
        if len(options) > MOST_OPTIONS:
            yield _refused(key, f"At most {MOST_OPTIONS} options {prefix}* may be set, got {len(options)}. Leave some out.")
            return
        for name, value in options.items():
            if name.lower() in _PATHS:
                yield _refused(f"{prefix}{name}", "Paths cannot be set as options. Remove it, and set path.")
            elif len(value) > LONGEST_OPTION:
                yield _refused(f"{prefix}{name}", f"An option has at most {LONGEST_OPTION} characters. Shorten it.")
            elif not self._allows(f"{format}.{name}".lower(), value):
                reason = f"This worker does not allow this option of the format {format}, or not with this value."
                yield _refused(
                    f"{prefix}{name[:100]}", f"{reason} Leave it out, or have an admin add it to the worker setting {SPARK_OPTIONS}."
                )

    def _allows(self, option: str, value: str) -> bool:
        for entry in self.options:
            name, equals, only = entry.partition("=")
            if name.strip().lower() == option and (not equals or only.strip() == value):
                return True
        return False


NO_SPARK: Final = AllowedSpark()


def _refused(key: str, reason: str) -> ConfigException:
    return ConfigException(f"Invalid value for configuration {key}: {reason}", keys=[key])
