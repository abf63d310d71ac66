"""The lag of a sink: from its committed offsets, which Connect's API returns, to the ends of its topics, which Kafka returns."""

from collections.abc import Iterable, Mapping

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import BadRequestException, ConfigException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.backfill import (
    beginnings_within,
    ends_within,
    known_ranges,
    positions_beyond,
    read_partitions,
)
from airflow_provider_connect.runtime.model.ids import named_topics, refusal_of_topic
from airflow_provider_connect.runtime.model.offsets import OFFSET, PARTITION, TOPIC
from airflow_provider_connect.runtime.model.page import PartitionLag
from airflow_provider_connect.runtime.model.views import OffsetView, ServerView
from airflow_provider_connect.runtime.stores.admin_connection import kafka_cluster_id
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin


def sink_lag(
    settings: WorkerSettings, server: ServerView, config: Mapping[str, str], offsets: Iterable[OffsetView]
) -> dict[TopicPartition, int | None]:
    """The lag of each partition in records, for a client of a Connect server. The client may have settings for other brokers. None: the
    committed offset is beyond the partition's end.

    Raises as ``partition_lags``, and ConfigException if the brokers in ``settings`` are not the server's cluster.
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
    """For each partition that the sink reads: its committed offset, its end for a read_committed reader, and the records between them.
    Without a committed offset, records count from the partition's beginning. With an offset beyond the end, their number is unknown. A
    backfill counts within its ranges. Sorted by topic and partition.

    ``offsets`` are all committed offsets of the connector. Raises BadRequestException for a source, and as ``TopicAdmin``.
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
        stable = admin.end_offsets(partitions)
        behind = [at for at, end in stable.items() if committed.get(at, 0) > end]  # a transaction may be open before this offset
        beyond = positions_beyond(committed, admin.end_offsets(behind, read_committed=False) if behind else {}, ranges)
        begins = beginnings_within(admin.beginning_offsets(partition for partition in partitions if partition not in committed), ranges)
    finally:
        admin.close()
    known, ends = committed | begins, ends_within(stable, ranges)
    lags = {at: None if at in beyond else max(end - known[at], 0) for at, end in ends.items()}
    return [PartitionLag(*at, committed.get(at), end, lags[at]) for at, end in sorted(ends.items())]


def committed_positions(offsets: Iterable[OffsetView]) -> dict[TopicPartition, int]:
    """The committed offsets of a sink in a response of the API. Raises BadRequestException for a source's offsets."""
    positions = {}
    for view in offsets:
        if view.partition is None or TOPIC not in view.partition:
            raise BadRequestException(f"Only a sink has a lag, but an offset is of {view.partition}, as a source's is")
        if view.offset is not None:
            at = TopicPartition(str(view.partition[TOPIC]), int(str(view.partition[PARTITION])))
            positions[at] = int(str(view.offset[OFFSET]))
    return positions


def topics_of_sink(config: Mapping[str, str], admin: TopicAdmin) -> dict[str, int] | None:
    """The partition counts of the existing topics that a sink names, or that match its pattern. None: it has neither names nor a
    pattern."""
    if named := named_topics(config):
        return admin.partitions(topic for topic in named if not refusal_of_topic(topic))
    pattern = config.get("topics.regex", "").strip()
    return admin.matching(pattern) if pattern else None


def _topics(config: Mapping[str, str], admin: TopicAdmin, committed: Iterable[str]) -> dict[str, int]:
    """The partition counts of the sink's topics: topics that it names, that match its pattern, or that have committed offsets of the
    sink."""
    if "${" in (config.get("topics") or ""):  # a variable of the server: only the topics that the sink has read are known
        return admin.partitions(committed)
    found = topics_of_sink(config, admin)
    if found is None:
        raise BadRequestException("Only a sink has a lag, but the connector names neither topics nor topics.regex")
    if named_topics(config):
        return found
    others = set(committed) - found.keys()
    return found | (admin.partitions(others) if others else {})
