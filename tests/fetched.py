"""All that tests fetch: ``python -m tests.fetched``. ``make test`` does so beside the tests; a test that needs a piece waits for it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from airflow_provider_connect.runtime.spark.java_runtime import find_java
from tests.benchmark.connect_peer import worker_jars
from tests.chromium import find_chromium
from tests.conftest import CACHE
from tests.integration.airflow.fab_server import fab_home
from tests.integration.lake.java_readers import lake_readers
from tests.java_plugins import installed_plugins
from tests.own_packages import OPENLINEAGE, own_packages
from tests.registry_server import registry_program

PIECES: Mapping[str, Callable[[], object]] = {
    "FAB's auth manager, with users": fab_home,
    "OpenLineage's provider": lambda: own_packages(OPENLINEAGE),
    "Kafka Connect": lambda: worker_jars(CACHE, find_java(cache=CACHE)),
    "the schema registry": lambda: registry_program(CACHE),
    "readers of lakes in Java": lambda: lake_readers(CACHE),
    "Java plugins": lambda: installed_plugins(CACHE),
    "Chromium": lambda: find_chromium(CACHE),
}

if __name__ == "__main__":
    for name, fetch in PIECES.items():
        try:
            fetch()
        except Exception as error:  # the test that needs it fails, and reports why
            print(f"{name} cannot be fetched: {error}", file=sys.stderr)
