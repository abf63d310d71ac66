"""The settings of a worker of its own, from a ``worker.properties`` file. Its names are those of Kafka Connect's standalone worker."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.properties import parse_properties
from airflow_provider_connect.settings import WorkerSettings
from airflow_provider_connect.stores.offset_file import SETTING

EXACTLY_ONCE = "exactly.once.source.support"


def read_properties(path: Path) -> dict[str, str]:
    """The content of a properties file. Raises ConfigException when it cannot be read."""
    try:
        return parse_properties(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigException(f"Worker configuration {path} cannot be read: {error}") from error


def standalone_settings(properties: Mapping[str, str]) -> WorkerSettings:
    """Checked, and with sources at least once, as offsets in a file can be. Raises ConfigException with all that is wrong."""
    if not properties.get(SETTING, "").strip():
        raise ConfigException(f'Missing required configuration "{SETTING}" which has no default value.')
    asked = properties.get(EXACTLY_ONCE, "disabled")
    if asked.strip().lower() == "enabled":
        raise ConfigException.of(
            EXACTLY_ONCE, asked, f"Offsets in a file ({SETTING}) cannot share a transaction with records. Leave this key out."
        )
    return WorkerSettings.of({**properties, EXACTLY_ONCE: "disabled"})
