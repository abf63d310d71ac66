"""Optional Python packages that a plugin needs. Reports missing packages, with the command that installs them.

Knows no plugin and imports nothing. An installed package that cannot be imported fails in the process that imports it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec

from airflow_provider_connect.errors import ConfigException


def is_installed(module: str) -> bool:
    """Whether a module of this name is installed."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # its parent package is missing
        return False


@dataclass(frozen=True, slots=True)
class RequiredPackages:
    """The modules that ``needed_by`` imports. ``extra`` of ``distribution`` installs them all. If ``extra`` is None, they are installed by
    name."""

    needed_by: str
    modules: tuple[str, ...]
    extra: str | None
    distribution: str = "airflow-provider-connect"

    def reason(self) -> str | None:
        """A text with the modules that are missing on this host, and the command that installs them. None: all are installed."""
        missing = [module for module in self.modules if not is_installed(module)]
        if not missing:
            return None
        packages = f"'{self.distribution}[{self.extra}]'" if self.extra else " ".join(missing)
        return (
            f"{self.needed_by} needs Python packages that are not installed here: {', '.join(missing)}. "
            f"Run: pip install {packages} (on all hosts of Airflow, and on Spark's executors)"
        )

    def mistakes(self, key: str, value: object) -> Iterator[ConfigException]:
        """For ``validate``: ``reason`` as an exception for the setting ``key``, if modules are missing. The message contains ``value``."""
        reason = self.reason()
        if reason is not None:
            yield ConfigException.of(key, value, reason)

    def require(self, key: str, value: object) -> None:
        """Raise ConfigException for the setting ``key`` if modules are missing."""
        for mistake in self.mistakes(key, value):
            raise mistake
