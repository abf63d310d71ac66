from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.config.client_settings import (
    ClientKind,
    client_config,
    clients_of,
    connector_overrides,
    internal_client_config,
    librdkafka_config,
    refused_overrides,
)
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b \\"c\\" d";'


def settings(**values: str) -> WorkerSettings:
    given = {name.replace("_", "."): value for name, value in values.items()}
    return WorkerSettings.of({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", **given})


def test_every_producer_partitions_as_java_does_and_prints_nothing() -> None:
    for config in (client_config(settings(), "producer"), internal_client_config(settings(), "producer", "configs")):
        assert config["partitioner"] == "murmur2_random"
        assert config["acks"] == "all"
        assert config["delivery.timeout.ms"] == "2147483647"
        assert config["log_level"] == 0


def test_connector_producer_takes_worker_prefix_then_override() -> None:
    worker = settings(producer_linger_ms="20", producer_acks="1", linger_ms="7")
    config = client_config(worker, "producer", {"acks": "0"}, client_id="connector-producer-c-0")
    assert (config["linger.ms"], config["acks"], config["client.id"]) == ("20", "0", "connector-producer-c-0")


def test_admin_client_inherits_what_has_no_prefix() -> None:
    worker = settings(retry_backoff_ms="7", request_timeout_ms="9000", admin_client_id="mine", security_protocol="PLAINTEXT")
    config = client_config(worker, "admin")
    assert (config["retry.backoff.ms"], config["socket.timeout.ms"], config["client.id"]) == ("7", 9000, "mine")
    assert "group.id" not in config
    assert "retry.backoff.ms" not in client_config(worker, "consumer")


def test_internal_clients_are_named_as_connects() -> None:
    assert internal_client_config(settings(), "consumer", "statuses")["client.id"] == "g-statuses"
    assert internal_client_config(settings(client_id="w"), "admin", "shared-admin")["client.id"] == "g-w-shared-admin"


def test_users_cannot_undo_a_transactional_producer() -> None:
    config = client_config(settings(), "producer", {"enable.idempotence": "false", "transactional.id": "other"}, transactional_id="mine")
    assert (config["transactional.id"], config["enable.idempotence"], config["acks"]) == ("mine", "true", "all")
    internal = internal_client_config(settings(enable_idempotence="false"), "producer", "configs-leader", transactional_id="leader")
    assert (internal["transactional.id"], internal["enable.idempotence"]) == ("leader", "true")


def test_transactional_time_outs_fit_the_transactions() -> None:
    config = client_config(settings(), "producer", {"transaction.timeout.ms": "7000", "request.timeout.ms": "9000"}, transactional_id="t")
    assert (config["delivery.timeout.ms"], config["socket.timeout.ms"]) == (7000, 7000)


@pytest.mark.parametrize("kind", ClientKind)
def test_librdkafka_accepts_what_comes_out(kind: ClientKind) -> None:
    java = {
        "bootstrap.servers": "127.0.0.1:1",
        "group.id": "g",
        "buffer.memory": "33554432",
        "max.request.size": "2000000",
        "send.buffer.bytes": "131072",
        "receive.buffer.bytes": "65536",
        "fetch.max.wait.ms": "100",
        "max.poll.records": "500",
        "max.block.ms": "9223372036854775807",
        "key.serializer": "x",
        "interceptor.classes": "",
        "request.timeout.ms": "40000",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": PLAIN,
        "ssl.endpoint.identification.algorithm": "",
        "metadata.recovery.strategy": "rebootstrap",
        "client.dns.lookup": "use_all_dns_ips",
    }
    config = librdkafka_config(java, kind)
    assert (config["sasl.username"], config["sasl.password"]) == ("a", 'b "c" d')
    assert config["ssl.endpoint.identification.algorithm"] == "none"
    assert not {"max.poll.records", "max.block.ms", "key.serializer", "interceptor.classes"} & config.keys()
    match kind:
        case ClientKind.PRODUCER:
            Producer(config)
        case ClientKind.CONSUMER:
            Consumer(config).close()
        case ClientKind.ADMIN:
            AdminClient(config)


def test_a_producer_takes_records_as_large_as_javas() -> None:
    assert client_config(settings(), "producer")["message.max.bytes"] == 1_048_576
    assert client_config(settings(), "producer", {"max.request.size": "5000000"})["message.max.bytes"] == 5_000_000
    assert "message.max.bytes" not in client_config(settings(), "consumer")


def test_sizes_beyond_what_librdkafka_takes_are_its_largest() -> None:
    """Java's users mean *no limit* by them."""
    largest = str(2**31 - 1)
    Producer(librdkafka_config({"max.request.size": largest, "send.buffer.bytes": "-1", "receive.buffer.bytes": largest}, "producer"))
    java = {"group.id": "g", "fetch.max.bytes": largest, "max.partition.fetch.bytes": largest, "receive.buffer.bytes": "-1"}
    Consumer(librdkafka_config(java, "consumer")).close()


@pytest.mark.parametrize("size", ["0", "60000", "2000000"])
def test_a_consumer_may_ask_for_little_at_once(size: str) -> None:
    """Kafka takes any size from 0 up; librdkafka only one from its largest message up."""
    Consumer(librdkafka_config({"group.id": "g", "fetch.max.bytes": size}, "consumer")).close()


@pytest.mark.parametrize(
    "name", ["plugin.library.paths", "sasl.kerberos.kinit.cmd", "ssl.engine.location", "debug", "error_cb", "log_level"]
)
def test_names_that_reach_code_do_not_go_through(name: str) -> None:
    assert librdkafka_config({name: "7"}, "producer").get(name) in (None, 0)


@pytest.mark.parametrize(
    ("java", "expected"),
    [
        ({"ssl.truststore.location": "/t.pem"}, {"ssl.ca.location": "/t.pem"}),
        ({"ssl.truststore.location": "/t", "ssl.truststore.type": "PEM"}, {"ssl.ca.location": "/t"}),
        ({"ssl.truststore.certificates": "CERT"}, {"ssl.ca.pem": "CERT"}),
        (
            {"ssl.keystore.certificate.chain": "C", "ssl.keystore.key": "K", "ssl.key.password": "p"},
            {"ssl.certificate.pem": "C", "ssl.key.pem": "K", "ssl.key.password": "p"},
        ),
        (
            {"ssl.keystore.location": "/k.p12", "ssl.keystore.password": "p"},
            {"ssl.keystore.location": "/k.p12", "ssl.keystore.password": "p"},
        ),
        ({"ssl.keystore.location": "/k.pem"}, {"ssl.certificate.location": "/k.pem", "ssl.key.location": "/k.pem"}),
        (
            {"sasl.jaas.config": "o.a.k.OAuthBearerLoginModule required clientId='i' clientSecret=s scope=\"x y\";"},
            {
                "sasl.oauthbearer.client.id": "i",
                "sasl.oauthbearer.client.secret": "s",
                "sasl.oauthbearer.scope": "x y",
                "sasl.oauthbearer.method": "oidc",
            },
        ),
        (
            {"sasl.jaas.config": 'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/k" principal="p@R";'},
            {"sasl.kerberos.keytab": "/k", "sasl.kerberos.principal": "p@R"},
        ),
    ],
)
def test_security_settings_are_translated(java: dict[str, str], expected: dict[str, str]) -> None:
    assert librdkafka_config(java, "admin") == {"log_level": 0, **expected}


@pytest.mark.parametrize(
    ("java", "text"),
    [
        ({"ssl.truststore.location": "/t.jks"}, "ssl.truststore.location: a trust store must be PEM"),
        ({"ssl.keystore.location": "/k.jks"}, "ssl.keystore.location: a key store must be PEM or PKCS12"),
        ({"sasl.jaas.config": "com.acme.Login required x=canary;"}, "login module Login needs Java"),
        ({"sasl.jaas.config": "canary"}, "login module"),
        ({"buffer.memory": "much"}, "buffer.memory: Not a number of type LONG"),
    ],
)
def test_what_needs_java_is_refused_without_its_secret(java: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigException) as refused:
        librdkafka_config(java, "admin")
    assert text in str(refused.value)
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize(
    ("policy", "refused"),
    [
        ("All", []),
        ("None", ["producer.override.acks", "producer.override.sasl.mechanism", "consumer.override.client.id"]),
        (
            "org.apache.kafka.connect.connector.policy.PrincipalConnectorClientConfigOverridePolicy",
            ["producer.override.acks", "consumer.override.client.id"],
        ),
        ("Allowlist", ["producer.override.sasl.mechanism", "consumer.override.client.id"]),
    ],
)
def test_override_policy(policy: str, refused: list[str]) -> None:
    worker = settings(connector_client_config_override_policy=policy, connector_client_config_override_allowlist="acks")
    config = {"producer.override.acks": "1", "producer.override.sasl.mechanism": "PLAIN", "consumer.override.client.id": "x", "a": "b"}
    found = refused_overrides(worker, config)
    assert list(found) == refused
    assert all(f"The '{policy}' policy does not allow '" in text for text in found.values())
    assert connector_overrides(config, "producer") == {"acks": "1", "sasl.mechanism": "PLAIN"}


WORKERS_OWN = {
    "security_protocol": "SASL_SSL",
    "producer_security_protocol": "SASL_SSL",
    "producer_sasl_mechanism": "PLAIN",
    "producer_sasl_jaas_config": 'o.PlainLoginModule required username="worker" password="canary";',
    "producer_sasl_oauthbearer_client_credentials_client_secret": "canary",
    "producer_ssl_keystore_location": "/etc/canary.p12",
    "producer_ssl_keystore_password": "canary",
    "producer_ssl_keystore_key": "canary",
    "producer_ssl_key_password": "canary",
}
ELSEWHERE = [
    {"bootstrap.servers": "thief:9092"},
    {"security.protocol": "SASL_PLAINTEXT"},
    {"sasl.oauthbearer.token.endpoint.url": "https://thief/token"},
    {"enable.ssl.certificate.verification": "false"},
    {"ssl.endpoint.identification.algorithm": ""},
    {"ssl.truststore.certificates": "CERT"},
]


@pytest.mark.parametrize("override", ELSEWHERE)
def test_the_workers_credentials_stay_behind_where_an_override_leads_elsewhere(override: dict[str, str]) -> None:
    worker = settings(**WORKERS_OWN)
    assert "canary" in str(client_config(worker, "producer", {"linger.ms": "5", "bootstrap.servers": "127.0.0.1:1"})), "the same servers"
    assert "canary" not in str(client_config(worker, "producer", override))
    own = {**override, "sasl.jaas.config": 'o.PlainLoginModule required username="mine" password="own";'}
    config = client_config(worker, "producer", own)
    assert (config["sasl.username"], config["sasl.password"]) == ("mine", "own")
    assert "canary" not in str(config)
    (name,) = override
    refused = refused_overrides(worker, {f"producer.override.{name}": override[name]})
    assert f"The 'SameCluster' policy does not allow '{name}' to be overridden" in refused[f"producer.override.{name}"], "by default"
    assert refused_overrides(settings(connector_client_config_override_policy="All"), {f"producer.override.{name}": override[name]}) == {}


@pytest.mark.parametrize("override", ELSEWHERE)
def test_no_client_is_led_elsewhere_by_overrides_of_clients_that_connect_lacks(override: dict[str, str]) -> None:
    """A sink has a transactional producer, and every source an admin client, whatever ``clients_of`` lists."""
    (name,) = override
    config = {f"{kind}.override.{name}": override[name] for kind in ClientKind} | {"producer.override.linger.ms": "5"}
    at_least_once = settings(exactly_once_source_support="disabled")
    for worker, is_sink in [(at_least_once, False), (settings(), True)]:
        refused = refused_overrides(worker, config, clients_of(worker, config, is_sink=is_sink))
        assert set(refused) == {f"{kind}.override.{name}" for kind in ClientKind}
    assert refused_overrides(settings(connector_client_config_override_policy="All"), config, []) == {}


@pytest.mark.parametrize(("policy", "allows_acks"), [("None", False), ("Principal", False), ("Allowlist", True), ("All", True)])
def test_a_policy_that_lists_what_is_allowed_holds_for_clients_that_connect_lacks(policy: str, allows_acks: bool) -> None:
    """They take the overrides, so that a policy which leaves them out would not hold."""
    worker = settings(
        exactly_once_source_support="disabled",
        connector_client_config_override_policy=policy,
        connector_client_config_override_allowlist="acks",
    )
    for is_sink, kinds in [(True, ("producer", "admin")), (False, ("consumer", "admin"))]:
        config = {f"{kind}.override.{name}": text for kind in kinds for name, text in (("acks", "1"), ("linger.ms", "5"))}
        refused = refused_overrides(worker, config, clients_of(worker, config, is_sink=is_sink))
        names = [] if policy == "All" else ["linger.ms"] if allows_acks else ["acks", "linger.ms"]
        assert set(refused) == {f"{kind}.override.{name}" for kind in kinds for name in names}
        assert all(f"The '{policy}' policy does not allow '" in text for text in refused.values())


@pytest.mark.parametrize(
    "options",
    [
        'principal="p@R; touch /tmp/x"',
        "principal=$(id)",
        'principal="-h"',
        'principal="`id`"',
        'keyTab="/k\\" ; id"',
        "keyTab=/k$HOME",
        "keyTab=k",
        'keyTab="/k|id"',
        'keyTab="/k\n"',
    ],
)
def test_nothing_of_a_jaas_config_becomes_a_part_of_a_command(options: str) -> None:
    with pytest.raises(ConfigException, match=r"for configuration sasl\.jaas\.config: "):
        librdkafka_config({"sasl.jaas.config": f"o.Krb5LoginModule required {options};"}, "consumer")


@pytest.mark.parametrize("name", ["sasl.kerberos.service.name", "ssl.keystore.location", "ssl.truststore.location"])
def test_names_and_stores_are_of_plain_characters(name: str) -> None:
    with pytest.raises(ConfigException, match=f"for configuration {name}: "):
        librdkafka_config({name: "/k$(id).pem"}, "consumer")


@pytest.mark.parametrize(
    "name",
    [
        *("sasl.kerberos.kinit.cmd", "sasl.kerberos.principal", "sasl.kerberos.keytab", "plugin.library.paths", "ssl.engine.location"),
        *("ssl.providers", "ssl.ca.location", "ssl.key.location", "ssl.crl.location", "sasl.oauthbearer.config", "debug", "dr_cb"),
        *("sasl.oauthbearer.assertion.private.key.file", "sasl.oauthbearer.method", "https.ca.location", "opaque", "stats_cb"),
    ],
)
def test_what_runs_code_or_opens_files_of_the_host_reaches_no_client(name: str) -> None:
    assert name not in client_config(settings(), "producer", {name: "/canary"})


def test_files_of_the_host_are_named_where_they_are_allowed(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "link.pem").symlink_to(tmp_path / "theirs.pem")
    worker = settings(connectors_allowed_paths=str(tmp_path / "mine"), connector_client_config_override_policy="All")
    jaas = f'o.Krb5LoginModule required keyTab="{tmp_path}/theirs.keytab" principal="p@R";'
    for name, value in {
        "ssl.keystore.location": str(tmp_path / "theirs.pem"),
        "ssl.truststore.location": str(tmp_path / "mine" / "link.pem"),
        "sasl.jaas.config": jaas,
    }.items():
        with pytest.raises(ConfigException, match=f"for configuration {name}: Connectors of this worker may only use files"):
            client_config(worker, "consumer", {name: value})
        assert list(refused_overrides(worker, {f"consumer.override.{name}": value})) == [f"consumer.override.{name}"]
    config = client_config(worker, "consumer", {"ssl.keystore.location": str(tmp_path / "mine" / "k.pem")})
    assert config["ssl.key.location"] == str(tmp_path / "mine" / "k.pem")
    assert librdkafka_config({"ssl.truststore.location": "/etc/ca.pem"}, "admin")["ssl.ca.location"] == "/etc/ca.pem", "the worker's own"


@pytest.mark.parametrize("kind", ["producer", "consumer", "admin"])
def test_a_value_that_librdkafka_would_cut_is_refused(kind: str) -> None:
    with pytest.raises(ConfigException, match=r"group\.id: it contains a NUL"):
        librdkafka_config({"bootstrap.servers": "a:1", "group.id": "group-of-another\0x"}, kind)
