"""Translates Kafka's Java client settings to librdkafka's, for every client of this package.

Only names in the tables below are passed on. Some of librdkafka's own settings run commands or load libraries, so a connector's config must
not set them. Knows nothing of workers.
"""

import logging
from collections.abc import Mapping
from enum import StrEnum

from airflow_provider_connect.data.java_text import parse_integer
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.kafka_client.security import login_module, sasl_config, tls_config
from airflow_provider_connect.sdk.allowed_paths import AllowedPaths


class ClientKind(StrEnum):
    """The kinds of Kafka clients."""

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
"""Names with the same meaning in Java and in librdkafka."""

_NATIVE = _words("""
    broker.address.family broker.address.ttl socket.keepalive.enable socket.nagle.disable socket.timeout.ms message.max.bytes
    message.timeout.ms queue.buffering.max.messages queue.buffering.max.kbytes queue.buffering.max.ms batch.num.messages
    sticky.partitioning.linger.ms
    queued.min.messages queued.max.messages.kbytes fetch.wait.max.ms fetch.message.max.bytes fetch.queue.backoff.ms fetch.error.backoff.ms
    compression.codec compression.level topic.metadata.refresh.interval.ms enable.ssl.certificate.verification
""")
"""Librdkafka's own tuning settings that are also accepted. These settings involve neither code nor files."""

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
    """Translate ``java``, a client's settings with Kafka's Java names, to librdkafka's settings.

    Drops settings without a counterpart, and logs them at level DEBUG. Raises ConfigException for values that cannot be translated. Also
    raises it for a value with a NUL character, perhaps from a config variable, because librdkafka would cut the value there.
    """
    for name, value in java.items():
        if "\0" in value:
            raise ConfigException(f"Invalid value for configuration {name}: it contains a NUL character. Remove it.", keys=[name])
    config: ClientConfig = {"log_level": 0}  # errors are reported by error_cb, not by librdkafka on stderr
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
        config["partitioner"] = "random" if ignores_keys else "murmur2_random"  # as in Java, so a key always goes to the same partition
        if java.get("transactional.id"):
            _bound_by_transaction(config)
    elif "fetch.max.bytes" in config:  # librdkafka refuses values below its largest message; larger messages still arrive
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
    """Limit settings to values that librdkafka accepts: no timeout above the transaction's, at most five requests in flight."""
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
    "send.buffer.bytes": ("socket.send.buffer.bytes", 0, 100_000_000),  # Java's -1 becomes 0, the system's default
    "receive.buffer.bytes": ("socket.receive.buffer.bytes", 0, 100_000_000),
}
"""Sizes by Java's name, with librdkafka's name and range. Librdkafka refuses values outside of the range; Java may use such a value for no
limit."""


def _number(java: Mapping[str, str], name: str) -> int:
    number = parse_integer(java[name].strip(), 64)
    if number is None:
        raise ConfigException.of(name, java[name], "Not a number of type LONG")
    return min(number, _INT_MAX * 1024)


TRANSLATABLE = _SAME_NAME | _NATIVE | _RENAMED.keys() | _TRANSLATED
"""The names of all settings that reach a client."""
FILES = _words("ssl.keystore.location ssl.truststore.location")
"""Settings that name a file on the host."""


def resolve_files(allowed: AllowedPaths, settings: Mapping[str, str]) -> dict[str, str]:
    """A connector's client ``settings``, with files of the host replaced by their real paths. Raises ConfigException for a file that is not
    ``allowed``."""
    checked = dict(settings)
    for name in FILES & settings.keys():
        if settings[name].strip():
            checked[name] = allowed.resolve(name, settings[name].strip())
    key_tab = login_module(settings)[1].get("keyTab")
    if key_tab:
        allowed.resolve("sasl.jaas.config", key_tab)
    return checked


def names_java_code(name: str, value: str) -> bool:
    """Whether a client setting names a Java class that has an effect. ``NO_JAVA`` is the reason to refuse the setting."""
    return name in _JAVA_CODE and value.strip() not in _AS_IT_IS


NO_JAVA = "this client has no Java: remove it"
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
"""Java classes with the default behaviour of these clients."""
