"""Kafka's Java client settings as librdkafka's, for every client that this package makes.

Which settings reach which client, and what is built in, is Kafka Connect's rule (contract §2.1, §4.5). Only names in the tables below go
through: some of librdkafka's own run commands or load libraries, and a connector config must not reach those.
"""

import logging
from collections.abc import Iterable, Mapping
from enum import StrEnum

from airflow_provider_connect.config.client_security import login_module, sasl_config, tls_config
from airflow_provider_connect.config.worker_settings import WorkerSettings
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.java_text import parse_integer


class ClientKind(StrEnum):
    PRODUCER = "producer"
    CONSUMER = "consumer"
    ADMIN = "admin"


ClientConfig = dict[str, str | int | float | bool]

_log = logging.getLogger(__name__)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SAME_NAME = _words("""
    bootstrap.servers client.id client.rack client.dns.lookup security.protocol metadata.max.age.ms metadata.recovery.strategy
    metadata.recovery.rebootstrap.trigger.ms reconnect.backoff.ms reconnect.backoff.max.ms retry.backoff.ms retry.backoff.max.ms
    socket.connection.setup.timeout.ms connections.max.idle.ms enable.metrics.push
    sasl.mechanism sasl.kerberos.service.name sasl.kerberos.min.time.before.relogin ssl.cipher.suites
    acks retries linger.ms batch.size compression.type enable.idempotence delivery.timeout.ms max.in.flight.requests.per.connection
    transactional.id transaction.timeout.ms
    group.id group.instance.id group.protocol group.remote.assignor session.timeout.ms heartbeat.interval.ms max.poll.interval.ms
    auto.offset.reset enable.auto.commit auto.commit.interval.ms isolation.level fetch.min.bytes check.crcs allow.auto.create.topics
""")
"""Names that mean the same in both."""

_NATIVE = _words("""
    broker.address.family broker.address.ttl socket.keepalive.enable socket.nagle.disable socket.timeout.ms message.max.bytes
    message.timeout.ms queue.buffering.max.messages queue.buffering.max.kbytes queue.buffering.max.ms batch.num.messages
    sticky.partitioning.linger.ms
    queued.min.messages queued.max.messages.kbytes fetch.wait.max.ms fetch.message.max.bytes fetch.queue.backoff.ms fetch.error.backoff.ms
    compression.codec compression.level topic.metadata.refresh.interval.ms enable.ssl.certificate.verification
""")
"""Librdkafka's own tuning names that may be given too; they reach neither code nor files."""

_RENAMED = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "compression.gzip.level": "compression.level",
    "compression.lz4.level": "compression.level",
    "compression.zstd.level": "compression.level",
    "sasl.oauthbearer.token.endpoint.url": "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.scope": "sasl.oauthbearer.scope",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
}

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

_INT_MAX = 2**31 - 1
_LARGEST_REQUEST = 1_048_576  # the default of Java's max.request.size; librdkafka's own is 1,000,000


def client_config(
    settings: WorkerSettings,
    kind: ClientKind | str,
    overrides: Mapping[str, str] | None = None,
    *,
    client_id: str = "",
    transactional_id: str | None = None,
) -> ClientConfig:
    """The librdkafka config of a client that a connector's task uses, with Connect's order: built in, worker's ``producer.*`` (or
    ``consumer.*``, ``admin.*``; an admin client also inherits the worker's unprefixed settings), ``overrides`` (Java names, unprefixed).

    ``transactional_id`` makes a transactional producer; user settings cannot change the id or idempotence. The caller adds ``error_cb``.
    """
    kind = ClientKind(kind)
    java = {"bootstrap.servers": settings.bootstrap_servers, "client.id": client_id, **_BUILT_IN[kind]}
    if kind is ClientKind.ADMIN:
        java |= _unprefixed(settings)
    java |= _under(settings.values, f"{kind}.")
    java = _overridden(java, check_files(settings, overrides or {}))
    if transactional_id is not None:
        java |= {"transactional.id": transactional_id, "enable.idempotence": "true", "acks": "all"}
    return librdkafka_config(java, kind)


def _overridden(inherited: Mapping[str, str], overrides: Mapping[str, str]) -> dict[str, str]:
    """``inherited`` with ``overrides``. The worker's credentials are left out where an override leads elsewhere: to other servers, another
    protocol, another issuer of tokens, or a server whose certificate is not checked."""
    leads_elsewhere = any(
        name not in inherited or overrides[name].strip() != inherited[name].strip() for name in LEADING & overrides.keys()
    )
    kept = {name: value for name, value in inherited.items() if not (leads_elsewhere and name.startswith(_CREDENTIALS))}
    return kept | dict(overrides)


LEADING = _words("""
    bootstrap.servers security.protocol sasl.oauthbearer.token.endpoint.url ssl.endpoint.identification.algorithm
    enable.ssl.certificate.verification ssl.truststore.location ssl.truststore.certificates ssl.truststore.type
""")
"""Settings that decide which server receives a client's credentials."""
_CREDENTIALS = (
    *("sasl.jaas.config", "sasl.username", "sasl.password", "sasl.oauthbearer.", "sasl.kerberos.", "sasl.login.", "sasl.client."),
    *("ssl.keystore.", "ssl.key.", "ssl.certificate."),
)


def check_files(settings: WorkerSettings, overrides: Mapping[str, str]) -> dict[str, str]:
    """A connector's ``overrides`` with the real paths of the host's files that they name. Raises ConfigException for one outside of
    ``connectors.allowed.paths``."""
    checked = dict(overrides)
    for name in _FILES & overrides.keys():
        if overrides[name].strip():
            checked[name] = settings.allowed_paths.resolved(name, overrides[name].strip())
    key_tab = login_module(overrides)[1].get("keyTab")
    if key_tab:
        settings.allowed_paths.resolved("sasl.jaas.config", key_tab)
    return checked


_FILES = _words("ssl.keystore.location ssl.truststore.location")


def internal_client_config(
    settings: WorkerSettings, kind: ClientKind | str, purpose: str, *, transactional_id: str | None = None
) -> ClientConfig:
    """The librdkafka config of a client for the internal topics: the worker's own unprefixed settings, and client id by ``purpose``
    (``configs``, ``configs-leader``, ``offsets``, ``statuses``, ``shared-admin``)."""
    kind = ClientKind(kind)
    java = {**_BUILT_IN[kind], **_unprefixed(settings), "client.id": internal_client_id(settings, purpose)}
    if kind is ClientKind.PRODUCER:
        java |= _BUILT_IN[kind]
    if kind is ClientKind.CONSUMER:
        java |= {**_BUILT_IN[kind], "group.id": settings.group_id}  # librdkafka wants one; the consumers only assign, so it is never joined
    if transactional_id is not None:
        java |= {"transactional.id": transactional_id, "enable.idempotence": "true"}
    return librdkafka_config(java, kind)


def internal_client_id(settings: WorkerSettings, purpose: str) -> str:
    """Connect's client id of a client for the internal topics."""
    return "-".join(part for part in (settings.group_id, settings.client_id, purpose) if part)


def connector_overrides(config: Mapping[str, str], kind: ClientKind | str) -> dict[str, str]:
    """The settings of a connector's config under ``producer.override.`` (or consumer, admin), without the prefix."""
    return _under(config, f"{ClientKind(kind)}.override.")


def clients_of(settings: WorkerSettings, config: Mapping[str, str], *, is_sink: bool) -> list[ClientKind]:
    """The kinds of client that such a connector uses: overrides of other kinds are not checked (contract §4.5)."""
    if is_sink:
        has_dead_letters = bool(config.get("errors.deadletterqueue.topic.name", "").strip())
        return [*ClientKind] if has_dead_letters else [ClientKind.CONSUMER]
    if settings.exactly_once_source_enabled or config.get("offsets.storage.topic", "").strip():
        return [*ClientKind]
    has_new_topics = any(name.startswith("topic.creation.") for name in config)
    return [ClientKind.PRODUCER, ClientKind.ADMIN] if has_new_topics else [ClientKind.PRODUCER]


def refused_overrides(settings: WorkerSettings, config: Mapping[str, str], kinds: Iterable[ClientKind] = ClientKind) -> dict[str, str]:
    """The overrides in a connector's ``config`` that the worker's policy refuses, or that ask for Java code, each with the text for its
    user; of clients of ``kinds``."""
    policy = settings.client_config_override_policy
    allowed: frozenset[str] | None
    kind_of_policy = policy.rpartition(".")[2].removesuffix("ConnectorClientConfigOverridePolicy")
    match kind_of_policy:
        case "All":
            allowed = None
        case "Principal":
            allowed = frozenset({"sasl.jaas.config", "sasl.mechanism", "security.protocol"})
        case "Allowlist":
            allowed = frozenset(settings.client_config_override_allowlist)
        case "None":
            allowed = frozenset()
        case "SameCluster":
            allowed = None
        case _:
            known = "there are SameCluster, All, None, Principal and Allowlist"
            raise ConfigException.of("connector.client.config.override.policy", policy, known)
    refused = {}
    for kind in kinds:
        for name, value in connector_overrides(config, kind).items():
            if kind_of_policy == "SameCluster" and name in LEADING:
                refused[f"{kind}.override.{name}"] = (
                    f"The '{policy}' policy does not allow '{name}' to be overridden in the connector configuration. Leave it out or ask "
                    "for the worker setting connector.client.config.override.policy=All; the worker's credentials do not go with it then"
                )
            elif allowed is not None and name not in allowed:
                text = f"The '{policy}' policy does not allow '{name}' to be overridden in the connector configuration."
                refused[f"{kind}.override.{name}"] = text
            elif name in _JAVA_CODE and value.strip() not in _AS_IT_IS:
                refused[f"{kind}.override.{name}"] = ConfigException.of(name, value, _NO_JAVA).message
        try:
            check_files(settings, connector_overrides(config, kind))
        except ConfigException as error:
            named = next((name for name in _FILES if f"for configuration {name}:" in error.message), "sasl.jaas.config")
            refused.setdefault(f"{kind}.override.{named}", error.message)
    return refused


def unused_overrides(config: Mapping[str, str], kinds: Iterable[ClientKind]) -> list[str]:
    """The overrides in a connector's ``config`` that have no counterpart here: they are allowed, as in Connect, and change nothing."""
    used = _SAME_NAME | _NATIVE | _RENAMED.keys() | _TRANSLATED
    return [f"{kind}.override.{name}" for kind in kinds for name in connector_overrides(config, kind) if name not in used]


_JAVA_CODE = _words("""
    interceptor.classes partitioner.class key.serializer value.serializer key.deserializer value.deserializer security.providers
    sasl.client.callback.handler.class sasl.login.callback.handler.class sasl.login.class ssl.engine.factory.class
""")
_AS_IT_IS = frozenset(
    {
        "",
        "org.apache.kafka.common.serialization.ByteArraySerializer",
        "org.apache.kafka.common.serialization.ByteArrayDeserializer",
        "org.apache.kafka.clients.producer.internals.DefaultPartitioner",
    }
)
"""Classes that do what these clients do anyway."""
_NO_JAVA = "there is no Java in this client: leave it out"


def librdkafka_config(java: Mapping[str, str], kind: ClientKind | str) -> ClientConfig:
    """``java``, a client's settings by Kafka's Java names, by librdkafka's. What has no counterpart is dropped with a debug line.

    Raises ConfigException for a value with a NUL, where librdkafka would end it: a variable may bring one.
    """
    for name, value in java.items():
        if "\0" in value:
            raise ConfigException(f"Invalid value for configuration {name}: it holds a NUL character. Give it without.", keys=[name])
    config: ClientConfig = {"log_level": 0}  # errors come by error_cb, not as librdkafka's lines on stderr
    for name, value in java.items():
        if name in _SAME_NAME or name in _NATIVE:
            config[name] = value.strip()
        elif name in _RENAMED:
            config[_RENAMED[name]] = value.strip()
        elif name not in _TRANSLATED:
            _log.debug("Client setting %s has no counterpart in librdkafka and is not used", name)
    config |= _sized(java) | sasl_config(java) | tls_config(java)
    if kind == ClientKind.PRODUCER:
        ignores_keys = java.get("partitioner.ignore.keys", "").strip().lower() == "true"
        config.setdefault("message.max.bytes", _LARGEST_REQUEST)
        config["partitioner"] = "random" if ignores_keys else "murmur2_random"  # Java's; any other puts one key into two partitions
        if java.get("transactional.id"):
            _bound_by_transaction(config)
    if not config.get("client.id"):
        config.pop("client.id", None)
    return config


_TRANSLATED = _words("""
    partitioner.ignore.keys buffer.memory request.timeout.ms
    max.request.size max.partition.fetch.bytes fetch.max.bytes send.buffer.bytes receive.buffer.bytes
    sasl.jaas.config ssl.endpoint.identification.algorithm ssl.key.password
    ssl.keystore.type ssl.keystore.location ssl.keystore.password ssl.keystore.key ssl.keystore.certificate.chain
    ssl.truststore.type ssl.truststore.location ssl.truststore.password ssl.truststore.certificates
""")


def _bound_by_transaction(config: ClientConfig) -> None:
    """Librdkafka refuses a delivery time-out beyond the transaction's, and more than five requests in flight."""
    limit = int(config.setdefault("transaction.timeout.ms", 60_000))
    for name in ("delivery.timeout.ms", "message.timeout.ms", "socket.timeout.ms"):
        if name in config:
            config[name] = min(int(config[name]), limit)
    config["max.in.flight.requests.per.connection"] = 5


def _unprefixed(settings: WorkerSettings) -> dict[str, str]:
    """The worker's own client settings. The group id names the cluster, not a consumer group, and is not among them."""
    names = (_SAME_NAME | _NATIVE | _RENAMED.keys() | _TRANSLATED) - {"group.id", "transactional.id", "client.id"}
    return {name: value for name, value in settings.values.items() if name in names} | {"bootstrap.servers": settings.bootstrap_servers}


def _under(settings: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name[len(prefix) :]: value for name, value in settings.items() if name.startswith(prefix)}


def _sized(java: Mapping[str, str]) -> ClientConfig:
    config: ClientConfig = {}
    if "buffer.memory" in java:
        config["queue.buffering.max.kbytes"] = max(1, _number(java, "buffer.memory") // 1024)
    if "request.timeout.ms" in java:
        milliseconds = _number(java, "request.timeout.ms")
        config["request.timeout.ms"] = min(max(milliseconds, 1), 900_000)
        config["socket.timeout.ms"] = min(max(milliseconds, 10), 300_000)
    for name, (ours, least, most) in _SIZES.items():
        if name in java:
            config[ours] = min(max(_number(java, name), least), most)
    return config


_SIZES = {
    "max.request.size": ("message.max.bytes", 1_000, 1_000_000_000),
    "max.partition.fetch.bytes": ("max.partition.fetch.bytes", 1, 1_000_000_000),
    "fetch.max.bytes": ("fetch.max.bytes", 0, 2_147_483_135),
    "send.buffer.bytes": ("socket.send.buffer.bytes", 0, 100_000_000),  # -1 there and 0 here: the system's
    "receive.buffer.bytes": ("socket.receive.buffer.bytes", 0, 100_000_000),
}
"""Sizes by Java's name with librdkafka's, and the range that librdkafka takes: it refuses others, where Java means no limit by them."""


def _number(java: Mapping[str, str], name: str) -> int:
    number = parse_integer(java[name].strip(), 64)
    if number is None:
        raise ConfigException.of(name, java[name], "Not a number of type LONG")
    return min(number, _INT_MAX * 1024)
