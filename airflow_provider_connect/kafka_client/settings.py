"""Kafka's Java client settings as librdkafka's, for every client that this package makes.

Only names in the tables below go through: some of librdkafka's own run commands or load libraries, and a connector's config must not reach
those. Knows nothing of workers, nor of which settings reach which client.
"""

import logging
from collections.abc import Mapping
from enum import StrEnum

from airflow_provider_connect.data.java_text import parse_integer
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.kafka_client.security import login_module, sasl_config, tls_config
from airflow_provider_connect.sdk.allowed_paths import AllowedPaths


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

_INT_MAX = 2**31 - 1
_LARGEST_REQUEST = 1_048_576  # the default of Java's max.request.size; librdkafka's own is 1,000,000


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
    elif "fetch.max.bytes" in config:  # which librdkafka refuses below its largest message, though a larger one arrives all the same
        config["message.max.bytes"] = min(int(config["fetch.max.bytes"]), 1_000_000)
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
    "fetch.max.bytes": ("fetch.max.bytes", 1_000, 2_147_483_135),
    "send.buffer.bytes": ("socket.send.buffer.bytes", 0, 100_000_000),  # -1 there and 0 here: the system's
    "receive.buffer.bytes": ("socket.receive.buffer.bytes", 0, 100_000_000),
}
"""Sizes by Java's name with librdkafka's, and the range that librdkafka takes: it refuses others, where Java means no limit by them."""


def _number(java: Mapping[str, str], name: str) -> int:
    number = parse_integer(java[name].strip(), 64)
    if number is None:
        raise ConfigException.of(name, java[name], "Not a number of type LONG")
    return min(number, _INT_MAX * 1024)


HAVE_COUNTERPART = _SAME_NAME | _NATIVE | _RENAMED.keys() | _TRANSLATED
"""Java's names of all settings that reach a client."""
FILES = _words("ssl.keystore.location ssl.truststore.location")
"""Settings that name a file of the host."""


def checked_files(allowed: AllowedPaths, settings: Mapping[str, str]) -> dict[str, str]:
    """A connector's client ``settings`` with the real paths of the host's files that they name. Raises ConfigException for one that is
    outside of what is ``allowed``."""
    checked = dict(settings)
    for name in FILES & settings.keys():
        if settings[name].strip():
            checked[name] = allowed.resolved(name, settings[name].strip())
    key_tab = login_module(settings)[1].get("keyTab")
    if key_tab:
        allowed.resolved("sasl.jaas.config", key_tab)
    return checked


def names_java_code(name: str, value: str) -> bool:
    """Whether a client setting asks for a Java class that does anything; ``NO_JAVA`` is the reason to refuse it."""
    return name in _JAVA_CODE and value.strip() not in _AS_IT_IS


NO_JAVA = "there is no Java in this client: leave it out"
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
