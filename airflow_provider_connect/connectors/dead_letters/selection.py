"""The selection of a queue's records for a replay, and the target of each record. Plain values: knows nothing of Kafka's clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from airflow_provider_connect.codecs.dead_letters import FailureContext, OffsetRanges, by_partition
from airflow_provider_connect.connectors.dead_letters.settings import parse_origins
from airflow_provider_connect.sdk.config_def import Config


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a record. If ``partition`` is None, the record's key determines it."""

    topic: str
    partition: int | None


@dataclass(frozen=True, slots=True)
class Selection:
    """Conditions that select records of a queue, and the target of the selected records. An empty condition matches every record.
    ``origins`` are the topics that the sink reads, with their numbers of partitions. ``topic`` is the target of all records. None means
    that each record returns to its own topic."""

    connector: str
    offsets: dict[int, OffsetRanges]
    topics: frozenset[str]
    exceptions: frozenset[str]
    origins: Mapping[str, int]
    topic: str | None

    @classmethod
    def of(cls, config: Config) -> Self:
        return cls(
            config["dead.letters.connector"],
            by_partition(config["dead.letters.offsets"]),
            frozenset(config["dead.letters.from.topics"]),
            frozenset(config["dead.letters.exceptions"]),
            parse_origins(config["dead.letters.origins"]),
            config["dead.letters.target.topic"] or None,
        )

    def is_from_connector(self, context: FailureContext) -> bool:
        """Whether the record is from the sink. Records of other sinks are never replayed."""
        return context.connector == self.connector

    def first(self, partition: int) -> int | None:
        """The first offset to read in a partition. None if no record of the partition is selected."""
        if not self.offsets:
            return 0
        ranges = self.offsets.get(partition)
        return None if ranges is None else ranges.first

    def target(self, partition: int, offset: int, context: FailureContext) -> Target | None:
        """The target of the record at this offset of the queue. None if the record is not selected."""
        if self.offsets and offset not in self.offsets.get(partition, OffsetRanges()):
            return None
        if self.topics and context.topic not in self.topics:
            return None
        if self.exceptions and not self._is_chosen_exception(context.exception or ""):
            return None
        if self.topic is not None:
            return Target(self.topic, None)
        partitions = self.origins.get(context.topic or "")
        if context.topic is None or partitions is None:
            return None
        has_partition = context.partition is not None and context.partition < partitions
        return Target(context.topic, context.partition if has_partition else None)

    def _is_chosen_exception(self, name: str) -> bool:
        return name in self.exceptions or name.rpartition(".")[2].rpartition("$")[2] in self.exceptions
