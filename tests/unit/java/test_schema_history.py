"""What the clients of Debezium's schema history and signals get of a stranger's config, and of the worker."""

import pytest

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.java.config.own_clients import history_settings, own_client_settings, signal_settings
from airflow_provider_connect.runtime.java.config.rules import refuse

HISTORY = "schema.history.internal"
CONFIG = {f"{HISTORY}.kafka.topic": "history-of-orders", f"{HISTORY}.kafka.bootstrap.servers": "kafka-1:9092"}
WORKER = {
    "bootstrap.servers": "kafka-1:9092, kafka-2:9092",
    "security.protocol": "SASL_SSL",
    "producer.security.protocol": "SASL_SSL",
    "producer.sasl.jaas.config": "of-producers",
    "producer.linger.ms": "20",
    "consumer.security.protocol": "SASL_SSL",
    "consumer.sasl.jaas.config": "of-consumers",
    "admin.sasl.jaas.config": "of-admins",
}


def test_a_history_on_the_workers_cluster_has_its_login() -> None:
    assert history_settings(CONFIG, WORKER, ()) == {
        f"{HISTORY}.producer.security.protocol": "SASL_SSL",
        f"{HISTORY}.producer.sasl.jaas.config": "of-producers",
        f"{HISTORY}.consumer.security.protocol": "SASL_SSL",
        f"{HISTORY}.consumer.sasl.jaas.config": "of-consumers",
    }


@pytest.mark.parametrize("servers", ["", "elsewhere:9092", "kafka-1:9092,elsewhere:9092", "kafka-1:9093"])
def test_no_other_server_gets_the_workers_login(servers: str) -> None:
    assert history_settings({**CONFIG, f"{HISTORY}.kafka.bootstrap.servers": servers}, WORKER, ()) == {}


def run(config: dict[str, str]) -> None:
    """As a run: 1 the rules of all Java connectors 2 those of the history."""
    refuse(config)
    history_settings(config, WORKER, {"connect-configs"})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (HISTORY, "io.debezium.storage.file.history.FileSchemaHistory"),
        (f"{HISTORY}.kafka.topic", "connect-configs"),
        (f"{HISTORY}.kafka.topic", " connect-configs "),
        (f"{HISTORY}.producer.sasl.jaas.config", "Krb5LoginModule required keyTab=/etc/x;"),
        (f"{HISTORY}.consumer.ssl.truststore.location", "/etc/x"),
        (f"{HISTORY}.consumer.interceptor.classes", "X"),
        (f"{HISTORY}.producer.bootstrap.servers", "elsewhere:9092"),
    ],
)
def test_what_a_config_may_not_give_them(key: str, value: str) -> None:
    config = {**CONFIG, key: value}
    with pytest.raises(ConfigException) as refused:
        run(config)
    assert key in str(refused.value)


def test_clients_may_be_tuned() -> None:
    tuned = {f"{HISTORY}.producer.linger.ms": "5", f"{HISTORY}.consumer.fetch.max.wait.ms": "50"}
    assert history_settings({**CONFIG, **tuned}, {"bootstrap.servers": "other:1"}, ()) == {}


def test_signals_of_the_workers_cluster_have_its_login_and_others_have_none() -> None:
    signals = {"signal.enabled.channels": "kafka", "topic.prefix": "shop"}
    servers, own = "signal.kafka.bootstrap.servers", "signal.consumer."
    login = {f"{own}security.protocol": "SASL_SSL", f"{own}sasl.jaas.config": "of-consumers"}
    assert signal_settings(signals, WORKER, ()) == {servers: WORKER["bootstrap.servers"], **login}
    assert signal_settings({**signals, servers: "evil:9092"}, WORKER, ()) == {servers: "evil:9092"}
    assert signal_settings({"topic.prefix": "shop"}, WORKER, {"shop-signal"}) == {}


@pytest.mark.parametrize("topic", [{"signal.kafka.topic": "connect-configs"}, {"topic.prefix": "connect-configs"}])
def test_signals_do_not_come_from_an_internal_topic(topic: dict[str, str]) -> None:
    with pytest.raises(ConfigException, match=r"signal\.kafka\.topic.*internal topic"):
        signal_settings({"signal.enabled.channels": "kafka", **topic}, WORKER, {"connect-configs", "connect-configs-signal"})


def test_only_debeziums_sources_get_a_login() -> None:
    given = (CONFIG | {"signal.enabled.channels": "kafka", "topic.prefix": "shop"}, WORKER, ())
    names = {key.rpartition(".")[2] for key in own_client_settings("io.debezium.connector.sqlserver.SqlServerConnector", *given)}
    assert names == {"protocol", "config", "servers"}
    assert own_client_settings("org.example.Source", *given) == {}
