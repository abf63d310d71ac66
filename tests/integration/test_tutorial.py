"""``docs/tutorial.md`` as a reader would follow it: its files written, its commands run in one shell, what they print compared."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.scratch_environment import CHECKOUT, scratch_environment

TUTORIAL = CHECKOUT / "docs" / "tutorial.md"
BROKER = "localhost:9092"
_FENCE = re.compile(r"^```(\w+)(?: ([^\n]+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_DONE = "EXIT CODE OF THE LAST COMMAND:"


@dataclass(frozen=True)
class Step:
    """A file to write, or a command with what it prints."""

    file: str | None
    text: str
    printed: str = ""


def steps(text: str) -> Iterator[Step]:
    """In the order of the page; what is marked ``by-hand`` and what is only shown is left out."""
    for kind, mark, body in _FENCE.findall(text):
        if kind != "console":
            if mark:
                yield Step(mark, body)
            continue
        if mark == "by-hand":
            continue
        for piece in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
            command, _, printed = piece.partition("\n")
            yield Step(None, command, printed)


def is_printed(expected: str, found: str) -> bool:
    """``…`` on a line of its own stands for any lines or none, within a line for any text."""
    lines = [r"(?:.*\n)*" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + r"\n" for line in expected.splitlines()]
    return re.fullmatch("".join(lines), found) is not None


class Shell:
    """One shell for all commands: directories and variables last."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            ["bash", "--norc"],
            cwd=directory,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, command: str) -> tuple[str, int]:
        """What it printed, and its exit code."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f'{{ {command}; }} </dev/null\necho "{_DONE}$?"\n')
        self._process.stdin.flush()
        printed: list[str] = []
        for line in self._process.stdout:
            before, mark, code = line.partition(_DONE)
            if mark:
                return "".join([*printed, before]), int(code)
            printed.append(line)
        raise AssertionError(f"the shell ended in {command}:\n{''.join(printed)}")

    def __enter__(self) -> Shell:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.mark.timeout(600)
def test_every_command_does_what_the_page_says(tmp_path: Path, bootstrap: str) -> None:
    (tmp_path / "work").mkdir()
    text = TUTORIAL.read_text(encoding="utf-8").replace(BROKER, bootstrap)
    assert bootstrap in text
    with Shell(tmp_path / "work", scratch_environment(tmp_path / "environment")) as shell:
        for step in steps(text):
            if step.file is not None:
                (tmp_path / "work" / "sales" / step.file).write_text(step.text, encoding="utf-8")
                continue
            printed, code = shell.run(step.text)
            assert code == 0, f"{step.text}\n{printed}"
            assert is_printed(step.printed, printed), f"{step.text}\n{printed}"


def test_what_is_printed_is_compared() -> None:
    assert is_printed("a\n…\nb …c\n", "a\n1\n2\nb 3c\n")
    assert is_printed("…\n", "")
    assert not is_printed("a\n", "b\n")
    assert not is_printed("", "something\n")
