"""The fold of the status topic: who may overwrite whom (contract §2.9)."""

import time

import pytest

from airflow_provider_connect.errors import MOST_CHARACTERS
from airflow_provider_connect.runtime.model.ids import ConnectorTaskId
from airflow_provider_connect.runtime.model.records import Unreadable
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.model.states import State
from airflow_provider_connect.runtime.model.status import (
    ConnectorStatus,
    FailedStatuses,
    StatusRecord,
    StatusState,
    TaskStatus,
    TopicReset,
    TopicStatus,
)

OLD, NEW = Claim(5, "t"), Claim(9, "t")


def task(state: State, claim: Claim | None = None, *, number: int = 0, generation: int = 0, timestamp: int = -1) -> TaskStatus:
    return TaskStatus("c", number, state, "w", generation=generation, claim=claim, timestamp=timestamp)


def connector(state: State, claim: Claim | None = None, *, timestamp: int = -1) -> ConnectorStatus:
    return ConnectorStatus("c", state, "w", claim=claim, timestamp=timestamp)


def folded(*records: StatusRecord) -> StatusState:
    statuses = StatusState()
    for record in records:
        statuses.apply(record)
    return statuses


RUNNING, PAUSED, FAILED, UNASSIGNED, DESTROYED = State.RUNNING, State.PAUSED, State.FAILED, State.UNASSIGNED, State.DESTROYED


@pytest.mark.parametrize(
    ("records", "shown"),
    [
        pytest.param([task(RUNNING), task(FAILED)], FAILED, id="the last one counts"),
        pytest.param([task(RUNNING, OLD), task(FAILED, OLD)], FAILED, id="within a claim too"),
        pytest.param([task(RUNNING, OLD), task(PAUSED, NEW)], PAUSED, id="a newer claim replaces"),
        pytest.param([task(RUNNING, NEW), task(FAILED, OLD)], RUNNING, id="a zombie's status is ignored"),
        pytest.param([task(RUNNING, NEW), task(DESTROYED, OLD)], RUNNING, id="and its tombstone"),
        pytest.param([task(RUNNING, NEW), task(DESTROYED, NEW), task(FAILED, OLD)], None, id="also behind a tombstone"),
        pytest.param([task(RUNNING, OLD), task(FAILED)], FAILED, id="a real worker's replaces ours"),
        pytest.param([task(RUNNING), task(FAILED, OLD)], FAILED, id="ours replaces a real worker's"),
        pytest.param([task(RUNNING, NEW), task(PAUSED), task(FAILED, OLD)], PAUSED, id="a zombie's is ignored behind a real worker's"),
        pytest.param([task(RUNNING, NEW), task(FAILED, Claim(1, "u"))], FAILED, id="claims of two topics are not compared"),
        pytest.param([task(RUNNING, generation=3), task(UNASSIGNED, generation=3)], RUNNING, id="late UNASSIGNED of a real worker"),
        pytest.param([task(RUNNING, generation=3), task(UNASSIGNED, generation=4)], UNASSIGNED, id="UNASSIGNED of a newer generation"),
        pytest.param([task(PAUSED, generation=3), task(UNASSIGNED, generation=3)], UNASSIGNED, id="UNASSIGNED behind another state"),
        pytest.param([task(RUNNING, OLD), task(UNASSIGNED, NEW)], UNASSIGNED, id="UNASSIGNED of ours is in order"),
        pytest.param([task(RUNNING, OLD), task(UNASSIGNED, generation=7)], UNASSIGNED, id="a real worker's UNASSIGNED behind ours"),
        pytest.param([task(RUNNING), task(DESTROYED)], None, id="a tombstone removes"),
        pytest.param([task(DESTROYED), task(DESTROYED)], None, id="repeated tombstones are normal"),
    ],
)
def test_shown_status(records: list[StatusRecord], shown: State | None) -> None:
    status = folded(*records).task("c", 0)
    assert (None if status is None else status.state) == shown


def test_tasks_that_a_later_run_does_not_host_keep_their_status() -> None:
    statuses = folded(task(RUNNING, OLD), task(FAILED, OLD, number=1), connector(RUNNING, NEW), task(RUNNING, NEW, number=1))
    assert [(status.task, status.state, status.claim) for status in statuses.tasks_of("c")] == [(0, RUNNING, OLD), (1, RUNNING, NEW)]


def test_tombstone_of_a_connector_takes_its_tasks_along() -> None:
    other = TaskStatus("c-0", 0, RUNNING)
    statuses = folded(connector(RUNNING), task(RUNNING), task(FAILED, number=1), other, connector(DESTROYED))
    assert statuses.connector("c") is None
    assert statuses.tasks == {ConnectorTaskId("c-0", 0): other}


def test_tombstone_read_late_leaves_the_tasks_of_the_connector_made_anew() -> None:
    statuses = folded(task(RUNNING, timestamp=20), task(RUNNING, number=1, timestamp=5), connector(DESTROYED, timestamp=10))
    assert [status.task for status in statuses.tasks_of("c")] == [0]


def test_tasks_are_listed_by_number() -> None:
    statuses = folded(*(task(RUNNING, number=number) for number in (10, 2, 0)))
    assert [status.task for status in statuses.tasks_of("c")] == [0, 2, 10]
    assert statuses.tasks_of("d") == []


def test_topics_are_known_until_they_are_reset() -> None:
    statuses = folded(TopicStatus("a", "c", 0, 1), TopicStatus("b", "c", 0, 2), TopicStatus("a", "d", 0, 3), TopicStatus("a", "c", 1, 4))
    assert statuses.topics_of("c") == ["a", "b"]
    statuses.apply(TopicReset("a", "c"))
    assert statuses.topics_of("c") == ["b"]
    statuses.apply(TopicReset("b", "c"))
    statuses.apply(TopicReset("b", "c"))
    assert statuses.topics_of("c") == []
    assert statuses.topics_of("d") == ["a"]
    assert list(statuses.topics) == ["d"]


def test_topic_of_a_zombie_is_ignored() -> None:
    assert folded(TopicReset("a", "c", NEW), TopicStatus("a", "c", 0, 1, OLD)).topics_of("c") == []


def test_reasons_are_given_and_counted() -> None:
    statuses = StatusState()
    assert statuses.apply(connector(RUNNING, NEW)) == ""
    assert statuses.apply(connector(FAILED, OLD)) == "status of connector c by claim t:5, which t:9 has taken over"
    assert statuses.apply(Unreadable("why")) == "why"
    assert statuses.skipped == 2


def test_a_connector_of_very_many_topics_is_read_in_time() -> None:
    """Each was copied for the next one: a connector that routes records to topics of their own held up all others' statuses."""
    state, count = StatusState(), 30_000
    begun = time.process_time()
    for number in range(count):
        state.apply(TopicStatus(f"t{number}", "c", 0, 1))
    kept = state.copy()
    for number in range(count - 1):
        state.apply(TopicReset(f"t{number}", "c"))
    assert time.process_time() - begun < 5
    assert state.topics_of("c") == [f"t{count - 1}"]
    assert len(kept.topics_of("c")) == count


def test_a_copy_and_its_original_change_apart() -> None:
    one = StatusState()
    one.apply(TopicStatus("a", "c", 0, 1))
    other = one.copy()
    one.apply(TopicStatus("b", "c", 0, 1))
    other.apply(TopicReset("a", "c"))
    third = one.copy()
    one.apply(TopicReset("a", "c"))
    assert (one.topics_of("c"), other.topics_of("c"), third.topics_of("c")) == (["b"], [], ["a", "b"])
    assert "c" not in other.topics


def test_a_long_trace_is_shortened_in_every_failed_status() -> None:
    failed, trace = FailedStatuses("c", "host:1", "4.3.1", None), "\n".join(["first", *["x" * 1000] * 10_000, "last"])
    for status in (failed.of_connector(trace), failed.of_task(0, trace)):
        lines = (status.trace or "").splitlines()
        assert (status.state, lines[0], lines[-1]) == (State.FAILED, "first", "last")
        assert len(status.trace or "") <= MOST_CHARACTERS
