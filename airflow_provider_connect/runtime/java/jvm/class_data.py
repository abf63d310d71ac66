"""Where the archive of the classes of Kafka Connect's runtime lies, which its JVMs map instead of reading and verifying jars.

``prepare`` builds it; JVMs start without it as ever. As with Spark's (``spark.class_data``), an archive holds for one Java, one set of jars
and one set of options, and lies in a folder named by a hash of these.
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
"""Of the names of its folders, among those of Spark's archives."""

OPTIONS: Final = (
    *("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-XX:-UsePerfData", "-Xlog:disable", "-Xlog:all=error:stderr"),
    "-XX:+ExitOnOutOfMemoryError",
    "-Dorg.apache.kafka.automatic.config.providers=none",  # no config of a stranger may name one: they read files
    "--add-exports=java.management/com.sun.jmx.mbeanserver=ALL-UNNAMED",  # without it Py4J finds no method of the MBean server
)
"""Of each JVM with Java plugins: for short runs, and against configs of strangers."""


def connect_class_data(cache: Path, java: JavaRuntime, jars: Sequence[Path]) -> ClassData:
    """Where the archive for this Java and these ``runtime_jars`` lies; it need not be there."""
    known_by = json.dumps([mark_of(java), OPTIONS, [_mark(jar) for jar in (gateway_jar(), *jars)]])
    return ClassData(cache / "class-data" / f"{PREFIX}{hashlib.sha256(known_by.encode()).hexdigest()[:20]}")


def _mark(jar: Path) -> tuple[str, int, int]:
    found = jar.stat()
    return str(jar), found.st_size, found.st_mtime_ns
