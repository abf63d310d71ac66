"""Installs a Java plugin from Maven's repository or an archive as a location of its own, and removes it.

As with Python plugins, a location appears either complete or not at all. The caller passes the functions that fetch files and start a JVM.
"""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_provider_connect.errors import BadRequestException, ConnectException, NotFoundException
from airflow_provider_connect.runtime.java.catalog import location as java_location
from airflow_provider_connect.runtime.java.catalog.manifests import SERVICES, declared_classes, jars_of
from airflow_provider_connect.runtime.java.installation import archive as plugin_archive
from airflow_provider_connect.runtime.model.plugin_kinds import Declared
from airflow_provider_connect.runtime.plugins.catalog.plugin_installation import (
    INSTALLING,
    REMOVING,
    InstalledPlugins,
    hidden_beside,
    refuse_missing,
    rename_new,
)
from airflow_provider_connect.runtime.plugins.loading.plugin_path import LocationForm

MAVEN: Final = "maven:"
SERVICES_JAR: Final = "connect-plugins-services.jar"
"""The jar with service files for the plugins that the location's own jars do not declare."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,199}")
_PACKED: Final = ("zip", "tar", "tar.gz", "tgz")
_MOST_MANIFEST: Final = 1 << 20

Fetch = Callable[[str, Path], None]
"""Fills an empty folder with the artifact of these coordinates (``group:artifact:version``, optionally ``:type:classifier``). The artifact
is a jar with its dependencies, or one file."""
Scan = Callable[[Path], Sequence[Declared]]
"""Uses a JVM to list the plugins that Kafka Connect finds in a location. Raises ConnectException."""


@dataclass(frozen=True, slots=True)
class Coordinates:
    """Maven coordinates. ``text`` is the part after ``maven:``."""

    text: str
    artifact: str
    version: str
    type: str = "jar"

    @classmethod
    def of(cls, wanted: str) -> Coordinates:
        """Raises BadRequestException unless the text is ``maven:group:artifact:version``, optionally with ``:type`` or
        ``:type:classifier``."""
        text = wanted.removeprefix(MAVEN)
        parts = text.split(":")
        if not 3 <= len(parts) <= 5 or not all(_NAME.fullmatch(part) for part in parts):
            example = "maven:io.debezium:debezium-connector-postgres:3.6.0.Final"
            raise BadRequestException(f"{wanted!r} is not of the form maven:GROUP:ARTIFACT:VERSION[:TYPE[:CLASSIFIER]], such as {example}")
        return cls(text, parts[1], parts[2], *parts[3:4])


def is_java(wanted: str) -> bool:
    """Whether ``wanted`` is installed as a Java plugin: coordinates, or the path of an archive."""
    return wanted.startswith(MAVEN) or wanted.endswith(plugin_archive.ENDINGS)


def install(wanted: str, directory: Path, fetch: Fetch, scan: Scan, notify: Callable[[str], None]) -> InstalledPlugins:
    """Install ``wanted``, ``maven:…`` or the path of a zip, tar or jar, as ``directory``/«name»-«version».

    Steps: (1) fill a hidden directory; (2) have a JVM find the plugins and their versions; (3) record the plugins with the hashes of the
    jars; (4) rename the directory. Raises BadRequestException for any other ``wanted``, AlreadyExistsException if the version is installed,
    ConnectException if the plugin cannot be fetched or if no plugins are found. After an error, nothing has changed.
    """
    refuse_missing(directory)
    with hidden_beside(directory, INSTALLING) as hidden:
        location, scratch = hidden / "location", hidden / "scratch"
        location.mkdir()
        scratch.mkdir()
        name = _fill(wanted, location, scratch, fetch)  # 1
        if (directory / name).exists():
            rename_new(location, directory / name)  # raises if it exists
        plugins = scan_location(location, scan, wanted, notify)  # 2 3
        rename_new(location, directory / name)  # 4
    return InstalledPlugins(str(directory / name), plugins)


def remove(wanted: str, directory: Path) -> str | None:
    """Remove the Java location ``wanted``, given by its name, ``name==version`` or ``maven:…``. Returns its path. None: there is no such
    Java location. Raises NotFoundException if ``directory`` is missing."""
    refuse_missing(directory)
    name = wanted.replace("==", "-", 1)
    if wanted.startswith(MAVEN):
        coordinates = Coordinates.of(wanted)
        name = f"{coordinates.artifact}-{coordinates.version}"
    path = directory / name
    if not _NAME.fullmatch(name) or path.is_symlink() or not path.exists() or LocationForm.of(str(path)) is not LocationForm.JAVA:
        return None
    with hidden_beside(directory, REMOVING) as hidden:
        path.rename(hidden / path.name)
    return str(path)


def scan_location(location: Path, scan: Scan, origin: str, notify: Callable[[str], None]) -> Sequence[Declared]:
    """Have a JVM find the plugins of ``location``, and record them. If no JVM can be started, returns the plugins in the location's service
    files, with the versions of its jars. Raises ConnectException if the location has no plugins."""
    try:
        plugins = scan(location)
    except ConnectException as error:
        declared = java_location.read(str(location))
        if not declared.plugins:
            raise
        notify(f"no JVM could list the plugins, so the versions are those of the jars' names and manifests: {error.message}")
        return declared.plugins
    if not plugins:
        raise ConnectException("Not installed: Kafka Connect finds no plugins in it")
    _add_services(location, plugins)
    java_location.write_record(location, plugins, origin)
    return plugins


def java_locations(directory: Path, names: Iterable[str]) -> list[Path]:
    """The Java locations with these names in ``directory``. Without names, all Java locations. Raises NotFoundException for any other
    name."""
    refuse_missing(directory)
    there = {path.name: path for path in sorted(directory.iterdir()) if not path.name.startswith((".", "__"))}
    java = {name: path for name, path in there.items() if LocationForm.of(str(path)) is LocationForm.JAVA}
    wanted = list(names)
    unknown = [name for name in wanted if name not in java]
    if unknown:
        raise NotFoundException(f"{directory} has no Java plugin {', '.join(unknown)}; there are: {', '.join(java) or 'none'}")
    return [java[name] for name in wanted or java]


def _fill(wanted: str, location: Path, scratch: Path, fetch: Fetch) -> str:
    """Fill the location. Returns its name."""
    if not wanted.startswith(MAVEN):
        path = Path(wanted).absolute()
        if not path.is_file():
            raise BadRequestException(f"There is no file {path}")
        return _unpack(path, location)
    coordinates = Coordinates.of(wanted)
    if coordinates.type not in _PACKED:
        fetch(coordinates.text, location)
    else:
        fetch(coordinates.text, scratch)
        for archive in sorted(scratch.iterdir()):
            _unpack(archive, location)
    _check(location, wanted)
    return f"{coordinates.artifact}-{coordinates.version}"


def _unpack(archive: Path, location: Path) -> str:
    if archive.name.endswith(".jar"):
        shutil.copyfile(archive, location / archive.name)
    else:
        plugin_archive.unpack(archive, location)
    _check(location, str(archive))
    ending = next(ending for ending in sorted(plugin_archive.ENDINGS, key=len, reverse=True) if archive.name.endswith(ending))
    name = _confluent_hub_name(location) or archive.name.removesuffix(ending).removesuffix("-plugin")
    if not _NAME.fullmatch(name):
        raise BadRequestException(f"{archive} gives its location the name {name!r}: rename the file to NAME-VERSION{ending}")
    return name


def _confluent_hub_name(location: Path) -> str | None:
    """The text «name»-«version» from the ``manifest.json`` of Confluent Hub's archives."""
    path = location / "manifest.json"
    try:
        with path.open("rb") as file:
            manifest = json.loads(file.read(_MOST_MANIFEST))
        return f"{manifest['name']}-{manifest['version']}"
    except (OSError, KeyError, TypeError, ValueError, RecursionError):
        return None


def _check(location: Path, wanted: str) -> None:
    if LocationForm.of(str(location)) is not LocationForm.JAVA:
        raise ConnectException(f"{wanted} is not installed: it has no jars, or Python modules next to them")
    sizes = [path.stat().st_size for path in location.rglob("*") if path.is_file()]
    if len(sizes) > plugin_archive.MOST_FILES or sum(sizes) > plugin_archive.MOST_BYTES:
        most = f"{plugin_archive.MOST_FILES} files and {plugin_archive.MOST_BYTES >> 20} MiB are the most"
        raise ConnectException(f"{wanted} is not installed: it has {len(sizes)} files of {sum(sizes) >> 20} MiB together; {most}")
    (location / java_location.RECORD).unlink(missing_ok=True)  # only this package may write the record


def _add_services(location: Path, plugins: Sequence[Declared]) -> None:
    """Write a jar with service files for the plugins that no jar declares. With such files, Kafka Connect finds plugins fast."""
    if not location.is_dir():
        return
    (location / SERVICES_JAR).unlink(missing_ok=True)
    declared = {(each.kind, each.name) for each in declared_classes(location)}
    missing = [plugin for plugin in plugins if (str(plugin.kind), plugin.class_name) not in declared]
    if not missing or not jars_of(location):
        return
    with zipfile.ZipFile(location / SERVICES_JAR, "w") as archive:
        for interface, kind in SERVICES.items():
            names = [plugin.class_name for plugin in missing if plugin.kind == kind]
            if names:
                archive.writestr(f"META-INF/services/{interface}", "".join(f"{name}\n" for name in names))
