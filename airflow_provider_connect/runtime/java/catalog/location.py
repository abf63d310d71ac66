"""The plugins that a location with jars declares, from the record of its installation or from its service files. Starts no JVM.

Only a JVM can determine the content of the record: plugin classes that no service file names, and the version that each class itself
reports. The record is valid while the jars for which it was written are unchanged.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.runtime.java.catalog.manifests import SETTING, allowed_locations, declared_classes, jars_of
from airflow_provider_connect.runtime.model.plugin_kinds import Declarations, Declared, PluginKind
from airflow_provider_connect.runtime.model.versions import UNDEFINED

RECORD: Final = "connect-plugins.json"
"""The name of the record's file. The file is among the jars, or next to a single jar, with the jar's name as prefix."""
_FORMAT: Final = 1
_MOST_BYTES: Final = 8 << 20  # of a record
_KEYS: Final = ("path", "size", "mtime_ns", "sha256")
NO_SERVICES: Final = "it declares no plugins: no jar has a service file of one; airflow connect plugins scan finds them by a JVM"


@dataclass(frozen=True, slots=True)
class _Jar:
    """One jar of a record. ``path`` is relative to the location."""

    path: str
    size: int
    mtime_ns: int
    sha256: str

    def is_there(self, location: Path) -> bool:
        """Whether the file is unchanged, by size and time. If only the time differs, as for a copy, its hash decides."""
        path = location / self.path if location.is_dir() else location
        found = path.stat()
        if found.st_size != self.size:
            return False
        return found.st_mtime_ns == self.mtime_ns or _sha256(path) == self.sha256


def read(path: str) -> Declarations:
    """The declarations of the location at ``path``. Raises OSError if it cannot be read."""
    location = Path(path)
    recorded = _recorded(location)
    if recorded is not None:
        return Declarations(recorded, [])
    found = [
        Declared(PluginKind(declared.kind), declared.name, declared.name, declared.version or UNDEFINED)
        for declared in declared_classes(location)
    ]
    return Declarations(found, [] if found else [NO_SERVICES])


def write_record(location: Path, plugins: Sequence[Declared], origin: str) -> None:
    """Record ``plugins`` as the plugins of the current jars. ``origin`` is where the plugins come from. Raises ConnectException if the
    record cannot be written."""
    root = location if location.is_dir() else location.parent
    jars = []
    for jar in jars_of(location):
        found = jar.stat()
        jars.append(dict(zip(_KEYS, (str(jar.relative_to(root)), found.st_size, found.st_mtime_ns, _sha256(jar)), strict=True)))
    record = {
        "format": _FORMAT,
        "origin": origin,
        "jars": jars,
        "plugins": [{"type": str(plugin.kind), "class": plugin.class_name, "version": plugin.version} for plugin in plugins],
    }
    target = Path(record_path(str(location)))
    scratch = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        scratch.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        scratch.replace(target)
    except OSError as error:
        scratch.unlink(missing_ok=True)
        raise ConnectException(f"{target} cannot be written: {error.strerror or error}") from error


def record_path(location: str) -> str:
    """The path of the record of the Java plugin at ``location``, which need not exist."""
    return os.path.join(location, RECORD) if os.path.isdir(location) else f"{location}.{RECORD}"


def _recorded(location: Path) -> list[Declared] | None:
    """None: the record is missing, invalid, or belongs to other jars."""
    path = record_path(str(location))
    if not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        text = file.read(_MOST_BYTES)
    try:
        record: dict[str, Any] = json.loads(text)
        if record["format"] != _FORMAT:
            return None
        jars = [_Jar(str(jar["path"]), int(jar["size"]), int(jar["mtime_ns"]), str(jar["sha256"])) for jar in record["jars"]]
        plugins = [
            Declared(PluginKind(each["type"]), str(each["class"]), str(each["class"]), str(each["version"])) for each in record["plugins"]
        ]
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
    root = location if location.is_dir() else location.parent
    if {jar.path for jar in jars} != {str(jar.relative_to(root)) for jar in jars_of(location)}:
        return None
    return plugins if all(jar.is_there(location) for jar in jars) else None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def refuse_location(class_name: str, location: str | None, origin: str, settings: Mapping[str, str]) -> None:
    """Raises ConfigException for a Java connector unless the worker ``settings`` allow its ``location``. None (no location) is also
    refused. ``origin`` describes where the plugin is."""
    if location is not None and allowed_locations(settings)(Path(location)):
        return
    text = (
        f"it is a Java plugin in {origin}, and Java plugins can reach whatever their process can: the worker setting {SETTING} "
        "must name its folder"
    )
    raise ConfigException.of("connector.class", class_name, text)
