"""Reads the declarations of locations, in all their forms, and of the environment. A broken location does not affect other locations."""

from __future__ import annotations

import ast
import os
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping

from airflow_provider_connect.runtime.java.catalog import location as java_location
from airflow_provider_connect.runtime.model.plugin_kinds import Declarations, Declared, PluginKind, hash_version
from airflow_provider_connect.runtime.plugins.catalog import plugin_metadata
from airflow_provider_connect.runtime.plugins.loading.plugin_path import Location, LocationForm, modules_in

_BASES = {
    "SourceConnector": PluginKind.SOURCE,
    **dict.fromkeys(("SinkConnector", "TransactionalSink", "SqlSink", "KeyedSink"), PluginKind.SINK),
    "Transformation": PluginKind.TRANSFORMATION,
    "Predicate": PluginKind.PREDICATE,
    "Converter": PluginKind.CONVERTER,
    "HeaderConverter": PluginKind.HEADER_CONVERTER,
}

_DECORATORS = {"source": PluginKind.SOURCE, "sink": PluginKind.SINK, "transformation": PluginKind.TRANSFORMATION}
_FACTORIES = {"rest_source": PluginKind.SOURCE}
_SDK = "airflow_provider_connect.sdk"

_MOST_BYTES = 8 << 20  # bytes of a source file; its syntax tree is some fifty times as large


def read_location(location: Location) -> Declarations:
    """The declarations of a location. Never raises: an unreadable location is a problem in the result."""
    try:
        declared = _declared(location)
    except Exception as error:  # (an untrusted archive can make zipfile raise almost anything)
        return Declarations([], [f"it cannot be read: {str(error) or type(error).__name__}"])
    if not declared.plugins and not declared.problems:
        declared.problems.append(
            f"it declares no plugins: no entry points of the group {plugin_metadata.GROUP}, no module with a connector"
        )
    return declared


def read_environment() -> Iterator[tuple[str, Declarations]]:
    """The declarations of the distributions on ``sys.path``, for each entry of ``sys.path`` in order."""
    for entry in dict.fromkeys(sys.path):
        try:
            if entry.endswith((".zip", ".whl", ".egg")):
                yield entry, plugin_metadata.in_wheel(entry)
            else:
                yield entry, plugin_metadata.installed_in(entry or ".")
        except (OSError, zipfile.BadZipFile):
            continue


def _declared(location: Location) -> Declarations:
    match location.form:
        case LocationForm.WHEEL:
            return plugin_metadata.in_wheel(location.path)
        case LocationForm.MODULE:
            return in_module(location.path)
        case LocationForm.JAVA:
            return java_location.read(location.path)
    declared = plugin_metadata.in_tree(location.path)
    if not declared.plugins and not declared.problems:
        for path in modules_in(location.path):
            of_module = in_module(path)
            declared.plugins += of_module.plugins
            declared.problems += of_module.problems
    return declared


def in_module(path: str) -> Declarations:
    """The plugins of one module file: classes, functions with a decorator of the ``sdk``, and results of ``rest_source`` or of a function
    of the module that passes its first argument to it.

    The version of the plugins is the module's ``__version__`` or the class's own ``version``, if that is a literal text. Otherwise, the
    version is the hash of the file."""
    module = os.path.basename(path).removesuffix(".py")
    try:
        with open(path, "rb") as file:
            source = file.read(_MOST_BYTES + 1)
        if len(source) > _MOST_BYTES:
            return Declarations([], [f"module {path} cannot be read: it has more than {_MOST_BYTES >> 20} MiB"])
        tree = ast.parse(source, path)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return Declarations([], [f"module {path} cannot be read: {error}"])
    version = _text(tree.body, "__version__") or hash_version(source)
    kinds: dict[str, set[PluginKind]] = {}
    decorators, factories = _sdk_names(tree.body, _DECORATORS), _sdk_names(tree.body, _FACTORIES)
    factories |= _own_factories(tree.body, factories)
    unreadable = {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and _creates(node, factories, decorators)}
    plugins: list[Declared] = []
    problems: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.Assign) and (found := _assigned(node, factories)) is not None:
            name, kind, problem = found
            plugins += [] if problem else [Declared(kind, f"{module}.{name}", f"{module}:{name}", version)]
            problems += [f"module {path}, line {node.lineno}: {problem}"] if problem else []
        elif isinstance(node, ast.Assign) and (name := _public_target(node)) and isinstance(node.value, ast.Call):
            called = ast.unparse(node.value.func)
            if called in unreadable and called not in factories:
                reason = (
                    f"{name} = {called}(…) is not found as a plugin: {called} must return rest_source(name, …) with its own first parameter"
                )
                problems.append(f"module {path}, line {node.lineno}: {reason}, and @source works at the top level of a module only")
        if isinstance(node, ast.AsyncFunctionDef) and _kinds_of_function(node, decorators):
            problems.append(f"module {path}, line {node.lineno}: {node.name} is async; a decorated function must not be")
        if not isinstance(node, ast.ClassDef | ast.FunctionDef):
            continue
        body = node.body if isinstance(node, ast.ClassDef) else []
        kinds[node.name] = _kinds(node, kinds) if isinstance(node, ast.ClassDef) else _kinds_of_function(node, decorators)
        if node.name.startswith("_"):
            continue
        class_name = _text(body, "class_name") or f"{module}.{node.name}"
        own_version = _text(body, "version") or version
        plugins += [Declared(kind, class_name, f"{module}:{node.name}", own_version) for kind in sorted(kinds[node.name])]
    counts = Counter((plugin.kind, plugin.reference) for plugin in plugins)
    several = sorted({reference.partition(":")[2] for (_, reference), count in counts.items() if count > 1})
    once = [plugin for plugin in plugins if counts[plugin.kind, plugin.reference] == 1]
    problems += [f"module {path} defines plugin {name} more than once; please keep one" for name in several]
    return Declarations(once, problems)


def _sdk_names(body: list[ast.stmt], names: Mapping[str, PluginKind]) -> dict[str, PluginKind]:
    """Functions of the ``sdk`` by their names in the module, such as ``source``, ``sdk.source``."""
    found: dict[str, PluginKind] = {}
    for node in body:
        if isinstance(node, ast.ImportFrom) and node.module == _SDK:
            found |= {alias.asname or alias.name: names[alias.name] for alias in node.names if alias.name in names}
        elif isinstance(node, ast.Import | ast.ImportFrom):
            package = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            for alias in node.names:
                if package + alias.name == _SDK:
                    found |= {f"{alias.asname or alias.name}.{name}": kind for name, kind in names.items()}
    return found


def _kinds_of_function(node: ast.FunctionDef | ast.AsyncFunctionDef, decorators: Mapping[str, PluginKind]) -> set[PluginKind]:
    called = (decorator.func if isinstance(decorator, ast.Call) else decorator for decorator in node.decorator_list)
    return {decorators[name] for each in called if (name := ast.unparse(each)) in decorators}


def _own_factories(body: list[ast.stmt], factories: Mapping[str, PluginKind]) -> dict[str, PluginKind]:
    """The functions of the module that return ``factory(name, …)``, where ``name`` is their own first parameter."""
    found: dict[str, PluginKind] = {}
    for node in body:
        if isinstance(node, ast.FunctionDef) and isinstance(last := node.body[-1], ast.Return) and isinstance(call := last.value, ast.Call):
            first = [parameter.arg for parameter in (*node.args.posonlyargs, *node.args.args)][:1]
            if (factory := ast.unparse(call.func)) in factories and first and [ast.unparse(value) for value in call.args[:1]] == first:
                found[node.name] = factories[factory]
    return found


def _creates(node: ast.FunctionDef, factories: Mapping[str, PluginKind], decorators: Mapping[str, PluginKind]) -> bool:
    """Whether the body of a function calls a factory, or has a function with a decorator of the ``sdk``."""
    inner = [each for statement in node.body for each in ast.walk(statement)]
    return any(
        (isinstance(each, ast.Call) and ast.unparse(each.func) in factories)
        or (isinstance(each, ast.FunctionDef) and bool(_kinds_of_function(each, decorators)))
        for each in inner
    )


def _public_target(node: ast.Assign) -> str:
    """The name to which the value is assigned. Empty for names with an underscore and for other targets."""
    target = node.targets[0]
    return target.id if isinstance(target, ast.Name) and not target.id.startswith("_") else ""


def _assigned(node: ast.Assign, factories: Mapping[str, PluginKind]) -> tuple[str, PluginKind, str] | None:
    """Name and kind of the class that ``Name = factory("Name", …)`` creates, and the problem of the assignment, if any. None for other
    assignments."""
    call, name = node.value, _public_target(node)
    if not isinstance(call, ast.Call) or not name or not call.args:
        return None
    factory = ast.unparse(call.func)
    if factory not in factories:
        return None
    is_named = isinstance(call.args[0], ast.Constant) and call.args[0].value == name
    problem = "" if is_named else f"{name} = {factory}({ast.unparse(call.args[0])}, …): the first argument must be {name!r}"
    return name, factories[factory], problem


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
    """The value of ``name = "…"`` in ``body``."""
    for node in body:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                return value.value
    return ""
