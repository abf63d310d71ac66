"""Which records of a queue a replay takes, and where each goes. Plain values: knows nothing of Kafka's clients."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.bounded_regex import BoundedRegex
from airflow_provider_connect.sdk.config_def import Config
from airflow_provider_connect.sdk.dead_letters import FailureContext, OffsetRanges, by_partition

_REGEX: Final = "dead.letters.origins.regex"


@dataclass(frozen=True, slots=True)
class Target:
    """``partition`` None: by the record's key."""

    topic: str
    partition: int | None


@dataclass(frozen=True, slots=True)
class Selection:
    """See the module. Empty conditions are met by every record. ``is_origin``: whether the sink reads a topic. ``topic``: where all records
    go; None: back to their topics."""

    connector: str
    offsets: dict[int, OffsetRanges]
    topics: frozenset[str]
    exceptions: frozenset[str]
    is_origin: Callable[[str], bool]
    topic: str | None

    @classmethod
    def of(cls, config: Config) -> Self:
        names, pattern = frozenset(config["dead.letters.origins"]), config[_REGEX]
        matches = _pattern(pattern).matches if pattern else None

        def is_origin(topic: str) -> bool:
            return topic in names or (matches is not None and matches(topic)) or (not names and matches is None)

        return cls(
            config["dead.letters.connector"],
            by_partition(config["dead.letters.offsets"]),
            frozenset(config["dead.letters.from.topics"]),
            frozenset(config["dead.letters.exceptions"]),
            is_origin,
            config["dead.letters.target.topic"] or None,
        )

    def is_of_connector(self, context: FailureContext) -> bool:
        """Whether the record is the sink's at all: of all others nothing is replayed, ever."""
        return context.connector == self.connector

    def first(self, partition: int) -> int | None:
        """Where to begin in a partition; None: none of its records is taken."""
        if not self.offsets:
            return 0
        ranges = self.offsets.get(partition)
        return None if ranges is None else ranges.first

    def target(self, partition: int, offset: int, context: FailureContext) -> Target | None:
        """Where the record at this position of the queue goes; None: it is not taken."""
        if self.offsets and offset not in self.offsets.get(partition, OffsetRanges()):
            return None
        if self.topics and context.topic not in self.topics:
            return None
        if self.exceptions and not self._is_chosen_exception(context.exception or ""):
            return None
        if self.topic is not None:
            return Target(self.topic, None)
        if not context.topic or not self.is_origin(context.topic):
            return None
        return Target(context.topic, context.partition)

    def _is_chosen_exception(self, name: str) -> bool:
        return name in self.exceptions or name.rpartition(".")[2].rpartition("$")[2] in self.exceptions


def _pattern(expression: str) -> BoundedRegex:
    try:
        return BoundedRegex(expression, _REGEX)
    except re.error as error:
        raise ConfigException.of(_REGEX, expression[:200], str(error)) from error
