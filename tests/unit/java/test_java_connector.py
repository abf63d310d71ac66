"""A Java connector's config on its way to Kafka Connect."""

from pathlib import Path

import pytest

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.config.masking import Mask
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.java.config.connector import JavaSink, JavaSource, guarded_source, java_config
from airflow_provider_connect.runtime.worker.task.checked_connector import check_connector
from airflow_provider_connect.standalone.files import ConnectorFile
from airflow_provider_connect.standalone.one_run import run_once
from tests.unit.java.test_java_plugins import jar


def test_the_guard_of_internal_topics_has_no_key_of_the_configs_author() -> None:
    given = {
        "transforms": "internal",
        "transforms.internal.type": "X",
        "transforms.internal_.predicate": "never",
        "transforms.internal__.negate": "true",
    }
    guarded = guarded_source(given, ["connect-configs"])
    assert guarded["transforms"] == "internal,internal___"
    assert {key for key in guarded if key.startswith("transforms.internal___.")} == {
        "transforms.internal___.type",
        "transforms.internal___.regex",
        "transforms.internal___.replacement",
    }


def test_a_key_that_no_java_connector_may_have_stops_the_run() -> None:
    with pytest.raises(ConfigException, match=r"config\.providers"):
        java_config("c", {"config.providers": "x"})


def test_a_source_whose_runs_have_no_end_is_refused_unless_they_stay(tmp_path: Path) -> None:
    source, sink = "io.debezium.connector.mongodb.MongoDbConnector", "io.debezium.connector.mongodb.MongoDbSinkConnector"
    jar(tmp_path / "mongodb" / "mongodb.jar", {"source": [source], "sink": [sink]}, "3.5.0.Final")
    settings = WorkerSettings.of({"bootstrap.servers": "x:1", "plugin.path": str(tmp_path), "java.allowed.locations": str(tmp_path)})
    for name in (source, "MongoDb"):
        with pytest.raises(ConfigException, match=r"MongoDbConnector.*set airflow\.schedule=@continuous"):
            check_connector("changes", {"connector.class": name, "topic.prefix": "p"}, settings, {})
    staying = {"connector.class": source, "topic.prefix": "p", "airflow.schedule": "@continuous"}
    assert isinstance(check_connector("changes", staying, settings, {}).connector, JavaSource)
    with pytest.raises(ConfigException, match="this run ends"):
        run_once(ConnectorFile("changes", staying), settings.originals, Mask())
    assert isinstance(check_connector("rows", {"connector.class": sink, "topics": "t"}, settings, {}).connector, JavaSink)
