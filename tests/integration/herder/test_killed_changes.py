"""A change of offsets whose process is killed: between any two steps, what holds is all of it or nothing, for us and for a real Connect."""

from __future__ import annotations

import sys

import pytest

from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.views import OffsetView
from tests.integration.herder.conftest import shown, views
from tests.integration.herder.killed_change import KillPoint, change_and_kill
from tests.integration.herder.test_sink_offsets import at, offset, stopped_sink
from tests.integration.worker.environment import RunEnvironment, make_topic, read_topic, values_of

KEEPER, CHANGE = "runtime.herder.offsets:OffsetKeeper", "runtime.stores.offset_change:OffsetChange"
OWNER = "runtime.stores.transactional_producer:TransactionalProducer"
SOURCE_KILL_POINTS = [
    KillPoint(f"{KEEPER}._fence"),
    KillPoint(f"{KEEPER}._claim_no_tasks"),
    KillPoint(f"{CHANGE}.take_over"),
    KillPoint(f"{OWNER}.send"),
    KillPoint(f"{CHANGE}._flush"),
    KillPoint(f"{KEEPER}._check"),
    KillPoint(f"{OWNER}.commit"),
]
SINK_KILL_POINTS = [
    KillPoint(f"{KEEPER}._claim_no_tasks"),
    KillPoint(f"{CHANGE}._flush"),
    KillPoint(f"{OWNER}.commit", nth=1),
    KillPoint("runtime.stores.group_offsets:GroupOffsets.delete", "before"),
    KillPoint("runtime.stores.group_offsets:GroupOffsets.delete"),
    KillPoint(f"{CHANGE}._flush", nth=2),
    KillPoint(f"{OWNER}.commit", nth=2),
]


def some_or_all(kill_points: list[KillPoint]) -> pytest.MarkDecorator:
    """Every third of them, and in ``make soak`` all."""
    return pytest.mark.parametrize(
        "kill_points", [kill_points[::3], pytest.param(kill_points, marks=pytest.mark.soak)], ids=["some", "all"]
    )


@pytest.mark.soak
def test_a_source_has_all_or_nothing(environment: RunEnvironment, herder: Herder, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    environment.run(environment.numbers(unique, tasks_max="2", tasks="2", until="100"))
    herder.stop(environment.connector)
    first, second = {"task": 0}, {"task": 1}
    old = [(first, {"next": 100}), (second, {"next": 100})]
    new = [(first, {"next": 30}), (second, {"next": 40})]
    outcomes = []
    for kill_point in SOURCE_KILL_POINTS:
        change_and_kill(environment, kill_point, views(*new))
        herder.stop(environment.connector)  # as before a hand-over to a real Connect, which may not know committed from aborted
        found = shown(herder.offsets(environment.connector))
        assert found in (old, new), kill_point
        outcomes.append(found == new)
        last = {
            record.key: record.value
            for record in read_topic(environment.bootstrap, environment.settings.offset_topic, read_committed=False)
        }
        committed = {record.key: record.value for record in read_topic(environment.bootstrap, environment.settings.offset_topic)}
        assert last == committed, kill_point
        herder.alter_offsets(environment.connector, views(*old))
    change_and_kill(environment, KillPoint(f"{CHANGE}._flush"), None)
    herder.resume(environment.connector)
    environment.run()
    assert len(values_of(environment.bootstrap, unique)) == 200, "the reset that was killed has done nothing"
    sys.stdout.write(f"altered {outcomes.count(True)} times of {len(outcomes)}\n")


@some_or_all(SINK_KILL_POINTS)
@pytest.mark.parametrize("guarantee", ["exactly_once", pytest.param("at_least_once", marks=pytest.mark.soak)])
def test_a_sink_has_all_or_nothing(
    environment: RunEnvironment, herder: Herder, unique: str, guarantee: str, kill_points: list[KillPoint]
) -> None:
    """One offset altered, one removed, one left; and the runs after it go on from what was reported."""
    one, two = f"{unique}-1", f"{unique}-2"
    stopped_sink(environment, herder, [one, two], delivery_guarantee=guarantee)
    old = [(at(topic, number), offset(5)) for topic in (one, two) for number in (0, 1)]
    changes = views((at(one, 0), offset(3)), (at(one, 1), None))
    new = [(at(one, 0), offset(3)), (at(two, 0), offset(5)), (at(two, 1), offset(5))]
    for kill_point in kill_points:
        lines = len(environment.lines())
        change_and_kill(environment, kill_point, changes)
        herder.stop(environment.connector)
        found = by_position(herder.offsets(environment.connector))
        assert found in (by_position(views(*old)), by_position(views(*new))), kill_point
        herder.resume(environment.connector)
        environment.run()
        again = environment.lines()[lines:]
        assert sorted(again) == sorted([] if found == by_position(views(*old)) else [*of(one, 0)[3:], *of(one, 1)]), kill_point
        herder.stop(environment.connector)
        assert by_position(herder.offsets(environment.connector)) == by_position(views(*old))


def by_position(offsets: list[OffsetView]) -> dict[object, object]:
    partitions = [view.partition or {} for view in offsets]
    topic_partitions = [(partition["kafka_topic"], partition["kafka_partition"]) for partition in partitions]
    return dict(zip(topic_partitions, [dict(view.offset or {}) for view in offsets], strict=True))


def of(topic: str, partition: int) -> list[str]:
    return [f"{topic} {number}" for number in range(10) if number % 2 == partition]
