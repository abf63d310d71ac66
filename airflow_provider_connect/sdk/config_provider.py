"""Where the values of variables ``${provider:path:key}`` in a config come from. One of your own is named in the worker settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ConfigData:
    """Resolved values. They hold for ``ttl_ms``; None: no end is known."""

    values: Mapping[str, str] = field(repr=False)
    ttl_ms: int | None = None


class ConfigProvider:
    """Resolves the variables with its alias.

    Created and configured for each process and each config that uses it, asked once a path, by one thread; it holds nothing open
    between two calls. It is asked where a config is used: in the driver and the tasks of each run, in the Airflow task before it, and
    where a config is validated. It must be installed wherever it is asked.
    """

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the worker settings below ``config.providers.«alias».param.``."""

    def get(self, path: str, keys: Iterable[str]) -> ConfigData:
        """The values of those of ``keys`` that exist under ``path`` (empty: the variable names none).

        A key that is left out leaves its variable as it is written. RetriableException means that a later run may find it; everything else
        that is raised means that too, except ConfigException. No message may hold a value.
        """
        raise NotImplementedError(f"{type(self).__qualname__} must define get")
