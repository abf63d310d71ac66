"""What a config's author may ask of Spark: nothing but what the worker's settings list."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from airflow_provider_connect.connectors.spark.settings import FrameSettings
from airflow_provider_connect.connectors.spark.sink import SparkSinkConnector
from airflow_provider_connect.connectors.spark.source import SparkSourceConnector
from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.sdk.allowed_paths import AllowedPaths
from airflow_provider_connect.sdk.connector import Connector, ExactlyOnceSupport
from airflow_provider_connect.sdk.testing import MemorySourceContext

WORKER = {"connectors.spark.formats": "parquet, JDBC,csv", "connectors.spark.options": "csv.header, jdbc.url=jdbc:derby:memory:a"}
KINDS = [SparkSourceConnector, SparkSinkConnector]


def errors(kind: type[Connector], folder: Path, worker: Mapping[str, str] = WORKER, /, **config: str) -> dict[str, str]:
    """What is refused, by setting."""
    settings = WorkerSettings.of(worker)
    connector = kind()
    connector.allowed_paths, connector.allowed_spark = AllowedPaths((str(folder),)), settings.allowed_spark
    given = {"topic": "t", "format": "parquet", "path": str(folder)} | {key.replace("_", "."): text for key, text in config.items()}
    return {value.name: " ".join(value.errors) for value in connector.validate(given) if value.errors}


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_allowed_unless_the_worker_lists_it(kind: type[Connector], tmp_path: Path) -> None:
    assert errors(kind, tmp_path) == {}
    assert errors(kind, tmp_path, format="Parquet") == {}, "Spark knows no case here"
    refused = errors(kind, tmp_path, {})["format"]
    assert refused.startswith("Invalid value parquet for configuration format")
    assert "connectors.spark.formats" in refused
    for name in ("text", "org.example.Evil", "parquet.evil", ""):
        assert "connectors.spark.formats" in errors(kind, tmp_path, format=name)["format"]


@pytest.mark.parametrize("kind", KINDS)
def test_options_are_allowed_by_format_and_name_or_value(kind: type[Connector], tmp_path: Path) -> None:
    assert errors(kind, tmp_path, format="csv", option_HEADER="true") == {}
    assert "connectors.spark.options" in errors(kind, tmp_path, option_header="true")["option.header"], "of another format"
    assert errors(kind, tmp_path, format="jdbc", option_url="jdbc:derby:memory:a") == {}
    elsewhere = errors(kind, tmp_path, format="jdbc", option_url="jdbc:postgresql://evil/?password=s3cret-word")
    assert "connectors.spark.options" in elsewhere["option.url"]
    assert "s3cret-word" not in str(elsewhere)
    for name in ("path", "PATHS", "driver", "x" * 5000):
        assert errors(kind, tmp_path, **{f"option.{name}": "/etc"}), name
    assert "At most 50 options" in errors(kind, tmp_path, **{f"option.{n}": "" for n in range(51)})["format"]
    worker = WORKER | {"connectors.spark.options": "parquet.a"}
    assert "at most 8192 characters" in errors(kind, tmp_path, worker, option_a="x" * 9000)["option.a"]


@pytest.mark.parametrize("kind", KINDS)
def test_paths_lead_nowhere_else(kind: type[Connector], tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (inside / "link").symlink_to(outside)
    for path in ("/etc/passwd", str(inside / ".." / "out"), str(inside / "link"), str(inside)):
        assert "connectors.allowed.paths" in errors(kind, inside, path=path)["path"], "the last holds a link that Spark would follow"
    (inside / "link").unlink()
    assert errors(kind, inside, path=str(inside)) == {}
    for path in ("s3a://bucket/x", "file:///etc", "rows", f"{inside}/*", f"{inside}/{{a,/etc}}", f"{inside}/[a]"):
        assert "absolute path" in errors(kind, inside, path=path)["path"]


def test_a_path_is_checked_again_where_it_is_opened(tmp_path: Path) -> None:
    config = SparkSourceConnector.config_def.parse({"topic": "t", "format": "parquet", "path": "/etc"})
    with pytest.raises(ConfigException, match=r"connectors.allowed.paths"):
        FrameSettings.of(config, AllowedPaths((str(tmp_path),)))


def test_exactly_once_needs_a_column() -> None:
    assert SparkSourceConnector().exactly_once_support({"incremental.column": "id"}) is ExactlyOnceSupport.SUPPORTED
    assert SparkSourceConnector().exactly_once_support({}) is ExactlyOnceSupport.UNSUPPORTED


def test_a_preview_is_refused() -> None:
    context = MemorySourceContext({})
    context.is_preview = True
    task = SparkSourceConnector.task_class()
    task.initialize(context)
    with pytest.raises(ConnectException, match="It has no preview"):
        task.start(SparkSourceConnector.config_def.parse({"topic": "t", "format": "parquet"}))
    task.stop()
