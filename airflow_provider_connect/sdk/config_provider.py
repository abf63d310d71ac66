"""Config providers resolve variables ``${provider:path:key}`` in configs. The worker settings name an author's own provider."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ConfigData:
    """Resolved values by key. They are valid for ``ttl_ms`` milliseconds. None: it is not known for how long."""

    values: Mapping[str, str] = field(repr=False)
    ttl_ms: int | None = None


class ConfigProvider:
    """Resolves the variables that name its alias.

    Each process that uses a config with such variables creates and configures an instance for that config. The process calls ``get`` once
    per path, from one thread. An instance must not keep anything open between calls. The processes are the driver and the tasks of each
    run, the Airflow task before the run, and validation. The provider must be installed in all of them.
    """

    def configure(self, config: Mapping[str, str]) -> None:
        """Keep the worker settings below ``config.providers.«alias».param.``, with this prefix removed. Called once, before ``get``."""

    def get(self, path: str, keys: Iterable[str]) -> ConfigData:
        """The values of the ``keys`` that exist under ``path``. ``path`` is empty if the variable has none.

        The variable of a missing key is left as written. A ConfigException is final; after any other exception, a later run retries. No
        message may contain a value.
        """
        raise NotImplementedError(f"{type(self).__qualname__} must define get")
