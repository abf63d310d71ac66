"""A time limit in a test ends only what hangs, and comes from ``tests/waiting.py``. A number that a test is about has a name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
KEYWORDS = frozenset({"request_timeout", "timeout", "timeout_seconds", "within_seconds"})
METHODS = frozenset({"flush", "join", "result", "settimeout", "wait"})
CLOCKS = frozenset({"monotonic", "perf_counter", "time"})
INSTEAD = (
    "wait with wait_until, or take HANG_SECONDS, of tests/waiting.py; a number that the test is about becomes a constant with a name for it"
)


def limits(source: str) -> Iterator[tuple[int, str]]:
    """Line number and line of each limit that is written as a number. Zero does not wait, and a ``while`` that waits polls."""
    nodes, lines = list(ast.walk(ast.parse(source))), source.splitlines()
    polls = {id(call) for loop in nodes if isinstance(loop, ast.While) for call in ast.walk(loop.test)}
    for node in nodes:
        if id(node) not in polls:
            yield from ((limit.lineno, lines[limit.lineno - 1].strip()) for limit in _limits_of(node) if _is_number(limit))


def _limits_of(node: ast.AST) -> Iterator[ast.expr]:
    match node:
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            yield from [right] if _is_clock(left) else [left] if _is_clock(right) else []
        case ast.Compare(left=ast.BinOp(op=ast.Sub(), left=clock), ops=[ast.Lt() | ast.LtE()], comparators=[limit]) if _is_clock(clock):
            yield limit
        case ast.Call(func=function, args=arguments, keywords=keywords):
            yield from (keyword.value for keyword in keywords if keyword.arg in KEYWORDS)
            if isinstance(function, ast.Attribute) and function.attr in METHODS and len(arguments) == 1:
                yield arguments[0]
        case ast.arguments(args=positional, defaults=defaults, kwonlyargs=keyword_only, kw_defaults=of_keywords):
            pairs = [*zip(positional[-len(defaults) :], defaults, strict=False), *zip(keyword_only, of_keywords, strict=True)]
            yield from (default for name, default in pairs if name.arg in KEYWORDS and default is not None)
        case ast.Assign(targets=[ast.Name(id="HANG_SECONDS")], value=value):
            yield value


def _is_clock(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and not node.args and ast.unparse(node.func).rpartition(".")[2] in CLOCKS


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_number(node.left) and _is_number(node.right)
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and node.value is not False and node.value != 0


def test_no_limit_of_a_test_is_a_number() -> None:
    files = [file for file in TESTS.rglob("*.py") if file != TESTS / "suite.py"]
    found = [f"{file.relative_to(TESTS.parent)}:{line}: {text}" for file in files for line, text in limits(file.read_text("utf-8"))]
    assert not found, "\n".join([*found, INSTEAD])


@pytest.mark.parametrize(
    "planted",
    [
        "deadline = time.monotonic() + 30",
        "until = 2 * 60 + time.time()",
        "assert time.monotonic() - started < 30",
        "process.wait(10)",
        "thread.join(5.0)",
        "future.result(10)",
        "assert done.wait(timeout=5)",
        "queue.get(timeout=60)",
        "subprocess.run(command, timeout=300)",
        "expect(page).to_have_text('x', timeout=20_000)",
        "wait_until(condition, 'what', within_seconds=20)",
        "producer.flush(60)",
        "def until(condition, within_seconds=120): pass",
        "def until(condition, *, timeout_seconds: float = 20.0): pass",
        "HANG_SECONDS = 20",
    ],
)
def test_a_number_is_found(planted: str) -> None:
    assert list(limits(f"import time\n{planted}\n")) == [(2, planted)]


@pytest.mark.parametrize(
    "allowed",
    [
        "deadline = time.monotonic() + HANG_SECONDS",
        "assert time.monotonic() - started >= 0.3",
        "process.wait(2 * HANG_SECONDS)",
        "process.wait()",
        "signal.wait(0)",
        "queue.get(timeout=None)",
        "', '.join(names)",
        "while not enough.wait(0.05): pass",
        "FROZEN_SECONDS = 1.0\nadmin.list_topics(timeout=FROZEN_SECONDS)",
        "began = time.monotonic() - 30",
    ],
)
def test_what_is_no_number_is_not_found(allowed: str) -> None:
    assert list(limits(allowed)) == []
