"""How commands print: rows as a table for people, whole values as JSON or YAML for programs."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import yaml

from airflow_provider_connect.errors import ConnectException

Row = Mapping[str, object]


@contextmanager
def errors_printed() -> Iterator[None]:
    """A ConnectException goes to standard error, and the exit code is 1."""
    try:
        yield
    except ConnectException as error:
        sys.exit(visible(error.message))


def print_rows(rows: Sequence[Row], output: str) -> None:
    """A list: a table with the keys of the first row as its head, or a list in JSON or YAML."""
    if output != "table":
        print_value(list(rows), output)
    elif rows:
        print(_table(rows))


def print_value(value: Any, output: str) -> None:
    """One value. As a table: a mapping line by line, anything else as it is."""
    if output == "json":
        print(_escaped(json.dumps(value, indent=2, ensure_ascii=False)))
    elif output == "yaml":
        print(_yaml(value), end="")
    elif isinstance(value, Mapping):
        print("\n".join(f"{visible(key)}={_cell(each)}" for key, each in value.items()))
    else:
        print(_cell(value))


def visible(text: str) -> str:
    """A text for a terminal: characters that would steer it are replaced, but for the end of a line and a tabulator."""
    return text if text.isprintable() else "".join(each if each.isprintable() or each in "\n\t" else "\ufffd" for each in text)


def _escaped(text: str) -> str:
    """A text in JSON whose characters that would steer a terminal are escape sequences of JSON. Any such character is within a string."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(each if each.isprintable() or each == "\n" else json.dumps(each)[1:-1] for each in text)


def _yaml(value: Any) -> str:
    text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
    if not text.replace("\n", "").isprintable():  # YAML lets bidirectional marks and the line ends of Unicode stand as they are
        text = yaml.safe_dump(value, sort_keys=False, allow_unicode=False)
    return str(text)


def _table(rows: Sequence[Row]) -> str:
    head = list(rows[0])
    lines = [head, *([_cell(row.get(name)).replace("\n", " ") for name in head] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):
        return ", ".join(map(_cell, value)) or "-"
    return visible(json.dumps(value, ensure_ascii=False) if isinstance(value, Mapping) else str(value))
