"""``airflow connect validate``, commands that write a config, and ``pause|resume|stop|restart`` of one connector and of several: what is
printed, and the exit codes."""

import argparse
import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.cli.cli_parser import get_parser

from airflow_provider_connect.api_server.runs import ConnectorRun
from airflow_provider_connect.cli import connectors, history, waiting
from airflow_provider_connect.client.calls import Call
from airflow_provider_connect.errors import (
    BadRequestException,
    ConnectException,
    NotFoundException,
    StoreTimeoutException,
    UnauthorizedException,
    short_trace,
)
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.herder.snapshot import Snapshot
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.model.states import State
from airflow_provider_connect.runtime.model.status import ConnectorStatus, StatusState, TaskStatus
from airflow_provider_connect.runtime.model.views import (
    ConfigKeyView,
    ConfigValueView,
    ConnectorInfo,
    ConnectorStatusView,
    StateView,
    TaskView,
    ValidatedKey,
    Validation,
)
from tests.unit.herder.conftest import CONFIG, RunEnvironment

NO_SECONDS = 1e-9

COMMANDS = {
    "delete": connectors.delete,
    "pause": connectors.pause,
    "resume": connectors.resume,
    "stop": connectors.stop,
    "restart": connectors.restart,
}
OTHERS = {
    "create": connectors.create,
    "put": connectors.put,
    "patch": connectors.patch,
    "config": history.rollback,
    "validate": connectors.validate,
    "status": connectors.status,
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

    def carry_out(self, call: Call[Any]) -> object:
        raise NotFoundException(f"There is no route {call.path}, which Kafka Connect does not have")

    def expanded(self, *, info: bool, status: bool) -> dict[str, object]:
        return {}

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


def run(connect: Connect | Herder, *words: str) -> int:
    """The exit code of ``airflow connect WORDS``, read by Airflow's own parser. Raises what the command raises."""
    arguments: argparse.Namespace = get_parser().parse_args(["connect", *words])
    command: Any = {**COMMANDS, **OTHERS}[words[0]]
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
    with pytest.raises(ConnectException, match="--task is for one connector"):
        run(connect, "restart", "a", "b", "--task", "0")
    assert run(connect, "restart", "a", "--task", "0") == 0
    assert connect.done == [("restart", "a", 0)]
    assert capsys.readouterr().out == "Task a-0 restarts\n"


class Resting(Connect):
    """Its connectors are paused; the task of ``failed`` has FAILED before that."""

    def connector_status(self, name: str) -> ConnectorStatusView:
        return ConnectorStatusView(name, StateView("PAUSED", "w"), [TaskView(0, "FAILED" if name == "failed" else "PAUSED", "w")], "source")


@pytest.mark.parametrize("more", [[], ["--include-tasks"], ["--task", "0"]])
def test_a_paused_connector_is_not_restarted_in_vain(more: list[str]) -> None:
    connect = Resting()
    with pytest.raises(BadRequestException, match="Connector a is PAUSED, and a restart would not start it: airflow connect resume a"):
        run(connect, "restart", "a", *more)
    assert connect.done == []
    assert run(connect, "restart", "failed", *more) == 0
    assert len(connect.done) == 1


@pytest.mark.parametrize(("requested", "is_awaited"), [("pause", True), ("stop", True), ("resume", False)])
def test_a_resume_waits_by_the_target_state_while_another_state_is_shown(
    requested: str, is_awaited: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    environment = RunEnvironment()
    environment.herder.create_connector("a", CONFIG)
    environment.run("a", State.RUNNING)
    environment.runs.alive = environment.runs.stubborn = {"a"}
    getattr(environment.herder, requested)("a")
    assert environment.states("a") == ("RUNNING", ["RUNNING"])  # the run has not ended yet
    environment.runs.taken()
    awaited: list[str] = []
    monkeypatch.setattr(connectors, "_waiting", lambda *_: SimpleNamespace(finish=lambda: awaited.append("a")))
    assert run(environment.herder, "resume", "a", "--wait") == 0
    assert awaited == (["a"] if is_awaited else [])
    assert environment.runs.taken() == ([("trigger", "a", None)] if is_awaited else [])
    more = "" if is_awaited else "Connector a was neither PAUSED nor STOPPED: no run starts for it now\n"
    assert capsys.readouterr().out == f"Connector a resumes\n{more}"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["restart", "a", "--wait"], "without --url and --conn-id"),  # this cluster is none of Airflow's
        (["resume", "a", "b", "--wait"], "--wait is for one connector"),
        (["resume", "a", "--timeout", "5"], "--timeout is for --wait"),
        (["create", "a", "k=v", "--wait", "--timeout", "nan"], "--timeout is a number of seconds above 0, not nan"),
        (["create", "a", "k=v", "--wait", "--timeout", "0"], "above 0"),
        (["create", "a", "k=v", "--wait", "--initial-state", "stopped"], "a connector that begins STOPPED has none"),
    ],
)
def test_a_wait_that_cannot_be_is_refused_before_the_change(words: list[str], problem: str) -> None:
    connect = Connect()
    with pytest.raises(BadRequestException, match=problem):
        run(connect, *words)
    assert connect.done == []


class Starting(Connect):
    """Its new connector has no status at first, then a state without tasks, then ``tasks``."""

    def __init__(self, *tasks: TaskView) -> None:
        super().__init__()
        begun = ConnectorStatusView("a", StateView("RUNNING", "w"), [], "source")
        self.seen = [None, begun, replace(begun, tasks=list(tasks))]

    def create_connector(self, name: str, config: dict[str, str], state: object) -> ConnectorInfo:
        self._change("create", name)
        return ConnectorInfo(name, config, [])

    def connector_status(self, name: str) -> ConnectorStatusView:
        found = self.seen.pop(0) if len(self.seen) > 1 else self.seen[0]
        if found is None:
            raise NotFoundException("no status yet")
        return found

    def workers(self) -> object:
        raise NotFoundException("no such route")

    def carry_out(self, call: object) -> object:
        raise NotFoundException("no such route")

    def expanded(self, info: bool, status: bool) -> dict[str, object]:
        return {}


def test_the_start_on_a_server_is_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    def wait_for(*tasks: TaskView, timeout: float | None = None) -> None:
        connect: Any = Starting(*tasks)
        waiting.Waiting(connect, "a", timeout, is_new=True, sleep=lambda _: None).finish()

    wait_for(TaskView(0, "RUNNING", "w"))
    printed = capsys.readouterr()
    assert printed.out == "Connector a is RUNNING, its tasks 1 RUNNING\n"
    assert printed.err == "a: Connector a has no status\na: Connector a is RUNNING\n"
    with pytest.raises(ConnectException, match=r"^Connector a is FAILED: shop.NoTable: no table orders\nin schema public$"):
        wait_for(TaskView(0, "FAILED", "w", trace=TRACE))
    with pytest.raises(ConnectException, match="Not ended within 1e-09 s; it continues"):
        wait_for(timeout=NO_SECONDS)


WAITED_RUN = ConnectorRun("run-7", "queued")


@pytest.mark.parametrize(
    ("state", "trace", "before", "is_well", "text"),
    [
        ("RUNNING", None, [], None, "waits for Airflow"),
        ("RESTARTING", TRACE, [], None, "waits for Airflow"),
        ("FAILED", TRACE, ["shop.NoTable: no table orders\nin schema public"], None, "waits for Airflow"),
        ("FAILED", TRACE, [], False, "is FAILED: shop.NoTable"),
        ("UNASSIGNED", "No bundle", [], False, "is UNASSIGNED: No bundle"),
        ("STOPPED", None, [], False, "is STOPPED, and has no run"),
    ],
)
def test_what_keeps_a_run_from_its_start_ends_the_wait(
    state: str, trace: str | None, before: list[str], is_well: bool | None, text: str
) -> None:
    seen = waiting.before_run("a", ConnectorStatusView("a", StateView(state, "w", trace=trace), [], "source"), before)
    assert (seen.is_well, text in seen.text) == (is_well, True)
    assert waiting.before_run("a", None, []).is_well is None


@pytest.mark.parametrize(
    ("state", "failures", "before", "is_late", "expected"),
    [
        ("queued", ["old"], ["old"], False, (None, "queued")),
        ("running", ["old"], ["old"], False, (None, "in progress")),
        ("running", ["new"], ["old"], False, (None, "a try of its run has failed, and Airflow retries it unless it was the last: new")),
        ("success", [], [], False, (True, "Run run-7 of connector a has succeeded")),
        ("failed", ["why", "and why"], [], False, (False, "Run run-7 of connector a has failed: why\nand why")),
        ("failed", [], [], False, (None, "has failed")),
        ("failed", [], [], True, (False, "airflow connect logs a")),
    ],
)
def test_a_run_is_followed_to_its_end(
    state: str, failures: list[str], before: list[str], is_late: bool, expected: tuple[bool | None, str]
) -> None:
    seen = waiting.of_run("a", replace(WAITED_RUN, state=state), failures, before, is_late=is_late)
    assert (seen.is_well, expected[1] in seen.text) == (expected[0], True)


BEFORE, NEWEST = Claim(3, "t"), Claim(7, "t")


def staying(*tasks: TaskStatus, owner: str = "run", state: State = State.RUNNING, claim: Claim = NEWEST) -> Snapshot:
    """Connector ``a``, whose newest claim is ``NEWEST`` by ``owner``, with two committed tasks."""
    owners = {"a": owner} if owner else {}
    configs = ClusterConfigState(connector_configs={"a": {}}, claims={"a": NEWEST}, owners=owners, task_counts={"a": 2})
    statuses = StatusState()
    statuses.apply(ConnectorStatus("a", state, claim=claim))
    for task in tasks:
        statuses.apply(task)
    return Snapshot(configs, statuses)


FIRST, SECOND = (TaskStatus("a", task, State.RUNNING, claim=NEWEST) for task in (0, 1))
OF_VERB = replace(SECOND, claim=BEFORE)


@pytest.mark.parametrize(
    ("snapshot", "is_well", "text"),
    [
        (staying(FIRST, SECOND), True, "Connector a is RUNNING, its tasks 2 RUNNING, in a run that stays"),
        (staying(FIRST, OF_VERB), None, "in progress"),  # RUNNING before the change
        (staying(FIRST), None, "in progress"),
        (staying(FIRST, SECOND, claim=BEFORE), None, "waits for Airflow"),
        (staying(FIRST, SECOND, owner=""), None, "waits for Airflow"),  # the claim of the command
        (staying(FIRST, replace(SECOND, state=State.RESTARTING)), None, "in progress"),
        (staying(FIRST, replace(SECOND, state=State.FAILED, trace=TRACE)), False, "Connector a is FAILED: shop.NoTable: no table orders"),
        (staying(replace(FIRST, state=State.FAILED, trace=TRACE), OF_VERB), False, "Connector a is FAILED: shop.NoTable"),
        (staying(replace(OF_VERB, state=State.FAILED, trace=TRACE)), None, "in progress"),  # the failure before the change
        (staying(state=State.FAILED), False, "Connector a is FAILED: the reason is in its log: airflow connect logs a"),
    ],
)
def test_a_run_that_stays_is_followed_until_its_tasks_are_running(snapshot: Snapshot, is_well: bool | None, text: str) -> None:
    seen = waiting.of_staying_run("a", snapshot, BEFORE) or waiting.before_run("a", None, [])
    assert (seen.is_well, text in seen.text) == (is_well, True), seen
    assert waiting.of_staying_run("a", snapshot, NEWEST) is None


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


class Writing(Validating):
    """A config that it writes has one warning."""

    info = ConnectorInfo("c", {"file": "/x"}, [], "source", ["Unknown setting 'fiel'"])

    def create_connector(self, name: str, config: dict[str, str], state: object) -> ConnectorInfo:
        return self.info

    def put_connector_config(self, name: str, config: dict[str, str]) -> tuple[ConnectorInfo, bool]:
        return self.info, False

    def patch_connector_config(self, name: str, patch: dict[str, str]) -> ConnectorInfo:
        return self.info

    def rollback_config(self, name: str, revision: int) -> ConnectorInfo:
        return self.info


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["create", "c", "fiel=/x"], "Connector c is created\n"),
        (["put", "c", "fiel=/x"], "Connector c has this config\n"),
        (["patch", "c", "fiel=/x"], "file=/x\n"),
        (["config", "rollback", "c", "5"], "Connector c has the config of revision 5\n"),
    ],
)
def test_a_written_config_prints_its_warnings_to_standard_error(words: list[str], printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(Writing(), *words) == 0
    assert capsys.readouterr() == (printed, "Warning: Unknown setting 'fiel'\n")


def test_a_right_config_is_reported_as_valid(capsys: pytest.CaptureFixture[str]) -> None:
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
    assert short_trace(trace) == "org.E: failed\nCaused by: java.G: really"
    assert short_trace("Worker says no") == "Worker says no"
