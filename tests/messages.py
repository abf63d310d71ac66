"""The texts in the package's source: messages, descriptions of settings, commands that are printed. The source is read once.

Docstrings are left out. Constants are put in for their names, ``…`` for every other value, so that a message that names a setting by its
constant can be compared with settings.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tests.paused_collector import paused_collector

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGE: Final = "airflow_provider_connect"
_FORMAT = re.compile(r"\{\w*\}|%(?:\.\d+)?[srdgf]")
_WITHOUT_TEXTS = {"annotation", "returns", "ctx", "op", "ops"}
_CLASS = re.compile(r"^ *class (\w+)", re.MULTILINE)
_DEEPEST = 8


@dataclass(frozen=True, slots=True)
class Text:
    """A text of the source. ``file`` is relative to the package."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


@dataclass(frozen=True, slots=True)
class Source:
    """``classes`` has the names of all classes."""

    texts: tuple[Text, ...]
    classes: frozenset[str]


@cache
@paused_collector()
def source() -> Source:
    """All texts, in the order of the files."""
    sources = {name: file.read_text(encoding="utf-8") for name, file in _files()}
    modules = {name: _Module.of(ast.parse(text)) for name, text in sources.items()}
    return Source(
        tuple(
            Text("/".join(name.split(".")[1:]) + ".py", line, _FORMAT.sub("…", text))
            for name in modules
            for line, text in _Texts(modules).of(name)
        ),
        frozenset(name for text in sources.values() for name in _CLASS.findall(text)),
    )


def _files() -> Iterator[tuple[str, Path]]:
    for file in sorted((ROOT / PACKAGE).rglob("*.py")):
        yield ".".join(file.relative_to(ROOT).with_suffix("").parts), file


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Those that may have texts, each before the nodes in it. Faster than ``ast.walk``."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for name in node._fields:
            if name not in _WITHOUT_TEXTS:
                value = getattr(node, name, None)
                if isinstance(value, list):
                    waiting += [each for each in value if isinstance(each, ast.AST)]
                elif isinstance(value, ast.AST):
                    waiting.append(value)


@dataclass(frozen=True, slots=True)
class _Module:
    """``imported`` has module and name, by the name here."""

    tree: ast.Module
    constants: Mapping[str, ast.expr]
    imported: Mapping[str, tuple[str, str]]

    @classmethod
    def of(cls, tree: ast.Module) -> _Module:
        return cls(tree, dict(_constants(tree)), dict(_imports(tree)))


def _constants(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            yield node.target.id, node.value
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    yield target.id, node.value
                elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    pairs = zip(target.elts, node.value.elts, strict=False)
                    yield from ((name.id, value) for name, value in pairs if isinstance(name, ast.Name))


def _imports(tree: ast.Module) -> Iterator[tuple[str, tuple[str, str]]]:
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from ((alias.asname or alias.name, (node.module, alias.name)) for alias in node.names)


@dataclass(frozen=True, slots=True)
class _Texts:
    modules: Mapping[str, _Module]

    def of(self, name: str) -> Iterator[tuple[int, str]]:
        """Each text of a module with its line. A part of a text is none of its own."""
        parts = set[ast.AST]()
        for node in _nodes(self.modules[name].tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                parts.add(node.value)  # a docstring
            elif isinstance(node, ast.JoinedStr | ast.BinOp):
                text = self._text(node, name, _DEEPEST)
                if text is None:
                    continue
                parts.update(_inner(node))
                if node not in parts and text.strip("…"):
                    yield node.lineno, text
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in parts:
                yield node.lineno, node.value

    def _text(self, node: ast.expr, name: str, depth: int) -> str | None:
        """None: not a text."""
        match node:
            case ast.Constant(value=str() as text):
                return text
            case ast.JoinedStr():
                return "".join(self._text(_value(part), name, depth) or "…" for part in node.values)
            case ast.BinOp(op=ast.Add()) if depth:
                left, right = self._text(node.left, name, depth - 1), self._text(node.right, name, depth - 1)
                return None if left is None and right is None else f"{left or '…'}{right or '…'}"
            case ast.Name() if depth:
                return self._constant(node.id, name, depth - 1)
            case ast.Attribute(value=ast.Name(id=module), attr=attribute) if depth and (where := self.modules[name].imported.get(module)):
                return self._constant(attribute, ".".join(where), depth - 1)
        return None

    def _constant(self, constant: str, name: str, depth: int) -> str | None:
        module = self.modules.get(name)
        if module is None or depth < 0:
            return None
        if constant in module.constants:
            return self._text(module.constants[constant], name, depth)
        where, other = module.imported.get(constant, ("", ""))
        return self._constant(other, where, depth - 1)


def _value(part: ast.expr) -> ast.expr:
    return part.value if isinstance(part, ast.FormattedValue) else part


def _inner(node: ast.expr) -> Iterator[ast.expr]:
    """What is a part of this text: not a call in it, whose own texts come alone."""
    parts = [_value(part) for part in node.values] if isinstance(node, ast.JoinedStr) else [node.left, node.right]  # type: ignore[attr-defined]
    for part in parts:
        yield part
        if isinstance(part, ast.JoinedStr) or (isinstance(part, ast.BinOp) and isinstance(part.op, ast.Add)):
            yield from _inner(part)
