"""What a config must be before it is written (contract §1.5). Decides in values; the plugin's own word is asked of the probe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_connect.dag_settings import DEFINED_IN, PREFIX, dag_settings
from airflow_provider_connect.errors import (
    BadRequestException,
    ConfigException,
    ConflictException,
    ConnectException,
    PluginNotFoundException,
)
from airflow_provider_connect.herder.probe import Probe
from airflow_provider_connect.model.ids import dag_id_for
from airflow_provider_connect.sdk.java_text import in_hash_order

NULL_VALUE = "Null value can not be supplied as the configuration value."

Given = Mapping[str, str | None]


def named(name: str, config: Given) -> dict[str, str | None]:
    """``config`` with the name in it. Raises BadRequestException when it names another connector."""
    given = config.get("name", name)
    if given != name:
        raise BadRequestException(f"Connector name configuration ({given}) doesn't match connector name in the URL ({name})")
    return {**config, "name": name}


def checked(name: str, config: Given, probe: Probe | None) -> dict[str, str]:
    """``config`` once everything in it is right: the name fits a DAG, the plugin takes it, the ``airflow.*`` keys are known.

    Raises BadRequestException or ConfigException, both 400, naming each key that is wrong.
    """
    if config.get("connector.class") is None:
        raise BadRequestException(f"Connector config {_java_map(config)} contains no connector type")
    errors = _plugin_errors(config, probe)
    errors += [NULL_VALUE for key, value in config.items() if value is None and key.startswith(PREFIX)]
    errors += _own_errors(name, {key: value for key, value in config.items() if value is not None})
    if not errors and None in config.values():
        errors = [NULL_VALUE]
    if errors:
        raise ConfigException(_all_errors(errors), errors=errors)
    return {key: value for key, value in config.items() if value is not None}


def _plugin_errors(config: Given, probe: Probe | None) -> list[str]:
    if probe is None:
        raise ConnectException("This process cannot look at plugins, so it takes no configs")
    visible = {key: value for key, value in config.items() if not key.startswith(PREFIX)}
    try:
        validation = probe.validate(str(config["connector.class"]), visible)
    except PluginNotFoundException as error:
        raise BadRequestException(error.message) from error
    return [error for _, value in validation.configs for error in value.errors]


def _own_errors(name: str, config: Mapping[str, str]) -> list[str]:
    """What is wrong with the name as a DAG's and with the keys that steer the DAG."""
    errors = []
    if DEFINED_IN in config:
        errors.append(ConfigException.of(DEFINED_IN, config[DEFINED_IN], "it is set for connectors that a DAG file defines").message)
    for check in (lambda: dag_id_for(name), lambda: dag_settings(name, {k: v for k, v in config.items() if k != DEFINED_IN})):
        try:
            check()
        except ConfigException as error:
            errors += error.errors
    return errors


def _all_errors(errors: list[str]) -> str:
    lines = "\n".join(errors)
    return (
        f"Connector configuration is invalid and contains the following {len(errors)} error(s):\n{lines}\n"
        "You can also find the above list of errors at the endpoint `/connector-plugins/{connectorType}/config/validate`"
    )


def merged(config: Mapping[str, str], patch: Given) -> dict[str, str]:
    """The JSON merge patch of a flat map: a text sets a key, None removes it."""
    changed: dict[str, Any] = {**config, **patch}
    return {key: value for key, value in changed.items() if value is not None}


def with_own_keys(config: Given, known: Mapping[str, str] | None) -> dict[str, str | None]:
    """``config``, and of the ``airflow.*`` keys that readers are not shown those that ``known`` has and ``config`` does not name: who
    reads a config, changes it and puts it back must not lose the schedule. A patch with null removes one."""
    kept = {key: value for key, value in (known or {}).items() if key.startswith(PREFIX) and key != DEFINED_IN}
    return {**kept, **config}


def require_own(name: str, config: Mapping[str, str] | None) -> None:
    """Raises ConflictException for a connector whose config a DAG file owns."""
    file = (config or {}).get(DEFINED_IN)
    if file is not None:
        raise ConflictException(
            f"Connector {name} is defined in the DAG file {file}: change or delete it there. Over REST it can be paused, resumed, stopped "
            "and restarted"
        )


def _java_map(config: Given) -> str:
    entries = in_hash_order((key, "null" if value is None else value) for key, value in config.items())
    return f"{{{', '.join(f'{key}={value}' for key, value in entries.items())}}}"
