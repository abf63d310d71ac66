"""The validation of the client settings in a connector's config (``producer.override.…`` and the like): contract §5.2, part 4."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from airflow_provider_connect.data.java_text import in_hash_order
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.kafka_client.keys import client_config_def
from airflow_provider_connect.runtime.config.client_settings import (
    ClientKind,
    client_config,
    clients_of,
    connector_overrides,
    refused_overrides,
)
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.sdk.config_def import ConfigDef, ConfigKey, ConfigValue, parse_type


def validate_overrides(
    settings: WorkerSettings, config: Mapping[str, str | None], *, is_sink: bool
) -> Iterator[tuple[ConfigKey | None, ConfigValue]]:
    """Each override of a client that the connector uses, and any other that is refused, with the prefix in its name, and its definition
    if Kafka has one.

    Texts name the settings without prefix, as Connect's do.
    """
    given = {name: text for name, text in config.items() if text is not None}
    kinds = clients_of(settings, given, is_sink=is_sink)
    refused = refused_overrides(settings, given, kinds)
    for kind in kinds:
        overrides = connector_overrides(given, kind)
        unusable = _unusable(settings, kind, overrides)
        for name, text in in_hash_order(overrides.items()).items():
            errors = [refused.pop(f"{kind}.override.{name}", ""), unusable.get(name, "")]
            yield _one(client_config_def(kind), kind, name, text, errors)
    for key, error in refused.items():
        yield None, ConfigValue(key, given.get(key), errors=[error])


def _one(definition: ConfigDef, kind: ClientKind, name: str, text: str, known: list[str]) -> tuple[ConfigKey | None, ConfigValue]:
    key = definition.keys.get(name)
    found = ConfigValue(f"{kind}.override.{name}", text)
    if key is not None:
        try:
            found.value = parse_type(name, text, key.type)
        except ConfigException as error:
            found.value = None
            found.errors.append(error.message)
    found.errors += [error for error in known if error and error not in found.errors]
    return key, found


def _unusable(settings: WorkerSettings, kind: ClientKind, overrides: Mapping[str, str]) -> dict[str, str]:
    """What our own clients cannot do, such as a Java key store, by the setting that asks for it."""
    try:
        client_config(settings, kind, overrides)
    except ConfigException as error:
        return {name: error.message for name in overrides if f"for configuration {name}:" in error.message}
    return {}
