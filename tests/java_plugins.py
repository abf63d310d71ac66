"""Java plugins as ``airflow connect plugins install`` leaves them: Kafka's file connectors, two versions of Debezium's for PostgreSQL,
Debezium's for MariaDB, Debezium's JDBC sink, Apache Iceberg's sink, MongoDB's source and sink, and RabbitMQ's.

Installed once into the cache, from Maven's central repository, and compared with the pinned sums.
"""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from airflow_provider_connect.cli import plugins
from airflow_provider_connect.runtime.java.installation.installation import SERVICES_JAR
from airflow_provider_connect.runtime.java.jvm.runtime_jars import runtime_jars
from airflow_provider_connect.runtime.spark.cache import made_once
from airflow_provider_connect.runtime.spark.jar_cache import check_files, fetch_jars
from airflow_provider_connect.runtime.spark.java_runtime import find_java
from tests.conftest import CACHE, CHECKOUT
from tests.java_libraries import PINS
from tests.waiting import HANG_SECONDS

FILE = "connect-file-4.3.1"
MARIADB = "debezium-connector-mariadb-3.5.0.Final"
DEBEZIUM = ("debezium-connector-postgres-3.5.0.Final", "debezium-connector-postgres-3.6.0.Final")
_COORDINATES = (
    "org.apache.kafka:connect-file:4.3.1",
    "io.debezium:debezium-connector-postgres:3.5.0.Final",
    "io.debezium:debezium-connector-postgres:3.6.0.Final",
)
JDBC = "debezium-connector-jdbc-3.5.0.Final"
_JDBC = ("io.debezium:debezium-connector-jdbc:3.5.0.Final",)
ICEBERG = "iceberg-kafka-connect-1.11.0"
_ICEBERG = "org.apache.iceberg:iceberg-kafka-connect:1.11.0"
_WITH_ICEBERG = (
    "org.apache.iceberg:iceberg-parquet:1.11.0",
    "org.apache.iceberg:iceberg-orc:1.11.0",
    "org.apache.hadoop:hadoop-client-api:3.5.0",
    "org.apache.hadoop:hadoop-client-runtime:3.5.0",
)
MIRROR = "mirror"
_MIRROR = ("org.apache.kafka:connect-mirror:4.3.1:jar", "org.apache.kafka:connect-mirror-client:4.3.1:jar")
MONGODB = "mongo-kafka-connect-2.0.1"
_MONGODB = ("org.mongodb.kafka:mongo-kafka-connect:2.0.1",)
RABBITMQ = "kafka-connect-rabbitmq-0.0.2.16"
_RABBITMQ = ("com.github.jcustenborder.kafka.connect:kafka-connect-rabbitmq:0.0.2.16",)
VALIDATED = ("mongo-kafka-connect-1.13.0", "debezium-connector-postgres-3.6.1.Final", "debezium-connector-mongodb-3.6.1.Final")
_VALIDATED = (
    "org.mongodb.kafka:mongo-kafka-connect:1.13.0",
    "io.debezium:debezium-connector-postgres:3.6.1.Final",
    "io.debezium:debezium-connector-mongodb:3.6.1.Final",
)
_MARIADB = ("io.debezium:debezium-connector-mariadb:3.5.0.Final",)


def installed_plugins(cache: Path) -> Path:
    """A ``plugin.path`` that holds ``FILE`` and ``DEBEZIUM``. Shared by all tests, which change nothing in it."""
    return made_once(cache / "jars" / "java-plugins-1", partial(_install, _COORDINATES))


def installed_mariadb(cache: Path) -> Path:
    """The same with ``MARIADB`` alone."""
    return made_once(cache / "jars" / "java-plugins-mariadb-1", partial(_install, _MARIADB))


def installed_jdbc(cache: Path) -> Path:
    """The same with ``JDBC`` alone, Debezium's sink."""
    return made_once(cache / "jars" / "java-plugins-jdbc-1", partial(_install, _JDBC))


def installed_iceberg(cache: Path) -> Path:
    """The same with ``ICEBERG`` alone, Apache Iceberg's sink, with what it leaves to its users: formats, and Hadoop's file systems."""
    return made_once(cache / "jars" / "java-plugins-iceberg-1", partial(_install, (_ICEBERG,), libraries=_WITH_ICEBERG))


def installed_mongodb(cache: Path) -> Path:
    """The same with ``MONGODB`` alone, of MongoDB's own makers."""
    return made_once(cache / "jars" / "java-plugins-mongodb-1", partial(_install, _MONGODB))


def installed_validated(cache: Path) -> Path:
    """The same with ``VALIDATED``: plugins whose definitions or answers are odd, which tests validate and never run."""
    return made_once(cache / "jars" / "java-plugins-validated-1", partial(_install, _VALIDATED))


def installed_rabbitmq(cache: Path) -> Path:
    """The same with ``RABBITMQ`` alone, a source and a sink of one of the makers that have many."""
    return made_once(cache / "jars" / "java-plugins-rabbitmq-1", partial(_install, _RABBITMQ))


def copied_mirror(cache: Path, plugin_path: Path) -> None:
    """The location ``MIRROR`` in ``plugin_path``: MirrorMaker's jars alone, as they lie in Kafka's own folder."""
    shutil.copytree(fetch_jars(cache, "connect-mirror-4.3.1", _MIRROR, find_java(cache=cache), pins=PINS), plugin_path / MIRROR)


def compiled_plugin(folder: Path, class_name: str, service: str) -> Path:
    """A ``plugin.path`` in ``folder`` with the location ``own``: a connector of the tests' own, whose source lies beside these. ``service``
    is what it is of Kafka Connect's. Skips the test without a JDK."""
    javac = shutil.which("javac")
    if javac is None:
        pytest.skip("a JDK compiles the connector of this test, and there is none")
    jars = ":".join(map(str, runtime_jars(CACHE, find_java(cache=CACHE))))
    source = CHECKOUT / "tests" / "integration" / "java" / "sources" / f"{class_name.rpartition('.')[2]}.java"
    classes, location = folder / "classes", folder / "plugins" / "own"
    subprocess.run([javac, "--release", "17", "-cp", jars, "-d", str(classes), str(source)], check=True, timeout=HANG_SECONDS)
    location.mkdir(parents=True)
    with zipfile.ZipFile(location / "own.jar", "w") as jar:
        for each in classes.rglob("*.class"):
            jar.write(each, str(each.relative_to(classes)))
        jar.writestr(f"META-INF/services/org.apache.kafka.connect.{service}", f"{class_name}\n")
    return location.parent


def _install(what: Sequence[str], folder: Path, libraries: Sequence[str] = ()) -> None:
    folder.mkdir()
    for coordinates in what:
        asked = SimpleNamespace(plugins=[f"maven:{coordinates}"], path=str(folder), libraries=libraries, ivy_settings=None, installer=None)
        try:
            plugins.install(asked)
        except SystemExit as refused:
            raise RuntimeError(f"{coordinates} cannot be installed: {refused}") from None
    jars = folder.with_name("all-jars")
    jars.mkdir()
    for jar in folder.glob("*/*.jar"):
        if jar.name != SERVICES_JAR:  # made here, of what a plugin without service files declares
            shutil.copy(jar, jars)
    check_files(jars, PINS)
