"""The settings of Kafka's own clients, with names, types and defaults of version 4.3.1. Knows nothing of librdkafka."""

from __future__ import annotations

from functools import cache
from typing import Final

from airflow_provider_connect.kafka_client.settings import ClientKind
from airflow_provider_connect.sdk.config_def import REQUIRED, ConfigDef, ConfigKey, Importance, Type

_CLIENTS: Final = {"p": ClientKind.PRODUCER, "c": ClientKind.CONSUMER, "a": ClientKind.ADMIN}


@cache
def client_config_def(kind: ClientKind) -> ConfigDef:
    """The settings of one kind of client, with Kafka's types and defaults but without its limits and documentation.

    Settings of TLS and logins come last, in Kafka's order."""
    rows = (line.split(" ", 4) for line in _TABLE.strip().splitlines())
    return ConfigDef(*(_key(*row) for row in rows if kind in map(_CLIENTS.get, row[1])))


def _key(name: str, _clients: str, type_: str, importance: str, default: str) -> ConfigKey:
    value = REQUIRED if default == "required" else None if default == "null" else default.removeprefix("=")
    return ConfigKey(name, Type(type_), value, importance=Importance(importance), doc=f"See {name} of Kafka's clients.")


_TABLE: Final = """
acks p STRING LOW =all
allow.auto.create.topics c BOOLEAN MEDIUM =true
auto.commit.interval.ms c INT LOW =5000
auto.offset.reset c STRING MEDIUM =latest
batch.size p INT MEDIUM =16384
bootstrap.controllers a LIST HIGH =
bootstrap.servers pc LIST HIGH required
bootstrap.servers a LIST HIGH =
buffer.memory p LONG HIGH =33554432
check.crcs c BOOLEAN LOW =true
client.dns.lookup pca STRING MEDIUM =use_all_dns_ips
client.id pa STRING MEDIUM =
client.id c STRING LOW =
client.rack c STRING LOW =
compression.gzip.level p INT MEDIUM =-1
compression.lz4.level p INT MEDIUM =9
compression.type p STRING HIGH =none
compression.zstd.level p INT MEDIUM =3
connections.max.idle.ms pc LONG MEDIUM =540000
connections.max.idle.ms a LONG MEDIUM =300000
default.api.timeout.ms ca INT MEDIUM =60000
delivery.timeout.ms p INT MEDIUM =120000
enable.auto.commit c BOOLEAN MEDIUM =true
enable.idempotence p BOOLEAN LOW =true
enable.metrics.push pc BOOLEAN LOW =true
enable.metrics.push a BOOLEAN LOW =false
exclude.internal.topics c BOOLEAN MEDIUM =true
fetch.max.bytes c INT MEDIUM =52428800
fetch.max.wait.ms c INT LOW =500
fetch.min.bytes c INT HIGH =1
group.id c STRING HIGH null
group.instance.id c STRING MEDIUM null
group.protocol c STRING HIGH =classic
group.remote.assignor c STRING MEDIUM null
heartbeat.interval.ms c INT HIGH =3000
interceptor.classes pc LIST LOW =
internal.throw.on.fetch.stable.offset.unsupported c BOOLEAN LOW =false
isolation.level c STRING MEDIUM =read_uncommitted
key.deserializer c CLASS HIGH required
key.serializer p CLASS HIGH required
linger.ms p LONG MEDIUM =5
max.block.ms p LONG MEDIUM =60000
max.in.flight.requests.per.connection p INT LOW =5
max.partition.fetch.bytes c INT HIGH =1048576
max.poll.interval.ms c INT MEDIUM =300000
max.poll.records c INT MEDIUM =500
max.request.size p INT MEDIUM =1048576
metadata.max.age.ms pca LONG LOW =300000
metadata.max.idle.ms p LONG LOW =300000
metadata.recovery.rebootstrap.trigger.ms pca LONG LOW =300000
metadata.recovery.strategy pca STRING LOW =rebootstrap
metric.reporters pca LIST LOW =org.apache.kafka.common.metrics.JmxReporter
metrics.num.samples pca INT LOW =2
metrics.recording.level pca STRING LOW =INFO
metrics.sample.window.ms pca LONG LOW =30000
partition.assignment.strategy c LIST MEDIUM =org.apache.kafka.clients.consumer.RangeAssignor,org.apache.kafka.clients.consumer.CooperativeStickyAssignor
partitioner.adaptive.partitioning.enable p BOOLEAN LOW =true
partitioner.availability.timeout.ms p LONG LOW =0
partitioner.class p CLASS MEDIUM null
partitioner.ignore.keys p BOOLEAN MEDIUM =false
receive.buffer.bytes p INT MEDIUM =32768
receive.buffer.bytes ca INT MEDIUM =65536
reconnect.backoff.max.ms pca LONG LOW =1000
reconnect.backoff.ms pca LONG LOW =50
request.timeout.ms pca INT MEDIUM =30000
retries p INT HIGH =2147483647
retries a INT LOW =2147483647
retry.backoff.max.ms pca LONG LOW =1000
retry.backoff.ms pca LONG LOW =100
security.protocol pca STRING MEDIUM =PLAINTEXT
security.providers pca STRING LOW null
send.buffer.bytes pca INT MEDIUM =131072
session.timeout.ms c INT HIGH =45000
share.acknowledgement.mode c STRING MEDIUM =implicit
share.acquire.mode c STRING MEDIUM =BATCH_OPTIMIZED
socket.connection.setup.timeout.max.ms pca LONG MEDIUM =30000
socket.connection.setup.timeout.ms pca LONG MEDIUM =10000
transaction.timeout.ms p INT LOW =60000
transaction.two.phase.commit.enable p BOOLEAN LOW =false
transactional.id p STRING LOW null
value.deserializer c CLASS HIGH required
value.serializer p CLASS HIGH required
config.providers pca LIST LOW =
ssl.protocol pca STRING MEDIUM =TLSv1.3
ssl.provider pca STRING MEDIUM null
ssl.cipher.suites pca LIST LOW =
ssl.enabled.protocols pca LIST MEDIUM =TLSv1.2,TLSv1.3
ssl.keystore.type pca STRING MEDIUM =JKS
ssl.keystore.location pca STRING HIGH null
ssl.keystore.password pca PASSWORD HIGH null
ssl.key.password pca PASSWORD HIGH null
ssl.keystore.key pca PASSWORD HIGH null
ssl.keystore.certificate.chain pca PASSWORD HIGH null
ssl.truststore.certificates pca PASSWORD HIGH null
ssl.truststore.type pca STRING MEDIUM =JKS
ssl.truststore.location pca STRING HIGH null
ssl.truststore.password pca PASSWORD HIGH null
ssl.keymanager.algorithm pca STRING LOW =SunX509
ssl.trustmanager.algorithm pca STRING LOW =PKIX
ssl.endpoint.identification.algorithm pca STRING LOW =https
ssl.secure.random.implementation pca STRING LOW null
ssl.engine.factory.class pca CLASS LOW null
sasl.kerberos.service.name pca STRING MEDIUM null
sasl.kerberos.kinit.cmd pca STRING LOW =/usr/bin/kinit
sasl.kerberos.ticket.renew.window.factor pca DOUBLE LOW =0.8
sasl.kerberos.ticket.renew.jitter pca DOUBLE LOW =0.05
sasl.kerberos.min.time.before.relogin pca LONG LOW =60000
sasl.login.refresh.window.factor pca DOUBLE LOW =0.8
sasl.login.refresh.window.jitter pca DOUBLE LOW =0.05
sasl.login.refresh.min.period.seconds pca SHORT LOW =60
sasl.login.refresh.buffer.seconds pca SHORT LOW =300
sasl.mechanism pca STRING MEDIUM =GSSAPI
sasl.jaas.config pca PASSWORD MEDIUM null
sasl.client.callback.handler.class pca CLASS MEDIUM null
sasl.login.callback.handler.class pca CLASS MEDIUM null
sasl.login.class pca CLASS MEDIUM null
sasl.login.connect.timeout.ms pca INT LOW null
sasl.login.read.timeout.ms pca INT LOW null
sasl.login.retry.backoff.max.ms pca LONG LOW =10000
sasl.login.retry.backoff.ms pca LONG LOW =100
sasl.oauthbearer.jwt.retriever.class pca CLASS MEDIUM =org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever
sasl.oauthbearer.jwt.validator.class pca CLASS MEDIUM =org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator
sasl.oauthbearer.scope pca STRING MEDIUM null
sasl.oauthbearer.client.credentials.client.id pca STRING MEDIUM null
sasl.oauthbearer.client.credentials.client.secret pca PASSWORD MEDIUM null
sasl.oauthbearer.assertion.algorithm pca STRING MEDIUM =RS256
sasl.oauthbearer.assertion.claim.aud pca STRING MEDIUM null
sasl.oauthbearer.assertion.claim.exp.seconds pca INT LOW =300
sasl.oauthbearer.assertion.claim.iss pca STRING MEDIUM null
sasl.oauthbearer.assertion.claim.jti.include pca BOOLEAN MEDIUM =false
sasl.oauthbearer.assertion.claim.nbf.seconds pca INT LOW =60
sasl.oauthbearer.assertion.claim.sub pca STRING MEDIUM null
sasl.oauthbearer.assertion.file pca STRING MEDIUM null
sasl.oauthbearer.assertion.private.key.file pca STRING MEDIUM null
sasl.oauthbearer.assertion.private.key.passphrase pca PASSWORD MEDIUM null
sasl.oauthbearer.assertion.template.file pca STRING MEDIUM null
sasl.oauthbearer.scope.claim.name pca STRING LOW =scope
sasl.oauthbearer.sub.claim.name pca STRING LOW =sub
sasl.oauthbearer.token.endpoint.url pca STRING MEDIUM null
sasl.oauthbearer.jwks.endpoint.url pca STRING MEDIUM null
sasl.oauthbearer.jwks.endpoint.refresh.ms pca LONG LOW =3600000
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms pca LONG LOW =10000
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms pca LONG LOW =100
sasl.oauthbearer.clock.skew.seconds pca INT LOW =30
sasl.oauthbearer.expected.audience pca LIST HIGH =
sasl.oauthbearer.expected.issuer pca STRING HIGH null
sasl.oauthbearer.header.urlencode pca BOOLEAN LOW =false
"""  # name, clients (producer, consumer, admin), type, importance, default  # noqa: E501
