"""``airflow connect config …`` and ``offsets history|undo``: what is printed, asked and done, and in which state a connector is left."""

import argparse
from dataclasses import dataclass, field
from typing import Any

import pytest
from airflow.cli.cli_parser import get_parser

from airflow_provider_connect.cli import history
from airflow_provider_connect.errors import BadRequestException, ConnectException, NotFoundException, StoreTimeoutException
from airflow_provider_connect.runtime.model.history import (
    ConfigHistory,
    ConfigRevision,
    KeyChange,
    OffsetChange,
    OffsetHistory,
    OffsetMove,
    OffsetReturn,
    OffsetUndo,
)
from airflow_provider_connect.runtime.model.views import ConnectorInfo, ConnectorStatusView, StateView

FILE = {"filename": "/a"}
REVISIONS = [
    ConfigRevision(9, 2000, "anna", [KeyChange("topic", "a", "b")], {"topic": "b"}),
    ConfigRevision(4, 1000, None, [KeyChange("topic", None, "a")], {"topic": "a", "old": "1"}),
]
COMMANDS = {
    "config history": history.config_history,
    "config diff": history.config_diff,
    "config rollback": history.rollback,
    "offsets history": history.offsets_history,
    "offsets undo": history.undo,
}


@dataclass
class Connect:
    """A cluster with two revisions and one change of offsets; ``done`` is what was changed, in order."""

    state: str = "RUNNING"
    failure: ConnectException | None = None
    done: list[tuple[object, ...]] = field(default_factory=list)

    def config_history(self, name: str, *, limit: int, before: int | None = None) -> ConfigHistory:
        found = [each for each in REVISIONS if before is None or each.revision < before]
        return ConfigHistory(found[:limit], found[limit - 1].revision if len(found) > limit else None)

    def rollback_config(self, name: str, revision: int) -> ConnectorInfo:
        self.done.append(("rollback", revision))
        return ConnectorInfo(name, {}, [])

    def offsets_history(self, name: str, *, limit: int, before: int | None = None) -> OffsetHistory:
        return OffsetHistory([OffsetChange(3, 1, 2, None, "run-1", [OffsetMove(FILE, None, {"position": 5})])], 0)

    def undo_offsets(self, name: str, *, to: object = None, entry: int | None = None, dry_run: bool) -> OffsetUndo:
        if not dry_run:
            if self.failure is not None:
                raise self.failure
            self.done.append(("undo", to))
        return OffsetUndo(1500, dry_run, [OffsetReturn(FILE, {"position": 5}, None, "read from the beginning")], "done")

    def connector_status(self, name: str) -> ConnectorStatusView:
        return ConnectorStatusView(name, StateView(self.state, "w"), [], "source")

    def stop(self, name: str) -> None:
        self.done.append(("stop",))

    def pause(self, name: str) -> None:
        self.done.append(("pause",))

    def resume(self, name: str) -> None:
        self.done.append(("resume",))


def run(connect: Connect, *words: str) -> None:
    """``airflow connect WORDS``, read by Airflow's own parser. Raises what the command raises."""
    arguments: argparse.Namespace = get_parser().parse_args(["connect", *words])
    command: Any = COMMANDS[" ".join(words[:2])]
    command.__wrapped__(arguments, connect)


def test_revisions_and_their_difference_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    run(Connect(), "config", "history", "c")
    lines = capsys.readouterr().out.splitlines()
    assert (lines[0].split(), lines[1].split()[0], "anna" in lines[1], "topic" in lines[1]) == (
        ["revision", "when", "who", "changed", "note"],
        "9",
        True,
        True,
    )
    run(Connect(), "config", "diff", "c", "4")
    assert [line.split() for line in capsys.readouterr().out.splitlines()[1:]] == [["old", "1", "-"], ["topic", "a", "b"]]
    run(Connect(), "config", "diff", "c")
    assert [line.split() for line in capsys.readouterr().out.splitlines()[1:]] == [["topic", "a", "b"]]
    with pytest.raises(NotFoundException, match="no revision 5; airflow connect config history c lists them"):
        run(Connect(), "config", "diff", "c", "5")


def test_older_revisions_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    run(Connect(), "config", "history", "c", "--limit", "1")
    printed = capsys.readouterr()
    assert (printed.out.splitlines()[1].split()[0], printed.err) == ("9", "For older entries: --before 9\n")
    run(Connect(), "config", "history", "c", "--limit", "1", "--before", "9")
    printed = capsys.readouterr()
    assert (printed.out.splitlines()[1].split()[0], printed.err) == ("4", "")


def test_a_revision_is_gone_back_to(capsys: pytest.CaptureFixture[str]) -> None:
    connect = Connect()
    run(connect, "config", "rollback", "c", "4")
    assert (connect.done, capsys.readouterr().out) == ([("rollback", 4)], "Connector c has the config of revision 4\n")


def test_changes_of_offsets_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    run(Connect(), "offsets", "history", "c")
    printed = capsys.readouterr().out
    assert ("run-1" in printed, '{"position": 5}' in printed) == (True, True)


@pytest.mark.parametrize(("state", "last"), [("RUNNING", [("resume",)]), ("FAILED", [("resume",)]), ("PAUSED", [("pause",)])])
def test_a_connector_that_is_stopped_for_an_undo_gets_its_state_back(state: str, last: list[tuple[object, ...]]) -> None:
    connect = Connect(state)
    run(connect, "offsets", "undo", "c", "--to", "2026-01-31T14:00", "--stop", "--yes")
    assert connect.done == [("stop",), ("undo", 1500), *last]


def test_a_stopped_connector_stays_stopped() -> None:
    connect = Connect("STOPPED")
    run(connect, "offsets", "undo", "c", "--entry", "3", "--stop", "--yes")
    assert connect.done == [("undo", 1500)]


def test_after_a_refusal_the_connector_goes_on_and_after_another_failure_it_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    refused, lost = Connect(failure=BadRequestException("no")), Connect(failure=StoreTimeoutException("silent"))
    for connect in (refused, lost):
        with pytest.raises(ConnectException):
            run(connect, "offsets", "undo", "c", "--entry", "3", "--stop", "--yes")
    assert (refused.done, lost.done) == ([("stop",), ("resume",)], [("stop",)])
    assert capsys.readouterr().err == "Connector c stays STOPPED\n"


def test_nothing_is_undone_without_a_yes(capsys: pytest.CaptureFixture[str]) -> None:
    connect = Connect()
    run(connect, "offsets", "undo", "c", "--entry", "3", "--dry-run")
    assert "read from the beginning" in capsys.readouterr().out
    with pytest.raises(BadRequestException, match="--yes"):
        run(connect, "offsets", "undo", "c", "--entry", "3")
    with pytest.raises(BadRequestException, match="is not a time"):
        run(connect, "offsets", "undo", "c", "--to", "noon", "--yes")
    assert connect.done == []
