import os
import time
from contextlib import closing
from functools import partial

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import ConfigException, StoreTimeoutException
from airflow_provider_connect.runtime.config.client_settings import internal_client_config
from airflow_provider_connect.runtime.config.internal_topics import AUTOMATIC_CREATION
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.stores.admin_connection import AdminConnection
from airflow_provider_connect.runtime.stores.batch_log import BatchLog
from airflow_provider_connect.runtime.stores.connector_offsets import ConnectorOffsets
from airflow_provider_connect.runtime.stores.kafka_errors import TopicMissingException
from airflow_provider_connect.runtime.stores.log_consumer import CommittedOffset, LogConsumer, LogTruncatedException
from airflow_provider_connect.runtime.stores.offset_location import OffsetLocation
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin, TopicSpec
from airflow_provider_connect.runtime.stores.topic_reader import TopicReader, TopicTail, raw
from airflow_provider_connect.runtime.stores.topic_warnings import compaction_warning, replication_warnings
from airflow_provider_connect.runtime.worker.application.readiness import check_readiness
from tests.conftest import WorkerSettings as MakeSettings
from tests.e2e.faults import connections
from tests.integration.stores.conftest import Produce
from tests.waiting import HANG_SECONDS, wait_until

UNANSWERED_SECONDS = 2


def unreachable_settings(port: int) -> WorkerSettings:
    return WorkerSettings.of({"bootstrap.servers": f"127.0.0.1:{port}"})


def test_internal_topics_are_made_once_and_as_connects(worker_settings: MakeSettings) -> None:
    settings = WorkerSettings.of(worker_settings(status_storage_segment_bytes="1048576"))
    admin = TopicAdmin(settings)
    ids = admin.ensure_internal_topics()
    assert admin.ensure_internal_topics() == ids
    assert admin.partitions(ids) == {topic.name: topic.partitions for topic in settings.internal_topics}
    configs = admin.configs(ids)
    assert {topic["cleanup.policy"] for topic in configs.values()} == {"compact"}
    assert configs[settings.status_topic]["segment.bytes"] == "1048576"
    for topic in configs.values():
        assert (topic["segment.ms"], topic["min.cleanable.dirty.ratio"]) == ("900000", "0.1")
        assert (topic["min.compaction.lag.ms"], topic["max.compaction.lag.ms"]) == ("900000", "1800000")
    assert [compaction_warning(name, topic) for name, topic in configs.items()] == [""] * len(configs)
    assert admin.topic_id(settings.config_topic) == ids[settings.config_topic]


def test_an_existing_topic_that_compacts_late_is_warned_of(worker_settings: MakeSettings, unique: str) -> None:
    settings = WorkerSettings.of(worker_settings(config_storage_topic=f"late-{unique}"))
    admin = TopicAdmin(settings)
    admin.create(TopicSpec(f"late-{unique}", 1, 1, {"cleanup.policy": "compact"}))
    admin.ensure_internal_topics()
    warning = compaction_warning(settings.config_topic, admin.configs([settings.config_topic])[settings.config_topic])
    assert warning.startswith(f"Topic late-{unique} keeps replaced records for longer than an hour (segment.ms=604800000")


@pytest.mark.parametrize(
    ("configs", "is_late"),
    [
        ({}, True),
        ({"segment.ms": "3600000"}, False),
        ({"segment.ms": "604800000", "max.compaction.lag.ms": "9223372036854775807"}, True),
        ({"segment.ms": "604800000", "max.compaction.lag.ms": "600000"}, False),
    ],
)
def test_what_is_compacted_within_the_hour(configs: dict[str, str], is_late: bool) -> None:
    assert bool(compaction_warning("t", configs)) is is_late


def test_topic_of_the_wrong_policy_is_refused(worker_settings: MakeSettings, unique: str) -> None:
    settings = WorkerSettings.of(worker_settings(status_storage_topic=f"wrong-{unique}"))
    TopicAdmin(settings).create(TopicSpec(f"wrong-{unique}", 1, 1, {"cleanup.policy": "compact,delete"}))
    with pytest.raises(ConfigException) as refused:
        TopicAdmin(settings).ensure_internal_topics()
    text = str(refused.value)
    assert text.startswith(
        f"Topic 'wrong-{unique}' supplied via the 'status.storage.topic' property is required to have 'cleanup.policy=compact' to "
        "guarantee consistency and durability of connector and task statuses, but found the topic currently has 'cleanup.policy="
    )
    assert text.endswith(
        "Change the 'status.storage.topic' property in the Connect worker configurations to use a topic with 'cleanup.policy=compact'."
    )


def test_config_topic_of_several_partitions_is_refused(worker_settings: MakeSettings, unique: str) -> None:
    settings = WorkerSettings.of(worker_settings(config_storage_topic=f"wrong-{unique}"))
    TopicAdmin(settings).create(TopicSpec(f"wrong-{unique}", 3, 1, {"cleanup.policy": "compact"}))
    with pytest.raises(ConfigException) as refused:
        TopicAdmin(settings).ensure_internal_topics()
    assert str(refused.value) == (
        f"Topic 'wrong-{unique}' supplied via the 'config.storage.topic' property is required to have a single partition in order to "
        "guarantee consistency of connector configurations, but found 3 partitions."
    )


def test_missing_topics_are_not_created_where_the_worker_may_not(worker_settings: MakeSettings, unique: str) -> None:
    """Kafka Connect 4.4's own text (KIP-1209), and what each topic needs."""
    given = worker_settings(offset_storage_partitions="25", **{AUTOMATIC_CREATION.replace(".", "_"): "false"})
    settings = WorkerSettings.of(given)
    admin = TopicAdmin(settings)
    admin.create(TopicSpec(settings.config_topic, 1, 1, {"cleanup.policy": "compact"}))
    with pytest.raises(ConfigException) as refused:
        admin.ensure_internal_topics()
    assert [error.split("'")[1] for error in refused.value.errors] == [settings.offset_topic, settings.status_topic, settings.batch_topic]
    assert refused.value.errors[0] == (
        f"Topic '{settings.offset_topic}' specified via the 'offset.storage.topic' property is missing. The config "
        "'internal.topics.automatic.creation.enable' is set to 'false', so automatic creation of internal topics is disabled. Either "
        "enable automatic creation or create the topics manually. This topic needs 25 partitions and cleanup.policy=compact"
    )
    assert list(admin.partitions(topic.name for topic in settings.internal_topics)) == [settings.config_topic]
    TopicAdmin(WorkerSettings.of({key: text for key, text in given.items() if key != AUTOMATIC_CREATION})).ensure_internal_topics()
    assert len(admin.ensure_internal_topics()) == 4
    own = f"own-{unique}"
    location = OffsetLocation.of(settings, {"connector.class": "x", "offsets.storage.topic": own})
    with closing(ConnectorOffsets(settings, location)) as store:
        with pytest.raises(ConfigException, match=rf"Topic '{own}' specified via the 'offsets\.storage\.topic' property is missing"):
            store.ensure()
        assert own not in admin.partitions([own])
        admin.create(TopicSpec(own, 1, 1, {"cleanup.policy": "compact"}))
        store.ensure()


def test_a_run_fails_where_the_config_topic_is_missed_and_not_created(worker_settings: MakeSettings) -> None:
    """A connector of REST would have passed for one that does not exist."""
    settings = WorkerSettings.of(worker_settings(**{AUTOMATIC_CREATION.replace(".", "_"): "false"}))
    with pytest.raises(
        ConfigException, match=f"Topic '{settings.config_topic}' specified via the 'config.storage.topic' property is missing"
    ):
        check_readiness(settings, "orders", define=None, secrets_of=lambda _: {})


def test_too_many_replicas_are_refused_by_the_names_of_all_their_settings(worker_settings: MakeSettings) -> None:
    kinds = ("config", "offset", "status", "batch")
    three = {f"{kind}_storage_replication_factor": "3" for kind in kinds}
    settings = WorkerSettings.of(worker_settings(**three, default_api_timeout_ms="300"))
    with pytest.raises(ConfigException) as refused:
        TopicAdmin(settings).ensure_internal_topics()
    assert [error.partition(": ")[0] for error in refused.value.errors] == [
        f"Invalid value 3 for configuration {kind}.storage.replication.factor" for kind in kinds
    ]
    assert all(error in str(refused.value) for error in refused.value.errors)
    assert "leave the setting out for the brokers' own default" in str(refused.value)


def test_one_broker_creates_them_without_a_word_about_replicas(worker_settings: MakeSettings, caplog: pytest.LogCaptureFixture) -> None:
    given = {key: value for key, value in worker_settings().items() if not key.endswith("replication.factor")}
    settings = WorkerSettings.of(given)
    TopicAdmin(settings).ensure_internal_topics()
    for topic in settings.internal_topics:
        assert [len(partition.replicas) for partition in TopicAdmin(settings).describe(topic.name).partitions] == [1] * topic.partitions
    assert "one replica" not in caplog.text


@pytest.mark.parametrize(
    ("replicas", "brokers", "named"),
    [
        ({"a": 1}, 1, None),
        ({"a": 3, "b": 2}, 3, None),
        ({"b": 1, "a": 1, "c": 3}, 3, "The internal topics a, b have one replica, and there are 3 brokers"),
    ],
)
def test_topics_of_one_replica_among_several_brokers_are_warned_of(replicas: dict[str, int], brokers: int, named: str | None) -> None:
    warnings = replication_warnings(replicas, brokers)
    assert len(warnings) == (named is not None)
    assert all(warning.startswith(str(named)) for warning in warnings)


def test_broker_that_is_not_there_is_reported_in_time(free_port: int, capfd: pytest.CaptureFixture[str]) -> None:
    settings = unreachable_settings(free_port)
    with pytest.raises(StoreTimeoutException, match=f"within {UNANSWERED_SECONDS} s .*bootstrap.servers=127.0.0.1:{free_port}"):
        TopicAdmin(settings, connection=AdminConnection.of(settings, timeout_seconds=UNANSWERED_SECONDS)).ensure_internal_topics()
    with (
        TopicReader("x", internal_client_config(settings, "consumer", "x"), raw) as log,
        pytest.raises(StoreTimeoutException, match=f"within {UNANSWERED_SECONDS} s .*{free_port}"),
    ):
        log.read_to_end(UNANSWERED_SECONDS)
    assert capfd.readouterr().err == ""


def test_missing_topic_is_reported_at_once(settings: WorkerSettings) -> None:
    """The client itself waits until a topic may have come: here for longer than a read may take."""
    patient = {**internal_client_config(settings, "consumer", "x"), "topic.metadata.propagation.max.ms": "900000"}
    with (
        TopicReader("nowhere", patient, raw) as log,
        pytest.raises(TopicMissingException, match="nowhere"),
    ):
        log.read_to_end()
    with pytest.raises(TopicMissingException):
        TopicAdmin(settings).topic_id("nowhere")
    assert TopicAdmin(settings).partitions(["nowhere"]) == {}


def test_reader_returns_new_records(settings: WorkerSettings, produce: Produce) -> None:
    with TopicReader(settings.offset_topic, internal_client_config(settings, "consumer", "x"), raw) as log:
        assert log.read_to_end() == []
        produce(settings.offset_topic, [(b"k%d" % number, b"v", [("h", b"x")]) for number in range(50)])
        first = log.read_to_end()
        assert {record.key for record in first} == {b"k%d" % number for number in range(50)}
        assert first[0].headers == [("h", b"x")]
        assert log.read_to_end() == []
        produce(settings.offset_topic, [(b"k1", None)])
        assert [(record.key, record.value) for record in log.read_to_end()] == [(b"k1", None)]


def test_one_consumer_reads_several_topics_and_fetches_offsets(settings: WorkerSettings, produce: Produce, bootstrap: str) -> None:
    produce(settings.status_topic, [(b"k", b"v")], 0)
    config = internal_client_config(settings, "consumer", "x") | {"group.id": f"sink-{settings.group_id}"}
    with LogConsumer(config) as consumer:
        at = [TopicPartition(settings.status_topic, 0), TopicPartition(settings.status_topic, 1)]
        assert len(consumer.read(dict.fromkeys(at, 0))[0]) == 1
        assert consumer.read({TopicPartition(settings.offset_topic, 0): 0})[0] == []
        assert consumer.end_offsets(at) == {at[0]: 1, at[1]: 0}
        assert consumer.committed(at) == {}
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"t-{settings.group_id}"})
        _commit_by_transaction(producer, consumer, at[0])
        assert consumer.committed(at) == {at[0]: CommittedOffset(1, "claim=7")}


def _commit_by_transaction(producer: Producer, consumer: LogConsumer, at: TopicPartition) -> None:
    producer.init_transactions(HANG_SECONDS)
    producer.begin_transaction()
    producer.send_offsets_to_transaction(
        [KafkaPartition(at.topic, at.partition, 1, "claim=7")], consumer._consumer.consumer_group_metadata()
    )
    producer.commit_transaction(HANG_SECONDS)


def test_ends_stop_before_open_transactions(settings: WorkerSettings, bootstrap: str) -> None:
    at = TopicPartition(settings.status_topic, 0)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"t-{settings.group_id}"})
    producer.init_transactions(HANG_SECONDS)
    producer.begin_transaction()
    producer.produce(at.topic, b"v", b"k", at.partition)
    producer.flush(HANG_SECONDS)
    admin = TopicAdmin(settings)
    with LogConsumer(internal_client_config(settings, "consumer", "x")) as consumer:
        assert admin.end_offsets([at]) == consumer.end_offsets([at]) == {at: 0}
        assert admin.end_offsets([at], read_committed=False) == {at: 1}
        records, ends = consumer.read({at: 0})
        assert (records, ends[at].position, ends[at].high) == ([], 0, 1)
        producer.commit_transaction(HANG_SECONDS)
        wait_until(lambda: admin.end_offsets([at]) == {at: 2})
        records, ends = consumer.read({at: 0})
        assert ([record.value for record in records], ends[at].position) == ([b"v"], 2)  # behind the marker


@pytest.mark.parametrize("seconds", [0.0, 0.5])
def test_offsets_are_read_though_connections_are_cut(settings: WorkerSettings, bootstrap: str, seconds: float) -> None:
    """A client that has lost its broker knows no leader for a short time: librdkafka calls that no entry."""
    at = TopicPartition(settings.status_topic, 0)
    admin = TopicAdmin(settings)
    for _ in range(2):
        assert admin.end_offsets([at]) == {at: 0}
        assert connections.cut(bootstrap, seconds)
        assert admin.beginning_offsets([at]) == {at: 0}
        connections.wait_until_calm()


def test_recreated_topic_is_noticed(settings: WorkerSettings, produce: Produce) -> None:
    produce(settings.batch_topic, [(b"k", b"v")] * 10)
    with TopicReader(settings.batch_topic, internal_client_config(settings, "consumer", "x"), raw) as log:
        assert len(log.read_to_end()) == 10
        _recreate(settings)
        produce(settings.batch_topic, [(b"k", b"v")] * 3)
        with pytest.raises(LogTruncatedException):
            log.read_to_end(HANG_SECONDS)
        log.rewind()
        assert len(log.read_to_end()) == 3


def test_batch_log_of_a_recreated_topic_is_read_from_its_beginning(settings: WorkerSettings, produce: Produce) -> None:
    def write(*tasks: int) -> None:
        for task in tasks:
            record = partial(BatchLog.record, settings, connector="c", task=task, run="r", claim=Claim(1, "t"), is_source=False)
            produce(settings.batch_topic, [record(ranges={}, positions={"t": {"0": 5}})[1:]])

    with BatchLog(settings) as log:
        write(0, 1, 2)
        assert [entry.task.task for entry in log.entries("c")] == [0, 1, 2]
        _recreate(settings)
        write(4)
        assert [entry.task.task for entry in log.entries("c")] == [4]
        assert [task.task for task in log.delivered()] == [4]


def _recreate(settings: WorkerSettings) -> None:
    client = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    client.delete_topics([settings.batch_topic])[settings.batch_topic].result(HANG_SECONDS)
    wait_until(lambda: settings.batch_topic not in TopicAdmin(settings).partitions([settings.batch_topic]))
    TopicAdmin(settings).ensure_internal_topics()


def test_tail_waits_and_costs_nothing(settings: WorkerSettings, produce: Produce) -> None:
    produce(settings.batch_topic, [(b"k", b"0"), (b"k", b"1")])
    with TopicTail(internal_client_config(settings, "consumer", "x"), {TopicPartition(settings.batch_topic, 0): 1}, raw) as follower:
        assert [record.value for record in follower.poll(HANG_SECONDS)] == [b"1"]
        produce(settings.batch_topic, [(b"k", b"2")])
        assert [record.value for record in follower.poll(HANG_SECONDS)] == [b"2"]
        started = time.perf_counter()
        for _ in range(1000):
            follower.poll()
        assert time.perf_counter() - started < HANG_SECONDS  # it never waits; 12 ms on a machine with nothing else to do


def test_a_read_to_the_end_reads_every_partition_and_leaves_nothing_behind(
    settings: WorkerSettings, produce: Produce, worker_settings: MakeSettings
) -> None:
    wide = WorkerSettings.of(worker_settings(offset_storage_topic=f"wide-{settings.group_id}", offset_storage_partitions="25"))
    TopicAdmin(wide).ensure_internal_topics()
    produce(settings.config_topic, [(b"k%d" % number, b"v" * 100) for number in range(100)])
    produce(wide.offset_topic, [(b"k%d" % number, b"v" * 100) for number in range(100)])
    before = _threads()
    for topic in (settings.config_topic, wide.offset_topic):
        for _ in range(5):
            with TopicReader(topic, internal_client_config(settings, "consumer", "x"), raw) as log:
                assert len(log.read_to_end()) == 100
    wait_until(lambda: _threads() <= before)


def _threads() -> int:
    return len(os.listdir("/proc/self/task"))


def test_a_pattern_in_javas_syntax_alone_is_refused_by_its_key(settings: WorkerSettings) -> None:
    admin = TopicAdmin(settings)
    for pattern in (r"\p{Alpha}+", "(?<name>x)", "(" * 3000):
        with pytest.raises(ConfigException, match=r"for configuration topics\.regex: the expression is not valid in Python") as refused:
            admin.matching(pattern)
        assert (refused.value.keys, len(refused.value.message) < 1000) == (["topics.regex"], True)
    admin.close()
