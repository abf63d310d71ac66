"""What the config of a Java connector may not set."""

import pytest

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.java.bounded.sources import bounded_source
from airflow_provider_connect.runtime.java.config.rules import (
    ENDING_DEBEZIUM,
    KAFKA_HISTORY,
    TUNING,
    needs_continuous,
    refuse,
    refused_end,
    refused_keys,
)


@pytest.mark.parametrize(
    "key",
    [
        "config.providers",
        "config.providers.x.class",
        "producer.override.config.providers",
        "value.converter.config.providers.x.param.path",
        "admin.override.bootstrap.servers",
        "admin.override.sasl.kerberos.kinit.cmd",
        "consumer.override.sasl.jaas.config",
        "consumer.override.partition.assignment.strategy",
        "consumer.override.ssl.keystore.location",
        "producer.override.metric.reporters",
        "producer.override.acks\n",
    ],
)
def test_what_reaches_files_classes_and_other_servers_is_refused_without_its_value(key: str) -> None:
    with pytest.raises(ConfigException) as raised:
        refuse({"name": "c", key: "a secret"})
    assert "a secret" not in raised.value.message
    assert key.strip() in raised.value.message


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("driver.allowLoadLocalInfile", "true"),
        ("database.allowLocalInfile", "TRUE"),
        ("driver.queryInterceptors", "x.Y"),
        ("database.autoDeserialize", "true"),
        ("database.initial.statements", "SELECT 1; load/**/data local/**/infile '/etc/x' into table t"),
        ("driver.initSql", "LOAD DATA LOCAL INFILE '/etc/x' INTO TABLE t"),
        ("heartbeat.action.query", "LOAD DATA LOCAL INFILE '/etc/x' INTO TABLE t"),
        ("connection.url", "jdbc:mysql://h/d?allowLoadLocalInfile=true&autoDeserialize=true"),
        ("connection.url", "jdbc:mysql://h/d?a=b&%61llowLoadLocalInfile=true"),
        ("connection.url", "jdbc:mysql://h/d?%2561utoDeserialize=true"),
        ("connection.url", "jdbc:mysql://address=(host=h)(allowLoadLocalInfile = yes)/d"),
        ("connection.url", "jdbc:mysql://(host=h,autoDeserialize=true)/d"),
        ("connection.url", "jdbc:mysql://h/d?autoDeserialize=false&autoDeserialize=true"),
        ("connection.url", "jdbc:mariadb://h/d?initSql=LOAD%20DATA%20LOCAL%20INFILE%20'/etc/x'"),
        ("connection.url", "jdbc:postgresql://h/d?socketFactory=org.example.Factory&socketFactoryArg=x"),
        ("connection.url", "JDBC:sqlserver://h;trustManagerClass=x.Y;a=b"),
        ("connection.url", "jdbc:h2:mem:d;INIT=RUNSCRIPT FROM 'http://h/x.sql'"),
        ("database.dbname", "shop?socketFactory=x.Y"),
        ("database.url", "h/d?sslfactory=x.Y"),
        ("sink.target", "jdbc:mysql://h/d?autoDeserialize=true"),
        ("warehouse.uri", "mysql://h/d?autoDeserialize=true"),
        ("connection.url", "jdbc:sqlserver://h;socketFactoryCla\u017f\u017f=x.Y"),
        ("connection.url", "jdbc:mysql://h/d?allowLoadLocalInf%C4%B1le=true"),
        ("connection.url", "jdbc:db2://h:1/d:clientRerouteServerListJNDIName=ldap://evil;"),
        ("driver.allowLoadLocalInf\u0131le", "true"),
        ("connection.allowLoadLocalInfile", "true"),
        ("hibernate.connection.autoDeserialize", "true"),
        ("hibernate.connection.url", "jdbc:mysql://h/d?autoDeserialize=true"),
        ("iceberg.catalog.jdbc.queryInterceptors", "x.Y"),
    ],
)
def test_what_has_a_database_driver_run_code_or_read_files_is_refused(key: str, value: str) -> None:
    assert [*refused_keys({"name": "c", key: value})] == [key]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("database.dbname", "shop?PGHOST=evil.example&PGPORT=5432"),
        ("database.dbname", "shop%3FPGHOST=evil"),
        ("database.dbname", "a/b"),
        ("database.hostname", "evil:3306/?allowX=true&x="),
        ("database.hostname", "shop/x?y="),
        ("database.hostname", "a,b"),
        ("database.hostname", "shop@evil"),
        ("database.port", "5432/x?PGHOST=evil"),
        ("database.protocol", "jdbc:mysql://evil/?a=b&x="),
        ("database.jdbc.driver", "x.Y"),
        ("database.PGHOST", "evil"),
        ("driver.pgport", "5432"),
        ("driver.service", "other"),
        ("driver.localSocketAddress", "/run/mysqld/mysqld.sock"),
        ("connection.url", "jdbc:sqlite:/opt/airflow/airflow.db"),
        ("connection.url", "jdbc:sybase:jndi:ldap://evil/cn=x"),
        ("hibernate.jndi.url", "ldap://evil/dc=x"),
        ("hibernate.connection.datasource", "cn=x"),
        ("hibernate.connection.provider_class", "x.Y"),
        ("hibernate.session_factory.statement_inspector", "x.Y"),
        ("hibernate.connection.url", " JDBC:H2:/opt/x"),
    ],
)
def test_what_leads_to_another_server_or_a_file_is_refused(key: str, value: str) -> None:
    assert [*refused_keys({"name": "c", key: value})] == [key]


@pytest.mark.parametrize("host", ["shop", "db-1.example.com", "10.0.0.1", "::1", "[fe80::1]", " shop "])
def test_the_address_of_a_database_is_its_configs_own(host: str) -> None:
    database = {"database.hostname": host, "database.port": "5432", "database.dbname": "größe-1.x", "database.sslmode": "require"}
    more = {"database.protocol": "jdbc:mysql", "connection.url": "jdbc:postgresql://h:5432/d?ssl=true"}
    assert refused_keys({**database, **more}) == {}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("signal.enabled.channels", "source,file"),
        ("signal.enabled.channels", "source, some.Channel"),
        ("signal.file", "/opt/airflow/dags/x.py"),
        ("signal.consumer.sasl.kerberos.kinit.cmd", "/bin/x"),
        ("signal.consumer.ssl.truststore.location", "/etc/x"),
        ("signal.consumer.bootstrap.servers", "evil:9092"),
        ("signal.kafka.sasl.jaas.config", "Krb5LoginModule required keyTab=/etc/x;"),
        ("openlineage.integration.config.file.path", "/etc/x"),
        ("schema.history.internal", "io.debezium.storage.file.history.FileSchemaHistory"),
        ("schema.history.internal.producer.sasl.jaas.config", "Krb5LoginModule required keyTab=/etc/x;"),
        ("schema.history.internal.consumer.interceptor.classes", "x.Y"),
    ],
)
def test_files_and_clients_that_debezium_opens_by_itself_are_refused(key: str, value: str) -> None:
    refused = refused_keys({"name": "c", key: value})
    assert [*refused] == [key]
    assert value not in refused[key]


def test_signals_of_a_topic_need_a_run_that_stays() -> None:
    postgres, signals = "io.debezium.connector.postgresql.PostgresConnector", {"signal.enabled.channels": "source, kafka"}
    assert "set airflow.schedule=@continuous" in str(refused_end(postgres, signals))
    assert refused_end(postgres, {**signals, "airflow.schedule": "@continuous"}) is None
    assert refused_end(postgres, {}) is None


def test_signals_of_tables_and_a_history_on_a_topic_are_a_plugins_own() -> None:
    history = {"schema.history.internal": KAFKA_HISTORY, "schema.history.internal.consumer.fetch.max.wait.ms": "50"}
    signals = {
        "signal.enabled.channels": "source, kafka, in-process",
        "signal.kafka.topic": "signals",
        "signal.kafka.bootstrap.servers": "kafka-1:9092",
        "signal.consumer.fetch.max.wait.ms": "50",
        "signal.data.collection": "public.signals",
        "signal.poll.interval.ms": "100",
    }
    assert refused_keys({**history, **signals, "signal.file": "", "schema.history.internal.kafka.topic": "history"}) == {}


def test_other_options_of_drivers_are_a_plugins_own() -> None:
    tuned = {"driver.connectTimeout": "1000", "database.allowLocalInfile": "false", "table.include.list": "shop.infile"}
    urls = {
        "connection.url": "jdbc:mysql://h:3306/d?useSSL=true&allowLoadLocalInfile=false&sslMode=VERIFY_CA",
        "hibernate.connection.url": "jdbc:postgresql://h/d?currentSchema=a%20b&ssl=true",
        "schema.registry.url": "http://h:8081?init",
        "note": "allowLoadLocalInfile=true",
    }
    tuned |= {"hibernate.c3p0.max_size": "5", "hibernate.jdbc.time_zone": "UTC"}
    assert refused_keys({**tuned, **urls, "heartbeat.action.query": "UPDATE beats SET at = now()"}) == {}


@pytest.mark.parametrize("text", ["\x01connect-other", "connect-other\x1f", "a\x00b"])
def test_control_characters_are_refused(text: str) -> None:
    assert [*refused_keys({"consumer.override.group.id": text})] == ["consumer.override.group.id"]


def test_what_tunes_clients_may_be_overridden_and_a_plugins_own_keys_are_its_own() -> None:
    tuned = {f"{kind}.override.{name}": "1" for kind in ("producer", "consumer", "admin") for name in TUNING}
    assert (
        refused_keys({**tuned, "file": "/in", "note": "two\nlines\tand a tab", "source.cluster.bootstrap.servers": "a:1", "gone": None})
        == {}
    )


@pytest.mark.parametrize(("name", "expected"), [("\x01orders", ["name"]), ("orders\x1f", ["name"]), ("or\x01ders", []), ("orders", [])])
def test_control_characters_that_java_trims_off_a_name_are_refused_here(name: str, expected: list[str]) -> None:
    assert [*refused_keys({"name": name})] == expected


@pytest.mark.parametrize(
    "name",
    [
        *(f"io.debezium.connector.{each}Connector" for each in ("sqlserver.SqlServer", "oracle.Oracle", "mongodb.MongoDb", "new.New")),
        "io.confluent.connect.syslog.SyslogSourceConnector",
    ],
)
def test_a_source_without_a_known_end_of_its_runs_is_refused_unless_they_stay(name: str) -> None:
    reason = refused_end(name, {"airflow.schedule": "5m"})
    assert reason is not None
    assert "set airflow.schedule=@continuous" in reason
    assert refused_end(name, {}) == reason
    assert refused_end(name, {"airflow.schedule": "@continuous"}) is None


@pytest.mark.parametrize("name", [*sorted(ENDING_DEBEZIUM), "org.apache.kafka.connect.file.FileStreamSourceConnector"])
def test_other_sources_are_not(name: str) -> None:
    assert needs_continuous(name) is None


def test_each_source_of_debezium_that_is_not_refused_has_a_goal() -> None:
    assert all(bounded_source(name) is not None for name in ENDING_DEBEZIUM)
