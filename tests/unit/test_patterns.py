"""Regular expressions of the package stay fast, whatever the text. ``python -m tests.unit.test_patterns`` prints the slowest ones.

The expressions are found in the source and used with the methods that the source calls, so a new one is covered as soon as it is written.
The texts are generated from each expression: repetitions of its beginnings and of characters that it accepts, followed by a mismatch.
"""

from __future__ import annotations

import ast
import functools
import importlib
import itertools
import re
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import airflow_provider_connect
from airflow_provider_connect.rest.secrets import Secrets

# no public module parses expressions; mypy knows the private ones only in some of its runs
codes: Any = importlib.import_module("re._constants")
parser: Any = importlib.import_module("re._parser")
ROOT = Path(airflow_provider_connect.__file__).parent
LENGTH = 1 << 16
MOST_SECONDS = 0.05  # of processor time; quadratic expressions take seconds
MOST_SECONDS_OF_CODE = 0.6  # of a function that uses several expressions: the slowest linear one takes 0.15 s
ATTEMPTS = 3  # a machine shared with others charges a thread for their caches
METHODS = {"match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"}
FLAGS = {"IGNORECASE": re.IGNORECASE, "DOTALL": re.DOTALL, "MULTILINE": re.MULTILINE, "ASCII": re.ASCII}
NAMED = (codes.LITERAL, codes.RANGE)
CHARACTERS = " a0Z_-.,;:/@=?&\\\"'`$#%()[]{}<>|+*!\t\n\x00~ä\ud800\U00010000"
MISMATCHES = ("\x02", "\n\x02")  # a dot accepts the first and not the second


@dataclass(frozen=True, slots=True)
class Pattern:
    where: str
    text: str | bytes
    flags: int
    method: str

    def __str__(self) -> str:
        return f"{self.where}.{self.method}"


def patterns_of(path: str, source: str) -> Iterator[Pattern]:
    """Each expression of a module, once per method that the module calls on it."""
    nodes = list(ast.walk(ast.parse(source)))
    assigned = list(assignments(nodes))
    constants = {target.id: value for target, value in assigned if isinstance(target, ast.Name)}
    owners = {id(value): ast.unparse(target) for target, value in assigned if isinstance(value, ast.Call) and function_of_re(value)}
    called: dict[str, set[str]] = {}
    at_once: dict[int, str] = {}
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr in METHODS:
            called.setdefault(ast.unparse(node.value), set()).add(node.attr)
            at_once[id(node.value)] = node.attr
    for node in nodes:
        if isinstance(node, ast.Call) and (function := function_of_re(node)):
            text = text_of(node.args[0], constants)
            if text is None:  # a given expression: test_only_the_workers_owner_gives_expressions_to_re
                continue
            methods = {at_once[id(node)]} if id(node) in at_once else called.get(owners.get(id(node), ""), {"match"})
            for method in sorted(methods) if function == "compile" else [function]:
                yield Pattern(f"{path}:{node.lineno}", text, flags_of(node), method)


def assignments(nodes: Iterable[ast.AST]) -> Iterator[tuple[ast.expr, ast.expr]]:
    for node in nodes:
        if isinstance(node, ast.Assign):
            yield from ((target, node.value) for target in node.targets)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            yield node.target, node.value


def function_of_re(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name) and call.func.value.id == "re" and call.args:
        return call.func.attr if call.func.attr in METHODS | {"compile"} else ""
    return ""


def flags_of(call: ast.Call) -> int:
    parts = (*call.args[1:], *(keyword.value for keyword in call.keywords))
    return sum(FLAGS.get(name.attr, 0) for part in parts for name in ast.walk(part) if isinstance(name, ast.Attribute))


def text_of(node: ast.expr, constants: dict[str, ast.expr]) -> str | bytes | None:
    """The expression, the module's constants put in; ``x`` for a variable part of an f-string."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str | bytes) else None
    if isinstance(node, ast.Name):
        return text_of(constants[node.id], constants) if node.id in constants else None
    if isinstance(node, ast.FormattedValue):
        text = text_of(node.value, constants)
        return "x" if text is None else text
    if isinstance(node, ast.JoinedStr):
        return "".join(str(text_of(part, constants)) for part in node.values)
    return None


def texts_for(pattern: str | bytes, flags: int) -> Iterator[str | bytes]:
    """Each beginning of a match, then one accepted character many times, then a mismatch; and each beginning many times."""
    parsed = parser.parse(pattern, flags)
    beginnings = dict.fromkeys(["", *beginnings_of(parsed)])
    characters = dict.fromkeys(characters_of(parsed))
    made = [*itertools.product(beginnings, characters), *(("", beginning) for beginning in beginnings if 0 < len(beginning) < 100)]
    has_lines = not flags & re.DOTALL and any(code is codes.ANY for code, _ in leaves(parsed))
    for before, part in made:
        for mismatch in MISMATCHES if has_lines else MISMATCHES[:1]:
            text = before + part * (LENGTH // len(part)) + mismatch
            yield text if isinstance(pattern, str) else text.encode("latin-1", "replace")


def characters_of(items: Iterable[Any]) -> Iterator[str]:
    """Some characters that a class of the expression accepts, and its literals."""
    for code, argument in leaves(items):
        if code is codes.LITERAL:
            yield chr(argument)
        else:
            yield from itertools.islice(accepted_by(code, argument), 3)


def leaves(items: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    for code, argument in items:
        if code in (codes.LITERAL, codes.NOT_LITERAL, codes.IN, codes.ANY):
            yield code, argument
        for inner in sequences_in(argument):
            yield from leaves(inner)


def sequences_in(argument: Any) -> Iterator[Any]:
    if isinstance(argument, parser.SubPattern):
        yield argument
    elif isinstance(argument, tuple | list):
        for part in argument:
            yield from sequences_in(part)


def accepted_by(code: Any, argument: Any) -> Iterator[str]:
    named = [chr(part[1] if part[0] is codes.LITERAL else part[1][0]) for part in argument if part[0] in NAMED] if code is codes.IN else []
    return (character for character in dict.fromkeys([*CHARACTERS, *named]) if accepts(code, argument, character))


def accepts(code: Any, argument: Any, character: str) -> bool:
    if code is codes.NOT_LITERAL:
        return bool(ord(character) != argument)
    if code is codes.ANY:
        return character != "\n"
    negated = argument[0][0] is codes.NEGATE
    return any(is_in(part, character) for part in argument) != bool(negated)


def is_in(part: tuple[Any, Any], character: str) -> bool:
    kind, argument = part
    if kind is codes.LITERAL:
        return bool(ord(character) == argument)
    if kind is codes.RANGE:
        return bool(argument[0] <= ord(character) <= argument[1])
    if kind is codes.CATEGORY:
        expression = {codes.CATEGORY_DIGIT: r"\d", codes.CATEGORY_WORD: r"\w", codes.CATEGORY_SPACE: r"\s"}
        negations = {codes.CATEGORY_NOT_DIGIT: r"\D", codes.CATEGORY_NOT_WORD: r"\W", codes.CATEGORY_NOT_SPACE: r"\S"}
        return re.match({**expression, **negations}[argument], character) is not None
    return False


def beginnings_of(items: Iterable[Any], before: str = "") -> Iterator[str]:
    """The shortest texts that lead to each group and repetition, and past it."""
    for code, argument in items:
        inner = list(sequences_in(argument))
        for sequence in inner:
            yield from beginnings_of(sequence, before)
        sample = sample_of(code, argument, inner)
        before += sample
        if inner:
            yield before


def sample_of(code: Any, argument: Any, inner: Sequence[Any]) -> str:
    if code is codes.LITERAL:
        return chr(argument)
    if code in (codes.IN, codes.NOT_LITERAL, codes.ANY):
        return min(accepted_by(code, argument), key=lambda character: not character.isalnum(), default="")
    if code in (codes.AT, codes.ASSERT, codes.ASSERT_NOT, codes.GROUPREF) or not inner:
        return ""
    once = "".join(sample_of(code, argument, list(sequences_in(argument))) for code, argument in inner[0])
    return once * min(max(argument[0], 1), 40) if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT) else once


class TooSlowError(Exception):
    pass


def use(compiled: re.Pattern[Any], method: str, text: str | bytes) -> None:
    if method in ("sub", "subn"):
        compiled.sub("" if isinstance(text, str) else b"", text)
    elif method in ("split", "findall", "finditer"):
        deque(compiled.finditer(text), maxlen=0)
    else:
        getattr(compiled, method)(text)


def is_slow(work: Callable[[], object], seconds: float = MOST_SECONDS_OF_CODE) -> bool:
    """Whether ``work`` takes more than ``seconds`` of this thread's processor time, and each time anew; it is interrupted then."""
    return all(_exceeds(work, seconds) for _ in range(ATTEMPTS))


def _exceeds(work: Callable[[], object], seconds: float) -> bool:
    """Untraced: coverage takes time of its own, and an exception in the middle of it leaves its lock taken."""

    is_over = False

    def check(*_: object) -> None:
        nonlocal is_over
        if not is_over and time.thread_time() - begun > seconds:
            is_over = True
            raise TooSlowError

    tracer, before = sys.gettrace(), signal.signal(signal.SIGVTALRM, check)
    sys.settrace(None)
    begun = time.thread_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, 0.05)
    try:
        try:
            work()
        finally:
            is_over = True
    except TooSlowError:
        return True
    except SystemError as error:  # raised during a call of C code that does not expect an exception
        if not isinstance(error.__cause__, TooSlowError):
            raise
        return True
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        sys.settrace(tracer)
        signal.signal(signal.SIGVTALRM, before)
    return time.thread_time() - begun > seconds


def slow_text(pattern: Pattern) -> str | bytes | None:
    compiled = re.compile(pattern.text, pattern.flags)
    texts = texts_for(pattern.text, pattern.flags)
    return next((text for text in texts if is_slow(functools.partial(use, compiled, pattern.method, text), MOST_SECONDS)), None)


SOURCES = {str(file.relative_to(ROOT)): file.read_text() for file in sorted(ROOT.rglob("*.py"))}
WORD_RE = re.compile(r"\bre\b")  # is in each module that imports or calls it, and in few others, which need not be parsed
IMPORTS_RE = re.compile(r"^import re$", re.MULTILINE)
FOUND = [pattern for path, source in SOURCES.items() if IMPORTS_RE.search(source) for pattern in patterns_of(path, source)]


def test_the_expressions_of_the_package_are_found() -> None:
    assert len(FOUND) > 100
    methods = {(pattern.where.partition(":")[0], pattern.method) for pattern in FOUND}
    assert methods >= {
        ("rest/request_checks.py", "fullmatch"),
        ("runtime/model/url_passwords.py", "finditer"),
        ("connectors/commit_files.py", "fullmatch"),
    }
    assert methods >= {
        ("runtime/config/properties.py", "split"),
        ("runtime/config/properties.py", "sub"),
        ("transforms/java_regex.py", "match"),
    }


GIVEN_BY_THE_WORKERS_OWNER = {"runtime/config/built_in_providers.py": "allowlist.pattern, for names that the environment has"}
BUILT_OF_OUR_OWN = {
    "connectors/jdbc/database/database_errors.py": "of the words of dialects, which are constants",
    "connectors/jdbc/sink/store.py": "of the quotes of dialects, each escaped",
}
COMPILED_ONLY = {"sdk/bounded_regex.py": "whose own engine matches"}


def given_to_re(source: str) -> list[str]:
    """Calls of ``re`` in a module whose expression is not written there."""
    tree = ast.parse(source)
    constants = {target.id: value for target, value in assignments(ast.walk(tree)) if isinstance(target, ast.Name)}
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and function_of_re(node))
    return [ast.unparse(call) for call in calls if text_of(call.args[0], constants) is None]


def test_only_the_workers_owner_gives_expressions_to_re() -> None:
    """What a connector's config gives is matched by ``BoundedRegex``: nothing can end a match of ``re`` but the end of its process."""
    found = {path: given_to_re(source) for path, source in SOURCES.items() if WORD_RE.search(source)}
    assert {path for path, calls in found.items() if calls} == {*GIVEN_BY_THE_WORKERS_OWNER, *BUILT_OF_OUR_OWN, *COMPILED_ONLY}, found
    assert found["sdk/bounded_regex.py"] == ["re.compile(expression, flags)"]


@pytest.mark.parametrize(
    "line", ["re.fullmatch(config['p'], x)", "re.compile(value or '')", "re.compile('|'.join(values))", "re.sub(p, '', x)"]
)
def test_expressions_that_are_given_to_re_are_found(line: str) -> None:
    assert given_to_re(f"import re\n{line}") == [line]
    assert given_to_re("import re\nP = 'a+'\nre.compile(P)\nre.compile(rf'{re.escape(x)}b')") == []


def test_re_is_used_by_its_name() -> None:
    """So that the tests above see each use."""
    for path in (path for path, source in SOURCES.items() if WORD_RE.search(source)):
        for node in ast.walk(ast.parse(SOURCES[path])):
            assert not (isinstance(node, ast.ImportFrom) and node.module == "re"), path
            assert not (isinstance(node, ast.Import) and any(name.name == "re" and name.asname for name in node.names)), path


def seconds_of(pattern: Pattern) -> float:
    """The most processor time that one text takes, the least of some attempts."""
    compiled = re.compile(pattern.text, pattern.flags)
    return max(min(_seconds(compiled, pattern.method, text) for _ in range(ATTEMPTS)) for text in texts_for(pattern.text, pattern.flags))


def _seconds(compiled: re.Pattern[Any], method: str, text: str | bytes) -> float:
    begun = time.thread_time()
    use(compiled, method, text)
    return time.thread_time() - begun


@pytest.mark.parametrize("pattern", FOUND, ids=str)
def test_no_text_makes_an_expression_slow(pattern: Pattern) -> None:
    text = slow_text(pattern)
    assert text is None, f"{pattern.text!r} takes more than {MOST_SECONDS} s for {text[:80]!r}…"


@pytest.mark.parametrize(
    ("expression", "method"),
    [
        (r"(\s*\$\{[^}]*\}\s*)+", "fullmatch"),
        (r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}", "finditer"),
        (r"\s*(\d+(?:\.\d+)?)\s*(ms|s|)\s*x?\s*", "fullmatch"),
        (r"([\w.]+)\s*=", "findall"),
        (r"(a+)+b", "match"),
        (rb"\s*\{", "search"),
    ],
)
def test_slow_expressions_are_detected(expression: str | bytes, method: str) -> None:
    assert slow_text(Pattern("", expression, 0, method)) is not None


HOSTILE = [
    *(
        "${",
        "${a}",
        "${a} ",
        "${a:b}",
        " ",
        "a ",
        "://",
        "https://a:",
        "://a:b@",
        "a:b@",
        "@",
        "u:p@h:1/",
        "1:",
        "/",
        "a,",
        "a.",
        "-",
        "user:",
    ),
    *("password=", "password=a&", "?password=${a}", "password=${", '"password=', "\\", "'"),
]


@pytest.mark.parametrize("part", HOSTILE)
@pytest.mark.parametrize("end", ["", "!", "}", "@h"])
def test_no_stored_config_makes_hiding_its_secrets_slow(part: str, end: str) -> None:
    value = part * (LENGTH // len(part)) + end
    secrets = Secrets(lambda plugin, version: [])
    for key in ("topics", "db.password", "transforms", "connector.class", value):
        config = {"connector.class": "Shop", key: value}
        assert not is_slow(functools.partial(secrets.redacted, config)), f"{key[:40]}={value[:40]}…"


if __name__ == "__main__":
    slowest = sorted(((seconds_of(pattern), str(pattern)) for pattern in FOUND), reverse=True)
    print("\n".join(f"{seconds * 1000:7.2f} ms  {where}" for seconds, where in slowest[:10]))
