"""The works that are raced: what is moved from where to where, under which guarantee, and the ratios that are aimed at."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

PEERS = {"connect-default": False, "connect-tuned": True}  # whether it is tuned
STRINGS = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
}


TUNED_PRODUCER = {
    "producer.override.linger.ms": "20",
    "producer.override.batch.size": "524288",
    "producer.override.compression.type": "lz4",
}
_TUNED_CONSUMER = {"max.poll.records": "20000", "max.partition.fetch.bytes": "10485760"}
TUNED_CONSUMER = {f"consumer.override.{name}": text for name, text in _TUNED_CONSUMER.items()}
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


class Aimed(Protocol):
    """Whatever has ratios that are aimed at; see ``Work``."""

    @property
    def aims(self) -> Mapping[tuple[int, str], float]: ...


class Direction(StrEnum):
    SOURCE = "source"  # file → topic
    SINK = "sink"  # topic → file
    MIRROR = "mirror"  # topic → topic, of one broker


@dataclass(frozen=True, slots=True)
class Work:
    """``exactly_once``: whether the workers have exactly-once source support.
    ``reads_logs``: ours is LogSource, the peer's FileStreamSource.

    ``aims`` maps a number of records and a peer to how many times as fast as that peer we mean to be, our start-up counted.
    """

    name: str
    title: str
    direction: Direction
    exactly_once: bool
    aims: Mapping[tuple[int, str], float]
    reads_logs: bool = False

    def tuning(self) -> dict[str, str]:
        """What an expert adds to Kafka Connect's."""
        match self.direction:
            case Direction.SINK:
                return TUNED_CONSUMER
            case Direction.MIRROR:
                return TUNED_PRODUCER | {f"consumer.{name}": text for name, text in _TUNED_CONSUMER.items()}
        return {"batch.size": "20000", **TUNED_PRODUCER}

    def mirror_config(self, alias: str, topic: str, bootstrap_servers: str) -> dict[str, str]:
        """As ``config``: of a mirror of ``topic`` into ``alias.topic`` of the same broker."""
        factors = {f"{name}replication.factor": "1" for name in ("", "offset-syncs.topic.")}
        clusters = {f"{side}.cluster.bootstrap.servers": bootstrap_servers for side in ("source", "target")}
        committed = {"exactly.once.support": "required", "consumer.isolation.level": "read_committed"} if self.exactly_once else {}
        return {
            "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
            "tasks.max": "1",
            "source.cluster.alias": alias,
            "target.cluster.alias": "here",
            "topics": topic,
            "sync.topic.acls.enabled": "false",
            **clusters,
            **factors,
            **{f"{part}.converter": _BYTES for part in ("key", "value", "header")},
            **committed,
        }

    def config(self, file: str, topic: str, contestant: str = "") -> dict[str, str]:
        """The connector's config, but for an expert's tuning."""
        if self.direction is Direction.SINK:
            return {"connector.class": "FileStreamSink", "tasks.max": "1", "file": file, "topics": topic, **STRINGS}
        guarantee = "required" if self.exactly_once else "requested"
        is_log = self.reads_logs and contestant not in PEERS
        file_source = {"connector.class": "LogSource", "paths": file} if is_log else {"connector.class": "FileStreamSource", "file": file}
        return {**file_source, "tasks.max": "1", "topic": topic, **STRINGS, "exactly.once.support": guarantee}


_5M, _20M = 5_000_000, 20_000_000

WORKS = {
    work.name: work
    for work in (
        Work(
            "W1",
            "file → topic, at least once",
            Direction.SOURCE,
            exactly_once=False,
            aims={(_5M, "connect-default"): 3.0, (_5M, "connect-tuned"): 1.3, (_20M, "connect-tuned"): 1.9},
        ),
        Work(
            "W1x",
            "file → topic, exactly once",
            Direction.SOURCE,
            exactly_once=True,
            aims={(_5M, "connect-default"): 3.5, (_5M, "connect-tuned"): 2.0, (_20M, "connect-tuned"): 3.0},
        ),
        Work(
            "W2",
            "topic → file",
            Direction.SINK,
            exactly_once=False,
            aims={(_5M, "connect-tuned"): 1.6, (_20M, "connect-tuned"): 2.2},
        ),
        Work(
            "W5",
            "mirror, at least once",
            Direction.MIRROR,
            exactly_once=False,
            aims={(_5M, "connect-default"): 2.7, (_20M, "connect-default"): 3.5},
        ),
        Work("W5x", "mirror, exactly once", Direction.MIRROR, exactly_once=True, aims={}),
        Work(
            "W9",
            "log lines → topic, exactly once, against the file source",
            Direction.SOURCE,
            exactly_once=True,
            aims={(_5M, "connect-tuned"): 2.0, (_20M, "connect-tuned"): 2.0},
            reads_logs=True,
        ),
    )
}
