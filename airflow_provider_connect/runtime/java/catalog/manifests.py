"""The declarations of a Java plugin location, read from its jars as zip files: no JVM is started, no class is loaded.

A location is a folder that contains jars at any depth, or one jar, as in Kafka Connect's ``plugin.path``. A plugin is a class that a
service file of a jar names (``META-INF/services/…``). Knows nothing of catalogs.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_provider_connect.errors import ConfigException

SETTING: Final = "java.allowed.locations"
SERVICES: Final = {
    "org.apache.kafka.connect.sink.SinkConnector": "sink",
    "org.apache.kafka.connect.source.SourceConnector": "source",
    "org.apache.kafka.connect.transforms.Transformation": "transformation",
    "org.apache.kafka.connect.transforms.predicates.Predicate": "predicate",
    "org.apache.kafka.connect.storage.Converter": "converter",
    "org.apache.kafka.connect.storage.HeaderConverter": "header_converter",
}
"""Service files by the interface after which they are named, and the kind of their plugins in ``GET /connector-plugins``."""

UNKNOWN_VERSION: Final = ""
_MOST_BYTES: Final = 1 << 20  # of a service file or manifest
_CLASS = re.compile(r"[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*)*")
_CLASSIFIERS: Final = ("jar-with-dependencies", "all", "shaded", "runtime", "fat", "uber")
_OUTSIDE_VERSION = re.compile(r"[^\w.+-]")


@dataclass(frozen=True, slots=True, order=True)
class JavaClass:
    """One plugin class. ``version`` is the version of the jar. It is nearly always the same as the result of the class's ``version()``.
    Empty: unknown."""

    kind: str
    name: str
    version: str
    jar: Path


def jars_of(location: Path) -> list[Path]:
    """The jars of ``location``, sorted. Empty if ``location`` is neither a jar nor a folder that contains jars."""
    if location.is_file():
        return [location] if location.suffix == ".jar" else []
    return sorted(jar for jar in location.rglob("*.jar") if jar.is_file())


def declared_classes(location: Path) -> list[JavaClass]:
    """Every plugin class that the jars of ``location`` declare, once for each kind, sorted. Jars that cannot be read are treated as
    empty."""
    found: dict[tuple[str, str], JavaClass] = {}
    for jar in jars_of(location):
        for declared in _in_jar(jar):
            found.setdefault((declared.kind, declared.name), declared)
    return sorted(found.values())


def allowed_locations(settings: Mapping[str, str]) -> Callable[[Path], bool]:
    """A test whether the plugin location at a path may be used. With links resolved, the path must be one of the setting's folders, or
    below one.

    Raises ConfigException for a folder that is not an absolute path.
    """
    folders = [part.strip() for part in settings.get(SETTING, "").split(",") if part.strip()]
    for folder in folders:
        if not folder.startswith("/"):
            raise ConfigException.of(SETTING, folder, "Each folder must be an absolute path")
    real = [os.path.realpath(folder) for folder in folders]

    def is_allowed(location: Path) -> bool:
        path = os.path.realpath(location)
        return any(path == folder or path.startswith(os.path.join(folder, "")) for folder in real)

    return is_allowed


def _in_jar(jar: Path) -> list[JavaClass]:
    try:
        with zipfile.ZipFile(jar) as opened:
            services = [name for name in SERVICES if f"META-INF/services/{name}" in opened.NameToInfo]
            if not services:
                return []
            version = _version(jar, opened)
            return [
                JavaClass(SERVICES[service], name, version, jar)
                for service in services
                for name in _names(_text(opened, f"META-INF/services/{service}"))
            ]
    except (OSError, ValueError, RuntimeError, NotImplementedError, zipfile.BadZipFile):
        return []


def _names(text: str) -> Iterator[str]:
    """One class per line. ``#`` begins a comment, as in java.util.ServiceLoader."""
    for line in text.splitlines():
        name = line.partition("#")[0].strip()
        if _CLASS.fullmatch(name):
            yield name


def _version(jar: Path, opened: zipfile.ZipFile) -> str:
    """``Implementation-Version`` of the manifest, otherwise the version in the jar's name."""
    if "META-INF/MANIFEST.MF" in opened.NameToInfo:
        unfolded = re.sub(r"\r?\n ", "", _text(opened, "META-INF/MANIFEST.MF"))
        stated = re.search(r"^Implementation-Version:[ \t]*(\S+)", unfolded, re.MULTILINE)
        if stated:
            return stated[1]
    return _version_in_name(jar)


def _version_in_name(jar: Path) -> str:
    """The version in a jar's name, such as ``1.2`` in ``a-1.2-all.jar``."""
    name = _OUTSIDE_VERSION.split(jar.name.removesuffix(".jar"))[-1]
    for classifier in _CLASSIFIERS:
        name = name.removesuffix(f"-{classifier}")
    begin = re.search(r"-\d", name)
    return name[begin.start() + 1 :] if begin else UNKNOWN_VERSION


def _text(opened: zipfile.ZipFile, name: str) -> str:
    with opened.open(name) as file:
        return file.read(_MOST_BYTES).decode("utf-8", errors="replace")
