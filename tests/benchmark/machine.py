"""What a race was run on, as a sentence. Names no host."""

import os
import platform
from importlib.metadata import version
from pathlib import Path

from airflow_provider_connect.runtime.spark.jar_cache import KAFKA as KAFKA_VERSION
from airflow_provider_connect.runtime.spark.java_runtime import JavaRuntime


def describe(java: JavaRuntime) -> str:
    """Processor, memory and versions."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = [f"{name} {version(name)}" for name in ("pyspark", "confluent-kafka", "pyarrow", "apache-airflow")]
    return (
        f"{_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB; "
        f"Kafka {KAFKA_VERSION}, Java {java.version}, Python {platform.python_version()}, {', '.join(versions)}"
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
