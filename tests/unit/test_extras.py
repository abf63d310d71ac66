"""A plugin whose extra is not installed is refused by validation, on a setting of its config, with the line that installs the extra."""

import configparser
import re
import sys
from pathlib import Path

import pytest

from airflow_provider_connect.connectors.filesystem.sink import FileSystemSinkConnector
from airflow_provider_connect.connectors.filesystem.source.connector import FileSystemSourceConnector
from airflow_provider_connect.connectors.jdbc.sink.connector import JdbcSinkConnector
from airflow_provider_connect.connectors.jdbc.source.connector import JdbcSourceConnector
from airflow_provider_connect.connectors.lake.delta_sink import DeltaSinkConnector
from airflow_provider_connect.connectors.lake.iceberg_sink import IcebergSinkConnector
from airflow_provider_connect.connectors.spark.sink import SparkSinkConnector
from airflow_provider_connect.connectors.spark.source import SparkSourceConnector
from airflow_provider_connect.converters.registry.avro_converter import AvroConverter
from airflow_provider_connect.converters.registry.json_schema_converter import JsonSchemaConverter
from airflow_provider_connect.converters.registry.protobuf_converter import ProtobufConverter
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.allowed_paths import ALL_ALLOWED
from airflow_provider_connect.sdk.allowed_spark import AllowedSpark
from airflow_provider_connect.sdk.config_def import ConfigValue, Plugin
from airflow_provider_connect.sdk.connector import Connector
from airflow_provider_connect.sdk.http.resource import Resource
from airflow_provider_connect.sdk.http.rest_source import rest_source
from airflow_provider_connect.sdk.required_packages import is_installed
from airflow_provider_connect.transforms.sql import SqlTransform

Events = rest_source("Events", base_url=None, resources=[Resource("events", "/events")])
SFTP = {"sftp.username": "u", "sftp.password": "p", "sftp.known.hosts": "SHA256:x"}
REGISTRY = {"schema.registry.url": "http://registry:8081"}
DATABASE = {"topics": "t", "topic.prefix": "t-", "mode": "bulk"}
ICEBERG = {"iceberg.tables": "db.t", "iceberg.catalog.type": "rest", "iceberg.catalog.uri": "http://catalog"}
SPARK = {"format": "parquet", "path": "/data", "topic": "t"}
FILES = {"topic": "t", "topics": "t", "format": "json"}
CASES: list[tuple[type[Plugin], dict[str, str], str, str, str]] = [  # plugin, config, what is missing, setting, extra
    (IcebergSinkConnector, ICEBERG, "pyiceberg", "iceberg.catalog.uri", "lake"),
    (DeltaSinkConnector, {"delta.table.path": "/data/t"}, "deltalake", "delta.table.path", "lake"),
    (FileSystemSinkConnector, FILES | {"url": "s3://bucket/folder"}, "obstore", "url", "filesystem"),
    (FileSystemSinkConnector, FILES | {"s3.bucket.name": "bucket"}, "obstore", "s3.bucket.name", "filesystem"),
    (FileSystemSourceConnector, FILES | {"url": "gs://bucket/folder"}, "obstore", "url", "filesystem"),
    (FileSystemSourceConnector, FILES | {"url": "hdfs://host/folder"}, "fsspec", "url", "filesystem"),
    (FileSystemSourceConnector, FILES | {"url": "/data", "format": "avro"}, "fastavro", "format", "filesystem"),
    (FileSystemSinkConnector, FILES | SFTP | {"url": "sftp://host/folder"}, "asyncssh", "url", "sftp"),
    (FileSystemSourceConnector, FILES | SFTP | {"url": "sftp://host/folder"}, "asyncssh", "url", "sftp"),
    (AvroConverter, REGISTRY, "authlib", "schema.registry.url", "registry"),
    (JsonSchemaConverter, REGISTRY, "cachetools", "schema.registry.url", "registry"),
    (ProtobufConverter, REGISTRY, "grpc_tools", "schema.registry.url", "registry"),
    (ProtobufConverter, REGISTRY, "google.protobuf", "schema.registry.url", "registry"),
    (Events, {"topic": "t", "base.url": "http://api"}, "httpx", "base.url", "http"),
    (SparkSourceConnector, SPARK, "pandas", "format", "frames"),
    (SparkSinkConnector, SPARK, "pandas", "format", "frames"),
    (SqlTransform, {"sql": "SELECT * FROM batch"}, "duckdb", "sql", "sql"),
    (JdbcSourceConnector, DATABASE | {"connection.url": "jdbc:postgresql://db/shop"}, "nanoarrow", "connection.url", "jdbc"),
    (JdbcSinkConnector, DATABASE | {"connection.url": "jdbc:mysql://db/shop"}, "pymysql", "connection.url", "mysql"),
    (JdbcSinkConnector, DATABASE | {"connection.url": "jdbc:sqlserver://db;databaseName=shop"}, "pymssql", "connection.url", "mssql"),
    (JdbcSourceConnector, DATABASE | {"connection.url": "jdbc:oracle:thin:@db:1521/shop"}, "oracledb", "connection.url", "oracle"),
]
NOT_INSTALLED = {"pymssql", "oracledb"}  # drivers of servers that no test has
NOT_OF_PLUGINS = {"openlineage", "client", "rest", "airflow", "standalone", "spark", "dev", "test"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0].__name__}-{case[2]}")
def test_validation_names_the_extra_on_a_setting(
    monkeypatch: pytest.MonkeyPatch, case: tuple[type[Plugin], dict[str, str], str, str, str]
) -> None:
    plugin, config, module, key, extra = case
    assert module in NOT_INSTALLED or _errors(plugin, config) == []
    monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed: neither found nor imported
    ((where, error),) = _errors(plugin, config)
    assert where == key
    assert f"configuration {key}: " in error
    assert f"not installed here: {module}. Run: pip install 'airflow-provider-connect[{extra}]'" in error


def _errors(plugin: type[Plugin], config: dict[str, str]) -> list[tuple[str, str]]:
    values: list[ConfigValue]
    if issubclass(plugin, Connector):
        connector = plugin()
        connector.allowed_paths, connector.allowed_spark = ALL_ALLOWED, AllowedSpark(("parquet",))
        values = connector.validate(config)
    else:
        values = plugin.config_def.validate(config)
    return [(value.name, error) for value in values for error in value.errors]


@pytest.mark.parametrize(
    ("plugin", "config", "module"),
    [(IcebergSinkConnector, ICEBERG, "pyiceberg"), (DeltaSinkConnector, {"delta.table.path": "/data/t"}, "deltalake")],
)
def test_a_stored_config_fails_with_the_same_text_as_its_connector_starts(
    monkeypatch: pytest.MonkeyPatch, plugin: type[Connector], config: dict[str, str], module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    connector = plugin()
    connector.allowed_paths = ALL_ALLOWED
    with pytest.raises(ConfigException, match=rf"not installed here: {module}\. Run: pip install 'airflow-provider-connect\[lake\]'"):
        connector.start(plugin.config_def.parse(config))


def test_each_extra_of_a_plugin_is_among_the_cases() -> None:
    setup = configparser.ConfigParser()
    setup.read(Path(__file__).parents[2] / "setup.cfg", encoding="utf-8")
    assert set(setup["options.extras_require"]) - NOT_OF_PLUGINS == {extra for *_, extra in CASES}


def test_a_module_of_a_package_that_is_missing_is_missing() -> None:
    assert not is_installed("nothing_of_this_name.module")
    assert is_installed("google.protobuf")


def test_no_plugin_words_the_line_itself() -> None:
    package = Path(__file__).parents[2] / "airflow_provider_connect"
    line = re.compile(r"pip install 'airflow-provider-connect\[|the extra \w+ of this package")
    files = [file for unit in ("connectors", "converters", "transforms", "sdk") for file in (package / unit).rglob("*.py")]
    worded = {file.name for file in files if line.search(file.read_text(encoding="utf-8"))}
    assert worded == {"frames.py"}  # what Spark itself cannot import
