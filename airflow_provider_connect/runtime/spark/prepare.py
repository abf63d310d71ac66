"""Prepares an installation once, so that every later run starts sooner: compiles bytecode, and prepares Java, Spark's home and class-data
archives.

Run ``python -m airflow_provider_connect.runtime.spark.prepare`` after an installation or an upgrade. Finished steps are skipped. Without
this preparation, runs start more slowly, and the archives are built after the first run.
"""

import compileall
import importlib.util
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from airflow_provider_connect.errors import RetriableException
from airflow_provider_connect.runtime.spark.cache import cache_directory
from airflow_provider_connect.runtime.spark.class_data import ensure_archive
from airflow_provider_connect.runtime.spark.java_runtime import find_java
from airflow_provider_connect.runtime.spark.spark_home import find_spark

_STAMP = ".compiled-for-connect"


def prepare(report: Callable[[str], None], *, cache: Path | None = None) -> None:
    """Runs all steps and reports the outcome of each."""
    cache = cache or cache_directory()
    java, spark = find_java(cache=cache), find_spark("local", cache=cache)
    report(f"Java {java.version} in {java.real_home}; Spark {spark.version} in {spark.real}")
    _timed(report, "bytecode", compile_packages)
    _timed(report, "class-data archives", lambda: _build_archives(cache))


def compile_packages() -> str:
    """Compiles the packages installed next to PySpark. Without bytecode, imports take two and a half times as long."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return "pyspark is not installed"
    packages = Path(spec.origin).parent.parent
    stamp = packages / _STAMP
    if stamp.exists() and stamp.stat().st_mtime_ns >= packages.stat().st_mtime_ns:
        return "up to date"
    if not os.access(packages, os.W_OK):
        return f"{packages} belongs to another user"
    compileall.compile_dir(packages, quiet=2, workers=0)  # a few files for other Python versions cannot be compiled
    stamp.touch()
    os.utime(stamp, ns=(packages.stat().st_mtime_ns,) * 2)
    return "compiled"


def _build_archives(cache: Path) -> str:
    try:
        found = ensure_archive(cache=cache)
    except RetriableException as error:
        return f"{error}. The next run builds them in the background; until then, runs start more slowly"
    if found.has_failed:
        return f"not possible with this Java; see {found.folder}. Runs start more slowly"
    return "up to date" if found.is_built else "not built"


def _timed(report: Callable[[str], None], what: str, step: Callable[[], str]) -> None:
    started = time.monotonic()
    result = step()
    report(f"{what}: {result} ({time.monotonic() - started:.1f} s)")


if __name__ == "__main__":
    prepare(lambda text: print(text, file=sys.stderr, flush=True))
