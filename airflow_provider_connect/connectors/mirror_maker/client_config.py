"""The client settings of both clusters in a config, translated for librdkafka. The author of a config is not trusted.

The precedence is the same as in Java: ``consumer.`` (``producer.``, ``admin.``) overrides ``source.cluster.``, and ``source.consumer.``
overrides both. The same applies to the target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from airflow_provider_connect.connectors.mirror_maker.names import POLICIES, name_filter
from airflow_provider_connect.connectors.mirror_maker.settings import task_config_def
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.kafka_client.settings import FILES, NO_JAVA, ClientKind, librdkafka_config, names_java_code
from airflow_provider_connect.sdk.allowed_paths import AllowedPaths
from airflow_provider_connect.sdk.config_def import Config, ConfigDef, ConfigValue

MECHANISMS: Final = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})
_OTHER_MECHANISM: Final = (
    f"a mirrored cluster supports logins by {', '.join(sorted(MECHANISMS))} and certificates: Kerberos would use the host's tickets, "
    "OAUTHBEARER would contact another server"
)
_MECHANISM: Final = "sasl.mechanism"
_ISOLATION: Final = "isolation.level"
_CONSUMER_SETTINGS: Final = frozenset({"group.id", "group.instance.id", "group.protocol", "transactional.id", "enable.auto.commit"})
"""The consumer assigns partitions, joins no group and commits no offsets, but librdkafka still requires a group id."""


def bootstrap_key(side: str) -> str:
    return f"{side}.cluster.bootstrap.servers"


def client_config(config: Config, side: str, kind: ClientKind, allowed: AllowedPaths) -> dict[str, Any]:
    """The client's config. Raises ConfigException for the first invalid setting. Any: values in librdkafka's configs have several types."""
    keys, java = _java(config.originals, side, kind)
    for key, error in _errors(keys, java, allowed):
        raise ConfigException(error, keys=[key])
    if not java.get("bootstrap.servers", "").strip():
        raise ConfigException.of(bootstrap_key(side), "null", "It has no default value. Name host:port of the cluster's brokers.")
    for name in FILES & java.keys():
        java[name] = allowed.resolve(keys[name], java[name].strip()) if java[name].strip() else ""
    java = {"client.id": "connect-mirror", **{name: text for name, text in java.items() if name not in _CONSUMER_SETTINGS}}
    if kind is ClientKind.CONSUMER:
        java = {"auto.offset.reset": "earliest", _ISOLATION: "read_committed", **java, "group.id": "mirror"}
    return dict(librdkafka_config(java, kind))


def isolation_level(config: Config, side: str = "source") -> str:
    """The level of the consumer's settings, or ``read_committed``."""
    return _java(config.originals, side, ClientKind.CONSUMER)[1].get(_ISOLATION, "read_committed").strip()


def validate_settings(definition: ConfigDef, config: Mapping[str, str], allowed: AllowedPaths) -> list[ConfigValue]:
    """The values of a connector's settings, with all errors. A client setting with an error is added without its value, because the value
    may be secret."""
    values = definition.validate(config)
    found = {value.name: value for value in values}
    for key, only in _FIXED_VALUES.items():
        if key in found and not found[key].errors and found[key].value not in only:
            found[key].errors.append(ConfigException.of(key, found[key].value, f"Only {' or '.join(only)} is supported.").message)
    try:
        parsed = task_config_def(definition).parse(config)
        for key in ("topics", "groups"):
            if key in parsed:
                name_filter(parsed, key)
    except ConfigException as error:
        for key in set(error.keys) & found.keys():
            found[key].errors += [text for text in error.errors if text not in found[key].errors]
    refused: dict[str, ConfigValue] = {}
    for side in ("source", "target"):
        for kind in ClientKind:
            for key, text in _errors(*_java(config, side, kind), allowed):
                refused.setdefault(key, ConfigValue(key, errors=[text]))
    return [*values, *refused.values()]


_FIXED_VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "replication.policy.class": tuple(POLICIES),
    "forwarding.admin.class": ("org.apache.kafka.clients.admin.ForwardingAdmin",),
    "topic.filter.class": ("org.apache.kafka.connect.mirror.DefaultTopicFilter",),
    "group.filter.class": ("org.apache.kafka.connect.mirror.DefaultGroupFilter",),
    "config.property.filter.class": ("org.apache.kafka.connect.mirror.DefaultConfigPropertyFilter",),
}


def _java(config: Mapping[str, str], side: str, kind: ClientKind) -> tuple[dict[str, str], dict[str, str]]:
    """Two maps by Java setting name: the keys in the config, and the values."""
    keys: dict[str, str] = {}
    for prefix in (f"{side}.cluster.", f"{kind}.", f"{side}.{kind}."):
        keys |= {key.removeprefix(prefix): key for key in config if key.startswith(prefix)}
    keys = {name: key for name, key in keys.items() if not name.startswith("override.") and name != "alias"}
    return keys, {name: config[key] for name, key in keys.items()}


def _errors(keys: Mapping[str, str], java: Mapping[str, str], allowed: AllowedPaths) -> Iterator[tuple[str, str]]:
    """A pair (key, error) for each setting that would use code, files or logins of the host, and for an invalid isolation level."""
    for name, text in java.items():
        if names_java_code(name, text):
            yield keys[name], ConfigException.of(keys[name], text, NO_JAVA).message
    if "SASL" in java.get("security.protocol", "").upper() and java.get(_MECHANISM, "GSSAPI").strip().upper() not in MECHANISMS:
        key = keys.get(_MECHANISM, keys["security.protocol"].replace("security.protocol", _MECHANISM))
        yield key, ConfigException.of(key, java.get(_MECHANISM, "GSSAPI"), _OTHER_MECHANISM).message
    for name in sorted(FILES & java.keys()):
        try:
            if java[name].strip():
                allowed.resolve(keys[name], java[name].strip())
        except ConfigException as error:
            yield keys[name], error.message
    isolation = java.get(_ISOLATION, "read_committed").strip()
    if isolation not in {"read_committed", "read_uncommitted"}:
        reason = "String must be one of: read_committed, read_uncommitted"
        yield keys[_ISOLATION], ConfigException.of(keys[_ISOLATION], isolation, reason).message
