"""Installs a plugin as a location of its own in a directory of ``plugin.path``, and removes it.

A location appears either complete or not at all. A hidden directory next to the location's path is filled, and then renamed. Catalogs
ignore hidden directories.
"""

from __future__ import annotations

import errno
import importlib.metadata
import os
import shutil
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from airflow_provider_connect.errors import AlreadyExistsException, BadRequestException, ConnectException, NotFoundException
from airflow_provider_connect.runtime.model.plugin_kinds import Declared
from airflow_provider_connect.runtime.plugins.catalog import plugin_metadata
from airflow_provider_connect.runtime.plugins.catalog.package_installer import PackageInstaller, shared_distributions

INSTALLING: Final = ".installing-"
REMOVING: Final = ".removing-"
_LEFT_SECONDS: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class InstalledPlugins:
    """The plugins that were installed (at least one), and the path of their location."""

    path: str
    plugins: Sequence[Declared]


def install(wanted: str, directory: Path, installer: PackageInstaller) -> InstalledPlugins:
    """Install ``wanted``, a requirement (``orders-connector==1.2``) or the path of a wheel, with its dependencies as
    ``directory``/«name»-«version».

    Steps: (1) fill a hidden directory; (2) read the declarations in it; (3) rename it. Raises BadRequestException for an invalid
    requirement, AlreadyExistsException if the version is already installed, ConnectException if the installer fails or its result cannot be
    used. After an error, nothing has changed.
    """
    name, asked = _parsed(wanted)
    if name in shared_distributions():
        raise BadRequestException(f"{name} is shared with all plugins by this environment, and cannot be installed as one")
    refuse_missing(directory)
    with hidden_beside(directory, INSTALLING) as hidden:
        location, scratch = hidden / "location", hidden / "scratch"
        location.mkdir()
        scratch.mkdir()
        installer.fill(location, asked, scratch)  # 1
        version, plugins = _version_of(name, location), _usable(location)  # 2
        target = directory / f"{name}-{version}"
        rename_new(location, target)  # 3
    return InstalledPlugins(str(target), plugins)


def remove(wanted: str, directory: Path) -> str:
    """Remove the location that ``install`` created for ``wanted``, a name with or without a version. Returns its path.

    The location disappears from catalogs immediately. A run that uses the location may miss modules that it has not imported yet. The run's
    task then becomes FAILED. Raises BadRequestException for an invalid requirement, or for a requirement that fits several versions. Raises
    NotFoundException if no version fits.
    """
    try:
        asked = Requirement(wanted)
    except InvalidRequirement as error:
        raise BadRequestException(f"{wanted!r} is not a name with a version, such as orders-connector==1.2: {error}") from error
    refuse_missing(directory)
    name = canonicalize_name(asked.name)
    known = dict(sorted(_versions_in(directory, name)))
    found = [version for version in known if asked.specifier.contains(version, prereleases=True)]
    if not found:
        there = ", ".join(path.name for path in known.values()) or "none"
        raise NotFoundException(f"{directory} has no location of {wanted}; of {name} there are: {there}")
    if len(found) > 1:
        versions = ", ".join(map(str, found))
        raise BadRequestException(f"{directory} has several versions of {name}, {versions}: name one, such as {name}=={found[0]}")
    path = known[found[0]]
    with hidden_beside(directory, REMOVING) as hidden:
        path.rename(hidden / path.name)
    return str(path)


def _parsed(wanted: str) -> tuple[str, str]:
    """The distribution's canonical name, and the installer's argument."""
    try:
        if not wanted.endswith(".whl"):
            return str(canonicalize_name(Requirement(wanted).name)), wanted
        path = Path(wanted).absolute()
        name, *_ = parse_wheel_filename(path.name)
    except (InvalidRequirement, InvalidWheelFilename) as error:
        raise BadRequestException(
            f"{wanted!r} is neither a requirement, such as orders-connector==1.2, nor the path of a wheel: {error}"
        ) from error
    _refuse_escaping(path)
    return str(name), str(path)


def _refuse_escaping(wheel: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            escaping = plugin_metadata.escaping_member(archive.namelist())
    except (OSError, zipfile.BadZipFile) as error:
        raise BadRequestException(f"{wheel} cannot be read: {error}") from error
    if escaping is not None:
        raise ConnectException(f"{wheel} is not installed: its member {escaping} leads out of it")


def refuse_missing(directory: Path) -> None:
    """Raise NotFoundException unless ``directory`` exists."""
    if not directory.is_dir():
        raise NotFoundException(f"There is no directory {directory}: create it, and add it to the worker setting plugin.path")


@contextmanager
def hidden_beside(directory: Path, prefix: str) -> Iterator[Path]:
    """A directory on the same file system that no catalog reads. It is removed at the end of the block, together with leftovers of killed
    processes."""
    for left in directory.glob(f"{prefix}*"):
        with suppress(FileNotFoundError):  # another process may have removed it
            if time.time() - left.stat().st_mtime > _LEFT_SECONDS:
                shutil.rmtree(left, ignore_errors=True)
    try:
        hidden = Path(tempfile.mkdtemp(prefix=prefix, dir=directory))
    except OSError as error:
        raise ConnectException(f"{directory} cannot be written: {error.strerror or error}") from error
    try:
        yield hidden
    finally:
        shutil.rmtree(hidden, ignore_errors=True)


def _version_of(name: str, location: Path) -> str:
    for found in importlib.metadata.distributions(path=[str(location)]):
        if canonicalize_name(found.metadata["Name"] or "") == name:
            return found.version
    raise ConnectException(f"{name} is not installed: the installer added no distribution of that name")


def _usable(location: Path) -> list[Declared]:
    """The plugins in the location. Raises ConnectException if a catalog would refuse it, and for links that lead out of it."""
    root = os.path.realpath(location)
    for folder, folders, files in os.walk(location):
        for path in (os.path.join(folder, name) for name in (*folders, *files)):
            if os.path.islink(path) and not os.path.realpath(path).startswith(root + os.sep):
                raise ConnectException(f"Not installed: {os.path.relpath(path, location)} is a link that leads out of the location")
    declared = plugin_metadata.in_tree(str(location))
    if declared.problems:
        raise ConnectException(f"Not installed: {'; '.join(declared.problems)}")
    if not declared.plugins:
        raise ConnectException(f"Not installed: it declares no plugins, in entry points of the group {plugin_metadata.GROUP}")
    return declared.plugins


def rename_new(location: Path, target: Path) -> None:
    """Rename a filled directory. Raises AlreadyExistsException if ``target`` exists, ConnectException for other errors."""
    try:
        location.rename(target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise ConnectException(f"{target} cannot be created: {error.strerror or error}") from error
        raise AlreadyExistsException(f"{target} already exists: remove it first, with airflow connect plugins remove") from error


def _versions_in(directory: Path, name: str) -> Iterator[tuple[Version, Path]]:
    for path in directory.iterdir():
        if path.name.startswith(f"{name}-") and path.is_dir() and not path.is_symlink():
            try:
                yield Version(path.name.removeprefix(f"{name}-")), path
            except InvalidVersion:
                continue
