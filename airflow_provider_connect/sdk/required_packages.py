"""Python packages that a plugin needs and an installation may lack: which are missing, and the line that installs them.

Knows no plugin. Nothing is imported: an installed package that cannot be imported is found by the process that imports it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec

from airflow_provider_connect.errors import ConfigException


def is_installed(module: str) -> bool:
    """Whether a module of this name can be found."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that the module is in
        return False


@dataclass(frozen=True, slots=True)
class RequiredPackages:
    """What ``needed_by`` imports. ``extra`` of ``distribution`` installs all of ``modules``; None: they are installed by their names."""

    needed_by: str
    modules: tuple[str, ...]
    extra: str | None
    distribution: str = "airflow-provider-connect"

    def reason(self) -> str | None:
        """What is not installed here, with the line that installs it; None: everything is."""
        missing = [module for module in self.modules if not is_installed(module)]
        if not missing:
            return None
        packages = f"'{self.distribution}[{self.extra}]'" if self.extra else " ".join(missing)
        return (
            f"{self.needed_by} needs Python packages that are not installed here: {', '.join(missing)}. "
            f"Run: pip install {packages} (on all hosts of Airflow, and on Spark's executors)"
        )

    def mistakes(self, key: str, value: object) -> Iterator[ConfigException]:
        """For a validation: the reason as an exception for the setting ``key``, or nothing. ``value`` is shown: no secret."""
        reason = self.reason()
        if reason is not None:
            yield ConfigException.of(key, value, reason)

    def require(self, key: str, value: object) -> None:
        """Raise that exception, if there is one."""
        for mistake in self.mistakes(key, value):
            raise mistake
