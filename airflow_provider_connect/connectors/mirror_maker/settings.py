"""The settings of MirrorMaker 2's three connectors. Names, types and defaults are Kafka's, and were recorded from a real Kafka Connect."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Final

from airflow_provider_connect.kafka_client.keys import client_config_def
from airflow_provider_connect.kafka_client.settings import TRANSLATABLE, ClientKind
from airflow_provider_connect.sdk.config_def import ConfigDef, ConfigKey, Importance, OneOf, Type

_MIRROR: Final = "org.apache.kafka.connect.mirror"
PARTITIONS: Final = "task.assigned.partitions"
GROUPS: Final = "task.assigned.groups"
CLIENTS: Final = tuple(f"{side}.{kind}" for side in ("source", "target") for kind in ("cluster", "consumer", "producer", "admin"))
"""Prefixes of client settings of one cluster. Settings for both clusters have the prefixes ``consumer.``, ``producer.`` and ``admin.``."""
_RAW: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
RAW_CONVERTERS: Final = {"key.converter": _RAW, "value.converter": _RAW, "header.converter": _RAW}
_LOW, _HIGH = Importance.LOW, Importance.HIGH
_EACH_RUN: Final = "Not used: each run does this."
_NO_METRICS: Final = "Not used: the metrics of runs have Kafka Connect's names."


def _flag(name: str, doc: str, default: bool = True) -> ConfigKey:
    return ConfigKey(name, Type.BOOLEAN, default, importance=_LOW, doc=doc)


def _number(name: str, default: int, doc: str, type: Type = Type.LONG) -> ConfigKey:
    return ConfigKey(name, type, default, importance=_LOW, doc=doc)


def _class(name: str, default: str, doc: str) -> ConfigKey:
    return ConfigKey(name, Type.CLASS, default, importance=_LOW, doc=doc)


def _names(name: str, default: str, doc: str) -> ConfigKey:
    return ConfigKey(name, Type.LIST, default, importance=_HIGH, doc=doc)


def _shared_client_keys() -> Iterator[ConfigKey]:
    """Client settings that Kafka defines for the connector itself, although no client reads them."""
    doc = "Not used: the clusters' clients have their own, under `source.cluster.` and `target.cluster.`."
    yield ConfigKey("security.protocol", Type.STRING, "PLAINTEXT", doc=doc)
    for name, key in client_config_def(ClientKind.ADMIN).keys.items():
        if name.startswith(("config.providers", "ssl.", "sasl.")):
            yield dataclasses.replace(key, doc=doc)


_TOPICS: Final = _names(
    "topics", ".*", "Topics to mirror: names and regular expressions, separated by commas, matched against the whole name."
)
_NO_TOPICS: Final = _names("topics.exclude", r"mm2.*\.internal, .*\.replica, __.*", "Topics to leave out even if `topics` matches them.")
_TOPIC_FILTER: Final = _class("topic.filter.class", f"{_MIRROR}.DefaultTopicFilter", "Only the default class is supported.")
_POLL_TIMEOUT: Final = _number("consumer.poll.timeout.ms", 1000, "How long one poll waits for records of the source cluster.")
_LOCATION: Final = ConfigKey(
    "offset-syncs.topic.location",
    Type.STRING,
    "source",
    validator=OneOf("source", "target"),
    importance=_LOW,
    doc="The cluster that holds the offset-syncs topic.",
)
_METRIC_NAMES: Final = ConfigKey("metric.names.formats", Type.LIST, "legacy", importance=_LOW, doc=_NO_METRICS)
_SHARED: Final = (
    _flag("enabled", "Whether to mirror at all; `false`: runs have no tasks."),
    ConfigKey("source.cluster.alias", importance=_HIGH, doc="The source cluster's alias: the prefix of mirrored topics."),
    ConfigKey(
        "target.cluster.alias", Type.STRING, "target", importance=_HIGH, doc="The target cluster's alias. Its topics are not mirrored back."
    ),
    _number("admin.timeout.ms", 60000, "Timeout of requests to either cluster."),
    _class("replication.policy.class", f"{_MIRROR}.DefaultReplicationPolicy", "Default (`alias.topic`) or Identity (`topic`)."),
    ConfigKey("replication.policy.separator", Type.STRING, ".", importance=_LOW, doc="Separator between alias and topic name."),
    _flag(
        "replication.policy.internal.topic.separator.enabled", "Whether MirrorMaker's internal topics use that separator; `false`: a dot."
    ),
    _class("forwarding.admin.class", "org.apache.kafka.clients.admin.ForwardingAdmin", "Only the default class is supported."),
    ConfigKey("metric.reporters", Type.LIST, "org.apache.kafka.common.metrics.JmxReporter", importance=_LOW, doc=_NO_METRICS),
    *_shared_client_keys(),
)

SOURCE: Final = ConfigDef(
    *_SHARED,
    _TOPICS,
    _NO_TOPICS,
    _names(
        "config.properties.exclude",
        "follower.replication.throttled.replicas, leader.replication.throttled.replicas, message.timestamp.difference.max.ms, "
        "log.message.timestamp.before.max.ms, log.message.timestamp.after.max.ms, message.timestamp.type, "
        "unclean.leader.election.enable, min.insync.replicas",
        "Settings of topics that are not synced: names and regular expressions.",
    ),
    _TOPIC_FILTER,
    _class("config.property.filter.class", f"{_MIRROR}.DefaultConfigPropertyFilter", "Only the default class is supported."),
    _POLL_TIMEOUT,
    _flag("refresh.topics.enabled", "Not used: each run lists topics and partitions."),
    _number("refresh.topics.interval.seconds", 600, _EACH_RUN),
    _flag("sync.topic.configs.enabled", "Whether each run syncs the settings of source topics to mirrored topics."),
    _number("sync.topic.configs.interval.seconds", 600, _EACH_RUN),
    _flag("sync.topic.acls.enabled", "Whether each run syncs the ACLs for reading to mirrored topics."),
    _number("sync.topic.acls.interval.seconds", 600, _EACH_RUN),
    _number("replication.factor", 2, "Replication factor of topics created in the target cluster.", Type.INT),
    _number("offset-syncs.topic.replication.factor", 3, "Replication factor of the offset-syncs topic.", Type.SHORT),
    _number("offset.lag.max", 100, "Not used: each commit writes an offset sync."),
    _LOCATION,
    _flag("emit.offset-syncs.enabled", "Whether to write offset syncs, which checkpoints need."),
    _flag("heartbeats.replication.enabled", "Whether heartbeats topics are mirrored even if `topics` does not match them."),
    _METRIC_NAMES,
)
CHECKPOINT: Final = ConfigDef(
    *_SHARED,
    _POLL_TIMEOUT,
    _names("groups", ".*", "Consumer groups: names and regular expressions, separated by commas, matched against the whole name."),
    _names("groups.exclude", "console-consumer-.*, connect-.*, __.*", "Groups to leave out even if `groups` matches them."),
    _class("group.filter.class", f"{_MIRROR}.DefaultGroupFilter", "Only the default class is supported."),
    _flag("refresh.groups.enabled", "Not used: each run lists the groups."),
    _number("refresh.groups.interval.seconds", 600, _EACH_RUN),
    _flag("emit.checkpoints.enabled", "Whether to write checkpoints; `false`: runs have no tasks."),
    _number("emit.checkpoints.interval.seconds", 60, _EACH_RUN),
    _flag("sync.group.offsets.enabled", "Whether groups without members in the target cluster get the translated offsets.", default=False),
    _number("sync.group.offsets.interval.seconds", 60, _EACH_RUN),
    _number("checkpoints.topic.replication.factor", 3, "Replication factor of the checkpoints topic.", Type.SHORT),
    _LOCATION,
    _TOPIC_FILTER,
    _METRIC_NAMES,
)
HEARTBEAT: Final = ConfigDef(
    *_SHARED,
    _flag("emit.heartbeats.enabled", "Whether to write heartbeats; `false`: runs have no tasks."),
    _number("emit.heartbeats.interval.seconds", 1, "Not used: each run writes one heartbeat."),
    _number("heartbeats.topic.replication.factor", 3, "Replication factor of the heartbeats topic.", Type.SHORT),
)


def task_config_def(connector: ConfigDef, *more: ConfigKey) -> ConfigDef:
    """The settings of a task: the connector's settings, and settings that are read but are not in Kafka's definition, such as client
    settings."""
    prefixes = (*CLIENTS, "consumer", "producer", "admin")
    clients = (ConfigKey(f"{prefix}.{name}", Type.STRING, None) for prefix in prefixes for name in sorted(TRANSLATABLE))
    index = ConfigKey("task.index", Type.STRING, "0")
    others = (key for key in _OTHERS if key.name not in connector.keys)
    return connector.with_keys(_TOPICS, _NO_TOPICS, *others, index, *more, *clients)


_OTHERS: Final = (
    ConfigKey("use.defaults.from", Type.STRING, "target", validator=OneOf("source", "target")),
    _flag("emit.offset-syncs.enabled", "Of MirrorSource."),
)
