"""What becomes of an upgrade, run by run, killed or not; on stores in memory, with previews made here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.config.dag_settings import DEFINED_IN
from airflow_provider_connect.runtime.model.previews import Preview, PreviewedTopic
from airflow_provider_connect.runtime.model.records import UpgradeRecord
from airflow_provider_connect.runtime.model.run import Claim, TaskResult
from airflow_provider_connect.runtime.model.upgrades import VERSION_KEY, Upgrade, UpgradeState
from airflow_provider_connect.runtime.stores.memory import MemoryConfigStore
from airflow_provider_connect.runtime.worker.application.upgrade_trial import UpgradeTrial
from airflow_provider_connect.runtime.worker.task.stop_signal import StopReason

CONFIG = {"connector.class": "org.example.Source", "topic": "t"}
ASKED = Upgrade(UpgradeState.REQUESTED, to="[2,3)", old="1.0", new="2.1", class_name="org.example.Source")


@dataclass(slots=True)
class Previews:
    """What each version reads: its field, the number of records, or the error with which it ends."""

    found: dict[str, tuple[str, int] | str] = field(default_factory=lambda: {"1.0": ("id", 3), "2.1": ("id", 3)})

    def preview(self, connector: str, config: Mapping[str, str], *, records: int, version: str | None = None) -> Preview:
        found = self.found[str(version)]
        if isinstance(found, str):
            raise ConnectException(found)
        path, count = found
        topics = [PreviewedTopic("t", count, 30, {}, {"$": "struct", path: "int64"}, ["x"] * count)] if count else []
        return Preview(connector, "source", "S", {"connector": str(version)}, count, [], topics, [])


@dataclass(slots=True)
class Stage:
    store: MemoryConfigStore = field(default_factory=MemoryConfigStore)
    previews: Previews = field(default_factory=Previews)

    def run(self) -> UpgradeTrial:
        """A run that has claimed the connector."""
        claim = self.store.claim("c")
        return UpgradeTrial("c", claim, self.store, lambda: self.previews, state=self.store.read(), now_ms=lambda: 7)

    @property
    def upgrade(self) -> Upgrade:
        return self.store.read().upgrades["c"]

    @property
    def version(self) -> str | None:
        return self.store.read().version_in_force("c")


@pytest.fixture
def stage() -> Stage:
    made = Stage()
    made.store.put_connector("c", CONFIG)
    made.store.change(lambda _: [UpgradeRecord("c", ASKED)])
    return made


def done(*tasks: int, stopped_by: str | None = None) -> list[TaskResult]:
    return [TaskResult(task, stopped_by=stopped_by) for task in tasks]


def failed(task: int) -> list[TaskResult]:
    return [TaskResult(task, "FAILED", "Trace\nValueError: it is broken")]


def test_a_version_that_reads_the_same_is_tried_and_then_named_in_the_config(stage: Stage) -> None:
    assert stage.version == "1.0"
    run = stage.run()
    assert run.before_plan(is_whole=True)
    assert (stage.upgrade.state, stage.version, stage.store.read().connector_config("c")) == (UpgradeState.TRIAL, "2.1", CONFIG)
    assert run.after(done(0, 1), 2) == ""
    assert stage.upgrade.state is UpgradeState.DONE
    assert stage.store.read().connector_config("c") == {**CONFIG, VERSION_KEY: "[2,3)"}
    assert stage.version is None  # the config names it
    assert not stage.run().before_plan(is_whole=True)


def test_a_connector_of_a_dag_file_keeps_its_config_until_the_file_names_another(stage: Stage) -> None:
    stage.store.put_connector("c", {**CONFIG, DEFINED_IN: "dags/c.py"})
    run = stage.run()
    run.before_plan(is_whole=True)
    run.after(done(0), 1)
    assert stage.version == "[2,3)"
    assert VERSION_KEY not in (stage.store.read().connector_config("c") or {})
    stage.store.put_connector("c", {**CONFIG, DEFINED_IN: "dags/c.py", VERSION_KEY: "1.0"})
    assert stage.version is None


@pytest.mark.parametrize("found", [("word", 3), ("id", 2), "login refused"])
def test_a_version_that_reads_otherwise_is_held_back(stage: Stage, found: tuple[str, int] | str) -> None:
    stage.previews.found["2.1"] = found
    assert not stage.run().before_plan(is_whole=True)
    assert (stage.upgrade.state, stage.version) == (UpgradeState.HELD, "1.0")
    assert stage.upgrade.reason
    assert not stage.run().before_plan(is_whole=True)
    assert stage.upgrade.state is UpgradeState.HELD


def test_another_schema_is_let_through_where_that_was_accepted(stage: Stage) -> None:
    stage.store.change(lambda _: [UpgradeRecord("c", replace(ASKED, accepts_schema_change=True))])
    stage.previews.found["2.1"] = ("word", 3)
    assert stage.run().before_plan(is_whole=True)
    assert stage.version == "2.1"


@pytest.mark.parametrize("found", [("id", 0), "the source is away"])
def test_where_the_old_version_reads_nothing_the_upgrade_waits(stage: Stage, found: tuple[str, int] | str) -> None:
    stage.previews.found["1.0"] = found
    assert not stage.run().before_plan(is_whole=True)
    assert (stage.upgrade.state, stage.version) == (UpgradeState.REQUESTED, "1.0")
    assert stage.upgrade.reason
    stage.previews.found["1.0"] = ("id", 3)
    assert stage.run().before_plan(is_whole=True)


def test_some_of_the_tasks_alone_try_nothing(stage: Stage) -> None:
    assert not stage.run().before_plan(is_whole=False)
    assert stage.upgrade == ASKED


def test_a_trial_that_fails_goes_back_and_has_the_tasks_planned_anew_once(stage: Stage) -> None:
    run = stage.run()
    run.before_plan(is_whole=True)
    assert "version 1.0 holds again" in run.after([*done(0), *failed(1)], 2)
    assert (stage.upgrade.state, stage.upgrade.reason) == (UpgradeState.ROLLED_BACK, "task 1: ValueError: it is broken")
    assert (stage.version, stage.store.read().connector_config("c")) == ("1.0", CONFIG)
    assert stage.run().before_plan(is_whole=False)
    assert not stage.run().before_plan(is_whole=False)


def test_a_trial_whose_run_was_killed_has_failed(stage: Stage) -> None:
    stage.run().before_plan(is_whole=True)
    late = stage.run()
    assert late.before_plan(is_whole=False)  # to plan anew
    assert (stage.upgrade.state, stage.version) == (UpgradeState.ROLLED_BACK, "1.0")
    assert late.after(failed(0), 1) == ""  # a failure with the old version is none of the upgrade's


def test_a_run_that_was_asked_to_end_is_no_trial_and_one_whose_time_was_over_is(stage: Stage) -> None:
    run = stage.run()
    run.before_plan(is_whole=True)
    run.after(done(0, stopped_by=StopReason.PAUSED), 1)
    assert (stage.upgrade.state, stage.upgrade.claim) == (UpgradeState.TRIAL, None)
    run = stage.run()
    run.before_plan(is_whole=True)
    run.after(done(0, stopped_by=StopReason.TIME), 1)
    assert stage.upgrade.state is UpgradeState.DONE


def test_tasks_in_applications_of_their_own_have_to_end_well_all_of_them(stage: Stage) -> None:
    run = stage.run()
    run.before_plan(is_whole=True)
    states = []
    for task in range(2):
        run.after(done(task), 2)
        states.append(stage.upgrade.state)
    assert states == [UpgradeState.TRIAL, UpgradeState.DONE]


def test_another_version_in_the_config_ends_the_upgrade(stage: Stage) -> None:
    run = stage.run()
    run.before_plan(is_whole=True)
    stage.store.put_connector("c", {**CONFIG, VERSION_KEY: "3.0"})
    assert stage.version is None
    assert run.after(failed(0), 1) == ""
    assert not stage.run().before_plan(is_whole=True)


def test_who_has_lost_the_claim_changes_nothing(stage: Stage) -> None:
    late, newest = stage.run(), stage.run()
    late.before_plan(is_whole=True)
    assert stage.upgrade == ASKED
    newest.before_plan(is_whole=True)
    assert stage.upgrade.claim is not None
    assert late.failed("late") == ""
    assert stage.upgrade.state is UpgradeState.TRIAL


def test_a_deletion_takes_the_upgrade_along(stage: Stage) -> None:
    stage.store.delete_connector("c")
    assert isinstance(stage.store.records[-1], UpgradeRecord)
    stage.store.put_connector("c", CONFIG)
    assert stage.version is None


def test_an_upgrade_travels_as_json() -> None:
    sent = replace(ASKED, claim=Claim(5, "id"), passed=(0, 2), state=UpgradeState.TRIAL, named="1.0")
    assert Upgrade.of_json({**sent.to_json(), "of a newer release": 1}) == sent
