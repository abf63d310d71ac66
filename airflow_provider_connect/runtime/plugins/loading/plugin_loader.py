"""Imports plugins from a location. The location's modules import from the location first; other modules do not. Each location has its own
module table.

Modules of a location are imported by Python's usual machinery under private names, ``connect_plugins.«location».«module»``. So
``sys.modules``, relative imports, dataclasses and pickling within the process work as usual. The ``__builtins__`` of a location's modules
contain an ``__import__`` that searches the location before the environment. The standard library, this package and the modules in
``SHARED`` always come from the environment, so ``isinstance`` works across locations, and there is only one Arrow library.

A location with compiled modules cannot be private: see ``native_locations``.
"""

from __future__ import annotations

import builtins
import contextlib
import hashlib
import importlib
import importlib.metadata
import importlib.resources
import os
import re
import sys
import threading
import types
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from operator import attrgetter
from typing import Any, Final

from airflow_provider_connect.runtime.plugins.loading.native_locations import NativeLocations
from airflow_provider_connect.runtime.plugins.loading.plugin_path import SHARED, Location, LocationForm

PREFIX: Final = "connect_plugins"


def load(location: Location, reference: str) -> type:
    """The class ``module:Class``. Raises the exceptions of the import, and ImportError for a module that leads out of the location."""
    module_name, _, attribute = reference.partition(":")
    loaded: type = attrgetter(attribute)(_module(location, module_name))
    return loaded


def prepend_native_locations(paths: Iterable[str]) -> None:
    """Put those locations at ``paths`` that have compiled code first on ``sys.path``. Called before a process runs the locations' plugins,
    and before it loads modules, especially NumPy, that the plugins may need in another version. ``load`` reports conflicts."""
    for path in paths:
        location = Location(path, LocationForm.of(path), stamp="")
        if location.is_native():
            with contextlib.suppress(ImportError):
                _LOADED.native.put_first(location)


def _module(location: Location, name: str) -> types.ModuleType:
    if _LOADED.is_native(location):
        return _LOADED.native.module(location, name)
    return importlib.import_module(_LOADED.private(location).private_name(name))


class PrivateModules:
    """The module table of one location: the location's top-level names, and the ``__import__`` that the location's modules use."""

    def __init__(self, location: Location, name: str) -> None:
        self.name = name
        self.root = os.path.realpath(location.path)
        self.search = [os.path.dirname(location.path) if location.form is LocationForm.MODULE else location.path]
        self._tops = _top_level_names(location)
        self.builtins: dict[str, Any] = {**builtins.__dict__, "__import__": self._import}
        self._stand_ins = _stand_ins(self)

    def private_name(self, name: str) -> str:
        return f"{self.name}.{name}"

    def plain_name(self, private: str) -> str:
        return private.removeprefix(f"{self.name}.")

    def owns(self, name: str) -> bool:
        top = name.partition(".")[0]
        return top in self._tops and top not in SHARED and top not in sys.stdlib_module_names

    def holds(self, path: str) -> bool:
        """Whether a file is in the location, with links resolved."""
        real = os.path.realpath(path)
        return real == self.root or real.startswith(self.root + os.sep)

    def _import(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        """``__import__`` for the location's modules. The name of a relative import is already private."""
        if level or not self.owns(name):
            module = builtins.__import__(name, globals, locals, fromlist or (), level)
            if level or name.partition(".")[0] != "importlib":
                return module
            return self._stand_ins[name if fromlist and name in self._stand_ins else "importlib"] if _stands_in(name, fromlist) else module
        private = self.private_name(name)
        if fromlist:
            return builtins.__import__(private, globals, locals, fromlist, 0)
        importlib.import_module(private)
        return sys.modules[self.private_name(name.partition(".")[0])]


def _top_level_names(location: Location) -> frozenset[str]:
    if location.form is LocationForm.MODULE:
        return frozenset({os.path.basename(location.path).removesuffix(".py")})
    if location.form is LocationForm.WHEEL:
        with zipfile.ZipFile(location.path) as wheel:
            names = {name.partition("/")[0] for name in wheel.namelist()}
    else:
        names = set(os.listdir(location.path))
    return frozenset(name.removesuffix(".py") for name in names if re.fullmatch(r"[^\W\d]\w*(\.py)?", name))


def _stands_in(name: str, fromlist: Sequence[str] | None) -> bool:
    return name in ("importlib", "importlib.metadata", "importlib.resources") or not fromlist


def _stand_ins(private: PrivateModules) -> dict[str, types.ModuleType]:
    """Copies of ``importlib`` and its submodules. In these copies, functions that take the name of a module or distribution search the
    location first."""

    def import_module(name: str, package: str | None = None) -> types.ModuleType:
        return importlib.import_module(private.private_name(name) if private.owns(name) else name, package)

    def distribution(name: str) -> importlib.metadata.Distribution:
        own = next(iter(importlib.metadata.distributions(name=name, path=private.search)), None)
        return importlib.metadata.distribution(name) if own is None else own

    def version(name: str) -> str:
        return distribution(name).version

    def metadata(name: str) -> Any:
        return distribution(name).metadata

    def files(package: Any = None) -> Any:
        return importlib.resources.files(import_module(package) if isinstance(package, str) else package)

    of_metadata = _altered(importlib.metadata, distribution=distribution, version=version, metadata=metadata)
    of_resources = _altered(importlib.resources, files=files)
    top = _altered(importlib, import_module=import_module, metadata=of_metadata, resources=of_resources)
    return {"importlib": top, "importlib.metadata": of_metadata, "importlib.resources": of_resources}


def _altered(module: types.ModuleType, **changes: object) -> types.ModuleType:
    """A copy of ``module`` with ``changes``. Later additions to ``module`` are visible in the copy."""
    other = types.ModuleType(module.__name__, module.__doc__)
    other.__dict__.update({**{name: value for name, value in vars(module).items() if name != "__getattr__"}, **changes})
    other.__dict__["__getattr__"] = lambda name: getattr(module, name)
    return other


class _Finder(MetaPathFinder):
    """Finds the modules below ``connect_plugins``."""

    def __init__(self) -> None:
        self.tables: dict[str, PrivateModules] = {}

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None) -> ModuleSpec | None:
        if not fullname.startswith(f"{PREFIX}."):
            return None
        table = self.tables.get(".".join(fullname.split(".")[:2]))
        if table is None or fullname == table.name:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None:
            return None
        if spec.loader is None:  # a namespace package: its parts in the environment are also imported privately
            spec.submodule_search_locations = [*(spec.submodule_search_locations or ()), *_environment_portions(table.plain_name(fullname))]
            return spec
        if spec.origin is not None and not table.holds(spec.origin) and not _in_environment(spec.origin):
            raise ImportError(f"{table.plain_name(fullname)} leads out of its location, to {os.path.realpath(spec.origin)}", name=fullname)
        spec.loader = _PrivateLoader(spec.loader, table)
        return spec


def _environment_portions(name: str) -> list[str]:
    spec = PathFinder.find_spec(name) if "." not in name else None
    return list(spec.submodule_search_locations or ()) if spec is not None and spec.loader is None else []


def _in_environment(path: str) -> bool:
    return any(entry and os.path.realpath(path).startswith(os.path.realpath(entry) + os.sep) for entry in sys.path)


class _PrivateLoader(Loader):
    """Wraps a loader: modules get the location's ``__import__`` before their code runs."""

    def __init__(self, inner: Any, table: PrivateModules) -> None:
        self._inner = inner
        self._table = table

    def create_module(self, spec: ModuleSpec) -> types.ModuleType | None:
        created: types.ModuleType | None = self._inner.create_module(spec)
        return created

    def exec_module(self, module: types.ModuleType) -> None:
        module.__dict__["__builtins__"] = self._table.builtins
        module.__dict__["__plugin_module__"] = self._table.plain_name(module.__name__)
        self._inner.exec_module(module)

    def __getattr__(self, name: str) -> Any:  # (sources for traces, resources)
        return getattr(self._inner, name)


class _Loaded:
    """What this process has loaded from locations. There is one per process, like ``sys.modules``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._finder = _Finder()
        self._tables: dict[tuple[str, str], PrivateModules] = {}
        self._are_native: dict[Location, bool] = {}
        self.native = NativeLocations()

    def is_native(self, location: Location) -> bool:
        """Whether the location has compiled modules. Reads the files once for each state of the location's metadata."""
        if location not in self._are_native:
            self._are_native[location] = location.is_native()
        return self._are_native[location]

    def private(self, location: Location) -> PrivateModules:
        """The location's table, created on first use and whenever its files have changed."""
        key = (location.path, location.fingerprint())
        with self._lock:
            if key not in self._tables:
                self._tables[key] = self._create(location, key)
            return self._tables[key]

    def _create(self, location: Location, key: tuple[str, str]) -> PrivateModules:
        if self._finder not in sys.meta_path:
            sys.meta_path.insert(0, self._finder)
            sys.modules.setdefault(PREFIX, _package(PREFIX, []))
        name = re.sub(r"\W", "_", os.path.basename(location.path))
        digest = hashlib.sha256("\n".join(key).encode("utf-8", "surrogateescape")).hexdigest()[:8]
        table = PrivateModules(location, f"{PREFIX}.{name}_{digest}")
        sys.modules[table.name] = _package(table.name, table.search)
        self._finder.tables[table.name] = table
        importlib.invalidate_caches()
        return table


def _package(name: str, path: list[str]) -> types.ModuleType:
    package = types.ModuleType(name)
    package.__path__ = path
    package.__spec__ = ModuleSpec(name, None, is_package=True)
    package.__spec__.submodule_search_locations = path
    return package


_LOADED: Final = _Loaded()
