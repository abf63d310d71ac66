"""Silence and lag: when a notice is due, how often, and what a restart, a pause or a connector of the same name changes."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from airflow.models.dagrun import DagRun
from airflow.utils.state import DagRunState
from sqlalchemy import create_engine, insert
from sqlalchemy.orm import Session

from airflow_provider_connect.api_server.deadline_watch import FORGOTTEN_SECONDS, DeadlineWatch, Episode, MissedDeadline
from airflow_provider_connect.api_server.runs import FORGOTTEN
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.ids import dag_id_for
from airflow_provider_connect.runtime.model.states import TargetState

SILENCE = {"airflow.deadline.silence": "10m", "airflow.on.deadline": "team"}
LAG = {"airflow.deadline.lag": "100", "airflow.deadline.lag.duration": "5m", "airflow.on.deadline": "team,admins"}
START = 1_800_000_000.0


class World:
    """Connectors, their runs in a database of Airflow's own table, their lags, and a clock."""

    def __init__(self) -> None:
        self.state, self.lags, self.clock = ClusterConfigState(), dict[str, float](), START
        self.engine = create_engine("sqlite://")
        cast("Any", DagRun.__table__).create(self.engine)
        self.sent, self._read = list[MissedDeadline](), dict[str, float]()
        self.watch = self.new_watch()

    def new_watch(self) -> DeadlineWatch:
        return DeadlineWatch(self, self.sessions, send=self.sent.append, now=lambda: self.clock)

    @contextmanager
    def sessions(self) -> Iterator[Session]:
        with Session(self.engine) as session:
            yield session

    def config_state(self) -> ClusterConfigState:
        return self.state

    def task_metrics(self) -> dict[tuple[str, int], dict[str, float]]:
        self._read = dict(self.lags)
        return {}

    def sink_lags(self, names: Collection[str]) -> dict[str, dict[str, float]]:
        """As the herder: by what was read last."""
        return {name: {"records-lag": self._read[name]} for name in names if name in self._read}

    def add(self, config: dict[str, str], name: str = "orders") -> None:
        self.state.connector_configs[name] = {"name": name, "connector.class": "FileStreamSink", **config}

    def target(self, target: TargetState, name: str = "orders") -> None:
        self.state.target_states[name] = target

    def ran(self, queued: float, ended: float | None, *, state: str = DagRunState.SUCCESS, name: str = "orders", user: str = "") -> None:
        """A run, with times in seconds from the start."""
        values = {"dag_id": dag_id_for(name), "run_id": f"r{queued}", "state": state, "queued_at": instant(queued), "run_type": "manual"}
        more = {"end_date": None if ended is None else instant(ended), "triggering_user_name": user, "run_after": instant(queued)}
        with Session(self.engine) as session:
            session.execute(insert(cast("Any", DagRun.__table__)).values(**values, **more, log_template_id=1, clear_number=0))
            session.commit()

    def tick(self, *seconds: float) -> list[str]:
        """The states of the notices that ticks at these seconds from the start have sent."""
        before = len(self.sent)
        for at in seconds:
            self.clock = START + at
            self.watch.tick()
        return [missed.state for missed in self.sent[before:]]

    def until(self, seconds: float) -> list[str]:
        """As ``tick``, every minute from now on."""
        return self.tick(*range(int(self.clock - START) + 60, int(seconds) + 1, 60))


def instant(seconds: float) -> datetime:
    return datetime.fromtimestamp(START + seconds, UTC)


@pytest.fixture
def world() -> World:
    return World()


def test_a_connector_that_never_succeeds_is_silent_once(world: World) -> None:
    world.add(SILENCE)
    assert world.tick(0) == []
    assert world.until(540) == []
    assert world.until(600) == ["silent"]
    assert world.until(6000) == []
    error = "No run of connector orders has succeeded for 600s (airflow.deadline.silence). No run has ever succeeded."
    assert world.sent == [MissedDeadline("orders", ("team",), "silent", error)]


def test_each_success_ends_a_silence_and_a_failure_does_not(world: World) -> None:
    world.add(SILENCE)
    world.tick(0)
    world.ran(100, 200)
    world.ran(300, 400, state=DagRunState.FAILED)
    world.ran(500, None, state=DagRunState.RUNNING)
    assert world.until(780) == []
    assert world.until(840) == ["silent"]
    assert "The last one ended at 2027-01-15 08:03:20 UTC." in world.sent[0].error
    world.ran(840, 841)
    assert world.until(1380) == []
    assert world.until(1500) == ["silent"]


def test_a_process_that_begins_to_watch_goes_on_from_the_runs(world: World) -> None:
    world.add(SILENCE)
    world.ran(-9000, -8900)
    world.ran(-500, -400, state=DagRunState.FAILED)
    world.ran(-300, -200, state=DagRunState.FAILED)
    assert world.tick(0) == []
    assert world.until(120) == ["silent"]  # counted from -500: before, the connector may have been paused
    world.watch = world.new_watch()
    assert world.tick(121) == ["silent"]  # what was sent is remembered in memory alone


@pytest.mark.parametrize("rest", [TargetState.PAUSED, TargetState.STOPPED])
def test_a_pause_is_no_silence_and_the_time_counts_from_its_end(world: World, rest: TargetState) -> None:
    world.add(SILENCE)
    world.ran(-300, -200, state=DagRunState.FAILED)
    world.tick(0)
    world.target(rest)
    assert world.until(6000) == []
    world.target(TargetState.STARTED)
    assert world.until(6600) == []
    assert world.until(6660) == ["silent"]


def test_after_a_time_without_ticks_nothing_remembered_counts(world: World) -> None:
    world.add(SILENCE)
    world.add(LAG, "sink")
    world.lags["sink"] = 101
    world.tick(0)
    assert world.tick(FORGOTTEN_SECONDS + 600) == []


def test_runs_of_a_deleted_connector_of_the_same_name_do_not_count(world: World) -> None:
    world.add(SILENCE)
    world.ran(-9000, -8900, user=FORGOTTEN)
    world.ran(-8000, -7900, state=DagRunState.FAILED, user=FORGOTTEN)
    assert world.tick(0) == []
    assert world.until(600) == ["silent"]
    assert "No run has ever succeeded" in world.sent[0].error


def test_a_sink_that_stays_behind_is_lagging_once_until_it_has_caught_up(world: World) -> None:
    world.add(LAG)
    world.lags["orders"] = 101
    assert world.tick(0) == []
    assert world.until(240) == []
    del world.lags["orders"]  # not known for a time: it counts on
    assert world.until(360) == []
    world.lags["orders"] = 5000
    assert world.until(420) == ["lagging"]
    assert world.until(3000) == []
    assert world.sent[0] == MissedDeadline(
        "orders",
        ("team", "admins"),
        "lagging",
        "Connector orders is 5000 records behind its topics, and has been more than 100 (airflow.deadline.lag) behind for 300s "
        "(airflow.deadline.lag.duration).",
    )
    world.lags["orders"] = 100
    assert world.until(3060) == []
    world.lags["orders"] = 101
    assert world.until(3360) == []
    assert world.until(3420) == ["lagging"]


def test_a_config_that_was_taken_elsewhere_and_is_wrong_keeps_no_other_from_its_notice(world: World) -> None:
    world.add({**SILENCE, "airflow.deadline.silence": "soon"}, "wrong")
    world.add({"airflow.deadline.silence": "10m"}, "unnamed")
    world.add({"airflow.deadline.duration": "10m", "airflow.on.deadline": "team"}, "of-airflow")
    world.add({**SILENCE, **LAG, "airflow.nonsense": "x", "airflow.pool": ""}, "right")
    world.lags["right"] = 1000
    world.tick(0)
    assert sorted(world.until(900)) == ["lagging", "silent"]
    assert {missed.connector for missed in world.sent} == {"right"}


@pytest.mark.parametrize(
    ("steps", "due"),
    [
        ([(None, 5)], [False]),
        ([(0, 9), (0, 10), (0, 11)], [False, True, False]),
        ([(0, 10), (None, 11), (12, 22)], [True, False, True]),
        ([(0, 10), (5, 11), (5, 15)], [True, False, True]),
        ([(10, 10)], [False]),
    ],
)
def test_an_episode_has_one_notice(steps: list[tuple[float | None, float]], due: list[bool]) -> None:
    episode = Episode()
    assert [episode.is_due(since, now=now, longest_seconds=10) for since, now in steps] == due


def test_with_no_time_allowed_a_notice_is_due_at_once() -> None:
    made: Callable[..., bool] = Episode().is_due
    assert made(10, now=10, longest_seconds=0)
