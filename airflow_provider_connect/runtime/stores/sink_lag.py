"""How far a sink is behind the ends of its topics: Connect's API has the sink's committed offsets, Kafka the ends of the topics."""

from collections.abc import Iterable, Mapping

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import BadRequestException, ConfigException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.backfill import capped, known_ranges, not_before, read_partitions
from airflow_provider_connect.runtime.model.ids import named_topics, refusal_of_topic
from airflow_provider_connect.runtime.model.offsets import OFFSET, PARTITION, TOPIC
from airflow_provider_connect.runtime.model.page import PartitionLag
from airflow_provider_connect.runtime.model.views import OffsetView, ServerView
from airflow_provider_connect.runtime.stores.admin_connection import kafka_cluster_id
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin


def sink_lag(
    settings: WorkerSettings, server: ServerView, config: Mapping[str, str], offsets: Iterable[OffsetView]
) -> dict[TopicPartition, int]:
    """The records that each partition is behind, for a client of a Connect server, who may have the settings of other brokers.

    Raises what ``partition_lags`` raises, and ConfigException when the brokers in ``settings`` are another cluster than the server's.
    """
    cluster = kafka_cluster_id(settings)
    if cluster != server.kafka_cluster_id:
        raise ConfigException.of(
            "bootstrap.servers",
            settings.bootstrap_servers,
            f"it is Kafka cluster {cluster}, but the Connect server's is {server.kafka_cluster_id}: name its brokers in the Connection",
        )
    return {TopicPartition(found.topic, found.partition): found.lag for found in partition_lags(settings, config, offsets)}


def partition_lags(settings: WorkerSettings, config: Mapping[str, str], offsets: Iterable[OffsetView]) -> list[PartitionLag]:
    """Of each partition that the sink reads: its committed offset, the end that a read_committed reader sees, and the records between;
    from the partition's beginning where nothing is committed. Of a backfill, within its ranges. By topic and partition.

    ``offsets`` are all that the connector has committed. Raises BadRequestException for a source, and what ``TopicAdmin`` raises.
    """
    committed, ranges = committed_positions(offsets), known_ranges(config)
    admin = TopicAdmin(settings)
    try:
        every = [
            TopicPartition(topic, number)
            for topic, count in _topics(config, admin, {topic for topic, _ in committed}).items()
            for number in range(count)
        ]
        partitions = read_partitions(every, ranges)
        ends = capped(admin.end_offsets(partitions), ranges)
        begins = not_before(admin.beginning_offsets(partition for partition in partitions if partition not in committed), ranges)
    finally:
        admin.close()
    known = committed | begins
    return [PartitionLag(*at, committed.get(at), end, max(end - known[at], 0)) for at, end in sorted(ends.items())]


def committed_positions(offsets: Iterable[OffsetView]) -> dict[TopicPartition, int]:
    """What a sink has committed, as the API has it. Raises BadRequestException where the offsets are a source's."""
    positions = {}
    for view in offsets:
        if view.partition is None or TOPIC not in view.partition:
            raise BadRequestException(f"Only a sink has a lag, but an offset is of {view.partition}, as a source's is")
        if view.offset is not None:
            at = TopicPartition(str(view.partition[TOPIC]), int(str(view.partition[PARTITION])))
            positions[at] = int(str(view.offset[OFFSET]))
    return positions


def topics_of_sink(config: Mapping[str, str], admin: TopicAdmin) -> dict[str, int] | None:
    """Partition counts of the topics that there are of those that a sink names, or that match its pattern. None: it has neither."""
    if named := named_topics(config):
        return admin.partitions(topic for topic in named if not refusal_of_topic(topic))
    pattern = config.get("topics.regex", "").strip()
    return admin.matching(pattern) if pattern else None


def _topics(config: Mapping[str, str], admin: TopicAdmin, committed: Iterable[str]) -> dict[str, int]:
    """Partition counts of the topics that the sink names, that match its pattern, or of which it has committed offsets."""
    if "${" in (config.get("topics") or ""):  # a server's variable: what the sink has read is known
        return admin.partitions(committed)
    found = topics_of_sink(config, admin)
    if found is None:
        raise BadRequestException("Only a sink has a lag, but the connector names neither topics nor topics.regex")
    if named_topics(config):
        return found
    others = set(committed) - found.keys()
    return found | (admin.partitions(others) if others else {})
