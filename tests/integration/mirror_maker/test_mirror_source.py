"""MirrorSource between two real clusters: every record as it was, in its partition, once."""

from __future__ import annotations

import random
import time

import pytest
from confluent_kafka.admin import AdminClient

from airflow_provider_connect.data.records import Distance
from airflow_provider_connect.runtime.model.run import RunState
from airflow_provider_connect.runtime.worker.application.readiness import NO_WORK, WORK
from tests import raw_headers
from tests.integration.herder.killed_change import KillPoint
from tests.integration.mirror_maker.mirror import MirrorEnvironment, Sent, in_transaction, produce, records, topics
from tests.integration.worker.killed_run import run_and_kill
from tests.integration.worker.test_distances import distances
from tests.samples import sample
from tests.waiting import HANG_SECONDS, wait_until

NOW_MS = int(time.time() * 1000)  # brokers delete what is older than a week


def any_records(count: int, partitions: int, seed: int = 7) -> list[Sent]:
    """Keys, values and headers of every kind: null, empty, bytes that are no text, the same header twice."""
    chance = random.Random(seed)
    blobs = (None, b"", b"\x00\xff", "é😀".encode())
    headers: list[list[tuple[str, bytes | None]]] = [[], [("h", b"1"), ("h", b"2")], [("n", None), ("", b""), ("é", b"\xfe")]]
    return [
        (
            number % partitions,
            chance.choice(blobs),
            chance.choice(blobs) or f"{number}".encode(),
            chance.choice(headers),
            NOW_MS + number * 977,
        )
        for number in range(count)
    ]


def by_partition(sent: list[Sent]) -> list[Sent]:
    return sorted(sent, key=lambda record: record[0])


def test_records_arrive_as_they_were_and_a_later_run_goes_on(mirror: MirrorEnvironment) -> None:
    topic = mirror.topic(partitions=3)
    first, later = any_records(500, 3), any_records(60, 3, seed=8)
    produce(mirror.origin, topic, first)
    mirror.run(mirror.config(tasks_max="2"))
    assert records(mirror.target, mirror.remote(topic)) == by_partition(first)
    assert distances(mirror.runs) == {mirror.runs.connector: Distance(0, "records")}
    assert topics(mirror.target)[mirror.remote(topic)] == 3
    assert mirror.runs.readiness().state == NO_WORK
    produce(mirror.origin, topic, later)
    assert mirror.runs.readiness().state == WORK
    mirror.run(mirror.config(tasks_max="3"))
    assert records(mirror.target, mirror.remote(topic)) == by_partition(first + later)


def test_a_record_whose_headers_cannot_be_read_is_left_out_only_where_the_config_tolerates_it(mirror: MirrorEnvironment) -> None:
    topic = mirror.topic()
    sent: list[Sent] = [(0, None, str(number).encode(), [("h", b"1")], NOW_MS) for number in range(4)]
    produce(mirror.origin, topic, sent[:2])
    raw_headers.produce(mirror.origin, topic, b"no", [(raw_headers.NOT_UTF_8, b"")])
    produce(mirror.origin, topic, sent[2:])
    raw_headers.produce(mirror.origin, topic, b"no", [(raw_headers.NOT_UTF_8, b"")])
    for _ in range(2):
        config = mirror.config()
        mirror.runs.put_config(config)
        failed = mirror.runs.run(config)
        assert failed.state is RunState.FAILED
        assert f"The headers of offset 2 of {topic}-0 cannot be read" in str(failed.tasks[0].trace)
    mirror.run(mirror.config(errors_tolerance="all"))
    assert records(mirror.target, mirror.remote(topic)) == sent
    assert mirror.runs.readiness().state == NO_WORK


def test_tombstones_stay_tombstones(mirror: MirrorEnvironment) -> None:
    topic = mirror.topic()
    sent: list[Sent] = [(0, b"k", None, [], NOW_MS), (0, b"k", b"", [], NOW_MS - 86_400_000)]
    produce(mirror.origin, topic, sent)
    mirror.run(mirror.config())
    assert records(mirror.target, mirror.remote(topic)) == sent


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_aborted_records_are_mirrored_only_if_the_config_asks(mirror: MirrorEnvironment, isolation: str) -> None:
    """Markers at the end of a partition are passed: the next check finds nothing to do."""
    topic = mirror.topic()
    in_transaction(mirror.origin, topic, [b"aborted"], commit=False)
    in_transaction(mirror.origin, topic, [b"one", b"two"], commit=True)
    more = {} if isolation == "read_committed" else {"consumer_isolation_level": isolation}
    mirror.run(mirror.config(**more))
    expected = [b"one", b"two"] if isolation == "read_committed" else [b"aborted", b"one", b"two"]
    assert [value for _, _, value, _, _ in records(mirror.target, mirror.remote(topic))] == expected
    assert mirror.runs.readiness().state == NO_WORK


def test_a_mirror_may_begin_with_what_is_new(mirror: MirrorEnvironment) -> None:
    topic = mirror.topic()
    config = mirror.config(consumer_auto_offset_reset="latest")
    produce(mirror.origin, topic, any_records(5, 1))
    mirror.run(config)
    later = any_records(3, 1, seed=9)
    produce(mirror.origin, topic, later)
    mirror.run(config)
    assert records(mirror.target, mirror.remote(topic)) == later


@pytest.mark.parametrize(("count", "reset"), [(4, "earliest"), (9, "earliest"), (12, "latest"), (0, "earliest")])
def test_a_topic_that_was_created_anew_is_mirrored_from_its_first_record(mirror: MirrorEnvironment, count: int, reset: str) -> None:
    topic = mirror.topic()
    config = mirror.config(consumer_auto_offset_reset=reset)
    mirror.run(config)
    first, second = any_records(9, 1), any_records(count, 1, seed=9)
    produce(mirror.origin, topic, first)
    mirror.run(config)
    admin = AdminClient({"bootstrap.servers": mirror.origin})
    admin.delete_topics([topic])[topic].result(HANG_SECONDS)
    wait_until(lambda: topic not in topics(mirror.origin))
    mirror.topic()
    produce(mirror.origin, topic, second)
    assert mirror.runs.readiness().state == WORK
    mirror.run(config)
    assert records(mirror.target, mirror.remote(topic)) == first + second
    assert mirror.runs.readiness().state == NO_WORK


def test_new_topics_and_partitions_are_found(mirror: MirrorEnvironment) -> None:
    first = mirror.topic("a")
    mirror.run(mirror.config())
    assert mirror.runs.readiness().state == NO_WORK
    second = mirror.topic("b", partitions=2)
    assert mirror.runs.readiness().state == WORK
    mirror.run(mirror.config())
    assert {name: count for name, count in topics(mirror.target).items() if mirror.unique in name and name.startswith("origin.")} == {
        mirror.remote(first): 1,
        mirror.remote(second): 2,
    }


KILLS = [KillPoint("write offsets", "after", 1), KillPoint("commit transaction", "after", 1)]
MORE_KILLS = [
    KillPoint("write records", "after", 2),
    KillPoint("write offsets", "before", 1),
    KillPoint("commit transaction", "before", 1),
    KillPoint("notify task", "after", 1),
]


@pytest.mark.parametrize("kill_point", sample([*KILLS, *MORE_KILLS], *range(len(KILLS))), ids=str)
def test_a_killed_run_loses_and_doubles_nothing(mirror: MirrorEnvironment, kill_point: KillPoint) -> None:
    topic = mirror.topic(partitions=2)
    sent = any_records(3_000, 2)
    produce(mirror.origin, topic, sent)
    mirror.runs.properties["transaction.boundary.poll.linger.ms"] = "0"
    run_and_kill(mirror.runs, mirror.config(), kill_point)
    mirror.run(mirror.config())
    assert records(mirror.target, mirror.remote(topic)) == by_partition(sent)


def test_wrong_addresses_and_settings_are_named(mirror: MirrorEnvironment) -> None:
    config = mirror.config()
    without = {key: text for key, text in config.items() if key != "source.cluster.bootstrap.servers"}
    result = mirror.runs.run(without)
    assert result.state is RunState.FAILED
    assert "source.cluster.bootstrap.servers" in str(result.error)
    for side in ("source", "target"):
        mirror.runs.put_config({**config, f"{side}.cluster.bootstrap.servers": "127.0.0.1:1", "admin.timeout.ms": "500"})
        result = mirror.runs.run()
        assert (result.state, result.retriable) == (RunState.FAILED, True)
        assert f"{side}.cluster.bootstrap.servers" in str(result.error)


@pytest.mark.parametrize("key", ["replication.factor", "offset-syncs.topic.replication.factor"])
def test_more_replicas_than_brokers_are_refused_with_the_name_of_the_setting(mirror: MirrorEnvironment, key: str) -> None:
    mirror.topic()
    aliases = {"source.cluster.alias": f"{mirror.unique}-from", "target.cluster.alias": f"{mirror.unique}-to"}
    mirror.runs.put_config({**mirror.config(), **aliases, key: "9"})
    result = mirror.runs.run()
    assert (result.state, result.retriable) == (RunState.FAILED, False)
    assert str(result.error).endswith(f". Set {key} to no more than its number of brokers")
