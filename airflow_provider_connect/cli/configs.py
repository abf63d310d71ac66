"""Connector configs on the command line: reads them from arguments, prints them with hidden secrets, and restores hidden secrets."""

import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from airflow_provider_connect.cli.connection import Verbs
from airflow_provider_connect.cli.printing import visible
from airflow_provider_connect.errors import BadRequestException, ConnectException, NotFoundException
from airflow_provider_connect.hooks.airflow_settings import airflow_secrets
from airflow_provider_connect.rest.secrets import Secrets
from airflow_provider_connect.runtime.config.config_providers import (
    ConfigProvider,
    airflow_values,
    hidden_values,
    variable_values,
    variables,
)
from airflow_provider_connect.runtime.config.masking import config_secrets
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.config_limits import cut
from airflow_provider_connect.standalone.files import NAME, ConnectorFile, read_connector_file


def given_connector(arguments: Any) -> ConnectorFile:
    """Name and config from ``--file`` and KEY=VALUE arguments. Arguments override the file. Raises BadRequestException without a name."""
    named, texts = arguments.name, arguments.pairs
    if named is not None and "=" in named:  # the name was left out
        named, texts = None, [named, *texts]
    pairs = given_pairs(texts)
    if arguments.file is None:
        name = named or pairs.get(NAME)
        if not name or not pairs:
            raise BadRequestException("Name the connector and give its config, as --file FILE or as KEY=VALUE")
        return ConnectorFile(name, {**pairs, NAME: name})
    file = read_connector_file(Path("/dev/stdin" if arguments.file == "-" else arguments.file), named or pairs.get(NAME))
    if named not in (None, file.name):
        raise BadRequestException(f"The file has connector {file.name}, not {named}")
    return ConnectorFile(file.name, {**file.config, **pairs}, file.initial_state)


def given_pairs(texts: list[str]) -> dict[str, str]:
    """Parse ``KEY=VALUE`` arguments. Raises BadRequestException."""
    pairs = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise BadRequestException(f"{text!r} is not KEY=VALUE")
        pairs[key] = value
    return pairs


def shown(verbs: Verbs, config: Mapping[str, str]) -> dict[str, str]:
    """``config`` with its secrets hidden."""
    return Secrets(verbs.plugin_config).redacted(config)


def secrets_of(verbs: Verbs, name: str, config: Mapping[str, str], settings: WorkerSettings) -> set[str]:
    """All secrets of the connector: values that ``shown`` hides, and the values of its variables on this host. Variables that this host
    cannot resolve are listed on standard error."""
    visible_config = shown(verbs, config)
    hidden = {value for key, value in config.items() if visible_config.get(key) != value}
    providers = settings.config_providers(name)
    values = values_of_variables(config, providers)
    unknown = [text for text in variables(config) if text not in values and text[2:].partition(":")[0] in providers]
    if unknown:
        named = cut(", ".join(unknown))
        print(visible(f"Variables that this host does not resolve, so that their values are not hidden: {named}"), file=sys.stderr)
    return hidden | config_secrets(config) | hidden_values(config, providers, values)


def values_of_variables(config: Mapping[str, str], providers: Mapping[str, ConfigProvider]) -> dict[str, str]:
    """The values of the variables in ``config`` that its connector may have, including Airflow's variables. Each variable is resolved
    separately: if one has no value on this host, the values of the others are still returned, to be hidden."""
    found: dict[str, str] = {}
    for variable in variables(config):
        with suppress(ConnectException):
            single = {"variable": variable}
            found |= variable_values(single, providers, airflow_values(single, providers, airflow_secrets))
    return found


def unhidden(verbs: Verbs, name: str, config: Mapping[str, str | None]) -> dict[str, str | None]:
    """``config`` with the secrets that ``shown`` has hidden, so that printed configs can be edited and put back."""
    return Secrets(verbs.plugin_config).restore(config, _known(verbs, name))


def unhidden_patch(verbs: Verbs, name: str, patch: Mapping[str, str | None]) -> dict[str, str | None]:
    """``patch`` with the connector's own secrets that ``shown`` has hidden."""
    known = _known(verbs, name)
    secrets = Secrets(verbs.plugin_config)
    return secrets.restore(patch, None) if known is None else secrets.restore_patch(patch, known)


def _known(verbs: Verbs, name: str) -> Mapping[str, str] | None:
    try:
        return verbs.connector_config(name)
    except NotFoundException:
        return None
