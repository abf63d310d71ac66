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
TUNED_CONSUMER = {
    "consumer.override.max.poll.records": "20000",
    "consumer.override.max.partition.fetch.bytes": "10485760",
}


class Aimed(Protocol):
    """Whatever has ratios that are aimed at; see ``Work``."""

    @property
    def aims(self) -> Mapping[tuple[int, str], float]: ...


class Direction(StrEnum):
    SOURCE = "source"  # file → topic
    SINK = "sink"  # topic → file


@dataclass(frozen=True, slots=True)
class Work:
    """``exactly_once`` says whether the workers have exactly-once source support.

    ``aims`` maps a number of records and a peer to how many times as fast as that peer we mean to be, our start-up counted.
    """

    name: str
    title: str
    direction: Direction
    exactly_once: bool
    aims: Mapping[tuple[int, str], float]

    def tuning(self) -> dict[str, str]:
        """What an expert adds to Kafka Connect's."""
        return TUNED_CONSUMER if self.direction is Direction.SINK else {"batch.size": "20000", **TUNED_PRODUCER}

    def config(self, file: str, topic: str) -> dict[str, str]:
        """The connector's config, the same for every contestant but for an expert's tuning."""
        if self.direction is Direction.SINK:
            return {"connector.class": "FileStreamSink", "tasks.max": "1", "file": file, "topics": topic, **STRINGS}
        guarantee = "required" if self.exactly_once else "requested"
        source = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": file, "topic": topic, **STRINGS}
        return {**source, "exactly.once.support": guarantee}


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
    )
}
