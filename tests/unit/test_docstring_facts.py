"""What docstrings name exists: parameters and attributes that open a sentence, modules, and the tree of exceptions."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator, Sequence, Set
from pathlib import Path

import pytest

import airflow_provider_connect
from airflow_provider_connect import errors
from tests.paused_collector import paused_collector

PACKAGE = Path(airflow_provider_connect.__file__).parent
OPENS_SENTENCE = re.compile(r"(?:^|\.\s+|\n\s*\n\s*)``([a-z_][a-z0-9_]*)``(?=[ ,])")
MODULE = re.compile(r"``((?:[a-z]+\.)*[a-z]+_[a-z_]+(?:\.[a-z_]+)+|(?:[a-z_]+\.)+[a-z]+_[a-z_]+)``")
"""Settings have dots without underscores."""
Named = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    given = function.args
    optional = [each for each in (given.vararg, given.kwarg) if each is not None]
    return {each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs, *optional)}


def names_in(node: ast.AST) -> set[str]:
    """Every name that the code of a class or module defines, at any depth."""
    names: set[str] = set()
    for each in ast.walk(node):
        match each:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                names.add(name)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                names |= {each.name, *parameters(each)}
            case ast.ClassDef(name=name):
                names.add(name)
    return names


def own_names(node: Named, bases: dict[str, set[str]]) -> set[str]:
    if not isinstance(node, ast.ClassDef):
        return parameters(node)
    inherited = (bases.get(ast.unparse(base).partition("[")[0].rpartition(".")[2], set()) for base in node.bases)
    return names_in(node).union(*inherited)


def documented(node: ast.AST, names: Set[str], bases: dict[str, set[str]]) -> Iterator[tuple[Named, str, Set[str]]]:
    """Each function and class with its docstring and the names that may open a sentence in it."""
    for each in ast.iter_child_nodes(node):
        inner = names | own_names(each, bases) if isinstance(each, Named) else names
        if isinstance(each, Named) and (docstring := ast.get_docstring(each)):
            yield each, docstring, inner
        yield from documented(each, inner, bases)


def bases_of(trees: list[ast.Module]) -> dict[str, set[str]]:
    """The names of each class, by the class's name. Classes of one name are counted as one, and bases of bases are left out."""
    bases: dict[str, set[str]] = {}
    for each in (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        bases.setdefault(each.name, set()).update(names_in(each))
    return bases


def unknown_names(tree: ast.Module, bases: dict[str, set[str]]) -> Iterator[tuple[int, str]]:
    """Line and name of each sentence that a name opens which is neither a parameter nor an attribute there, nor one of Python's."""
    known = {each.name for each in tree.body if isinstance(each, Named)} | set(dir(builtins))
    for node, docstring, names in documented(tree, known, bases):
        yield from ((node.lineno, name) for name in OPENS_SENTENCE.findall(docstring) if name not in names)


def is_module(name: str, folders: Sequence[Path]) -> bool:
    """Whether a dotted name is a module, or something that a module has. True if its first part is none of the package's ``folders``."""
    first, *rest = name.split(".")
    roots = [each for each in folders if each.name == first]
    return not roots or any(_resolves(root, rest) for root in roots)


def _resolves(folder: Path, parts: list[str]) -> bool:
    path = folder.joinpath(*parts)
    if path.is_dir() or path.with_suffix(".py").exists():
        return True
    files = [path.parent.with_suffix(".py"), path.parent / "__init__.py", path.parent / "__init__.pyi"]
    return any(re.search(rf"\b{re.escape(parts[-1])}\b", file.read_text("utf-8")) for file in files if file.exists())


@pytest.fixture(scope="module")
def trees() -> dict[Path, ast.Module]:
    with paused_collector():
        return {file: ast.parse(file.read_text("utf-8")) for file in sorted(PACKAGE.rglob("*.py")) if "skeleton" not in file.parts}


def test_a_name_that_opens_a_sentence_is_a_parameter_or_an_attribute(trees: dict[Path, ast.Module]) -> None:
    bases = bases_of(list(trees.values()))
    found = [
        f"{file.relative_to(PACKAGE.parent)}:{line}: ``{name}``"
        for file, tree in trees.items()
        for line, name in unknown_names(tree, bases)
    ]
    assert not found, "\n".join(found)


def test_a_module_that_a_docstring_names_exists(trees: dict[Path, ast.Module]) -> None:
    folders = [path for path in PACKAGE.rglob("*") if path.is_dir()]
    found = []
    for file, tree in trees.items():
        docstrings = [ast.get_docstring(each) or "" for each in ast.walk(tree) if isinstance(each, Named | ast.Module)]
        named = [name for text in docstrings for name in MODULE.findall(text)]
        found += [f"{file.relative_to(PACKAGE.parent)}: ``{name}``" for name in named if not is_module(name, folders)]
    assert not found, "\n".join(found)


def test_the_tree_of_exceptions_has_every_class_below_its_base() -> None:
    docstring = errors.__doc__ or ""
    lines = re.findall(r"^ {4}((?:[│ ] {3})*(?:[├└]── )?)([A-Z]\w+Exception) +(\d{3})\b", docstring, re.MULTILINE)
    path: list[str] = []
    drawn = {}
    for indent, name, status in lines:
        path = [*path[: len(indent) // 4], name]
        drawn[name] = (path[-2] if len(path) > 1 else "Exception", int(status))
    classes = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, errors.ConnectException)]
    assert drawn == {each.__name__: (each.__bases__[0].__name__, each.status_code) for each in classes}


@pytest.mark.parametrize(
    ("docstring", "wrong"),
    [
        ("Reads. ``path`` is the file.", []),
        ("Reads. ``wire`` is the file.", ["wire"]),
        ("Reads.\n\n    ``wire``, if given, is the file.", ["wire"]),
        ("Reads the file. None: ``wire`` is not given.", []),
    ],
)
def test_a_wrong_name_is_found(docstring: str, wrong: list[str]) -> None:
    tree = ast.parse(f'def read(path):\n    """{docstring}"""\n')
    assert [name for _, name in unknown_names(tree, {})] == wrong


def test_a_wrong_module_is_found() -> None:
    folders = [PACKAGE / "kafka_client"]
    assert MODULE.findall("``sdk.kafka_settings``, ``errors.retry.timeout``") == ["sdk.kafka_settings"]
    assert is_module("kafka_client.settings", folders)
    assert not is_module("kafka_client.client_config", folders)
