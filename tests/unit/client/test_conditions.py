"""What is waited for, judged by what was seen."""

from typing import Any

import pytest

from airflow_provider_connect.client.conditions import (
    ConnectorReaches,
    IsGone,
    LagBelow,
    OffsetReaches,
    TaskReaches,
    TopicActive,
    UpgradeSucceeds,
    Verdict,
    as_json,
    known_states,
    of_json,
)
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import BadRequestException
from airflow_provider_connect.runtime.model.upgrades import Upgrade, UpgradeState
from airflow_provider_connect.runtime.model.views import ConnectorInfo, ConnectorStatusView, OffsetView, StateView, TaskView

MET, NOT_YET, FAILED = (True, False), (False, False), (False, True)


def status(connector: str, *tasks: str) -> ConnectorStatusView:
    views = [TaskView(number, state, "w:1", trace="boom\nat x" if state == "FAILED" else None) for number, state in enumerate(tasks)]
    return ConnectorStatusView("c", StateView(connector, "w:1", trace="boom\nat x" if connector == "FAILED" else None), views, "source")


def outcome(verdict: Verdict) -> tuple[bool, bool]:
    return verdict.is_met, verdict.has_failed


@pytest.mark.parametrize(
    ("wanted", "seen", "expected"),
    [
        (["RUNNING"], None, NOT_YET),
        (["RUNNING"], status("RUNNING", "RUNNING", "RUNNING"), MET),
        (["RUNNING"], status("RUNNING", "RUNNING", "UNASSIGNED"), NOT_YET),
        (["RUNNING"], status("RUNNING", "RUNNING", "FAILED"), FAILED),
        (["RUNNING"], status("FAILED"), FAILED),
        (["FAILED"], status("FAILED"), MET),
        (["PAUSED", "RUNNING"], status("PAUSED", "RUNNING"), MET),
        (["STOPPED"], status("STOPPED", "RUNNING"), NOT_YET),
        (["STOPPED"], status("STOPPED"), MET),
    ],
)
def test_a_state_of_connector_and_tasks(wanted: list[str], seen: ConnectorStatusView | None, expected: tuple[bool, bool]) -> None:
    assert outcome(ConnectorReaches("c", wanted).evaluate(seen)) == expected


def test_a_state_of_the_connector_alone() -> None:
    assert outcome(ConnectorReaches("c", ["RUNNING"], with_tasks=False).evaluate(status("RUNNING", "FAILED"))) == MET


def test_a_connector_that_runs_without_tasks_is_early() -> None:
    assert ConnectorReaches("c", ["RUNNING"]).evaluate(status("RUNNING")) == Verdict(True, "Connector c is RUNNING", is_early=True)
    assert not ConnectorReaches("c", ["RUNNING"]).evaluate(status("RUNNING", "RUNNING")).is_early
    assert not ConnectorReaches("c", ["RUNNING"], with_tasks=False).evaluate(status("RUNNING")).is_early
    assert not ConnectorReaches("c", ["PAUSED"]).evaluate(status("PAUSED")).is_early


def test_what_was_seen_is_reported_with_the_first_line_of_the_trace() -> None:
    text = ConnectorReaches("c", ["RUNNING"]).evaluate(status("RUNNING", "FAILED", "RUNNING")).text
    assert text == "Connector c is RUNNING, its tasks 1 FAILED, 1 RUNNING: boom"


def test_a_failure_is_shown_with_the_line_that_its_first_line_announces() -> None:
    trace = "a.ConfigException: The config has 1 error(s):\nfile is missing\nTraceback (most recent call last):"
    text = TaskReaches("c", 0, ["RUNNING"]).evaluate(TaskView(0, "FAILED", "w:1", trace=trace)).text
    assert text == "Task c-0 is FAILED: The config has 1 error(s): file is missing"


@pytest.mark.parametrize(("seen", "expected"), [(None, NOT_YET), ("RUNNING", MET), ("PAUSED", NOT_YET), ("FAILED", FAILED)])
def test_a_state_of_a_task(seen: str | None, expected: tuple[bool, bool]) -> None:
    view = None if seen is None else TaskView(1, seen, "w:1")
    assert outcome(TaskReaches("c", 1, ["RUNNING"]).evaluate(view)) == expected


def sink(topic: str, partition: int, offset: int | None) -> OffsetView:
    return OffsetView({"kafka_topic": topic, "kafka_partition": partition}, None if offset is None else {"kafka_offset": offset})


@pytest.mark.parametrize(
    ("seen", "is_met"),
    [
        (None, False),
        ([], False),
        ([sink("t", 0, 4)], False),
        ([sink("t", 0, 5)], True),
        ([sink("t", 0, 6), sink("u", 0, 1)], True),
        ([sink("t", 0, 6), sink("t", 1, 1)], False),
        ([sink("t", 0, None)], False),
    ],
)
def test_an_offset_of_all_partitions_of_a_topic(seen: list[OffsetView] | None, is_met: bool) -> None:
    assert OffsetReaches("c", {"kafka_topic": "t"}, {"kafka_offset": 5}).evaluate(seen).is_met == is_met


def test_what_is_no_number_in_an_offset_must_be_equal() -> None:
    condition = OffsetReaches("c", {}, {"file": "b", "at": 2})
    seen: list[Any] = [OffsetView({"x": 1}, {"file": name, "at": at}) for name, at in (("b", 3), ("a", 9), ("b", "3"))]
    assert [condition.evaluate([view]).is_met for view in seen] == [True, False, False]


@pytest.mark.parametrize(
    ("state", "expected"),
    [("REQUESTED", NOT_YET), ("TRIAL", NOT_YET), ("DONE", MET), ("HELD", FAILED), ("ROLLED_BACK", FAILED)],
)
def test_the_end_of_an_upgrade(state: str, expected: tuple[bool, bool]) -> None:
    seen = Upgrade(UpgradeState(state), to="[2,3)", old="1.0", new="2.1", class_name="C", reason="why")
    verdict = UpgradeSucceeds("c").evaluate(seen)
    assert (outcome(verdict), verdict.text) == (expected, f"The upgrade of connector c from version 1.0 to 2.1 is {state}: why")
    assert outcome(UpgradeSucceeds("c").evaluate(None)) == NOT_YET


def test_topics_lag_and_the_end() -> None:
    assert TopicActive("c", "t").evaluate(["s", "t"]).is_met
    assert not TopicActive("c", "t").evaluate(None).is_met
    lag = {TopicPartition("t", 0): 2, TopicPartition("t", 1): 3}
    assert [LagBelow("c", records).evaluate(lag).is_met for records in (5, 6)] == [False, True]
    assert not LagBelow("c", 1).evaluate(None).is_met
    verdict = LagBelow("c", 1000).evaluate({**lag, TopicPartition("t", 2): None, TopicPartition("t", 3): None})
    assert outcome(verdict) == NOT_YET
    assert "unknown in t-2 and 1 other: the committed offset is beyond the end of the partition" in verdict.text
    assert IsGone("c").evaluate(None).is_met
    assert not IsGone("c").evaluate(ConnectorInfo("c", {}, [], "sink")).is_met


@pytest.mark.parametrize(
    "condition",
    [
        ConnectorReaches("c", ["RUNNING"], with_tasks=False),
        TaskReaches("c", 1, ["RUNNING"]),
        OffsetReaches("c", {"a": 1}, {"b": 2}),
        TopicActive("c", "t"),
        LagBelow("c", 1),
        IsGone("c"),
    ],
)
def test_a_condition_travels_as_json(condition: Any) -> None:
    assert of_json(as_json(condition)) == condition


def test_states_are_known_by_name() -> None:
    assert known_states("running") == ["RUNNING"]
    assert known_states(["PAUSED", "Stopped"]) == ["PAUSED", "STOPPED"]
    with pytest.raises(BadRequestException, match=r"'DONE' is not a state .*UNASSIGNED, RUNNING"):
        known_states("done")
