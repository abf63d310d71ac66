"""What a single module file says of its plugins: the classes that extend those of ``sdk``, read from its syntax tree, not imported."""

from __future__ import annotations

import ast
import os

from airflow_provider_connect.model.versions import UNDEFINED
from airflow_provider_connect.plugins.catalog.plugin_kinds import Declarations, Declared, PluginKind

_BASES = {
    "SourceConnector": PluginKind.SOURCE,
    "SinkConnector": PluginKind.SINK,
    "Transformation": PluginKind.TRANSFORMATION,
    "Predicate": PluginKind.PREDICATE,
    "Converter": PluginKind.CONVERTER,
    "HeaderConverter": PluginKind.HEADER_CONVERTER,
}

_MOST_BYTES = 8 << 20  # a syntax tree takes some fifty times as much


def in_module(path: str) -> Declarations:
    """The plugins of one module file. Their version is the module's ``__version__`` or the class's own ``version``, given as text."""
    module = os.path.basename(path).removesuffix(".py")
    try:
        with open(path, "rb") as file:
            source = file.read(_MOST_BYTES + 1)
        if len(source) > _MOST_BYTES:
            return Declarations([], [f"module {path} cannot be read: it has more than {_MOST_BYTES >> 20} MiB"])
        tree = ast.parse(source, path)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return Declarations([], [f"module {path} cannot be read: {error}"])
    version = _text(tree.body, "__version__") or UNDEFINED
    kinds: dict[str, set[PluginKind]] = {}
    plugins: list[Declared] = []
    for node in tree.body:
        if not isinstance(node, ast.ClassDef):
            continue
        kinds[node.name] = _kinds(node, kinds)
        if node.name.startswith("_"):
            continue
        class_name = _text(node.body, "class_name") or f"{module}.{node.name}"
        own_version = _text(node.body, "version") or version
        plugins += [Declared(kind, class_name, f"{module}:{node.name}", own_version) for kind in sorted(kinds[node.name])]
    return Declarations(plugins, [])


def _kinds(node: ast.ClassDef, known: dict[str, set[PluginKind]]) -> set[PluginKind]:
    found: set[PluginKind] = set()
    for base in node.bases:
        plain = base.value if isinstance(base, ast.Subscript) else base
        name = plain.attr if isinstance(plain, ast.Attribute) else plain.id if isinstance(plain, ast.Name) else ""
        found |= known.get(name, set())
        if name in _BASES and name not in known:
            found.add(_BASES[name])
    return found


def _text(body: list[ast.stmt], name: str) -> str:
    """What ``name = "…"`` in ``body`` sets."""
    for node in body:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                return value.value
    return ""
