"""A page of the documentation as a reader would follow it: its files written, its commands run in one shell, what they print compared."""

from __future__ import annotations

import re
import shlex
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

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
            lines = piece.splitlines(keepends=True)
            length = next(count for count in range(1, len(lines) + 1) if _is_whole("".join(lines[:count])))
            yield Step(None, "".join(lines[:length]).rstrip("\n"), "".join(lines[length:]))


def _is_whole(command: str) -> bool:
    """Whether every quotation mark of a command is closed: else it goes on in the next line."""
    try:
        shlex.split(command)
    except ValueError:
        return False
    return True


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
        self._process.stdin.write(f'{{ {command}\n}} </dev/null\necho "{_DONE}$?"\n')
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


def run_steps(shell: Shell, given: Iterable[Step], directory: Path, timings: list[str], *, compares: bool = True) -> str:
    """Writes the files below ``directory``, runs the commands, compares and returns what they print. ``timings`` gets how long each took.

    Unless ``compares``, a command may print anything.
    """
    whole = ""
    for step in given:
        if step.file is not None:
            (directory / step.file).parent.mkdir(parents=True, exist_ok=True)
            (directory / step.file).write_text(step.text, encoding="utf-8")
            continue
        before = time.monotonic()
        printed, code = shell.run(step.text)
        timings.append(f"{time.monotonic() - before:6.1f} s  {step.text.strip().splitlines()[0][:100]}")
        assert code == 0, f"{step.text}\n{printed}"
        assert not compares or is_printed(step.printed, printed), f"{step.text}\n{printed}"
        whole += printed
    return whole
