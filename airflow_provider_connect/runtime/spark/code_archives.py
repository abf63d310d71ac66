"""Zips of this package and of installed plugins. spark-submit sends the zips to executors on other machines, so that executors run the same
code as the driver.

The package's zip contains sources and bytecode. An executor with another Python version rejects the bytecode and uses the source.

An entry point of the group ``airflow_provider_connect.plugins`` names a plugin. The plugin's zip contains the top-level module or package,
and the metadata by which an executor finds the plugin and its version. Dependencies are not included. They must be installed on executors,
or be in a packed Python environment.
"""

import hashlib
import importlib.util
import logging
import py_compile
import time
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import Distribution, EntryPoint, entry_points
from pathlib import Path

from airflow_provider_connect.runtime.spark.cache import forget_old, made_once

_PACKAGE = Path(__file__).resolve().parents[2]
GROUP = "airflow_provider_connect.plugins"
_log = logging.getLogger(__name__)


def code_archive(cache: Path) -> Path:
    """The zip of the package's current files. It is written again if a file has changed since the last zip."""
    files = sorted(file for file in _PACKAGE.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    digest = hashlib.sha256()
    for file in files:
        found = file.stat()
        digest.update(f"{file.relative_to(_PACKAGE)} {found.st_size} {found.st_mtime_ns}\n".encode())
    target = cache / "code" / digest.hexdigest()[:16] / f"{_PACKAGE.name}.zip"
    if not target.exists():
        (cache / "code").mkdir(exist_ok=True)
        forget_old(cache / "code", time.time())
    return made_once(target, lambda archive: _write_package(archive, files))


def _write_package(archive: Path, files: list[Path]) -> None:
    compiled = archive.with_suffix(".pyc")
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        for file in files:
            name = f"{_PACKAGE.name}/{file.relative_to(_PACKAGE)}"
            zipped.write(file, name)
            if file.suffix == ".py":
                py_compile.compile(
                    str(file), str(compiled), name, doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
                )
                zipped.write(compiled, f"{name}c")


@dataclass(frozen=True, slots=True)
class _Plugin:
    """One distribution: its files by name in the zip, and its entry points."""

    name: str
    version: str
    files: dict[str, Path]
    entries: list[EntryPoint]


def plugin_archives(cache: Path) -> list[Path]:
    """One zip per distribution. A zip is written again if a file has changed. A distribution with compiled code cannot be imported from a
    zip, and is left out with a warning. A distribution that is already a zip is left out, because it is on the command line."""
    by_distribution: dict[str, tuple[Distribution, list[EntryPoint]]] = {}
    for entry in entry_points(group=GROUP):
        if entry.dist is not None:
            by_distribution.setdefault(entry.dist.name, (entry.dist, []))[1].append(entry)
    plugins = [_plugin(distribution, entries) for _, (distribution, entries) in sorted(by_distribution.items())]
    return [_archive(plugin, cache) for plugin in plugins if plugin is not None]


def _plugin(distribution: Distribution, entries: list[EntryPoint]) -> _Plugin | None:
    files: dict[str, Path] = {}
    for module in sorted({entry.module.partition(".")[0] for entry in entries}):
        files |= _files_of(module)
    if not files:
        return None
    if any(name.endswith(tuple(EXTENSION_SUFFIXES)) for name in files):
        _log.warning("Plugins of %s contain compiled code: install it where executors run, or use a Python archive", distribution.name)
        return None
    return _Plugin(distribution.name, distribution.version, files, entries)


def _files_of(module: str) -> dict[str, Path]:
    """The files of a top-level module or package by their path below ``sys.path``. Empty if the module does not consist of files."""
    spec = importlib.util.find_spec(module)
    if spec is None:
        return {}
    if spec.submodule_search_locations:
        roots = [Path(root) for root in spec.submodule_search_locations if Path(root).is_dir()]
        return {f"{module}/{file.relative_to(root)}": file for root in roots for file in _sources(root)}
    origin = Path(spec.origin or "")
    return {origin.name: origin} if origin.is_file() else {}


def _sources(root: Path) -> Iterable[Path]:
    return (file for file in sorted(root.rglob("*")) if file.is_file() and "__pycache__" not in file.parts)


def _archive(plugin: _Plugin, cache: Path) -> Path:
    digest = hashlib.sha256(repr((plugin.name, plugin.version, [(e.name, e.value) for e in plugin.entries])).encode())
    for name, file in sorted(plugin.files.items()):
        found = file.stat()
        digest.update(f"{name} {found.st_size} {found.st_mtime_ns}\n".encode())
    target = cache / "code" / digest.hexdigest()[:16] / f"{plugin.name}.zip"
    return made_once(target, lambda archive: _write(archive, plugin))


def _write(archive: Path, plugin: _Plugin) -> None:
    metadata = f"{plugin.name.replace('-', '_')}-{plugin.version}.dist-info"
    entries = "".join(f"{entry.name} = {entry.value}\n" for entry in plugin.entries)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, file in sorted(plugin.files.items()):
            zipped.write(file, name)
        zipped.writestr(f"{metadata}/METADATA", f"Metadata-Version: 2.1\nName: {plugin.name}\nVersion: {plugin.version}\n")
        zipped.writestr(f"{metadata}/entry_points.txt", f"[{GROUP}]\n{entries}")
