"""The settings of every client of a worker: built-in ones, and those that it inherits by Kafka Connect's rules (contract §2.1, §4.5).

``kafka_client.settings`` converts them to librdkafka's settings.
"""

from collections.abc import Iterable, Mapping

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.kafka_client.settings import (
    FILES,
    NO_JAVA,
    TRANSLATABLE,
    ClientConfig,
    ClientKind,
    librdkafka_config,
    names_java_code,
    resolve_files,
)
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings

__all__ = [
    "FILES",
    "LEADING",
    "TRANSLATABLE",
    "ClientConfig",
    "ClientKind",
    "client_config",
    "clients_of",
    "connector_overrides",
    "internal_client_config",
    "internal_client_id",
    "librdkafka_config",
    "names_java_code",
    "refused_overrides",
    "unused_overrides",
]

_BUILT_IN: Mapping[ClientKind, Mapping[str, str]] = {
    ClientKind.PRODUCER: {
        "acks": "all",
        "enable.idempotence": "false",
        "max.in.flight.requests.per.connection": "1",
        "delivery.timeout.ms": "2147483647",
    },
    ClientKind.CONSUMER: {"enable.auto.commit": "false", "auto.offset.reset": "earliest"},
    ClientKind.ADMIN: {},
}


def client_config(
    settings: WorkerSettings,
    kind: ClientKind | str,
    overrides: Mapping[str, str] | None = None,
    *,
    client_id: str = "",
    transactional_id: str | None = None,
) -> ClientConfig:
    """The librdkafka config of a client of a connector's task. Later settings override earlier ones, as in Connect: first built-in ones,
    then the worker's ``producer.*`` (or ``consumer.*``, ``admin.*``), then ``overrides`` (Java names, unprefixed). An admin client also
    inherits the worker's unprefixed settings, before ``admin.*``.

    ``transactional_id`` makes a transactional producer; user settings cannot change the id or idempotence. The caller adds ``error_cb``.
    """
    kind = ClientKind(kind)
    java = {"bootstrap.servers": settings.bootstrap_servers, "client.id": client_id, **_BUILT_IN[kind]}
    if kind is ClientKind.ADMIN:
        java |= _unprefixed(settings)
    java |= _under(settings.values, f"{kind}.")
    java = _overridden(java, resolve_files(settings.allowed_paths, overrides or {}))
    if transactional_id is not None:
        java |= {"transactional.id": transactional_id, "enable.idempotence": "true", "acks": "all"}
    return librdkafka_config(java, kind)


def _overridden(inherited: Mapping[str, str], overrides: Mapping[str, str]) -> dict[str, str]:
    """``inherited`` with ``overrides``. Drops the worker's credentials if an override would send them to other servers, by another
    protocol, to another issuer of tokens, or to a server whose certificate is not checked."""
    leads_elsewhere = any(
        name not in inherited or overrides[name].strip() != inherited[name].strip() for name in LEADING & overrides.keys()
    )
    kept = {name: value for name, value in inherited.items() if not (leads_elsewhere and name.startswith(_CREDENTIALS))}
    return kept | dict(overrides)


LEADING = frozenset(
    {
        "bootstrap.servers",
        "security.protocol",
        "sasl.oauthbearer.token.endpoint.url",
        "ssl.endpoint.identification.algorithm",
        "enable.ssl.certificate.verification",
        "ssl.truststore.location",
        "ssl.truststore.certificates",
        "ssl.truststore.type",
    }
)
"""Settings that decide which server receives a client's credentials."""
_CREDENTIALS = (
    *("sasl.jaas.config", "sasl.username", "sasl.password", "sasl.oauthbearer.", "sasl.kerberos.", "sasl.login.", "sasl.client."),
    *("ssl.keystore.", "ssl.key.", "ssl.certificate."),
)


def internal_client_config(
    settings: WorkerSettings, kind: ClientKind | str, purpose: str, *, transactional_id: str | None = None
) -> ClientConfig:
    """The librdkafka config of a client for the internal topics: the worker's unprefixed settings, and a client id for ``purpose``
    (``configs``, ``configs-leader``, ``offsets``, ``statuses``, ``shared-admin``)."""
    kind = ClientKind(kind)
    java = {**_BUILT_IN[kind], **_unprefixed(settings), "client.id": internal_client_id(settings, purpose)}
    if kind is ClientKind.PRODUCER:
        java |= _BUILT_IN[kind]
    if kind is ClientKind.CONSUMER:
        java |= {**_BUILT_IN[kind], "group.id": settings.group_id}  # librdkafka needs a group id; the consumers never join the group
    if transactional_id is not None:
        java |= {"transactional.id": transactional_id, "enable.idempotence": "true"}
    return librdkafka_config(java, kind)


def internal_client_id(settings: WorkerSettings, purpose: str) -> str:
    """Connect's client id of a client for the internal topics."""
    return "-".join(part for part in (settings.group_id, settings.client_id, purpose) if part)


def connector_overrides(config: Mapping[str, str], kind: ClientKind | str) -> dict[str, str]:
    """The settings in a connector's config under ``producer.override.`` (or consumer, admin), without the prefix."""
    return _under(config, f"{ClientKind(kind)}.override.")


def clients_of(settings: WorkerSettings, config: Mapping[str, str], *, is_sink: bool) -> list[ClientKind]:
    """The kinds of client that a connector with this config uses. Overrides of other kinds are not checked (contract §4.5)."""
    if is_sink:
        has_dead_letters = bool(config.get("errors.deadletterqueue.topic.name", "").strip())
        return [*ClientKind] if has_dead_letters else [ClientKind.CONSUMER]
    if settings.exactly_once_source_enabled or config.get("offsets.storage.topic", "").strip():
        return [*ClientKind]
    has_new_topics = any(name.startswith("topic.creation.") for name in config)
    return [ClientKind.PRODUCER, ClientKind.ADMIN] if has_new_topics else [ClientKind.PRODUCER]


def refused_overrides(settings: WorkerSettings, config: Mapping[str, str], kinds: Iterable[ClientKind] = ClientKind) -> dict[str, str]:
    """The overrides in a connector's ``config`` that the worker's policy refuses, or that name Java code, each with its error. Checks all
    overrides of ``kinds``. Checks overrides of other kinds only if they lead to another server, or if the policy has a list of allowed
    overrides. This is because tasks of this package have clients that Connect's tasks lack, such as a sink's transactional producer and a
    source's admin client. The overrides also apply to these clients."""
    policy = settings.client_config_override_policy
    kind_of_policy = policy.rpartition(".")[2].removesuffix("ConnectorClientConfigOverridePolicy")
    allowed = _allowed_overrides(settings, kind_of_policy)
    refused: dict[str, str] = {}
    checked = frozenset(kinds)
    for kind in ClientKind:
        overrides = connector_overrides(config, kind)
        if kind not in checked and allowed is None:
            overrides = {name: text for name, text in overrides.items() if name in LEADING}
        for name, value in overrides.items():
            if kind_of_policy == "SameCluster" and name in LEADING:
                refused[f"{kind}.override.{name}"] = (
                    f"The '{policy}' policy does not allow '{name}' to be overridden in the connector configuration. Leave it out or ask "
                    "for the worker setting connector.client.config.override.policy=All; the worker's credentials are then not sent"
                )
            elif allowed is not None and name not in allowed:
                text = f"The '{policy}' policy does not allow '{name}' to be overridden in the connector configuration."
                refused[f"{kind}.override.{name}"] = text
            elif names_java_code(name, value):
                refused[f"{kind}.override.{name}"] = ConfigException.of(name, value, NO_JAVA).message
        try:
            resolve_files(settings.allowed_paths, overrides)
        except ConfigException as error:
            named = next((name for name in FILES if f"for configuration {name}:" in error.message), "sasl.jaas.config")
            refused.setdefault(f"{kind}.override.{named}", error.message)
    return refused


def _allowed_overrides(settings: WorkerSettings, kind_of_policy: str) -> frozenset[str] | None:
    """The settings that a policy allows. None: it has no list."""
    match kind_of_policy:
        case "All" | "SameCluster":
            return None
        case "Principal":
            return frozenset({"sasl.jaas.config", "sasl.mechanism", "security.protocol"})
        case "Allowlist":
            return frozenset(settings.client_config_override_allowlist)
        case "None":
            return frozenset()
    known = "give SameCluster, All, None, Principal or Allowlist"
    raise ConfigException.of("connector.client.config.override.policy", settings.client_config_override_policy, known)


def unused_overrides(config: Mapping[str, str], kinds: Iterable[ClientKind]) -> list[str]:
    """The overrides in a connector's ``config`` that have no counterpart in librdkafka. As in Connect, they are allowed but have no
    effect."""
    return [f"{kind}.override.{name}" for kind in kinds for name in connector_overrides(config, kind) if name not in TRANSLATABLE]


def _unprefixed(settings: WorkerSettings) -> dict[str, str]:
    """The worker's own client settings, without the group id, which names the cluster rather than a consumer group."""
    names = TRANSLATABLE - {"group.id", "transactional.id", "client.id"}
    return {name: value for name, value in settings.values.items() if name in names} | {"bootstrap.servers": settings.bootstrap_servers}


def _under(settings: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name[len(prefix) :]: value for name, value in settings.items() if name.startswith(prefix)}
