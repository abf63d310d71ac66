"""FileSystemSink passes the suite of every sink, on a folder of the host."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.connectors.filesystem.settings import format_of, unused_settings
from airflow_provider_connect.connectors.filesystem.sink import FileSystemSinkConnector
from airflow_provider_connect.connectors.filesystem.stores.location import STORE_KEYS, open_store, parse_location
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import PluginCatalog
from airflow_provider_connect.sdk.allowed_paths import ALL_ALLOWED, AllowedPaths
from airflow_provider_connect.sdk.config_def import ConfigDef
from airflow_provider_connect.sdk.testing import SinkConnectorSuite
from tests.s3_servers import MotoServer, S3Server


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with MotoServer() as server:
        yield server


def published(folder: Path) -> list[Path]:
    """The files that readers see, in the order of partitions and offsets."""
    return sorted(path for path in (folder / "topics").rglob("*+*") if path.is_file() and "_connect" not in path.parts)


class TestFileSystemSink(SinkConnectorSuite):
    connector_class = FileSystemSinkConnector
    exactly_once = False

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        self.path = tmp_path

    def config(self) -> dict[str, str]:
        return {"name": "suite", "url": str(self.path), "topics": "suite", "behavior.on.null.values": "fail"}

    def delivered(self) -> list[Any]:
        return [json.loads(line) for path in published(self.path) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"format": "xml"}, "format"),
        ({"compression": "brotli"}, "compression"),
        ({"url": "/etc"}, "url"),
        ({"url": "ftp://host/folder"}, "url"),
        ({"url": "relative/folder"}, "url"),
        ({"url": "file://"}, "url"),
        ({"topics.dir": "../outside"}, "topics.dir"),
        ({"partitioner.class": "com.example.MyPartitioner"}, "partitioner.class"),
        ({"partitioner.class": "FieldPartitioner"}, "partition.field.name"),
        ({"partitioner.class": "TimeBasedPartitioner", "path.format": "YYYY"}, "partition.duration.ms"),
        ({"partitioner.class": "DailyPartitioner", "path.format": "QQQQ"}, "path.format"),
        ({"partitioner.class": "DailyPartitioner", "path.format": "MMM", "locale": "de_DE"}, "path.format"),
        ({"timezone": "Mars/North"}, "timezone"),
    ],
    ids=str,
)
def test_a_wrong_setting_is_refused_by_its_name(settings: dict[str, str], key: str, tmp_path: Path) -> None:
    connector = FileSystemSinkConnector()
    connector.allowed_paths = AllowedPaths((str(tmp_path),))
    found = connector.validate({"url": str(tmp_path), **settings})
    assert [value.name for value in found if value.errors] == [key]


SINK_FOR_S3 = {
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "s3.bucket.name": "orders",
    "s3.region": "eu-west-1",
    "s3.part.size": "5242880",
    "topics.dir": "raw",
    "flush.size": "1000",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat",
    "parquet.codec": "gzip",
    "partitioner.class": "io.confluent.connect.storage.partitioner.TimeBasedPartitioner",
    "path.format": "'dt'=YYYY-MM-dd",
    "partition.duration.ms": "3600000",
    "locale": "en-US",
    "timezone": "UTC",
    "timestamp.extractor": "io.confluent.connect.storage.partitioner.TimeBasedPartitioner$RecordFieldTimestampExtractor",
    "timestamp.field": "at",
    "schema.compatibility": "FULL",
}


def test_a_config_of_the_sink_for_s3_is_understood(caplog: pytest.LogCaptureFixture) -> None:
    connector = PluginCatalog().find_connector(SINK_FOR_S3["connector.class"]).load()()
    assert isinstance(connector, FileSystemSinkConnector)
    assert [value for value in connector.validate(SINK_FOR_S3) if value.errors] == []
    config = connector.config_def.parse(SINK_FOR_S3)
    connector.start(config)
    assert "These settings have no effect: s3.part.size, storage.class" in caplog.text
    assert (parse_location(config).host, format_of(config).extension) == ("orders", ".gz.parquet")


@pytest.mark.parametrize(
    ("name", "prefix"),
    [("s3.S3SinkConnector", "s3"), ("gcs.GcsSinkConnector", "gcs"), ("azure.blob.AzureBlobStorageSinkConnector", "az")],
)
@pytest.mark.parametrize(
    ("format", "codec", "extension"),
    [
        ("json.JsonFormat", "gzip", ".json.gz"),
        ("bytearray.ByteArrayFormat", "gzip", ".bin.gz"),
        ("json.JsonFormat", "none", ".json"),
        ("csv", "gzip", ".csv.gz"),
    ],
)
def test_each_sink_names_the_codec_of_text_by_its_own_setting(name: str, prefix: str, format: str, codec: str, extension: str) -> None:
    given = {
        "connector.class": f"io.confluent.connect.{name}",
        "format.class": f"io.confluent.connect.{prefix}.format.{format}",
        f"{prefix}.compression.type": codec,
        f"{prefix}.compression.level": "9",
    }
    assert PluginCatalog().find_connector(given["connector.class"]).load() is FileSystemSinkConnector
    config = FileSystemSinkConnector.config_def.parse(given)
    assert format_of(config).extension == extension
    assert unused_settings(config) == [f"{prefix}.compression.level"]


def test_a_codec_of_another_format_is_named_as_unused() -> None:
    given = {**SINK_FOR_S3, "s3.compression.type": "gzip", "avro.codec": "snappy"}
    assert {"s3.compression.type", "avro.codec"} <= set(unused_settings(FileSystemSinkConnector.config_def.parse(given)))


def test_what_is_asked_for_in_vain_is_refused() -> None:
    values = FileSystemSinkConnector().validate({**SINK_FOR_S3, "store.kafka.keys": "true", "s3.ssea.name": "aws:kms"})
    assert [value.name for value in values if value.errors] == ["store.kafka.keys", "s3.ssea.name"]


class TestFileSystemSinkExactlyOnce(TestFileSystemSink):
    exactly_once = True


class TestFileSystemSinkOnS3(TestFileSystemSink):
    exactly_once = True
    lines_between_kills = 19

    @pytest.fixture(autouse=True)
    def bucket(self, s3: S3Server) -> None:
        self.settings = s3.settings(uuid.uuid4().hex)

    def config(self) -> dict[str, str]:
        return {"name": "suite", "topics": "suite", **self.settings}

    def delivered(self) -> list[Any]:
        store = open_store(ConfigDef(*STORE_KEYS).parse(self.settings), ALL_ALLOWED)
        paths = [file.path for file in store.files("topics") if "_connect/" not in file.path]
        return [json.loads(line) for path in sorted(paths) for line in store.read(path).splitlines()]
