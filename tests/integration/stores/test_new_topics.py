"""Requests right after the creation of a topic: brokers confirm it before they list the topic, and list it before its partitions answer."""

from confluent_kafka.admin import AdminClient, NewTopic

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.runtime.config.client_settings import internal_client_config
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.stores.log_consumer import BEGINNING, LogConsumer
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin, TopicSpec
from tests.waiting import HANG_SECONDS, wait_until

TOPICS = 5
PARTITIONS = 10


def test_a_created_topic_is_found_at_once(settings: WorkerSettings, unique: str) -> None:
    """By each request, of the client that has created it and of others."""
    admin, other = TopicAdmin(settings), TopicAdmin(settings)
    for number in range(TOPICS):
        topic = f"{unique}-{number}"
        partitions = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
        empty = dict.fromkeys(partitions, 0)
        assert admin.create(TopicSpec(topic, PARTITIONS, 1, {"cleanup.policy": "compact"}))
        assert other.configs([topic])[topic]["cleanup.policy"] == "compact"
        assert len(admin.describe(topic).partitions) == PARTITIONS
        assert other.end_offsets(partitions) == admin.beginning_offsets(partitions) == empty
        assert other.newest_time(topic) is None
        with LogConsumer(internal_client_config(settings, "consumer", "x")) as consumer:
            assert consumer.partition_count(topic) == PARTITIONS
            assert consumer.end_offsets(partitions) == empty
            records, ends = consumer.read(dict.fromkeys(partitions, BEGINNING))
            assert (records, len(ends)) == ([], PARTITIONS)


def test_partitions_that_another_client_has_just_created_answer(settings: WorkerSettings, unique: str) -> None:
    """They are listed before they have a leader that answers."""
    stranger, admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers}), TopicAdmin(settings)
    with LogConsumer(internal_client_config(settings, "consumer", "x")) as consumer:
        for number in range(TOPICS):
            topic = f"{unique}-{number}"
            partitions = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
            stranger.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(HANG_SECONDS)
            wait_until(lambda topic=topic: topic in admin.partitions([topic]))  # type: ignore[misc]
            ends = (consumer if number % 2 else admin).end_offsets(partitions)
            assert ends == dict.fromkeys(partitions, 0)
