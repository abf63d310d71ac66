"""What commands print of texts that strangers wrote."""

import argparse
import json
from typing import Any

import pytest
import yaml
from airflow.cli.cli_parser import get_parser

from airflow_provider_connect.cli import connectors, lag
from airflow_provider_connect.cli.printing import print_rows, print_value
from airflow_provider_connect.errors import BadRequestException

STEERING = "a\x1b[2J\x7f\u009b31m\u202e\u2066\u2028\x85\ufeff\U000e0041\ud800 grün 日本 😀\n"


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_what_programs_read_steers_no_terminal(output: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_value([{STEERING: STEERING}], output)
    printed = capsys.readouterr().out
    assert all(each.isprintable() or each == "\n" for each in printed)
    read = json.loads(printed) if output == "json" else None
    assert read in (None, [{STEERING: STEERING}])
    print_value([{"a": "grün 日本 😀\u202e"[:-1]}], output)
    assert "grün 日本 😀" in capsys.readouterr().out


def test_yaml_with_escape_sequences_is_the_same_value(capsys: pytest.CaptureFixture[str]) -> None:
    text = STEERING.replace("\ud800", "")
    print_value({"a": [text]}, "yaml")
    assert yaml.safe_load(capsys.readouterr().out) == {"a": [text]}


def test_a_table_cuts_the_long_texts_of_an_offset_and_json_has_them_whole(capsys: pytest.CaptureFixture[str]) -> None:
    file, schema = f"/data/{'f' * 100}.txt", "x" * 300
    rows = [{"partition": {"filename": file}, "offset": {"fields": schema}}]
    print_rows(rows, "table")
    assert capsys.readouterr().out.splitlines()[1].split("  ") == [f'{{"filename": "{file}"}}', f'{{"fields": "{"x" * 120}…"}}']
    print_rows(rows, "json")
    assert json.loads(capsys.readouterr().out) == rows


class Hostile:
    """A server whose every answer is an error with a text that would steer a terminal."""

    def __getattr__(self, verb: str) -> Any:
        def refuse(*_: object, **__: object) -> None:
            raise BadRequestException(f"refused {STEERING}")

        return refuse


@pytest.mark.parametrize(("command", "words"), [(lag.lag, ["lag"]), (connectors.pause, ["pause"])])
def test_an_error_of_one_of_several_steers_no_terminal(command: Any, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    arguments: argparse.Namespace = get_parser().parse_args(["connect", *words, "one", "two\x1b[2J"])
    with pytest.raises(SystemExit):
        command.__wrapped__(arguments, Hostile())
    printed = capsys.readouterr().err
    assert (printed.count("refused a\ufffd[2J"), "two\ufffd[2J: " in printed) == (2, True)
    assert all(each.isprintable() or each == "\n" for each in printed)
