"""The checks of a config before it is written (contract §5.1). Pure rules, except the plugin's validation, which the probe runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_connect.data.java_text import BLANKS
from airflow_provider_connect.errors import (
    BadRequestException,
    ConfigException,
    ConflictException,
    ConnectException,
    PluginNotFoundException,
)
from airflow_provider_connect.runtime.config.dag_settings import DEFINED_IN, LAG, PREFIX, RELEASED, SCHEDULE, DagCheck, dag_keys, lag_errors
from airflow_provider_connect.runtime.herder.ports import Probe
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.config_limits import cut, limit_errors
from airflow_provider_connect.runtime.model.connector_settings import NO_CLASS, NULL_VALUE, text_errors
from airflow_provider_connect.runtime.model.ids import check_name
from airflow_provider_connect.runtime.model.unknown_settings import misspellings
from airflow_provider_connect.runtime.model.views import ConfigValueView, ValidatedKey, Validation
from airflow_provider_connect.runtime.plugins.validation.delivery_checks import foreign_errors

Given = Mapping[str, str | None]
WithTopics = Callable[[str, Given], Given]


@dataclass(frozen=True, slots=True)
class AcceptedConfig:
    """A valid config, as it is stored, and the warnings of its validation."""

    config: dict[str, str]
    warnings: Sequence[str]


def with_name(name: str, config: Given) -> dict[str, str | None]:
    """``config`` with the name in it, even if its name is null. Raises BadRequestException if it has another connector's name."""
    given = config.get("name")
    if given is not None and given != name:
        raise BadRequestException(f"Connector name configuration ({cut(given)}) doesn't match connector name in the URL ({name})")
    return {**config, "name": name}


def check_config(
    name: str,
    config: Given,
    probe: Probe | None,
    dag_check: DagCheck,
    others: Mapping[str, Mapping[str, str]],
    *,
    with_topics: WithTopics = lambda _, config: config,
) -> AcceptedConfig:
    """``config`` without nulls, if it is valid: the plugin accepts it, it names no resource of a connector among ``others``, and Airflow
    can create a DAG from its ``airflow.*`` keys. ``with_topics`` resolves the variables in a config's topics.

    Raises BadRequestException or ConfigException, both 400, with each invalid key. If a key is missing, unknown keys are named too.
    """
    if config.get("connector.class") is None:
        raise BadRequestException(NO_CLASS)
    validation = _validation(config, probe)
    errors = [error for _, value in validation.configs for error in value.errors]
    errors += [NULL_VALUE for key, value in config.items() if value is None and key.startswith(PREFIX)]
    own = own_errors(name, {key: value for key, value in config.items() if value is not None}, dag_check)
    errors += [error for found in own.values() for error in found]
    errors += _foreign_errors(name, config, others, with_topics)
    if not errors and None in config.values():
        errors = [NULL_VALUE]
    if errors:
        shown = limit_errors(errors, config)
        lines = [_all_errors(shown, len(errors)), *misspellings(errors, validation.warnings, config.keys())]
        raise ConfigException("\n".join(lines), errors=shown)
    return AcceptedConfig({key: value for key, value in config.items() if value is not None}, validation.warnings)


def _validation(config: Given, probe: Probe | None) -> Validation:
    if probe is None:
        raise ConnectException("This process has no access to plugins, so it takes no configs")
    try:
        return probe.validate(str(config["connector.class"]), validated_config(config))
    except PluginNotFoundException as error:
        raise BadRequestException(error.message) from error


def validated_config(config: Given) -> dict[str, str | None]:
    """The keys of ``config`` that plugins validate. Of the keys ``airflow.*`` only the schedule, because the runs of some sources must
    stay."""
    return {key: value for key, value in config.items() if key == SCHEDULE or not key.startswith(PREFIX)}


def own_errors(name: str, config: Mapping[str, str], dag_check: DagCheck) -> dict[str, list[str]]:
    """The errors of ``airflow.*`` keys and of the name, by key. The name becomes part of a record's key."""
    errors: dict[str, list[str]] = {}
    for key in (DEFINED_IN, RELEASED):
        if key in config:
            reason = "it is set for connectors that a DAG file defines"
            errors[key] = [ConfigException.of(key, config[key], reason).message]
    errors |= {key: [error] for key, error in text_errors(config).items() if key != "name"}  # Connect's own check reports the name
    try:
        check_name(name)
    except ConfigException as error:
        return errors | {"name": error.errors}
    errors |= dag_check(name, {key: value for key, value in config.items() if key not in (DEFINED_IN, RELEASED)})
    if found := lag_errors(config):
        errors[LAG] = [*errors.get(LAG, ()), *found]
    return errors


def refuse_foreign(name: str, config: Mapping[str, str], state: ClusterConfigState, with_topics: WithTopics) -> None:
    """Raises ConfigException if the config of a DAG file names a resource of another connector. The connector's runs check the rest."""
    errors = _foreign_errors(name, config, state.connector_configs, with_topics)
    if errors:
        raise ConfigException("\n".join(errors), errors=errors)


def _foreign_errors(name: str, config: Given, others: Mapping[str, Mapping[str, str]], with_topics: WithTopics) -> list[str]:
    known = {other: with_topics(other, config) for other, config in others.items()}
    return foreign_errors(name, with_topics(name, config), known)  # type: ignore[arg-type]  # texts stay texts


def with_own_values(validation: Validation, config: Given, dag_check: DagCheck) -> Validation:
    """``validation`` with the errors of ``airflow.*`` keys inserted before the keys of clients and converters."""
    given = {key: value for key, value in config.items() if value is not None}
    errors = own_errors(given.get("name", "").strip(BLANKS), given, dag_check)
    errors |= {key: [NULL_VALUE] for key, value in config.items() if value is None and key.startswith(PREFIX)}
    known = [
        ValidatedKey(key, dataclasses.replace(value, errors=[*value.errors, *errors.pop(value.name, ())]))
        for key, value in validation.configs
    ]
    own = [ValidatedKey(None, ConfigValueView(key, config.get(key), [], found, True)) for key, found in errors.items()]
    split = len(known) - validation.counted_by_key
    everything = (*known[:split], *own, *known[split:])
    shown = [ValidatedKey(key, dataclasses.replace(value, errors=limit_errors(value.errors, config))) for key, value in everything]
    return Validation.counted(validation.name, validation.groups, shown, validation.counted_by_key, validation.warnings)


def _all_errors(errors: list[str], count: int) -> str:
    lines = "\n".join(errors)
    return (
        f"Connector configuration is invalid and contains the following {count} error(s):\n{lines}\n"
        "You can also find the above list of errors at the endpoint `/connector-plugins/{connectorType}/config/validate`"
    )


def merge_patch(config: Mapping[str, str], patch: Given) -> dict[str, str]:
    """Applies the JSON merge patch of a flat map: a text sets a key, None removes it."""
    changed: dict[str, Any] = {**{key: value for key, value in config.items() if key != RELEASED}, **patch}
    return {key: value for key, value in changed.items() if value is not None}


def with_own_keys(config: Given, known: Mapping[str, str] | None) -> dict[str, str | None]:
    """``config`` with those ``airflow.*`` keys of ``known`` that it lacks. Responses leave these keys out. Without this rule, a client that
    reads a config, changes it and puts it back would lose the schedule. A patch with null removes a key."""
    return {**dag_keys(known or {}), **config}


def require_name_kept(patch: Given) -> None:
    """Raises ConfigException for a patch that removes the name, as Kafka Connect's validation does."""
    if "name" in patch and patch["name"] is None:
        missing = 'Missing required configuration "name" which has no default value.'
        raise ConfigException(_all_errors([missing], 1), errors=[missing])


def require_own(name: str, config: Mapping[str, str] | None) -> None:
    """Raises ConflictException if a DAG file owns the connector's config."""
    file = (config or {}).get(DEFINED_IN)
    if file is not None:
        raise ConflictException(
            f"Connector {name} is defined in the DAG file {file}: change or delete it there. Over REST it can be paused, resumed, stopped "
            "and restarted, and its offsets can be changed. A connector whose file is gone is released after airflow.missing.dag.grace "
            "(by default ten minutes)"
        )
