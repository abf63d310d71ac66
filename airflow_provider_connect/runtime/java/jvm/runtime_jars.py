"""The jars of Kafka Connect's runtime. They are fetched once into the cache, and each jar is checked against its pinned SHA-512."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Final

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.spark.jar_cache import KAFKA_CONNECT, announce, fetch_jars
from airflow_provider_connect.runtime.spark.java_runtime import JavaRuntime

_JACKSON: Final = "2.21.2"
_LIBRARIES: Final = (
    *(f"org.apache.kafka:{name}:{KAFKA_CONNECT}:jar" for name in ("connect-api", "connect-json", "connect-runtime", "connect-transforms")),
    f"org.apache.kafka:kafka-clients:{KAFKA_CONNECT}:jar",
    f"com.fasterxml.jackson.core:jackson-core:{_JACKSON}:jar",
    f"com.fasterxml.jackson.core:jackson-databind:{_JACKSON}:jar",
    "com.fasterxml.jackson.core:jackson-annotations:2.21:jar",
    f"com.fasterxml.jackson.datatype:jackson-datatype-jdk8:{_JACKSON}:jar",
    f"com.fasterxml.jackson.module:jackson-module-blackbird:{_JACKSON}:jar",
    "org.apache.maven:maven-artifact:3.9.15:jar",
    "jakarta.ws.rs:jakarta.ws.rs-api:3.1.0:jar",
    "at.yawk.lz4:lz4-java:1.10.2:jar",
    "org.xerial.snappy:snappy-java:1.1.10.7:jar",
    "com.github.luben:zstd-jni:1.5.6-10:jar",
)
"""The libraries that a worker without a REST server needs. The whole runtime has 55 jars."""
_OF_PYSPARK: Final = ("slf4j-api-2*.jar", "log4j-api-2*.jar", "log4j-core-2*.jar", "log4j-slf4j2-impl-2*.jar")


def runtime_jars(cache: Path, java: JavaRuntime, *, notify: Callable[[str], None] = announce) -> list[Path]:
    """The class path of Kafka Connect's runtime, with its logging and without plugins. The first call fetches 24 MB.

    Raises ConnectException if they cannot be fetched, or if PySpark, which contains the logging, is not installed.
    """
    fetched = fetch_jars(cache, f"connect-runtime-{KAFKA_CONNECT}", _LIBRARIES, java, notify=notify)
    return [*sorted(fetched.iterdir()), *(_of_pyspark(pattern) for pattern in _OF_PYSPARK)]


def gateway_jar() -> Path:
    """Py4J's own jar. Raises ConnectException if PySpark is not installed."""
    return _of_pyspark("py4j-*.jar")


def _of_pyspark(pattern: str) -> Path:
    spec = importlib.util.find_spec("pyspark")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for found in sorted(Path(folder).glob(f"jars/{pattern}")):
            return found
    raise ConnectException("Java connectors need the Py4J inside PySpark, and PySpark is not installed. Run: pip install pyspark")
