"""Fetches Kafka Connect's jars and builds the archive of their classes, so that every later run of a Java connector needs less CPU time.

Run ``python -m airflow_provider_connect.runtime.java.prepare`` after an installation or an upgrade, in images, and on hosts that cannot
reach a repository later. Existing jars and archives are kept.
"""

from __future__ import annotations

import sys
import time
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError

from airflow_provider_connect.errors import RetriableException
from airflow_provider_connect.runtime.java.jvm.class_data import PREFIX, connect_class_data
from airflow_provider_connect.runtime.java.jvm.connect_herder import ConnectHerder
from airflow_provider_connect.runtime.java.jvm.jvm import Jvm
from airflow_provider_connect.runtime.java.jvm.runtime_jars import runtime_jars
from airflow_provider_connect.runtime.spark.cache import cache_directory, forget_old, made_once
from airflow_provider_connect.runtime.spark.class_data import BUILD_SECONDS, ClassData, slow_build
from airflow_provider_connect.runtime.spark.java_runtime import JavaRuntime, find_java

_ARCHIVED: Final = "org/apache/kafka/"  # the few classes of other libraries that a run needs are loaded when the worker starts
_SETTINGS: Final = {
    "bootstrap.servers": "localhost:1",  # no connection is made
    "group.id": "class-data",
    "exactly.once.source.support": "enabled",
    **{f"{role}.converter": "org.apache.kafka.connect.storage.StringConverter" for role in ("key", "value")},
    **{f"{kind}.storage.topic": f"unused-{kind}" for kind in ("config", "offset", "status")},
}


def ensure_archive(cache: Path, java: JavaRuntime) -> ClassData:
    """Builds the archive if it is missing, in 10 to 30 s. Raises ConnectException if Connect does not start, RetriableException if the JVM
    does not start, is killed or is slow. The next call then builds again."""
    jars = runtime_jars(cache, java)
    found = connect_class_data(cache, java, jars)
    if not found.is_built:
        found.folder.parent.mkdir(exist_ok=True)
        forget_old(found.folder.parent, time.time(), pattern=f"{PREFIX}*")
        made_once(found.folder, lambda folder: _build(ClassData(folder), java, jars))
    return found


def _build(class_data: ClassData, java: JavaRuntime, jars: Sequence[Path]) -> None:
    """Load the classes that a worker loads when it starts, and all classes of Kafka. The JVM writes these classes to the archive when it
    ends."""
    class_data.folder.mkdir()
    jvm = Jvm(java, jars, heap="512m", hide=str, writes=class_data.connect)
    try:
        with jvm.calls():
            started = ConnectHerder(jvm, _SETTINGS, [], cluster="unknown")
            started.worker.start()
            _load(jvm, _classes(jars))
            started.worker.stop()
        if not jvm.close(BUILD_SECONDS):
            raise RetriableException(slow_build(BUILD_SECONDS))
    finally:
        jvm.kill()
    if class_data.connect.is_file():
        class_data.note_built([class_data.connect])
    else:
        class_data.note_failure(f"{java.executable} has written no archive")


def _classes(jars: Sequence[Path]) -> Iterator[str]:
    for jar in jars:
        with zipfile.ZipFile(jar) as opened:
            for name in opened.namelist():
                if name.startswith(_ARCHIVED) and name.endswith(".class"):
                    yield name.removesuffix(".class").replace("/", ".")


def _load(jvm: Jvm, names: Iterable[str]) -> None:
    """Load the classes ``names``. Classes that depend on an omitted library cannot be loaded, and are not needed."""
    loader = jvm.java.java.lang.Class.forName("org.apache.kafka.connect.runtime.Worker").getClassLoader()
    for name in names:
        try:
            jvm.java.java.lang.Class.forName(name, False, loader)
        except Py4JError:
            if not jvm.is_alive:
                raise


def main() -> None:
    """Prints the archive's path, or the reason why there is no archive."""
    cache = cache_directory()
    try:
        built = ensure_archive(cache, find_java(cache=cache))
    except RetriableException as error:
        print(f"no archive: {error}. JVMs start more slowly until this program is run again", file=sys.stderr)
        return
    print(built.connect if built.is_built else f"no archive with this Java; see {built.folder}. JVMs start more slowly", file=sys.stderr)


if __name__ == "__main__":
    main()
