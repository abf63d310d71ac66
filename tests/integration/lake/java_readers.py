"""What readers in Java find in tables: Apache Iceberg's own for Iceberg, Spark's for Delta. One Spark application reads all that is asked.

Iceberg has no build for Spark 4.2, where its classes for Spark 4.1 do not load: its generic reader reads its tables, in Spark's JVM.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from airflow_provider_connect.runtime.spark.jar_cache import fetch_jars
from airflow_provider_connect.runtime.spark.java_runtime import find_java
from airflow_provider_connect.runtime.spark.submit_options import submit_options
from tests.java_libraries import PINS

_NO_OTHERS: Final = "jar:"  # this jar alone
LIBRARIES: Final = [
    f"org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0:{_NO_OTHERS}",
    f"org.xerial:sqlite-jdbc:3.54.1.0:{_NO_OTHERS}",
    f"io.delta:delta-spark_4.2_2.13:4.4.0:{_NO_OTHERS}",
    f"io.delta:delta-storage:4.4.0:{_NO_OTHERS}",
]
_APPLICATION: Final = Path(__file__).with_name("read_tables.py")
_SETTINGS: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
}


def lake_readers(cache: Path) -> Path:
    """The folder of the readers' jars, fetched once."""
    return fetch_jars(cache, "lake-readers", LIBRARIES, find_java(cache=cache), pins=PINS)


def read_by_java(cache: Path, scratch: Path, *, iceberg: Mapping[str, Path], delta: Mapping[str, Path]) -> dict[str, list[dict[str, Any]]]:
    """The rows of tables, by the names given to them. ``iceberg``: the folder of the SQLite catalog with the table ``shop.notes``.
    ``delta``: the table's folder. Values that JSON has no type for are text."""
    request, answer = scratch / "request.json", scratch / "answer.json"
    request.write_text(json.dumps({"iceberg": iceberg, "delta": delta}, default=str))
    options = submit_options("local[2]", cache=cache, scratch=scratch)
    options.conf.update(_SETTINGS)
    command = options.command("local[2]", str(_APPLICATION), str(request), str(answer))
    command[1:1] = ["--jars", ",".join(map(str, sorted(lake_readers(cache).iterdir())))]
    done = subprocess.run(command, env=options.environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, list[dict[str, Any]]] = json.loads(answer.read_text())
    return found
