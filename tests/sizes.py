"""Warns of modules and functions that have grown long: ``python -m tests.sizes``, part of ``make check`` and ``make test``.

A long module is no error. Ask whether it names one noun; if it does, leave it whole.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "airflow_provider_connect"
MODULE_LINES = 800
FUNCTION_LINES = 60


def warnings(package: Path = PACKAGE) -> Iterator[str]:
    """One line for each module and function above its number of lines."""
    for file in sorted(package.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        path = file.relative_to(package.parent)
        if (count := text.count("\n")) > MODULE_LINES:
            yield f"{path}: {count} lines: does it name one noun?"
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if (length := (node.end_lineno or 0) - node.lineno + 1) > FUNCTION_LINES:
                yield f"{path}:{node.lineno}: {node.name} has {length} lines"


if __name__ == "__main__":
    for line in warnings():
        print(f"warning: {line}")
