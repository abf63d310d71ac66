"""``airflow connect backfill|backfills`` and BackfillOperator: what they ask for and print, tried once and again."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.cli.cli_parser import get_parser

from airflow_provider_connect.cli import backfills
from airflow_provider_connect.client.conditions import BackfillEnds, Verdict, as_json, of_json
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import AlreadyExistsException, BadRequestException, NotFoundException
from airflow_provider_connect.operators.backfill import BackfillOperator, parse_ranges
from airflow_provider_connect.runtime.model.backfill import backfill_name
from airflow_provider_connect.runtime.model.backfill_request import AskedRange, Backfill, BackfillRange, BackfillRequest
from airflow_provider_connect.runtime.model.views import ConnectorInfo

RANGE = BackfillRange.of_sink(TopicPartition("t", 0), 5, 9, 7)
COMMANDS = {"backfill": backfills.backfill, "backfills": backfills.backfills}


def known(name: str, *, left: int = 2, state: str = "RUNNING") -> Backfill:
    return Backfill(name, "orders", state, left == 0, left, [RANGE])


@dataclass
class Connect:
    """A cluster with a connector ``orders``; ``asked`` is what was asked of it, ``found`` its backfills."""

    asked: list[tuple[BackfillRequest, bool]] = field(default_factory=list)
    found: dict[str, Backfill] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)

    def create_backfill(self, name: str, request: BackfillRequest, *, dry_run: bool = False) -> Backfill:
        created = known(backfill_name(name, request.id), state="UNASSIGNED")
        if created.name in self.found:
            raise AlreadyExistsException(created.name)
        self.asked.append((request, dry_run))
        if not dry_run:
            self.found[created.name] = created
        return created

    def backfills(self, name: str) -> list[Backfill]:
        return list(self.found.values())

    def delete_connector(self, name: str) -> None:
        self.deleted.append(name)
        if self.found.pop(name, None) is None:
            raise NotFoundException(name)

    def look(self, condition: BackfillEnds) -> Verdict:
        return condition.evaluate(self.backfills(condition.connector))

    def __enter__(self) -> "Connect":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""


def run(connect: Connect, command: str, *arguments: str) -> None:
    """The command's function, with the options that Airflow's parser makes of ``arguments``."""
    options = get_parser().parse_args(["connect", command, *arguments])
    COMMANDS[command].__wrapped__(options, connect)  # type: ignore[attr-defined]  # behind the connection


def test_ranges_and_settings_come_from_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    connect = Connect()
    options = ["--topic", "t", "--partition", "0", "--partition", "2", "--from", "5", "--to", "9", "--set", "file=/b=c", "--remove", "x"]
    run(connect, "backfill", "orders", *options, "--id", "one")
    [(request, is_dry)] = connect.asked
    assert request == BackfillRequest([AskedRange("t", 0, 5, 9), AskedRange("t", 2, 5, 9)], {"file": "/b=c", "x": None}, "one")
    assert not is_dry
    printed = capsys.readouterr().out
    assert "orders.backfill.one is created" in printed
    assert "kafka_offset" in printed


def test_without_options_it_is_all_that_there_is_under_the_time() -> None:
    connect = Connect()
    run(connect, "backfill", "orders", "--dry-run")
    [(request, is_dry)] = connect.asked
    assert (request.ranges, request.changes, is_dry) == ([AskedRange()], {}, True)
    assert backfill_name("orders", request.id) not in connect.found


def test_a_time_is_one_of_this_machines_own_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = Connect()
    run(connect, "backfill", "orders", "--from", "2026-01-31T14:00:00+01:00", "--to", "2026-01-31T14:00")
    asked = connect.asked[0][0].ranges[0]
    assert asked.instants()[0] == 1769864400000
    assert isinstance(asked.end, str)
    assert asked.end.startswith("2026-01-31T14:00:00")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--from", "yesterday"], "neither an offset nor a time"),
        (["--from=-5"], "neither an offset nor a time"),
        (["--set", "file"], "is not KEY=VALUE"),
        (["--id", "a b"], "letters, digits"),
        (["--dry-run", "--wait"], "--dry-run has none"),
        (["--timeout", "5"], "is for --wait"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_created(options: list[str], reason: str) -> None:
    connect = Connect()
    with pytest.raises(BadRequestException, match=reason):
        run(connect, "backfill", "orders", *options)
    assert connect.found == {}


def test_backfills_are_listed_with_what_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    connect = Connect(found={"a": known("orders.backfill.a"), "b": known("orders.backfill.b", left=0)})
    run(connect, "backfills", "orders")
    lines = capsys.readouterr().out.splitlines()
    assert any("orders.backfill.a" in line and "RUNNING" in line for line in lines)
    assert any("orders.backfill.b" in line and "done" in line for line in lines)
    run(connect, "backfills", "orders", "-o", "json")
    assert json.loads(capsys.readouterr().out)[0]["ranges"][0]["to"] == {"kafka_offset": 9}
    run(Connect(), "backfills", "orders")
    assert "has no backfills" in capsys.readouterr().out


# ── the operator ──


def executed(
    connect: Connect, operator: BackfillOperator, monkeypatch: pytest.MonkeyPatch, *, run_id: str = "r", map_index: int = -1
) -> Any:
    monkeypatch.setattr(operator, "_hook", lambda: connect)
    ti = SimpleNamespace(dag_id="d", task_id="again", run_id=run_id, map_index=map_index)
    return operator.execute({"ti": ti})


def operator(**more: Any) -> BackfillOperator:
    ranges = [{"topic": "t", "partition": 0, "from": 5, "to": "2026-01-31T14:00Z"}]
    return BackfillOperator(task_id="again", connector="orders", ranges=ranges, poll_seconds=0.0, **more)


def test_a_try_that_is_repeated_waits_for_the_same_backfill(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = Connect()
    first = executed(connect, operator(wait=False, config={"file": "/b"}), monkeypatch)
    assert connect.asked[0][0].ranges == [AskedRange("t", 0, 5, "2026-01-31T14:00Z")]
    assert connect.asked[0][0].changes == {"file": "/b"}
    connect.found[first] = known(first, left=0)
    assert executed(connect, operator(), monkeypatch) == first
    assert len(connect.asked) == 1
    others = {executed(connect, operator(wait=False), monkeypatch, run_id=run, map_index=index) for run, index in (("r", 0), ("s", -1))}
    assert len({first, *others}) == 3, "another run, or another of mapped tasks, has a backfill of its own"


def test_a_sources_backfill_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = Connect()
    monkeypatch.setattr(connect, "connector_info", lambda name: ConnectorInfo(name, {}, [], "source"), raising=False)
    source = BackfillOperator(task_id="again", connector="orders", config={"rows.from": "5"})
    with pytest.raises(BadRequestException, match="wait=False"):
        executed(connect, source, monkeypatch)
    assert connect.asked == []
    executed(connect, BackfillOperator(task_id="again", connector="orders", config={"rows.from": "5"}, wait=False), monkeypatch)
    assert connect.asked[0][0].ranges == []


def test_it_is_deleted_when_it_is_done_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = Connect()
    name = executed(connect, operator(wait=False, delete=True), monkeypatch)
    assert connect.deleted == []
    connect.found[name] = known(name, left=0)
    assert executed(connect, operator(delete=True), monkeypatch) == name
    assert connect.deleted == [name]
    assert operator(delete=True).template_fields == ("connector", "connect_conn_id", "ranges", "config")


@pytest.mark.parametrize(
    ("seen", "is_met", "has_failed"),
    [
        (None, False, True),
        ([known("x")], False, True),
        ([known("orders.backfill.a")], False, False),
        ([known("orders.backfill.a", state="FAILED")], False, True),
        ([known("orders.backfill.a", left=0)], True, False),
        ([known("orders.backfill.a", left=0, state="FAILED")], True, False),
        ([replace(known("orders.backfill.a"), is_done=None, left=None)], False, True),
    ],
)
def test_a_backfill_has_ended_when_nothing_is_left(seen: list[Backfill] | None, is_met: bool, has_failed: bool) -> None:
    condition = BackfillEnds("orders", "orders.backfill.a")
    verdict = condition.evaluate(seen)
    assert (verdict.is_met, verdict.has_failed) == (is_met, has_failed)
    assert of_json(as_json(condition)) == condition


@pytest.mark.parametrize(
    "ranges",
    [None, "t", {}, ["t"], [{"topic": 5}], [{"partition": "0"}], [{"partition": True}], [{"from": 5.0}], [{"first": 5}]],
)
def test_ranges_of_another_form_are_refused(ranges: list[Mapping[str, Any]]) -> None:
    with pytest.raises(BadRequestException, match="ranges"):
        parse_ranges(ranges)
