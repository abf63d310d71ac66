"""A plugin's description: the first sentence of the docstring of its class or function, read from the source file. Nothing is imported."""

from __future__ import annotations

import ast
import re
import zipfile
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from airflow_provider_connect.runtime.plugins.catalog.plugin import Plugin
from airflow_provider_connect.runtime.plugins.loading.plugin_path import LocationForm

_LARGEST: Final = 1 << 20  # bytes of a source file
_LONGEST: Final = 200
_SENTENCE = re.compile(r"(?<=[.!?:])\s|(?<=[.!?]$)")


def read_summary(plugin: Plugin) -> str | None:
    """The description, at most 200 characters. None for a Java plugin, a plugin without a docstring, or an unreadable source file."""
    if plugin.is_java:
        return None
    module, _, attribute = plugin.reference.partition(":")
    try:
        source = next(_sources(plugin, module.split(".")), None)
        if source is None:
            return None
        found = _named(ast.parse(source), attribute)
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError, zipfile.BadZipFile):
        return None
    text = ast.get_docstring(found) if found is not None else None
    return None if not text else _SENTENCE.split(" ".join(text.split()), maxsplit=1)[0].rstrip(".:")[:_LONGEST] or None


def _named(tree: ast.Module, attribute: str) -> ast.ClassDef | ast.FunctionDef | None:
    """The class or function that the module defines under the name. None: the module defines neither."""
    defined = (node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef))
    return next((node for node in defined if node.name == attribute), None)


def _sources(plugin: Plugin, parts: list[str]) -> Iterator[bytes]:
    """The source of the plugin's module, from its first existing file."""
    files = ("/".join(parts) + ".py", "/".join([*parts, "__init__.py"]))
    if plugin.location is not None and plugin.location.form is LocationForm.WHEEL:
        with closing(zipfile.ZipFile(plugin.location.path)) as wheel:
            known = {entry.filename: entry for entry in wheel.infolist()}
            yield from (wheel.read(known[name]) for name in files if name in known and known[name].file_size <= _LARGEST)
        return
    root = _root(plugin, parts[0])
    for path in [] if root is None else map(root.joinpath, files):
        if path.is_file() and path.stat().st_size <= _LARGEST:
            yield path.read_bytes()


def _root(plugin: Plugin, top: str) -> Path | None:
    """The folder that contains the plugin's top-level module or package."""
    if plugin.location is not None:
        path = Path(plugin.location.path)
        return path.parent if plugin.location.form is LocationForm.MODULE else path
    spec = find_spec(top)  # (of a top-level module: nothing is imported)
    if spec is None:
        return None
    folders = list(spec.submodule_search_locations or ())
    return Path(folders[0]).parent if folders else None if spec.origin is None else Path(spec.origin).parent
