"""The how-tos name messages and commands that are there."""

from __future__ import annotations

import argparse
import ast
import re
import shlex
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from airflow.cli.cli_config import GroupCommand

from airflow_provider_connect.cli.commands import get_connect_cli_commands

ROOT = Path(__file__).resolve().parents[2]
TROUBLESHOOTING = ROOT / "docs" / "troubleshooting.md"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_FORMAT = re.compile(r"\{\w*\}|%[srdg]")


def messages() -> list[str]:
    """The messages in the headings of the page; ``…`` stands for any text."""
    return re.findall(r"^### `(.+)`$", TROUBLESHOOTING.read_text(encoding="utf-8"), re.MULTILINE)


@cache
def texts() -> str:
    """Each text of the package on a line, with ``…`` in place of values."""
    found = []
    for file in sorted((ROOT / "airflow_provider_connect").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.JoinedStr):
                found.append("".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(_FORMAT.sub("…", node.value))
    return "\n".join(text.replace("\n", " ") for text in found)


def is_in_the_code(message: str) -> bool:
    """Whether one text has all of its pieces in their order."""
    pieces = [re.escape(piece.strip()) for piece in message.split("…") if piece.strip(" .:;")]
    return re.search(".*".join(pieces), texts()) is not None


def test_a_message_that_is_nowhere_is_found_out() -> None:
    assert is_in_the_code("Claim … of connector …")
    assert not is_in_the_code("Claim … of connector … is the oldest")


@pytest.mark.parametrize("message", messages())
def test_the_code_has_the_message(message: str) -> None:
    assert is_in_the_code(message)


def test_every_message_has_a_remedy() -> None:
    parts = TROUBLESHOOTING.read_text(encoding="utf-8").split("\n### ")[1:]
    assert len(parts) > 30
    assert [part.splitlines()[0] for part in parts if "**Remedy:**" not in part] == []


def commands(text: str) -> Iterator[str]:
    """The lines in a page that call ``airflow connect``, without the rest of a pipe or chain, and without those that show options only."""
    for block in re.findall(r"^```(?:console|sh)[^\n]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            for part in re.split(r"&&|\||;|>", re.sub(r"\s#.*", "", line.removeprefix("$ "))):
                if part.strip().startswith("airflow connect ") and "…" not in part and part.count("'") % 2 == 0:
                    yield part.strip()


def parser_of(commands: Iterable[Any]) -> argparse.ArgumentParser:
    """Reads a command line as Airflow does."""
    parser = argparse.ArgumentParser(prog="airflow", exit_on_error=False)
    _add(parser, commands)
    return parser


def _add(parser: argparse.ArgumentParser, commands: Iterable[Any]) -> None:
    subparsers = parser.add_subparsers(required=True)
    for command in commands:
        below = subparsers.add_parser(command.name, exit_on_error=False)
        if isinstance(command, GroupCommand):
            _add(below, command.subcommands)
        for arg in getattr(command, "args", ()):
            arg.add_to_parser(below)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_of_a_page_have_arguments_that_are_known(page: Path) -> None:
    parser = parser_of(get_connect_cli_commands())
    for command in commands(page.read_text(encoding="utf-8")):
        words = shlex.split(command)
        try:
            parser.parse_args(words[1:])
        except (SystemExit, argparse.ArgumentError) as error:
            pytest.fail(f"{command}: {error}")


def test_a_command_with_an_unknown_option_is_found_out() -> None:
    parser = parser_of(get_connect_cli_commands())
    with pytest.raises((SystemExit, argparse.ArgumentError)):
        parser.parse_args(["connect", "status", "orders", "--nonsense"])
