"""Checks whether Kafka's clients accept the worker settings, by creating each client without a broker."""

import re
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaException, Producer

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.config.client_settings import ClientConfig, ClientKind, client_config, internal_client_config
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.stores.kafka_errors import LastError

_PROPERTY = re.compile(r'property:? "([^"]+)"|\b(ssl\.[a-z.]+[a-z])')
_JAVA_NAMES = {
    "compression.codec": "compression.type",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.location": "ssl.keystore.location",
    "ssl.key.location": "ssl.keystore.location",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
}


def check_clients(settings: WorkerSettings) -> None:
    """Raises ConfigException when a client refuses the settings. The exception names the keys as the settings spell them. Takes some
    milliseconds."""
    for kind in ClientKind:
        for prefix, build in ((f"{kind}.", client_config), ("", _internal)):
            try:
                config = build(settings, kind)
            except ConfigException as error:
                raise ConfigException(error.message, keys=_as_set(error.keys, prefix, settings.originals)) from error
            _make(kind, config, prefix, settings)


def _internal(settings: WorkerSettings, kind: ClientKind) -> ClientConfig:
    return internal_client_config(settings, kind, "check")


def _make(kind: ClientKind, config: ClientConfig, prefix: str, settings: WorkerSettings) -> None:
    config = {**config, **LastError().callbacks()}
    config.pop("bootstrap.servers", None)
    try:
        if kind is ClientKind.CONSUMER:
            Consumer({"group.id": "check", **config}).close()
        else:
            Producer(config)
    except KafkaException as error:
        reason = error.args[0].str() if error.args else str(error)
        found = _PROPERTY.search(reason)
        named = [] if found is None else [found.group(1) or found.group(2)]
        keys = _as_set([_JAVA_NAMES.get(name, name) for name in named], prefix, settings.originals)
        raise ConfigException(f"Kafka's {kind} client refuses {', '.join(keys) or 'the settings'}: {reason}", keys=keys) from error


def _as_set(keys: list[str], prefix: str, originals: Mapping[str, str]) -> list[str]:
    """The keys as the settings spell them."""
    return [prefix + key if prefix + key in originals else key for key in keys]
