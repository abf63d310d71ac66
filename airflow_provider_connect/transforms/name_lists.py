"""Lists of field and header names in configs: no name empty, none twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.config_def import java_text


@dataclass(frozen=True, slots=True)
class Names:
    """A validator. ``may_be_empty``: the list itself may have no entries."""

    may_be_empty: bool = False

    def __call__(self, name: str, value: Any) -> None:
        if value is None:
            raise ConfigException(f"Configuration '{name}' values must not be null.")
        if not value and not self.may_be_empty:
            raise ConfigException(f"Configuration '{name}' must not be empty. Valid values include: any non-empty value")
        if len(set(value)) < len(value):
            raise ConfigException(f"Configuration '{name}' values must not be duplicated.")
        if "" in value:
            raise ConfigException(f"Configuration '{name}' values must not be empty.")


def check_not_empty(name: str, value: Any) -> None:
    """A validator: a list with at least one entry."""
    if not value:
        raise ConfigException.of(name, java_text(value), "Empty list")
