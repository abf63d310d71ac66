"""The locations with compiled modules that this process uses. They come first on ``sys.path``, because a process can load a compiled module
only once.

So two such locations must have equal versions of the modules that both contain. They must also have the versions of modules that the
process has already loaded. Otherwise, ImportError is raised, with the remedy. Modules shared with plugins still come from the environment.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import logging
import os
import re
import sys
import threading
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, PathFinder
from typing import Final

from airflow_provider_connect.runtime.plugins.loading.plugin_path import SHARED, Location

_COMPILED: Final = tuple(EXTENSION_SUFFIXES)
_IMPORTABLE: Final = (".py", *EXTENSION_SUFFIXES)
_REMEDY: Final = (
    "use versions that agree, or run connectors that need different ones in processes of their own (in Airflow each run is one, and so is "
    "connect-run)"
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LocationModule:
    """One importable name of a location, with the distribution that contains it and that distribution's version. Both are empty if
    unknown."""

    name: str
    distribution: str = ""
    version: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.version}".strip()

    def agrees(self, version: str) -> bool:
        """Whether the version is the same. An unknown version equals no other."""
        return bool(self.version) and self.version == version


class NativeLocations:
    """One per process, as ``sys.path`` is. May be used from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._modules: dict[str, Mapping[str, LocationModule]] = {}  # by path

    def put_first(self, location: Location) -> None:
        """Make the location's modules take precedence. Raises ImportError if they conflict with modules of this process."""
        with self._lock:
            if location.path not in self._modules:
                self._put_first(location.path)

    def module(self, location: Location, name: str) -> types.ModuleType:
        """Import the module ``name`` of the location. Raises ImportError in the same cases as ``put_first``, and the exceptions of the
        import."""
        self.put_first(location)
        module = importlib.import_module(name)
        if not _is_in(module, location.path):
            raise ImportError(f"this process has loaded {name} from {_origin(module)} before; {_REMEDY}")
        return module

    def _put_first(self, tree: str) -> None:
        modules = _modules_of(tree)
        for path, others in self._modules.items():
            if differing := sorted(name for name in modules.keys() & others.keys() if not modules[name].agrees(others[name].version)):
                names = ", ".join(f"{modules[name]} here, {others[name]} there" for name in differing)
                raise ImportError(f"it has compiled code, as {path} does, and a process can load one of {names}; {_REMEDY}")
        for name in sorted(modules.keys() & sys.modules.keys()):
            _refuse_loaded(modules[name], sys.modules[name], tree)
        if not self._modules:
            sys.meta_path.insert(0, _SharedFinder(self._modules))
        self._modules[tree] = modules
        sys.path.insert(0, tree)
        importlib.invalidate_caches()


def _refuse_loaded(needed: LocationModule, loaded: types.ModuleType, tree: str) -> None:
    """Raises ImportError if the process has loaded a compiled module from elsewhere in another version, because a loaded module stays
    loaded."""
    if _is_in(loaded, tree) or needed.agrees(_installed(needed.distribution)):
        return
    if _is_compiled(needed.name):
        raise ImportError(
            f"it has {needed} with compiled code, and this process has loaded another one from {_origin(loaded)}; "
            f"have the same version in the location and in the environment"
        )
    log.warning("Location %s has %s; this process has loaded another one from %s, and uses that", tree, needed, _origin(loaded))


def _modules_of(tree: str) -> dict[str, LocationModule]:
    """The importable names in a tree, without the names that always come from the environment."""
    with os.scandir(tree) as entries:
        names = {entry.name.partition(".")[0] for entry in entries if _is_importable(entry)} - SHARED - sys.stdlib_module_names
    found = {name: LocationModule(name) for name in names}
    for distribution in importlib.metadata.distributions(path=[tree]):
        called = distribution.metadata["Name"] or ""
        tops = {file.parts[0].partition(".")[0] for file in distribution.files or () if file.parts}
        for name in names & {*tops, called.replace("-", "_")}:
            found[name] = LocationModule(name, called, distribution.version)
    return found


def _is_importable(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a module or package, including packages without ``__init__``. Excludes ``bin``, ``share``, metadata and similar
    entries."""
    if not re.match(r"[^\W\d]\w*(\.|$)", entry.name):
        return False
    return entry.name.endswith(_IMPORTABLE) or (entry.is_dir() and any(name.endswith(_IMPORTABLE) for name in os.listdir(entry.path)))


def _installed(distribution: str) -> str:
    """The distribution's version in the environment. Empty if it is not installed."""
    try:
        return importlib.metadata.version(distribution) if distribution else ""
    except importlib.metadata.PackageNotFoundError:
        return ""


def _is_in(module: types.ModuleType, tree: str) -> bool:
    root = os.path.realpath(tree) + os.sep
    return any(os.path.realpath(directory).startswith(root) for directory in _paths(module))


def _origin(module: types.ModuleType) -> str:
    return next(iter(_paths(module)), "the interpreter")


def _paths(module: types.ModuleType) -> list[str]:
    """The module's file, or the directories of a namespace package."""
    file: str | None = getattr(module, "__file__", None)
    return [str(directory) for directory in getattr(module, "__path__", ())] if file is None else [file]


def _is_compiled(name: str) -> bool:
    """Whether the loaded module or a submodule is compiled."""
    return any(
        str(getattr(module, "__file__", "")).endswith(_COMPILED)
        for loaded, module in list(sys.modules.items())
        if loaded == name or loaded.startswith(f"{name}.")
    )


class _SharedFinder(MetaPathFinder):
    """Finds modules shared with plugins, ignoring the locations."""

    def __init__(self, locations: Mapping[str, object]) -> None:
        self._locations = locations

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None) -> ModuleSpec | None:
        if fullname not in SHARED:
            return None
        return PathFinder.find_spec(fullname, [entry for entry in sys.path if entry not in self._locations], target)
