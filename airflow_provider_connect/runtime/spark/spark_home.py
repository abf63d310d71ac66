"""The Spark that spark-submit starts: PySpark's own or the one in SPARK_HOME. A Spark home in the cache makes it start sooner.

spark-submit puts ``$SPARK_HOME/python/lib/pyspark.zip``, which has no bytecode, first on the path of the driver and of Python workers. The
home in the cache has only links to ``bin`` and ``jars``, so driver and workers import the installed PySpark. This works for local and
standalone masters. YARN and Kubernetes need the zip.
"""

import hashlib
import importlib.util
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.spark.cache import cache_directory, made_once

TESTED_PAIR = ("pyspark==4.2.0", "pyspark-client==4.2.0")
"""The versions that setup.cfg pins. Not every pyspark has a pyspark-client of the same version: pyspark 4.2.1 and 4.3.0 have none."""


@dataclass(frozen=True, slots=True)
class SparkHome:
    """``path`` is the value for SPARK_HOME. ``real`` is the installation. ``conf`` is the installation's folder of settings, if it has
    one."""

    path: Path
    real: Path
    version: str
    conf: Path | None

    @property
    def spark_submit(self) -> Path:
        return self.path / "bin" / "spark-submit"

    @property
    def jars(self) -> Path:
        return self.path / "jars"


def is_local(master: str) -> bool:
    """Whether driver and executors share one JVM on this machine."""
    return master == "local" or master.startswith("local[")


def starts_from_links(master: str) -> bool:
    """Whether a home without ``python/`` works for this master."""
    return is_local(master) or master.startswith(("local-cluster[", "spark://"))


def find_spark(master: str, environ: Mapping[str, str] | None = None, *, cache: Path | None = None) -> SparkHome:
    """The Spark for ``master``: the installation in SPARK_HOME if it is set, otherwise the installed PySpark.

    Raises ConnectException if Spark is missing, or if its jars and the Python package have different versions.
    """
    environ = os.environ if environ is None else environ
    package = _package()
    real = Path(environ["SPARK_HOME"]).absolute() if environ.get("SPARK_HOME") else package
    if (real / "jars").is_symlink() and (real / "jars").resolve().parent != real.resolve():
        real = (real / "jars").resolve().parent  # a home in the cache, inherited from a run that started this one
    version = _jars_version(real)
    _check_package(package, real, version)
    conf = Path(environ["SPARK_CONF_DIR"]) if environ.get("SPARK_CONF_DIR") else real / "conf"
    conf_or_none = conf if conf.is_dir() else None
    if not starts_from_links(master):
        return SparkHome(real, real, version, conf_or_none)
    known_by = hashlib.sha256(str(real).encode()).hexdigest()[:12]
    links = (cache or cache_directory(environ)) / "spark" / f"{version}-{known_by}"
    made_once(links, lambda folder: _make_links(folder, real))
    return SparkHome(links, real, version, conf_or_none)


def _package() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise ConnectException(
            "Connectors run as Spark applications, and the Python package pyspark is not installed. Run: pip install pyspark"
        )
    return Path(spec.submodule_search_locations[0])


def _jars_version(home: Path) -> str:
    for jar in home.glob("jars/spark-core_*.jar"):
        return jar.name.rpartition("-")[2].removesuffix(".jar")
    raise ConnectException(
        f"{home} has no Spark (no jars/spark-core_*.jar). pyspark-client alone runs no applications. Install pyspark of the same version."
    )


def _check_package(package: Path, home: Path, version: str) -> None:
    """Raises ConnectException for different versions. The distributions pyspark and pyspark-client contain the same files. The distribution
    that was unpacked last determines the version of the Python part."""
    found = re.search(r"^__version__\b[^=]*=\s*[\"']([^\"']+)", (package / "version.py").read_text(), re.MULTILINE)
    python_version = found[1] if found else "unknown"
    if python_version.partition("+")[0] != version:
        raise ConnectException(
            f"Spark's Python part is {python_version} ({package}) and its jars are {version} ({home / 'jars'}). "
            f"Install the tested pair: pip install --force-reinstall --no-deps {' '.join(TESTED_PAIR)}"
            + ("" if home == package else f"; and let SPARK_HOME, which is {home}, name a Spark of that version, or unset it")
        )


def _make_links(folder: Path, real: Path) -> None:
    folder.mkdir(parents=True)
    for name in ("bin", "jars"):
        (folder / name).symlink_to(real / name)
