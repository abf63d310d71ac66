"""When the tables of Apache Iceberg's sink have what its tasks have written, and what its own clients are given."""

from collections.abc import Mapping

import pytest

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.java.bounded.iceberg_sink import TableCommit, task_defaults
from airflow_provider_connect.runtime.java.config.rules import refused_keys

ZERO, ONE = TopicPartition("control-iceberg", 0), TopicPartition("control-iceberg", 1)
SCHEMA = b'{"type":"record"}'
WORKER = {"bootstrap.servers": "a:1,b:2", "producer.sasl.password": "secret", "producer.acks": "all", "consumer.sasl.password": "other"}


def event(number: int) -> bytes:
    """An event of this type, as Iceberg writes it."""
    return b"\xc2\x01" + len(SCHEMA).to_bytes(2, "big") + SCHEMA + bytes(16) + bytes([number * 2]) + b"rest"


class Cluster:
    def __init__(self) -> None:
        self.records: list[tuple[TopicPartition, int, bytes | None]] = []
        self.committed: dict[TopicPartition, int] = {}
        self.asked: list[str] = []

    def table_commit(self, **config: str) -> TableCommit:
        return TableCommit({"name": "c", **config}, self.records_of, self.group)

    def records_of(self, topic: str, behind: Mapping[TopicPartition, int]) -> list[tuple[TopicPartition, int, bytes | None]]:
        return [each for each in self.records if each[0].topic == topic]

    def group(self, name: str) -> dict[TopicPartition, int]:
        self.asked.append(name)
        return self.committed


def test_files_that_tasks_have_named_are_waited_for_until_the_coordinator_is_behind_them() -> None:
    cluster = Cluster()
    cluster.records = [(ZERO, 4, event(1)), (ZERO, 6, event(2)), (ONE, 2, event(1)), (ONE, 9, event(0))]
    commit = cluster.table_commit()
    assert not commit.is_done()
    cluster.records.append((ZERO, 20, event(1)))  # of a later commit
    cluster.committed = {ZERO: 7, ONE: 2}
    assert not commit.is_done()
    cluster.committed = {ZERO: 7, ONE: 3}
    assert commit.is_done()
    assert set(cluster.asked) == {"connect-c-coord"}


@pytest.mark.parametrize("value", [None, b"", b"\xc2\x01", b"\xc2\x01\xff\xff", event(0), event(2), event(3), event(4), b"text"])
def test_other_events_and_what_is_no_event_are_not_waited_for(value: bytes | None) -> None:
    cluster = Cluster()
    cluster.records = [(ZERO, 4, value)]
    assert cluster.table_commit().is_done()


def test_a_group_without_offsets_begins_at_the_topics_beginning() -> None:
    cluster = Cluster()
    cluster.committed = {ONE: 7}
    commit = cluster.table_commit(**{"iceberg.connect.group-id": "mine", "iceberg.control.topic": "control"})
    assert commit.absent({ZERO: 3, ONE: 5}) == {ZERO: 3}
    assert (commit.topic, commit.group, cluster.asked) == ("control", "mine-coord", ["mine-coord"])


def test_its_own_clients_log_in_on_the_workers_cluster_alone() -> None:
    given = task_defaults({}, WORKER, [])
    assert given["iceberg.kafka.bootstrap.servers"] == "a:1,b:2"
    assert given["iceberg.kafka.sasl.password"] == "secret"
    assert "iceberg.kafka.acks" not in given
    assert "iceberg.kafka.sasl.password" in task_defaults({"iceberg.kafka.bootstrap.servers": "b:2"}, WORKER, [])
    assert "iceberg.kafka.sasl.password" not in task_defaults({"iceberg.kafka.bootstrap.servers": "b:2,evil:9"}, WORKER, [])


@pytest.mark.parametrize("config", [{"iceberg.control.topic": " connect-configs "}, {"iceberg.control.topic": "connect-configs"}])
def test_an_internal_control_topic_is_refused(config: dict[str, str]) -> None:
    with pytest.raises(ConfigException, match=r"iceberg\.control\.topic: It is an internal topic"):
        task_defaults(config, WORKER, ["connect-configs"])


def test_its_clients_are_tuned_by_a_config_and_no_more() -> None:
    config = {
        "iceberg.kafka.sasl.jaas.config": "x",
        "iceberg.kafka.ssl.keystore.location": "/etc/x",
        "iceberg.hadoop-conf-dir": "/etc/hadoop",
    }
    assert refused_keys(config).keys() == config.keys()
    fine = {"iceberg.kafka.bootstrap.servers": "a:1", "iceberg.kafka.max.poll.records": "5", "iceberg.catalog.type": "rest"}
    assert refused_keys(fine) == {}
