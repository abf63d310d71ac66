"""``airflow connect settings``: the worker settings, and the layer that sets each one."""

import json
import os
from collections.abc import Mapping
from typing import Any

from airflow_provider_connect.cli.printing import print_errors
from airflow_provider_connect.hooks.airflow_settings import (
    CONNECTION,
    VARIABLE,
    connection_properties,
    default_properties,
    own_option,
    properties_file,
    section_options,
    section_sources,
    worker_variable,
)
from airflow_provider_connect.runtime.config.dag_settings import literal_secrets
from airflow_provider_connect.runtime.config.notifiers import PREFIX as NOTIFIERS
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.secret_keys import HIDDEN
from airflow_provider_connect.runtime.model.url_passwords import without_url_passwords

_SECTION = "section"


@print_errors()
def print_settings(arguments: Any) -> None:
    """Print the settings, with hidden secrets."""
    use_database()
    layers = {
        "default": default_properties,
        own_option("worker_properties") or "no file": properties_file,
        _SECTION: section_options,
        f"Connection {own_option('connect_conn_id') or CONNECTION}": connection_properties,
        f"Variable {VARIABLE}": worker_variable,
    }
    read = {layer: properties() for layer, properties in layers.items()}
    sources = section_sources()
    merged = {key: (value, sources[key] if layer == _SECTION else layer) for layer, values in read.items() for key, value in values.items()}
    WorkerSettings.of({key: value for key, (value, _) in merged.items() if "${" not in value})
    _print(arguments.output, {key: {"value": masked(key, value), "from": layer} for key, (value, layer) in sorted(merged.items())})


def use_database() -> None:
    """Make this process read Variables and Connections from the database, as Airflow's own commands do."""
    os.environ["_AIRFLOW_PROCESS_CONTEXT"] = "server"


def masked(key: str, value: str) -> str:
    """``value`` without passwords in URLs, or ``[hidden]`` if ``key`` is named like a secret and the value is not a variable. All arguments
    of notifiers are hidden, because the address of a chat room is often its password."""
    is_argument = key.startswith(NOTIFIERS) and not key.endswith(".class") and "${" not in value
    return HIDDEN if is_argument or literal_secrets({key: value}) else without_url_passwords(value)


def _print(output: str, settings: Mapping[str, Mapping[str, str]]) -> None:
    if output == "json":
        print(json.dumps(settings, indent=2))
        return
    for key, found in settings.items():
        print(f"{key}={found['value']}    # {found['from']}")
