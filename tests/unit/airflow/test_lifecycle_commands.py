"""``airflow connect validate``, and ``pause|resume|stop|restart`` of one connector and of several: what is printed, and the exit codes."""

import argparse
import json
from typing import Any

import pytest
from airflow.cli.cli_parser import get_parser

from airflow_provider_connect.cli import connectors
from airflow_provider_connect.errors import ConnectException, NotFoundException, StoreTimeoutException, UnauthorizedException
from airflow_provider_connect.model.views import (
    ConfigKeyView,
    ConfigValueView,
    ConnectorStatusView,
    StateView,
    TaskView,
    ValidatedKey,
    Validation,
)

COMMANDS = {
    "delete": connectors.delete,
    "pause": connectors.pause,
    "resume": connectors.resume,
    "stop": connectors.stop,
    "restart": connectors.restart,
}
TRACE = "shop.NoTable: no table orders\nin schema public\nTraceback (most recent call last):\n  File 'x', line 1\nshop.NoTable: no\n"
FAILURES = {
    "gone": NotFoundException("Unknown connector gone"),
    "away": StoreTimeoutException("The config topic was not read in time"),
    "locked": UnauthorizedException("Who asks?"),
}


class Connect:
    """A cluster that knows every connector but those in ``FAILURES``. ``done`` are the changes that were made."""

    def __init__(self) -> None:
        self.done: list[tuple[object, ...]] = []

    def delete_connector(self, name: str) -> None:
        self._change("delete", name)

    def connector_status(self, name: str) -> ConnectorStatusView:
        return ConnectorStatusView(name, StateView("RUNNING", "w"), [TaskView(0, "FAILED", "w", trace=TRACE)], "source")

    def pause(self, name: str) -> None:
        self._change("pause", name)

    def resume(self, name: str) -> None:
        self._change("resume", name)

    def stop(self, name: str) -> None:
        self._change("stop", name)

    def restart_connector(self, name: str, *, include_tasks: bool, only_failed: bool) -> ConnectorStatusView:
        self._change("restart", name)
        tasks = [TaskView(0, "RESTARTING" if include_tasks else "RUNNING", "w")]
        return ConnectorStatusView(name, StateView("RUNNING" if only_failed else "RESTARTING", "w"), tasks, "source")

    def restart_task(self, name: str, task: int) -> None:
        self.done.append(("restart", name, task))

    def _change(self, verb: str, name: str) -> None:
        if name in FAILURES:
            raise FAILURES[name]
        self.done.append((verb, name))


def run(connect: Connect, *words: str) -> int:
    """The exit code of ``airflow connect WORDS``, read by Airflow's own parser. Raises what the command raises."""
    get_parser.cache_clear()
    arguments: argparse.Namespace = get_parser().parse_args(["connect", *words])
    command: Any = {**COMMANDS, "validate": connectors.validate, "status": connectors.status}[words[0]]
    try:
        command.__wrapped__(arguments, connect)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@pytest.mark.parametrize("verb", COMMANDS)
def test_each_connector_that_is_named_is_changed_once(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    connect = Connect()
    assert run(connect, verb, "a", "b", "a") == 0
    assert connect.done == [(verb, "a"), (verb, "b")]
    lines = capsys.readouterr().out.splitlines()
    assert (len(lines), " a " in f" {lines[0]} ".replace(":", " "), " b " in f" {lines[1]} ".replace(":", " ")) == (2, True, True)


@pytest.mark.parametrize("verb", COMMANDS)
def test_a_refusal_is_reported_and_the_others_are_changed(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    connect = Connect()
    assert run(connect, verb, "gone", "b") == 1
    assert connect.done == [(verb, "b")]
    assert capsys.readouterr().err == "gone: Unknown connector gone\n"


@pytest.mark.parametrize("name", ["away", "locked"])
def test_what_concerns_all_ends_the_command(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    connect = Connect()
    with pytest.raises(ConnectException) as raised:
        run(connect, "stop", "a", name, "b", "c")
    assert raised.value is FAILURES[name]
    assert (connect.done, capsys.readouterr().err) == ([("stop", "a")], "Not tried: b, c\n")


@pytest.mark.parametrize("name", FAILURES)
def test_a_single_connector_has_its_refusal_as_before(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConnectException) as raised:
        run(Connect(), "resume", name)
    assert raised.value is FAILURES[name]
    assert capsys.readouterr().err == ""


def test_the_plan_of_a_restart_is_printed_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(Connect(), "restart", "a", "b", "--include-tasks", "--only-failed") == 0
    assert capsys.readouterr().out == "a: task 0 restarts\nb: task 0 restarts\n"


def test_a_task_is_one_connectors(capsys: pytest.CaptureFixture[str]) -> None:
    connect = Connect()
    with pytest.raises(ConnectException, match="--task is a task of one connector"):
        run(connect, "restart", "a", "b", "--task", "0")
    assert run(connect, "restart", "a", "--task", "0") == 0
    assert connect.done == [("restart", "a", 0)]
    assert capsys.readouterr().out == "Task a-0 restarts\n"


class Validating(Connect):
    """Its validations have one warning, and the errors that are given."""

    def __init__(self, *errors: str) -> None:
        super().__init__()
        value = ConfigValueView("file", "/x", [], errors, True)
        self.validation = Validation.counted("FileStreamSource", [], [ValidatedKey(None, value)], warnings=["Unknown setting 'fiel'"])

    def connector_config(self, name: str) -> dict[str, str]:
        raise NotFoundException(f"Unknown connector {name}")

    def plugin_config(self, plugin: str, version: str | None = None) -> list[ConfigKeyView]:
        return []

    def validate(self, plugin: str, config: dict[str, str]) -> Validation:
        return self.validation


@pytest.mark.parametrize(("errors", "code"), [([], 0), (["no such file"], 1)])
def test_a_validation_prints_warnings_apart_from_errors(errors: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(Validating(*errors), "validate", "c", "connector.class=FileStreamSource", "fiel=/x", "-o", "json") == code
    shown = capsys.readouterr()
    assert [row["error"] for row in json.loads(shown.out)] == errors
    assert shown.err == "Warning: Unknown setting 'fiel'\n"


def test_a_right_config_is_said_to_be_valid(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(Validating(), "validate", "c", "connector.class=FileStreamSource") == 0
    assert capsys.readouterr().out == "valid\n"


def test_a_status_has_the_message_of_a_trace_and_the_whole_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(Connect(), "status", "c") == 0
    shown = capsys.readouterr().out
    assert shown.endswith("task 0: shop.NoTable: no table orders\nin schema public\n(--trace prints all of it)\n")
    assert run(Connect(), "status", "c", "--trace") == 0
    assert capsys.readouterr().out.endswith(f"task 0: {TRACE}")


def test_a_java_trace_is_printed_with_its_last_cause() -> None:
    trace = "org.E: failed\n\tat org.A.b(A.java:1)\nCaused by: org.F: why\n\tat org.C\nCaused by: java.G: really\n\tat org.D\n"
    assert connectors.short_trace(trace) == "org.E: failed\nCaused by: java.G: really\n(--trace prints all of it)"
    assert connectors.short_trace("Worker says no") == "Worker says no"
