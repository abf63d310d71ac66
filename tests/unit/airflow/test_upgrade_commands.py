"""What ``airflow connect preview`` and ``airflow connect upgrade`` print, and how they end."""

from argparse import Namespace
from dataclasses import dataclass, replace
from typing import Any

import pytest

from airflow_provider_connect.cli import upgrades
from airflow_provider_connect.runtime.model.preview_comparison import Change, Comparison, Difference, Subject
from airflow_provider_connect.runtime.model.previews import (
    Preview,
    PreviewedRecord,
    PreviewedStep,
    PreviewedSteps,
    PreviewedTask,
    PreviewedTopic,
    PreviewEnd,
    StepOutcome,
)
from airflow_provider_connect.runtime.model.upgrades import Upgrade, UpgradeState

COMPARISON = Comparison("1.0", "2.1", 10, 3, [Difference(Subject.VALUE, Change.ADDED, "t", "note", None, "string?")])
HELD = Upgrade(UpgradeState.HELD, "[2,3)", "1.0", "2.1", "C", reason="other fields", comparison=COMPARISON.to_json())
PREVIEW = Preview(
    "c",
    "sink",
    "org.example.Sink",
    {"connector": "1.0", "task": "1.0"},
    1,
    [PreviewedTask(0, {}, 1, PreviewEnd.END, [{"kafka_topic": "t"}])],
    [PreviewedTopic("t", 1, 12, {}, {"$": "string"})],
    [PreviewedRecord(0, "t", 3, 44, None, None, {"id": 1}, [{"key": "h", "value": "x"}])],
    skipped=2,
    failures=["VALUE_CONVERTER JsonConverter: DataException: no JSON"],
)


@dataclass
class Connect:
    """A cluster with one answer to each question."""

    known: Upgrade = HELD
    forgotten: str = ""
    previewed: Preview = PREVIEW

    def preview(self, name: str, config: object, *, records: int, version: str | None) -> Preview:
        return self.previewed

    def upgrade(self, name: str) -> Upgrade:
        return self.known

    def compare_versions(self, name: str, to: str, *, records: int) -> Comparison:
        return COMPARISON

    def forget_upgrade(self, name: str) -> None:
        self.forgotten = name


def ended(command: Any, connect: Connect, **given: object) -> int:
    """The exit code of a command, run with what its parser would give it."""
    defaults = {"to": None, "canary": 100, "accept_schema_change": False, "dry_run": False, "forget": False, "output": "table"}
    try:
        command.__wrapped__(Namespace(**{"name": "c", **defaults, **given}), connect)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_a_preview_is_printed_with_what_was_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(upgrades.preview, Connect(), file=None, records=1, plugin_version=None, steps=False) == 0
    printed = capsys.readouterr().out
    assert "Record 1" not in printed
    for part in ("sink org.example.Sink: connector 1.0", "1 records read", "2 records have failed", "t: 1 records, 12 bytes", '{"id": 1}'):
        assert part in printed


def test_the_steps_of_a_preview_are_printed_record_by_record(capsys: pytest.CaptureFixture[str]) -> None:
    (read,) = PREVIEW.records
    routed = PreviewedStep("route", "org.example.Router", StepOutcome.APPLIED, records=[replace(read, topic="u")])
    skipped = PreviewedStep("mask", "org.example.Mask", StepOutcome.SKIPPED, "not mine")
    failed = PreviewedStep("cast", "org.example.Cast$Value", StepOutcome.FAILED, error="DataException: no\x1b number")
    connect = Connect(previewed=replace(PREVIEW, steps=[PreviewedSteps(read, [routed, skipped, failed], is_cut=True)]))
    assert ended(upgrades.preview, connect, file=None, records=1, plugin_version=None, steps=True) == 0
    lines = capsys.readouterr().out.split("Record 1:\n")[1].splitlines()
    assert [line.split()[:4] for line in lines[:5]] == [
        ["step", "class", "outcome", "topic"],
        ["read", "-", "-", "t-3"],
        ["route", "Router", "applied", "u-3"],
        ["mask", "Mask", "skipped", "(predicate:"],
        ["cast", "Cast$Value", "failed", "-"],
    ]
    assert lines[5:] == ["cast: DataException: no\ufffd number", "Not all steps are shown: they are too long"]
    assert ended(upgrades.preview, Connect(), file=None, records=1, plugin_version=None, steps=True) == 0
    assert "No steps: there are no transformations" in capsys.readouterr().out


def test_an_upgrade_that_was_held_back_is_printed_with_its_differences(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(upgrades.upgrade, Connect()) == 1
    printed = capsys.readouterr().out
    assert printed.startswith("HELD: from version 1.0 to 2.1 ([2,3))\nother fields\n\n3 of 10 records are the same")
    assert printed.splitlines()[-1].split() == ["t", "value", "note", "added", "-", "string?"]
    assert ended(upgrades.upgrade, Connect(replace(HELD, state=UpgradeState.DONE))) == 0


def test_a_dry_run_ends_with_one_where_something_stands_in_the_way() -> None:
    assert ended(upgrades.upgrade, Connect(), to="2.1", dry_run=True) == 1
    assert ended(upgrades.upgrade, Connect(), to="2.1", dry_run=True, accept_schema_change=True) == 0
    connect = Connect()
    assert ended(upgrades.upgrade, connect, forget=True) == 0
    assert connect.forgotten == "c"
