"""Config providers resolve variables ``${provider:path:key}`` in configs. The worker settings name an author's own provider."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ConfigData:
    """Resolved values by key. They are valid for ``ttl_ms``; None: without a known limit."""

    values: Mapping[str, str] = field(repr=False)
    ttl_ms: int | None = None


class ConfigProvider:
    """Resolves the variables that name its alias.

    The framework creates and configures an instance in each process, for each config that uses it, and calls ``get`` once per path, from
    one thread. An instance must not keep anything open between calls. The processes are those that use a config: the driver and the tasks
    of each run, the Airflow task before it, and validation. The provider must be installed in all of them.
    """

    def configure(self, config: Mapping[str, str]) -> None:
        """Keep the worker settings below ``config.providers.«alias».param.``, with this prefix removed. Called once, before ``get``."""

    def get(self, path: str, keys: Iterable[str]) -> ConfigData:
        """The values of those ``keys`` that exist under ``path``. ``path`` is empty if the variable has none.

        The variable of a missing key stays as written. ConfigException is final; after any other exception a later run tries again. No
        message may contain a value.
        """
        raise NotImplementedError(f"{type(self).__qualname__} must define get")
