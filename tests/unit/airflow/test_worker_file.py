"""What becomes of the settings of another Kafka Connect's workers, and which application replaces their group."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from airflow_provider_connect.cli.worker_file import Here, SettingOutcome, application_for, outcomes, worker_file
from airflow_provider_connect.errors import ConfigException

OF_KAFKA = """\
# as Apache Kafka ships it, with what sites add
bootstrap.servers=kafka:9092
group.id=connect-cluster
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
key.converter.schemas.enable=true
value.converter.schemas.enable=true
offset.storage.topic=connect-offsets
offset.storage.replication.factor=1
offset.storage.partitions=25
config.storage.topic=connect-configs
config.storage.replication.factor=1
status.storage.topic=connect-status
status.storage.replication.factor=1
offset.flush.interval.ms=10000
listeners=HTTP://:8083
plugin.path=/usr/local/share/java,/opt/connectors,
producer.compression.type=lz4
producer.interceptor.classes=io.confluent.monitoring.clients.interceptor.MonitoringProducerInterceptor
consumer.max.poll.records=500
admin.retry.backoff.ms=100
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="connect" password="geheim-1";
config.providers=file
config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
"""
WORKER_KEYS = """
    access.control.allow.methods access.control.allow.origin admin.listeners auto.include.jmx.reporter bootstrap.servers client.dns.lookup
    client.id config.providers config.storage.replication.factor config.storage.topic connect.protocol connections.max.idle.ms
    connector.client.config.override.policy exactly.once.source.support group.id header.converter heartbeat.interval.ms
    inter.worker.key.generation.algorithm inter.worker.key.size inter.worker.key.ttl.ms inter.worker.signature.algorithm
    inter.worker.verification.algorithms key.converter listeners listeners.https.ssl.keystore.location metadata.max.age.ms
    metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy metric.reporters metrics.num.samples metrics.recording.level
    metrics.sample.window.ms offset.flush.interval.ms offset.flush.timeout.ms offset.storage.partitions offset.storage.replication.factor
    offset.storage.topic plugin.discovery plugin.path rebalance.timeout.ms receive.buffer.bytes reconnect.backoff.max.ms
    reconnect.backoff.ms request.timeout.ms response.http.headers.config rest.advertised.host.name rest.advertised.listener
    rest.advertised.port rest.extension.classes retry.backoff.max.ms retry.backoff.ms sasl.client.callback.handler.class sasl.jaas.config
    sasl.kerberos.kinit.cmd sasl.kerberos.service.name sasl.login.class sasl.mechanism sasl.oauthbearer.jwks.endpoint.url
    scheduled.rebalance.max.delay.ms security.protocol security.providers send.buffer.bytes session.timeout.ms
    socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms ssl.cipher.suites ssl.client.auth ssl.enabled.protocols
    ssl.endpoint.identification.algorithm ssl.engine.factory.class ssl.key.password ssl.keystore.location ssl.keystore.password
    ssl.keystore.type ssl.protocol ssl.provider ssl.secure.random.implementation ssl.truststore.location ssl.truststore.password
    status.storage.partitions status.storage.replication.factor status.storage.topic task.shutdown.graceful.timeout.ms
    topic.creation.enable topic.tracking.allow.reset topic.tracking.enable value.converter worker.sync.timeout.ms worker.unsync.backoff.ms
"""


def written(tmp_path: Path, text: str) -> Mapping[str, str]:
    file = tmp_path / "connect-distributed.properties"
    file.write_text(text)
    found = worker_file(file)
    assert found is not None
    return found


def by_key(properties: Mapping[str, str]) -> dict[str, SettingOutcome]:
    return {each.key: each for each in outcomes(properties)}


def test_each_setting_of_a_worker_has_an_outcome(tmp_path: Path) -> None:
    found = by_key(written(tmp_path, OF_KAFKA))
    no_effect = {key for key, each in found.items() if each.here is Here.NO_EFFECT}
    assert no_effect == {"listeners", "producer.interceptor.classes", "consumer.max.poll.records"}
    assert {each.here for key, each in found.items() if key not in no_effect} == {Here.APPLIES}
    assert "Airflow's API server" in found["listeners"].reason
    assert "java.allowed.locations" in found["plugin.path"].reason
    assert application_for(written(tmp_path, OF_KAFKA), None) == "connect-cluster"


@pytest.mark.parametrize("key", WORKER_KEYS.split())
def test_no_setting_of_kafka_connect_is_unknown(key: str) -> None:
    (found,) = [each for each in outcomes({key: ""}) if each.key == key]
    assert found.here is not Here.UNKNOWN


def test_no_value_is_in_an_outcome() -> None:
    secret = "geheim-0815"
    properties = {
        "group.id": "connect",
        "sasl.jaas.config": f"{secret} {{{{ var.value.x }}}}",
        "offset.flush.interval.ms": f"${{file:{secret}}}",
        "ssl.keystore.password": secret,
        "security.protocol": secret,
        "my.vault.password": secret,
        "sasl.jaas.confg": secret,
        "producer.sasl.jaas.config": secret,
        "config.providers": "vault",
        "config.providers.vault.class": "com.example.VaultConfigProvider",
        "config.providers.vault.param.token": secret,
        "plain": secret,
    }
    found = outcomes(properties)
    assert secret not in str(found)
    assert {each.key for each in found} == properties.keys()


def test_wrong_settings_are_named_first_with_the_fix() -> None:
    properties = {"group.id": "a", "offset.flush.interval.ms": "soon", "config.storage.topic": " ", "offset.flush.timeout.ms": "1"}
    found = outcomes(properties)
    assert [(each.key, each.here) for each in found[:2]] == [("config.storage.topic", Here.WRONG), ("offset.flush.interval.ms", Here.WRONG)]
    assert "Not a number of type LONG" in found[1].reason
    assert [each.here for each in found[2:]] == [Here.APPLIES, Here.APPLIES]


def test_a_provider_that_is_not_installed_is_wrong_by_its_key() -> None:
    properties = {"group.id": "a", "config.providers": "vault", "config.providers.vault.class": "com.example.VaultConfigProvider"}
    found = by_key(properties)["config.providers.vault.class"]
    assert found.here is Here.WRONG
    assert "com.example" in found.reason


def test_an_unknown_setting_has_a_suggestion_in_short_time() -> None:
    found = by_key({"group.id": "a", "offset.flush.intervall.ms": "1", "x" * 100_000: "1", "\x1b[2J": "1"})
    assert found["offset.flush.intervall.ms"].reason.endswith("Did you mean offset.flush.interval.ms?")
    assert {each.here for key, each in found.items() if key != "group.id"} == {Here.UNKNOWN}


@pytest.mark.parametrize(
    ("group", "name"), [("connect", "connect"), ("crm_prod.eu", "crm-prod-eu"), (" crm ", "crm"), ("a" * 100, "a" * 100)]
)
def test_the_group_names_the_application(group: str, name: str) -> None:
    assert application_for({"group.id": group}, None) == name


@pytest.mark.parametrize("group", ["a" * 101, "g" * 300, "{{ var.value.x }}", "${file:/a:b}", "_a", "", "a b", "ä", "a\n"[:1] + "\x00"])
def test_a_group_that_names_no_application_is_refused_with_the_fix(group: str) -> None:
    with pytest.raises(ConfigException, match="--application NAME") as found:
        application_for({"group.id": group}, None)
    assert found.value.keys == ["group.id"]
    assert len(found.value.message) < 300
    assert application_for({"group.id": group}, "crm") == "crm"


@pytest.mark.parametrize("name", ["", "a_b", "-a", "x" * 101, "{{ a }}"])
def test_a_name_that_no_application_can_have_is_refused(name: str) -> None:
    with pytest.raises(ConfigException, match="--application"):
        application_for({"group.id": "connect"}, name)


@pytest.mark.parametrize(
    "text", ["", "name=a\nconnector.class=FileStreamSource\ntopic=a\n", "bootstrap.servers=kafka:9092\n", '{"group.id": "a"}', "a=\\u12"]
)
def test_another_file_is_no_worker_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "other").write_text(text)
    assert worker_file(tmp_path / "other") is None
    assert worker_file(tmp_path / "missing") is None
    assert worker_file(tmp_path) is None
