"""Until where runs of MirrorMaker's Java connectors go: by the lags and threads that a task shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import pytest

from airflow_provider_connect.errors import RetriableException
from airflow_provider_connect.runtime.java.bounded.mirror import FirstRecordGoal, LagGoal, StoresReadGoal
from airflow_provider_connect.runtime.java.bounded.runs import Progress
from airflow_provider_connect.runtime.java.jvm.connect_worker import ConnectWorker


@dataclass
class Task:
    """What a worker shows of one task. ``now`` is the clock."""

    lags: dict[tuple[str, str], float] = field(default_factory=dict)
    has_stores: bool = False
    now: float = 0.0

    def mbean_values(self, pattern: str, attribute: str, *, keys: tuple[str, str]) -> list[tuple[tuple[str, str], object]]:
        return [*self.lags.items()]

    def has_thread(self, prefix: str) -> bool:
        return self.has_stores

    @property
    def worker(self) -> ConnectWorker:
        return cast(ConnectWorker, self)


def test_a_source_is_behind_until_each_of_its_partitions_has_an_answer() -> None:
    task = Task()
    goal = LagGoal({"task.assigned.partitions": "a.b-0,a.b-1"}, now=lambda: task.now)
    assert goal.progress(task.worker, 0) is Progress.BEHIND
    task.lags = {("a.b", "0"): 0.0, ("a.b", "1"): float("nan")}
    assert goal.progress(task.worker, 0) is Progress.BEHIND
    task.lags["a.b", "1"] = 0.0
    assert goal.progress(task.worker, 0) is Progress.RECEIVED


def test_a_source_of_an_older_kafka_writes_topics_without_dots() -> None:
    task = Task(lags={("a_b", "0"): 0.0})
    assert LagGoal({"task.assigned.partitions": "a.b-0"}).progress(task.worker, 0) is Progress.RECEIVED


def test_a_source_whose_records_never_end_is_done_with_those_of_its_start() -> None:
    task = Task(lags={("a", "0"): 1000.0})
    goal = LagGoal({"task.assigned.partitions": "a-0"}, now=lambda: task.now)
    assert [goal.progress(task.worker, polled) for polled in (0, 100, 1599)] == [Progress.BEHIND] * 3
    assert goal.progress(task.worker, 1600) is Progress.DELIVERED


def test_a_source_cluster_that_never_answers_is_a_failure_that_may_pass() -> None:
    task = Task()
    goal = LagGoal({"task.assigned.partitions": "a-0,a-1"}, now=lambda: task.now)
    task.now = 61.0
    with pytest.raises(RetriableException, match="has not answered for 2 partitions in 60 s, a-0 among them"):
        goal.progress(task.worker, 0)


def test_a_heartbeat_is_delivered() -> None:
    assert [FirstRecordGoal().progress(Task().worker, polled) for polled in (0, 1)] == [Progress.BEHIND, Progress.DELIVERED]


@pytest.mark.parametrize(("syncs", "rest"), [("false", 1.0), ("true", 4.0)])
def test_checkpoints_end_a_while_after_the_last_one_and_behind_a_turn_of_the_groups(syncs: str, rest: float) -> None:
    task = Task()
    config = {"sync.group.offsets.enabled": syncs, "sync.group.offsets.interval.seconds": "3"}
    goal = StoresReadGoal(config, now=lambda: task.now)
    task.now = 100.0
    assert goal.progress(task.worker, 0) is Progress.BEHIND, "the stores are not read"
    task.has_stores = True
    assert goal.progress(task.worker, 0) is Progress.BEHIND
    task.now += rest
    assert goal.progress(task.worker, 1) is Progress.BEHIND, "a checkpoint came"
    task.now += rest - 0.1
    assert goal.progress(task.worker, 1) is Progress.BEHIND
    task.now += 0.1
    assert goal.progress(task.worker, 1) is Progress.RECEIVED


def test_stores_that_are_never_read_are_a_failure_that_may_pass() -> None:
    task = Task()
    goal = StoresReadGoal({}, now=lambda: task.now)
    task.now = 301.0
    with pytest.raises(RetriableException, match="mm2-offset-syncs"):
        goal.progress(task.worker, 0)
