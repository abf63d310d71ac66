"""Offsets of sinks over the herder: in their consumer group and, exactly once, at their destination too."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from confluent_kafka import Consumer

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import BadRequestException, ConnectException
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.stores.group_offsets import GroupOffsets
from tests.integration.herder.conftest import AskedHere, ordered, shown, views
from tests.integration.worker.environment import RunEnvironment, commit_by_hand, make_topic, send
from tests.integration.worker.test_runs import text
from tests.waiting import wait_until

ALTERED = "The offsets for this connector have been altered successfully"
RESET = "The offsets for this connector have been reset successfully"
GUARANTEES = ["exactly_once", "at_least_once"]


def at(topic: str, partition: object) -> dict[str, object]:
    return {"kafka_topic": topic, "kafka_partition": partition}


def offset(position: object) -> dict[str, object]:
    return {"kafka_offset": position}


def stopped_sink(environment: RunEnvironment, herder: Herder, topics: list[str], **more: str) -> None:
    """A file sink that has delivered ten records of each topic of two partitions, and was stopped."""
    for topic in topics:
        make_topic(environment.bootstrap, topic, 2)
        send(environment.bootstrap, topic, [f"{topic} {number}" for number in range(10)], partitions=2)
    environment.run(environment.file_sink(",".join(topics), **more))
    assert len(environment.lines()) == 10 * len(topics)
    herder.stop(environment.connector)


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_offsets_of_several_topics(environment: RunEnvironment, herder: Herder, unique: str, guarantee: str) -> None:
    """Altered, one of them removed, the others left alone: the next run goes on from there, once."""
    one, two = f"{unique}-1", f"{unique}-2"
    stopped_sink(environment, herder, [one, two], delivery_guarantee=guarantee)
    assert shown(herder.offsets(environment.connector)) == ordered([(at(t, p), offset(5)) for t in (one, two) for p in (0, 1)])

    changes = views((at(one, 0), offset(9)), (at(one, "0"), offset("3")), (at(two, 1), None))
    assert herder.alter_offsets(environment.connector, changes) == ALTERED
    left = [(at(one, 0), offset(3)), (at(one, 1), offset(5)), (at(two, 0), offset(5))]
    assert shown(herder.offsets(environment.connector)) == ordered(left)
    herder.resume(environment.connector)
    environment.run()
    again = [f"{one} {2 * number}" for number in range(3, 5)] + [f"{two} {2 * number + 1}" for number in range(5)]
    assert sorted(environment.lines()[20:]) == sorted(again)
    assert {known.offset for known in environment.group_offsets().values()} == {5}
    environment.run()
    assert len(environment.lines()) == 27


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_reset_begins_at_the_beginning(environment: RunEnvironment, herder: Herder, unique: str, guarantee: str) -> None:
    stopped_sink(environment, herder, [unique], delivery_guarantee=guarantee)
    assert herder.reset_offsets(environment.connector) == RESET
    assert herder.offsets(environment.connector) == []
    assert environment.group_offsets() == {}
    assert herder.reset_offsets(environment.connector) == RESET
    herder.resume(environment.connector)
    environment.run()
    assert len(environment.lines()) == 20
    assert sorted(environment.lines()[10:]) == sorted(environment.lines()[:10])


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_offsets_beyond_the_end_are_taken_as_by_kafka_connect_and_shown(
    environment: RunEnvironment, herder: Herder, unique: str, guarantee: str, caplog: pytest.LogCaptureFixture
) -> None:
    stopped_sink(environment, herder, [unique], delivery_guarantee=guarantee)
    name, text = (
        environment.connector,
        f"Offsets beyond the end: 1000 of {unique}-0 (its end is 5). The next run begins where auto.offset.reset",
    )
    assert herder.alter_offsets(name, views((at(unique, 0), offset(1000)), (at(unique, 1), offset(5)))) == ALTERED
    assert str(herder.connector_status(name).note).startswith(text)
    herder.resume(name)
    found = environment.readiness()
    assert (found.state, str(found.missing).startswith(text)) == ("work", True)
    assert herder.health_warnings() == [
        "1 running connectors need attention: what they use is not there, cannot be read, or does not answer (airflow connect top)."
    ]
    environment.run()
    assert f"Offset 1000 is 995 after the end of {unique}-0, 5. auto.offset.reset decides: the connector goes on at 0" in caplog.text
    assert len(environment.lines()) == 15
    assert environment.readiness().state == "no-work"
    assert herder.connector_status(name).note is None
    assert herder.health_warnings() == []


def test_what_is_accepted_and_what_is_not(environment: RunEnvironment, herder: Herder, unique: str) -> None:
    stopped_sink(environment, herder, [unique])
    accepted = views(({**at(unique, 0), "more": 1}, offset(1_000)), (at(unique, "1"), {**offset("2"), "more": True}))
    assert herder.alter_offsets(environment.connector, accepted) == ALTERED
    reported = [(at(unique, 0), offset(1_000)), (at(unique, 1), offset(2))]
    assert shown(herder.offsets(environment.connector)) == reported
    failed = f"Failed to alter consumer group offsets for connector {environment.connector}"
    refused: list[tuple[Mapping[str, object] | None, Mapping[str, object] | None, str]] = [
        (None, offset(1), "cannot be null or missing"),
        ({"kafka_topic": unique}, offset(1), "must contain the keys 'kafka_topic' and 'kafka_partition'"),
        (at(unique, 0), {"offset": 1}, "should either be null or contain the key 'kafka_offset'"),
        (at(unique, "x"), offset(1), "Failed to parse the following Kafka partition value in the provided offsets: 'x'"),
        (at(unique, 0), offset("x"), "Failed to parse the following Kafka offset value in the provided offsets: 'x'"),
        (at(unique, 0), offset(-1), "must not be negative"),
        (at("nowhere", 0), offset(1), f"{failed}: there is no topic nowhere"),
        ({"kafka_topic": 5, "kafka_partition": 0}, offset(1), f"{failed}: there is no topic 5"),
        (at(unique, 2), offset(1), f"{failed}: topic {unique} has 2 partitions and no partition 2"),
    ]
    claims = len(environment.config_log())
    for partition, position, message in refused:
        with pytest.raises(BadRequestException, match=message):
            herder.alter_offsets(environment.connector, views((at(unique, 1), offset(4)), (partition, position)))
    assert len(environment.config_log()) == claims, "nothing was fenced either"
    assert shown(herder.offsets(environment.connector)) == reported


def test_a_group_with_members_is_left_alone(environment: RunEnvironment, herder: Herder, unique: str) -> None:
    """Another consumer, or a real worker's sink task that has not ended yet."""
    stopped_sink(environment, herder, [unique])
    stranger = Consumer({"bootstrap.servers": environment.bootstrap, "group.id": environment.group, "session.timeout.ms": 6000})
    stranger.subscribe([unique])
    groups = GroupOffsets(environment.settings)
    wait_until(lambda: stranger.poll(0.1) or groups.members(environment.group))
    try:
        attempts: tuple[Callable[[], object], ...] = (
            lambda: herder.reset_offsets(environment.connector),
            lambda: herder.alter_offsets(environment.connector, views((at(unique, 0), None))),
        )
        for change in attempts:
            with pytest.raises(ConnectException, match=r"tasks haven't stopped completely yet .* zombie sink tasks"):
                change()
    finally:
        stranger.close()
    assert len(environment.group_offsets()) == 2


def test_a_connector_that_refuses_leaves_everything_as_it_was(
    environment: RunEnvironment, herder: Herder, probe: AskedHere, unique: str
) -> None:
    stopped_sink(environment, herder, [unique], delivery_guarantee="exactly_once")
    before = environment.group_offsets()

    def refuse() -> None:
        raise ConnectException("not now")

    probe.before = refuse
    changes: list[Callable[[], object]] = [
        lambda: herder.alter_offsets(environment.connector, views((at(unique, 0), offset(1)))),
        lambda: herder.alter_offsets(environment.connector, views((at(unique, 0), offset(1)), (at(unique, 1), None))),
        lambda: herder.reset_offsets(environment.connector),
    ]
    for change in changes:
        with pytest.raises(BadRequestException, match="not now"):
            change()
        assert environment.group_offsets() == before, "with the marks of their claims"
    herder.resume(environment.connector)
    environment.run()
    assert len(environment.lines()) == 10


def test_a_group_of_another_name(environment: RunEnvironment, herder: Herder, unique: str) -> None:
    """``consumer.override.group.id`` names the group of runs and of offsets."""
    stopped_sink(environment, herder, [unique], **{"consumer.override.group.id": f"own-{unique}"})
    assert environment.group_offsets() == {}
    assert len(herder.offsets(environment.connector)) == 2
    herder.alter_offsets(environment.connector, views((at(unique, 0), offset(2))))
    assert GroupOffsets(environment.settings).committed(f"own-{unique}")[TopicPartition(unique, 0)].offset == 2
    herder.reset_offsets(environment.connector)
    assert herder.offsets(environment.connector) == []
    herder.resume(environment.connector)
    environment.run()
    assert len(environment.lines()) == 20


def test_offsets_of_a_sink_that_never_ran(environment: RunEnvironment, herder: Herder, unique: str) -> None:
    """Nothing is known; what is altered is where its first run starts. Offsets of another application are reported too."""
    make_topic(environment.bootstrap, unique)
    send(environment.bootstrap, unique, text(10))
    environment.put_config(environment.file_sink(unique))
    herder.stop(environment.connector)
    assert herder.offsets(environment.connector) == []
    assert herder.reset_offsets(environment.connector) == RESET
    herder.alter_offsets(environment.connector, views((at(unique, 0), offset(7))))
    assert shown(herder.offsets(environment.connector)) == [(at(unique, 0), offset(7))]
    commit_by_hand(environment.bootstrap, environment.group, {TopicPartition(unique, 0): 8})
    assert shown(herder.offsets(environment.connector)) == [(at(unique, 0), offset(8))]
    herder.resume(environment.connector)
    environment.run()
    assert environment.lines() == text(2, 8)
