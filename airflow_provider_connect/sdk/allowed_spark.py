"""Which data sources of Spark a connector may use: those that the worker settings ``connectors.spark.formats`` and ``….options`` list.

The name of a format is the name of a class that Spark loads. An option may name files, hosts, commands and classes. So what the worker's
owner has not listed is refused. Knows nothing of Spark.
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
"""Of an option's value, in characters."""

_PATHS: Final = frozenset({"path", "paths"})


@dataclass(frozen=True, slots=True)
class AllowedSpark:
    """``formats`` are names of formats. ``options`` are ``format.option``, for any value, or ``format.option=value``. Formats and names of
    options are compared without regard to case, as Spark does."""

    formats: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    def mistakes(self, key: str, format: str, prefix: str, options: Mapping[str, str]) -> Iterator[ConfigException]:
        """One exception for each thing that is not allowed. ``key`` is the setting with the format, ``prefix`` begins those of the options.

        No message has the value of an option, which may be a password."""
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
                yield _refused(f"{prefix}{name}", "Paths are no options here. Leave it out, and set path.")
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
