"""Debezium's connectors, as its archives bring them."""

import tarfile
from pathlib import Path

from airflow_provider_connect.runtime.spark.cache import made_once
from airflow_provider_connect.runtime.spark.jar_cache import fetch_jars
from airflow_provider_connect.runtime.spark.java_runtime import JavaRuntime
from tests.java_libraries import PINS

VERSION = "3.6.0.Final"
_ARCHIVES = [f"io.debezium:debezium-connector-{name}:{VERSION}:tar.gz:plugin" for name in ("postgres", "jdbc")]


def debezium_plugins(cache: Path, java: JavaRuntime) -> Path:
    """A folder for ``plugin.path`` with the connectors for PostgreSQL and JDBC, a folder each."""

    def unpack(folder: Path) -> None:
        for archive in sorted(fetch_jars(cache, f"debezium-{VERSION}", _ARCHIVES, java, pins=PINS).iterdir()):
            with tarfile.open(archive) as packed:
                packed.extractall(folder, filter="data")

    return made_once(cache / f"plugins-{VERSION}", unpack)
