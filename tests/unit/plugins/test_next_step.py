"""What a config whose connector is not installed is refused with: the command, the package or the class to use."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_connect.runtime.plugins.catalog.cloud_connectors import _CLASSES, self_managed
from airflow_provider_connect.runtime.plugins.catalog.maven_connectors import _MAVEN
from airflow_provider_connect.runtime.plugins.catalog.next_step import archive_of, next_step, step_of
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import PluginCatalog, built_in_connectors


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("io.debezium.connector.postgresql.PostgresConnector", "plugins install maven:io.debezium:debezium-connector-postgres:3.6.1.Final"),
        ("io.debezium.connector.jdbc.JdbcSinkConnector", "plugins install maven:io.debezium:debezium-connector-jdbc:3.6.0.Final"),
        ("com.mongodb.kafka.connect.MongoSinkConnector", "plugins install maven:org.mongodb.kafka:mongo-kafka-connect:2.0.1"),
        (
            "io.confluent.connect.http.HttpSinkConnector",
            "zip of confluentinc/kafka-connect-http from Confluent Hub (www.confluent.io/hub/confluentinc/kafka-connect-http), "
            "then airflow connect plugins install confluentinc-kafka-connect-http-VERSION.zip",
        ),
        ("com.splunk.kafka.connect.SplunkSinkConnector", "plugins install splunk-kafka-connect-splunk-VERSION.zip"),
        ("com.couchbase.connect.kafka.CouchbaseSinkConnector", "couchbase/kafka-connect-couchbase from Confluent Hub"),
        ("io.confluent.connect.unheard.of.NewConnector", "download its zip from Confluent Hub"),
        ("com.sap.kafka.connect.sink.hana.HANASinkConnector", "github.com/SAP/kafka-connect-sap"),
        ("io.confluent.connect.s3.source.S3SourceConnector", "or use connector.class=FileSystemSource of this package"),
        ("io.confluent.connect.sftp.SftpSinkConnector", "connector.class=FileSystemSink of this package, with url=sftp://"),
        ("io.confluent.connect.sftp.SftpCsvSourceConnector", "connector.class=FileSystemSource"),
        ("io.confluent.connect.replicator.ReplicatorSourceConnector", "source.cluster.* instead of src.kafka.*"),
        ("io.confluent.connect.syslog.SyslogSourceConnector", "VERSION.zip, and set airflow.schedule=@continuous"),
        ("io.debezium.connector.oracle.OracleConnector", "install ARCHIVE (a zip, tar.gz or jar), and set airflow.schedule=@continuous"),
        ("PostgresSource", "connection.url=jdbc:postgresql://«connection.host»:«connection.port»/«db.name»"),
        ("S3_SINK", "set connector.class=io.confluent.connect.s3.S3SinkConnector, aws.access.key.id"),
        ("GcsSink", "gcs.credentials.json instead of gcs.credentials.config"),
        ("HttpSink", "plugins install confluentinc-kafka-connect-http-VERSION.zip"),
        ("SqlServerCdcSourceV2", "airflow.schedule=@continuous"),
        ("DynamoDbCdcSource", "runs in Confluent Cloud alone"),
    ],
)
def test_a_connector_that_is_not_installed_has_a_next_step(name: str, step: str) -> None:
    assert step in str(next_step(name))


@pytest.mark.parametrize("name", ["Orders", "org.example.OwnConnector", "io.confluentic.Connector", ""])
def test_nothing_is_made_up_about_a_class_that_is_not_known(name: str) -> None:
    assert next_step(name) is None


def test_the_longest_package_counts_and_a_word_is_whole() -> None:
    for name, package in {
        "io.confluent.connect.http.source.GenericHttpSourceConnector": "kafka-connect-http-v2",
        "io.confluent.connect.http.HttpSourceConnector": "kafka-connect-http-source",
        "io.confluent.connect.http.HttpSinkConnector": "kafka-connect-http",
        "io.confluent.connect.hdfs3.Hdfs3SourceConnector": "kafka-connect-hdfs3-source",
        "io.confluent.connect.hdfs3.Hdfs3SinkConnector": "kafka-connect-hdfs3",
        "io.confluent.connect.jms.JmsSourceConnector": "kafka-connect-jms",
        "io.confluent.connect.SplunkHttpSourceConnector": "kafka-connect-splunk-source",
        "io.confluent.connect.gcs.GcsSourceConnector": "kafka-connect-gcs-source",
    }.items():
        assert f"confluentinc/{package} from" in str(archive_of(name))


def test_every_name_of_the_cloud_leads_to_a_class_that_is_here_or_has_a_next_step() -> None:
    for name in _CLASSES:
        found = self_managed(name)
        assert found is not None
        assert found[0] in built_in_connectors() or next_step(found[0]), name


def test_runs_of_a_sink_of_debezium_need_not_stay() -> None:
    assert "airflow.schedule" not in str(next_step("io.debezium.connector.mongodb.MongoDbSinkConnector"))


def test_commands_name_a_group_an_artifact_and_a_version() -> None:
    assert all(coordinates.count(":") == 2 for coordinates in _MAVEN.values())


def test_the_error_of_an_unknown_class_has_the_step_before_the_known_ones() -> None:
    with pytest.raises(Exception, match=r"available connectors are: \(to install it: airflow connect plugins install maven:io.debezium"):
        PluginCatalog().find_connector("io.debezium.connector.mysql.MySqlConnector")
    with pytest.raises(Exception, match=r"available connectors are: \(did you mean "):
        PluginCatalog().find_connector("FileStreamSorce")
    with pytest.raises(Exception, match=r"available connectors are: \(install the plugin that has it: airflow connect plugins install"):
        PluginCatalog().find_connector("Zzzzzzzzzzzz")


def public_classes() -> list[tuple[str, str]]:
    """Each class of public configs (``tests.contract.public_configs``), with the kind of its step."""
    kind, found = "", []
    for line in (Path(__file__).parent / "public_classes.txt").read_text(encoding="utf-8").splitlines()[1:]:
        if line.startswith("["):
            kind = line.strip("[]")
        else:
            found += [(name, kind) for name in line.split()]
    return found


def test_every_class_of_public_configs_has_its_step() -> None:
    classes = public_classes()
    assert len(classes) > 220
    assert {name: step_of(name).kind for name, _ in classes} == dict(classes)  # type: ignore[union-attr]  # None fails
    assert not any(name in built_in_connectors() for name, _ in classes)
