"""Warnings about the configs and replicas of topics: rules over plain values.

Knows nothing of brokers: ``TopicAdmin`` reads the configs.
"""

from collections.abc import Mapping

_HOUR_MS = 3_600_000


def cleanup_policy(configs: Mapping[str, str | None]) -> str:
    """A topic's ``cleanup.policy``, with its words sorted and without blanks. Empty: unknown."""
    return ",".join(sorted((configs.get("cleanup.policy") or "").replace(" ", "").split(",")))


def replication_warnings(replicas: Mapping[str, int], brokers: int) -> list[str]:
    """Warnings about internal topics with one replica, which may be the brokers' default. Then a single disk holds all configs."""
    alone = sorted(name for name, count in replicas.items() if count < 2)
    if not alone or brokers < 2:
        return []
    return [
        f"The internal topics {', '.join(alone)} have one replica, and there are {brokers} brokers; "
        "with its disk all configs, offsets and statuses are lost. Reassign their partitions to more brokers; new topics get the replicas "
        "of config.storage.replication.factor, offset.…, status.… and batch.…"
    ]


def compaction_warning(topic: str, configs: Mapping[str, str | None]) -> str:
    """A warning if replaced records stay for more than an hour, else empty. An active segment is never compacted."""
    lag_ms, segment_ms = (float(configs.get(name) or "inf") for name in ("max.compaction.lag.ms", "segment.ms"))
    if min(lag_ms, segment_ms) <= _HOUR_MS:
        return ""
    return (
        f"Topic {topic} keeps replaced records for longer than an hour (segment.ms={configs.get('segment.ms')}, "
        f"max.compaction.lag.ms={configs.get('max.compaction.lag.ms')}), and each run makes it longer"
    )
