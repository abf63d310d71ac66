"""The settings of a worker of its own, from a ``worker.properties`` file. Its names are those of Kafka Connect's standalone worker."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from airflow_provider_connect.config.properties import parse_properties
from airflow_provider_connect.config.worker_settings import WorkerSettings
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.allowed_paths import DATA_FOLDER
from airflow_provider_connect.sdk.allowed_paths import SETTING as ALLOWED_PATHS
from airflow_provider_connect.stores.offset_file import SETTING

EXACTLY_ONCE = "exactly.once.source.support"


def read_properties(path: Path) -> dict[str, str]:
    """The content of a properties file; connectors may reach files of one folder beside it, unless it says otherwise. Raises
    ConfigException when it cannot be read."""
    try:
        return with_data_folder(parse_properties(path.read_bytes()), path.absolute().parent)
    except (OSError, ValueError) as error:
        raise ConfigException(f"Worker configuration {path} cannot be read: {error}") from error


def with_data_folder(properties: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The properties of a worker whose own folder is ``folder``."""
    return {ALLOWED_PATHS: str(folder / DATA_FOLDER), **properties}


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
