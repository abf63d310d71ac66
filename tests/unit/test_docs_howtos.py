"""The how-tos name commands that are there."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.cli.cli_config import GroupCommand

from airflow_provider_connect.cli.commands import get_connect_cli_commands

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


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


@pytest.fixture(scope="module")
def parser() -> argparse.ArgumentParser:
    return parser_of(get_connect_cli_commands())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_of_a_page_have_arguments_that_are_known(page: Path, parser: argparse.ArgumentParser) -> None:
    for command in commands(page.read_text(encoding="utf-8")):
        words = shlex.split(command)
        try:
            parser.parse_args(words[1:])
        except (SystemExit, argparse.ArgumentError) as error:
            pytest.fail(f"{command}: {error}")


def test_a_command_with_an_unknown_option_is_found_out(parser: argparse.ArgumentParser) -> None:
    with pytest.raises((SystemExit, argparse.ArgumentError)):
        parser.parse_args(["connect", "status", "orders", "--nonsense"])
