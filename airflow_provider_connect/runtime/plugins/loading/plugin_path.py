"""Lists the locations in the directories of ``plugin.path``, with form and stamp, without reading the content of the locations.

A location is a sub-directory (a ``pip install --target`` tree, single modules, or a Java plugin's jars), a wheel, a module file or a jar. A
directory of ``plugin.path`` that itself contains ``*.dist-info`` is one location. Hidden entries and other files are ignored.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import itertools
import os
import re
import sysconfig
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.machinery import EXTENSION_SUFFIXES
from typing import Final

from airflow_provider_connect.runtime.java.catalog.location import record_path

METADATA_ENDING = ".dist-info"
JAR_ENDING: Final = ".jar"
SHARED: Final = frozenset({"airflow_provider_connect", "pyarrow", "pyspark", "py4j", "confluent_kafka"})
"""Modules that always come from the environment. Plugins exchange objects of these modules with this package, or a process can load them
only once."""

_COMPILED = tuple(EXTENSION_SUFFIXES)
_WHEEL_ENDINGS = (".whl", ".zip")
_MOST_FILES = 5_000  # files that are searched for a jar; a directory with more files before the first jar is not a Java plugin
_INSTALLED = tuple({os.path.join(sysconfig.get_path(name), "") for name in ("purelib", "platlib", "stdlib")})


class LocationForm(StrEnum):
    """The form of a location on disk."""

    TREE = "tree"
    WHEEL = "wheel"
    MODULE = "module"
    JAVA = "java"

    @classmethod
    def of(cls, path: str) -> LocationForm:
        """The form of the location at ``path``."""
        if os.path.isdir(path):
            return cls.JAVA if _holds_java(path) else cls.TREE
        if path.endswith(JAR_ENDING):
            return cls.JAVA
        return cls.WHEEL if path.endswith(_WHEEL_ENDINGS) else cls.MODULE if path.endswith(".py") else cls.TREE


@dataclass(frozen=True, slots=True)
class Location:
    """One location. ``stamp`` changes with its metadata, not with each source file. If path and stamp are equal, declarations are equal."""

    path: str
    form: LocationForm
    stamp: str

    @property
    def name(self) -> str:
        """The location's name in a config: the last part of its path."""
        return os.path.basename(self.path)

    def fingerprint(self) -> str:
        """A digest of every file's name, size and modification time. It changes when the code changes. Raises OSError if the location is
        gone."""
        digest = hashlib.sha256(self.path.encode())
        for name, status in sorted(_files(self.path, self.form)):
            digest.update(f"{name} {status.st_size} {status.st_mtime_ns}\n".encode("utf-8", "surrogateescape"))
        return digest.hexdigest()[:16]

    def is_native(self) -> bool:
        """Whether the location contains compiled extension modules that are loaded from the location. A process can load only one copy of
        such a module."""
        if self.form is not LocationForm.TREE:
            return False
        unused = tuple(os.path.join(self.path, name, "") for name in SHARED)
        return any(name.endswith(_COMPILED) and not name.startswith(unused) for name, _ in _files(self.path, self.form))


@dataclass(frozen=True, slots=True)
class BrokenLocation:
    """A location that cannot be used, and the reason. Other locations remain usable."""

    path: str
    reason: str


def locations(plugin_path: Iterable[str]) -> tuple[list[Location], list[BrokenLocation]]:
    """The locations in the order of ``plugin_path``, by name within a directory. A location that links repeat is listed once."""
    found: dict[object, Location] = {}
    broken: list[BrokenLocation] = []
    for directory in plugin_path:
        try:
            for location in _below(directory):
                with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                    found.setdefault(_identity(location), location)
        except NotADirectoryError:
            broken.append(BrokenLocation(directory, "it is a file: plugin.path takes the folder that contains it"))
        except OSError as error:
            broken.append(BrokenLocation(directory, f"it cannot be read: {error.strerror or error}"))
        except ValueError as error:  # a NUL within the path
            broken.append(BrokenLocation(directory.replace("\0", "\\0"), f"it cannot be read: {error}"))
    return list(found.values()), broken


def editable_location(reference: str) -> Location | None:
    """The source files of a plugin in an editable install (``pip install -e``): its top-level package or module. None for a regular
    install, which does not change while a process uses it, and for a module in ``SHARED``. ``reference`` is ``module:attribute``."""
    top = re.split(r"[.:]", reference, maxsplit=1)[0]
    if top in SHARED:
        return None
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    path = next(iter(spec.submodule_search_locations or ()), spec.origin)
    if path is None or not os.path.exists(path) or path.startswith(_INSTALLED):
        return None
    return Location(path, LocationForm.of(path), file_stamp(path))


def _identity(location: Location) -> object:
    """A value that is equal for locations with the same files on disk."""
    if location.form is not LocationForm.TREE and not os.path.isdir(location.path):
        return os.path.realpath(location.path)
    status = os.stat(location.path)
    return status.st_dev, status.st_ino


def _below(directory: str) -> Iterator[Location]:
    with os.scandir(directory) as entries:
        children = sorted((entry for entry in entries if not entry.name.startswith((".", "__"))), key=lambda entry: entry.name)
    if any(child.name.endswith(METADATA_ENDING) for child in children):
        yield Location(directory, LocationForm.TREE, _tree_stamp(directory))
        return
    for child in children:
        if child.is_dir():
            form = LocationForm.of(child.path)
            yield Location(child.path, form, _java_stamp(child.path) if form is LocationForm.JAVA else _tree_stamp(child.path))
        elif child.name.endswith((*_WHEEL_ENDINGS, ".py", JAR_ENDING)) and child.is_file():  # reading a pipe would block
            with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                form = LocationForm.of(child.path)
                yield Location(child.path, form, _java_stamp(child.path) if form is LocationForm.JAVA else file_stamp(child.path))


def _holds_java(tree: str) -> bool:
    """Whether a directory is a Java plugin: it has a jar at any depth, and neither Python metadata nor modules at the top."""
    try:
        with os.scandir(tree) as entries:
            if any(entry.name.endswith((METADATA_ENDING, ".py")) for entry in entries):
                return False
        files = itertools.islice(_files(tree, LocationForm.JAVA), _MOST_FILES)
        return any(path.endswith(JAR_ENDING) for path, _ in files)
    except OSError:  # the reader reports it
        return False


def _java_stamp(location: str) -> str:
    """A digest of the stamps of every jar and of the record."""
    try:
        files = [location] if not os.path.isdir(location) else [path for path, _ in _files(location, LocationForm.JAVA)]
        dated = sorted(f"{path} {file_stamp(path)}" for path in files if path.endswith(JAR_ENDING))
        record = record_path(location)
        dated.append(file_stamp(record) if os.path.exists(record) else "no record")
        return hashlib.sha256("\n".join(dated).encode("utf-8", "surrogateescape")).hexdigest()
    except OSError as error:
        return f"unreadable {error.errno}"


def metadata_directories(tree: str) -> list[str]:
    """The ``*.dist-info`` directories directly in ``tree``, sorted by name. Raises OSError if ``tree`` cannot be read."""
    with os.scandir(tree) as entries:
        return sorted(entry.path for entry in entries if entry.name.endswith(METADATA_ENDING))


def modules_in(tree: str) -> list[str]:
    """The module files directly in ``tree``, sorted by name."""
    with os.scandir(tree) as entries:
        return sorted(entry.path for entry in entries if entry.name.endswith(".py") and entry.is_file())


def _tree_stamp(tree: str) -> str:
    """A stamp that changes when the tree changes. Installers rename ``*.dist-info`` into place, so the directory's own time shows a change.
    For single modules, the time of each file shows a change."""
    try:
        with os.scandir(tree) as entries:
            dated = sorted(f"{entry.name} {_stat_text(entry.stat())}" for entry in entries if entry.name.endswith((METADATA_ENDING, ".py")))
        return ";".join([file_stamp(tree), *dated])
    except OSError as error:
        return f"unreadable {error.errno}"


def file_stamp(path: str | os.PathLike[str]) -> str:
    """A stamp that changes with each change of the file. Raises OSError."""
    return _stat_text(os.stat(path))


def _stat_text(status: os.stat_result) -> str:
    return f"{status.st_ino} {status.st_size} {status.st_mtime_ns}"


def _files(path: str, form: LocationForm) -> Iterator[tuple[str, os.stat_result]]:
    if form not in (LocationForm.TREE, LocationForm.JAVA) or not os.path.isdir(path):
        yield path, os.stat(path)
        return
    pending = [path]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name != "__pycache__":
                        pending.append(entry.path)
                else:
                    yield entry.path, entry.stat(follow_symlinks=False)


# Locations in one zip, for machines without ``plugin.path``. Each is in a numbered directory, which is an entry of ``plugin.path``.


def write_archive(paths: Sequence[str], target: str) -> None:
    """Write the locations at ``paths`` to the zip ``target``. Raises OSError if a location is gone.

    Links are followed, so that the archive is self-contained.
    """
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1, strict_timestamps=False) as archive:
        for number, path in enumerate(paths):
            for file in _archived_files(path):
                archive.write(file, os.path.join(str(number), os.path.relpath(file, os.path.dirname(path))))


def unpacked_paths(root: str, paths: Sequence[str]) -> list[str]:
    """The paths of the locations at ``paths`` after their archive was unpacked into ``root``. Each location has a directory of its own, for
    ``plugin.path``."""
    return [os.path.join(root, str(number), os.path.basename(path)) for number, path in enumerate(paths)]


def _archived_files(path: str) -> Iterator[str]:
    if not os.path.isdir(path):
        yield path
        return
    for folder, folders, files in os.walk(path, onerror=_raise):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        yield from (os.path.join(folder, name) for name in sorted(files))


def _raise(error: OSError) -> None:
    raise error
