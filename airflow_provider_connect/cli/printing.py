"""Printing of commands: rows as a table for users, complete values as JSON or YAML for programs."""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import yaml

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.model.config_limits import cut
from airflow_provider_connect.runtime.model.view_json import escaped

Row = Mapping[str, object]

STYLES: Final = {"RUNNING": "green", "FAILED": "bold red", "PAUSED": "yellow", "STOPPED": "dim", "UNASSIGNED": "cyan", "RESTARTING": "cyan"}
"""The colours of states, by rich's names."""
_CODES: Final = {"green": "32", "bold red": "1;31", "yellow": "33", "dim": "2", "cyan": "36"}
_COLOURED: Final = ("state", "tasks")
_LONGEST_TEXT: Final = 120  # of a mapping in a table


@contextmanager
def print_errors() -> Iterator[None]:
    """Print a ConnectException to standard error and exit with code 1."""
    try:
        yield
    except ConnectException as error:
        sys.exit(visible(error.message))


def print_rows(rows: Sequence[Row], output: str) -> None:
    """Print a list, as JSON or YAML, or as a table with the keys of the first row as its head."""
    if output != "table":
        print_value(list(rows), output)
    elif rows:
        print(_table(rows))


def print_warnings(warnings: Iterable[str]) -> None:
    """Print the warnings of a validation to standard error."""
    for warning in warnings:
        print(visible(f"Warning: {warning}"), file=sys.stderr)


def print_value(value: Any, output: str) -> None:
    """Print one value. In a table, a mapping has one line per key; other values are unchanged."""
    if output == "json":
        print(escaped(json.dumps(value, indent=2, ensure_ascii=False), kept="\n"))
    elif output == "yaml":
        print(_yaml(value), end="")
    elif isinstance(value, Mapping):
        print("\n".join(f"{visible(key)}={_cell(each)}" for key, each in value.items()))
    else:
        print(_cell(value))


def visible(text: str) -> str:
    """The text for a terminal, with control characters replaced, except line feeds and tabs."""
    return text if text.isprintable() else "".join(each if each.isprintable() or each in "\n\t" else "\ufffd" for each in text)


def _yaml(value: Any) -> str:
    text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
    if not text.replace("\n", "").isprintable():  # YAML keeps bidirectional marks and Unicode line ends
        text = yaml.safe_dump(value, sort_keys=False, allow_unicode=False)
    return str(text)


def _table(rows: Sequence[Row]) -> str:
    head = list(rows[0])
    lines = [head, *([_cell(_with_short_texts(row.get(name))).replace("\n", " ") for name in head] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    texts = [[cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines]
    if has_colours():
        texts[1:] = [[_coloured(cell) if name in _COLOURED else cell for name, cell in zip(head, line, strict=True)] for line in texts[1:]]
    return "\n".join("  ".join(line).rstrip() for line in texts)


def _with_short_texts(value: object) -> object:
    """A mapping, such as an offset, with its texts cut: a schema among the offsets of a source would push the other columns aside."""
    if not isinstance(value, Mapping):
        return value
    return {key: cut(each, _LONGEST_TEXT) if isinstance(each, str) else each for key, each in value.items()}


def has_colours() -> bool:
    """Whether standard output is a terminal with colours, and the user has not disabled them (no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _coloured(cell: str) -> str:
    """The cell in the colour of its state. With several states, FAILED determines the colour."""
    found = [state for state in STYLES if state in cell.replace(",", " ").split()]
    if not found:
        return cell
    text, state = cell.rstrip(), "FAILED" if "FAILED" in found else found[0]
    return f"\x1b[{_CODES[STYLES[state]]}m{text}\x1b[0m{cell[len(text) :]}"


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):
        return ", ".join(map(_cell, value)) or "-"
    return visible(json.dumps(value, ensure_ascii=False) if isinstance(value, Mapping) else str(value))
