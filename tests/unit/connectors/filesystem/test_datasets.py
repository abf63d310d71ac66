"""Folders of stores under OpenLineage's names, whichever setting holds the address."""

from pathlib import Path

import pytest

from airflow_provider_connect.connectors.filesystem.settings import CONFIG_DEF
from airflow_provider_connect.connectors.filesystem.sink import FileSystemSinkConnector
from airflow_provider_connect.connectors.filesystem.source.connector import FileSystemSourceConnector
from airflow_provider_connect.connectors.filesystem.stores.location import dataset_at
from airflow_provider_connect.connectors.logs.source import LogSourceConnector
from airflow_provider_connect.data.schema import INT64_SCHEMA
from airflow_provider_connect.sdk import ALL_ALLOWED, Batch, Dataset, Schema, SinkRecord, SourceConnector, TopicPartition
from airflow_provider_connect.sdk.testing import MemorySinkContext, MemorySourceContext, SinkCalls
from airflow_provider_connect.sdk.testing.calls import polls, start_task

SINK = {"topics": "orders", "name": "orders", "flush.size": "1"}


@pytest.mark.parametrize(
    ("settings", "namespace", "name"),
    [
        ({"url": "/data/lake/"}, "file", "/data/lake/topics/my orders"),
        ({"url": "file:///data"}, "file", "/data/topics/my orders"),
        ({"url": "s3://bucket/a%20b"}, "s3://bucket", "a b/topics/my orders"),
        ({"s3.bucket.name": "bucket", "aws.secret.access.key": "canary"}, "s3://bucket", "topics/my orders"),
        ({"gcs.bucket.name": "bucket"}, "gs://bucket", "topics/my orders"),
        (
            {"azblob.container.name": "box", "azblob.account.name": "shop"},
            "abfss://box@shop.dfs.core.windows.net",
            "topics/my orders",
        ),
        ({"hdfs.url": "hdfs://name/lake"}, "hdfs://name:8020", "/lake/topics/my orders"),
        ({"url": "webhdfs://name:9870/lake"}, "webhdfs://name:9870", "/lake/topics/my orders"),
        ({"url": "sftp://host/in"}, "sftp://host:22", "/in/topics/my orders"),
    ],
)
def test_a_folder_has_its_stores_name_and_its_own(settings: dict[str, str], namespace: str, name: str) -> None:
    assert dataset_at(CONFIG_DEF.parse(SINK | settings), "topics/my orders") == Dataset(namespace, name)


def test_a_sink_names_the_folders_of_the_topics_that_it_has_written(tmp_path: Path) -> None:
    partition = TopicPartition("orders", 0)
    settings = {"topics": "orders", "name": "sink", "url": str(tmp_path), "flush.size": "10"}
    context = MemorySinkContext(settings, [partition], claim_epoch=1, exactly_once=True)
    calls = SinkCalls(start_task(FileSystemSinkConnector(), settings, context, ALL_ALLOWED), [partition])
    calls.open()
    assert list(calls.task.datasets()) == []
    schema = Schema.struct({"id": INT64_SCHEMA})
    calls.put(Batch.from_sink_records([SinkRecord("orders", 0, 0, None, {"id": 7}, None, schema)])[0])
    calls.commit()
    assert list(calls.task.datasets()) == [Dataset("file", str(tmp_path / "topics" / "orders"), schema)]


@pytest.mark.parametrize(
    ("connector", "settings"),
    [
        (FileSystemSourceConnector, {"url": "{}/in", "format": "csv", "file.minimum.age.ms": "0"}),
        (FileSystemSourceConnector, {"url": "{}", "file.prefix": "in/a", "format": "csv", "file.minimum.age.ms": "0"}),
        (LogSourceConnector, {"paths": "{}/in/*.csv"}),
    ],
)
def test_a_source_names_the_folder_that_it_has_listed(connector: type[SourceConnector], settings: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("id\n7\n")
    config = {"topic": "t"} | {key: value.format(tmp_path) for key, value in settings.items()}
    task = start_task(connector(), config, MemorySourceContext(config), ALL_ALLOWED)
    assert [record.topic for polled in polls(task, 60.0) for record in polled][:1] == ["t"]
    assert list(task.datasets()) == [Dataset("file", str(tmp_path / "in"))]
    task.stop()
