"""The topics that contain the state of the product and of Kafka: their names and settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

KAFKAS_OWN = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Topics in which brokers keep their state."""

AUTOMATIC_CREATION = "internal.topics.automatic.creation.enable"
"""Kafka Connect's worker setting (4.4, KIP-1209)."""

_LEAST, _MOST = "min.compaction.lag.ms", "max.compaction.lag.ms"

UNKNOWN_SECONDS = 3600.0
"""``absence_seconds`` of a topic whose settings are unknown, or that has no compaction lag. Without a lag, a topic may lose a replaced
tombstone at any time."""

COMPACTED_SOON = {
    "segment.ms": "900000",
    "segment.bytes": "16777216",
    "min.cleanable.dirty.ratio": "0.1",
    _LEAST: "900000",
    _MOST: "1800000",
}
"""Compaction of the internal topics, which grow with every run: replaced records are removed within the hour.

Records stay for at least a quarter of an hour. A reader that paused for a shorter time sees each deletion, even if the connector was
recreated immediately. Otherwise the reader would mistake the tasks of the deleted connector for those of the new one.
"""


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """One of the topics that contain the state, with the settings for its creation. ``setting`` is the key that names the topic."""

    name: str
    setting: str
    purpose: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)


def missing_text(name: str, setting: str, partitions: int) -> str:
    """The error, in Kafka Connect's words, for a missing topic that may not be created. It lists the requirements for the topic.
    ``partitions`` -1: any number."""
    count = {-1: "any number of partitions", 1: "1 partition"}.get(partitions, f"{partitions} partitions")
    return (
        f"Topic '{name}' specified via the '{setting}' property is missing. The config '{AUTOMATIC_CREATION}' is set to 'false', so "
        "automatic creation of internal topics is disabled. Either enable automatic creation or create the topics manually. This topic "
        f"needs {count} and cleanup.policy=compact"
    )


def topic_configs(given: Mapping[str, str]) -> dict[str, str]:
    """The settings of a topic to create, including those ``given`` by an admin. If only one lag is given, the default of the other is
    dropped, because Kafka might refuse the combination."""
    configs = {**COMPACTED_SOON, **given, "cleanup.policy": "compact"}
    for one, other in ((_LEAST, _MOST), (_MOST, _LEAST)):
        if one in given and other not in given:
            del configs[other]
    return configs


def absence_seconds(configs: Mapping[str, str | None]) -> float:
    """How long a reader of the config topic with these settings may pause, and still see every tombstone when it continues.

    This is half of the time that the broker guarantees. A tombstone that a newer record replaced is removed by the next compaction, after
    ``min.compaction.lag.ms``. A reader that missed the tombstone would mistake the tasks of a deleted connector for those of a new
    connector with its name.
    """
    retention_ms, lag_ms = (float(configs.get(name) or 0) for name in ("delete.retention.ms", _LEAST))
    return min(retention_ms / 2000, lag_ms / 2000 or UNKNOWN_SECONDS)
