"""The lag of sinks, by topics, by a pattern, and beside another cluster's server."""

import pytest
from confluent_kafka import Producer

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import BadRequestException, ConfigException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.views import OffsetView, ServerView
from airflow_provider_connect.runtime.stores.admin_connection import kafka_cluster_id
from airflow_provider_connect.runtime.stores.sink_lag import partition_lags, sink_lag
from tests.conftest import WorkerSettings as MakeSettings
from tests.integration.stores.conftest import Produce
from tests.kafka_topics import create_topic
from tests.waiting import HANG_SECONDS


def committed(topic: str, partition: int, offset: int) -> OffsetView:
    return OffsetView({"kafka_topic": topic, "kafka_partition": partition}, {"kafka_offset": offset})


@pytest.fixture
def settings(worker_settings: MakeSettings) -> WorkerSettings:
    return WorkerSettings.of(worker_settings())


@pytest.fixture
def topic(bootstrap: str, unique: str, produce: Produce) -> str:
    """Two partitions, with five records and three."""
    name = f"lag-{unique}"
    create_topic(bootstrap, name, partitions=2)
    produce(name, [(None, b"x")] * 5, 0)
    produce(name, [(None, b"x")] * 3, 1)
    return name


def test_a_partition_without_an_offset_lags_from_its_beginning(settings: WorkerSettings, topic: str) -> None:
    found = partition_lags(settings, {"topics": f"{topic}, "}, [committed(topic, 0, 4)])
    assert [(lag.partition, lag.position, lag.end, lag.lag) for lag in found] == [(0, 4, 5, 1), (1, None, 3, 3)]


def test_a_pattern_finds_topics_and_those_with_offsets_stay(settings: WorkerSettings, topic: str, bootstrap: str) -> None:
    create_topic(bootstrap, f"{topic}-former")
    config = {"topics.regex": f"{topic}"}
    lags = partition_lags(settings, config, [committed(topic, 0, 5), committed(topic, 1, 1), committed(f"{topic}-former", 0, 0)])
    assert {(lag.topic, lag.partition): lag.lag for lag in lags} == {(topic, 0): 0, (topic, 1): 2, (f"{topic}-former", 0): 0}


def test_a_client_of_another_clusters_server_is_refused(settings: WorkerSettings, topic: str) -> None:
    config, cluster = {"topics": topic}, kafka_cluster_id(settings)
    assert sink_lag(settings, ServerView("4.3.1", "x", cluster), config, []) == {TopicPartition(topic, 0): 5, TopicPartition(topic, 1): 3}
    with pytest.raises(ConfigException, match=f"it is Kafka cluster {cluster}, but the Connect server's is elsewhere"):
        sink_lag(settings, ServerView("4.3.1", "x", "elsewhere"), config, [])


def test_the_lag_of_an_offset_beyond_the_end_is_unknown(settings: WorkerSettings, topic: str) -> None:
    found = partition_lags(settings, {"topics": topic}, [committed(topic, 0, 6), committed(topic, 1, 2)])
    assert [(lag.position, lag.end, lag.lag) for lag in found] == [(6, 5, None), (2, 3, 1)]


def test_an_offset_in_an_open_transaction_is_not_beyond_the_end(settings: WorkerSettings, topic: str, bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(HANG_SECONDS)
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=0)
    producer.flush(HANG_SECONDS)
    found = partition_lags(settings, {"topics": topic}, [committed(topic, 0, 6), committed(topic, 1, 4)])
    producer.abort_transaction(HANG_SECONDS)
    assert [(lag.position, lag.end, lag.lag) for lag in found] == [(6, 5, 0), (4, 3, None)]


@pytest.mark.parametrize(
    ("config", "offsets", "reason"),
    [
        ({"topics": "t"}, [OffsetView({"filename": "f"}, {"position": 1})], "Only a sink has a lag, but an offset is of"),
        ({"file": "f"}, [], "Only a sink has a lag, but the connector names neither topics nor topics.regex"),
    ],
)
def test_a_source_has_no_lag(settings: WorkerSettings, config: dict[str, str], offsets: list[OffsetView], reason: str) -> None:
    with pytest.raises(BadRequestException, match=reason):
        partition_lags(settings, config, offsets)
