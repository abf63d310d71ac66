"""The location of the archive of Kafka Connect's classes. JVMs map the archive instead of reading and verifying jars.

``prepare`` builds the archive. Without the archive, JVMs start more slowly. Like Spark's archives (``spark.class_data``), it is valid for
one Java, one set of jars and one set of options. Its folder is named by a hash of these three.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from airflow_provider_connect.runtime.java.jvm.runtime_jars import gateway_jar
from airflow_provider_connect.runtime.spark.class_data import ClassData, mark_of
from airflow_provider_connect.runtime.spark.java_runtime import JavaRuntime

PREFIX: Final = "connect-"
"""The prefix of the folders' names. The folders are next to the folders of Spark's archives."""

OPTIONS: Final = (
    *("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-XX:-UsePerfData", "-Xlog:disable", "-Xlog:all=error:stderr"),
    "-XX:+ExitOnOutOfMemoryError",
    "-Dorg.apache.kafka.automatic.config.providers=none",  # a config must not name such providers, because they read files
    "--add-exports=java.management/com.sun.jmx.mbeanserver=ALL-UNNAMED",  # without it Py4J finds no method of the MBean server
)
"""Options of each JVM with Java plugins: for short runs, and against malicious configs."""


def connect_class_data(cache: Path, java: JavaRuntime, jars: Sequence[Path]) -> ClassData:
    """The archive's location for this Java and these ``runtime_jars``. It need not exist."""
    known_by = json.dumps([mark_of(java), OPTIONS, [_mark(jar) for jar in (gateway_jar(), *jars)]])
    return ClassData(cache / "class-data" / f"{PREFIX}{hashlib.sha256(known_by.encode()).hexdigest()[:20]}")


def _mark(jar: Path) -> tuple[str, int, int]:
    found = jar.stat()
    return str(jar), found.st_size, found.st_mtime_ns
