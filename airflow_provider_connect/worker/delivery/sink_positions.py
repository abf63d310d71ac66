"""Which partitions a sink task reads, and where it starts in each: rules over plain values."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.model.ids import murmur2
from airflow_provider_connect.model.offsets import ALTERED_MARK, CLAIM_MARK
from airflow_provider_connect.sdk.records import TopicPartition

if TYPE_CHECKING:
    from airflow_provider_connect.model.connector_settings import ConnectorSettings
    from airflow_provider_connect.stores.topic_admin import TopicAdmin

log = logging.getLogger(__name__)
_Value = TypeVar("_Value")
_TIME_MARK = " at="
REFRESH_SECONDS = 86_400.0  # offsets of a group without members expire after a week


def by_topic(values: Mapping[TopicPartition, _Value]) -> dict[str, dict[str, _Value]]:
    """``values`` as the batch log has them: by topic, then by the partition's number as text, sorted."""
    nested: dict[str, dict[str, _Value]] = {}
    for partition, value in sorted(values.items()):
        nested.setdefault(partition.topic, {})[str(partition.partition)] = value
    return nested


def group_mark(claim: str, now_seconds: float) -> str:
    """The metadata of our commits: claim and time."""
    return f"{CLAIM_MARK}{claim}{_TIME_MARK}{int(now_seconds)}"


def is_fresh(mark: str, now_seconds: float) -> bool:
    """Whether a commit is ours and less than a day old; others are repeated before they expire."""
    claim, _, seconds = mark.partition(_TIME_MARK)
    return claim.startswith(CLAIM_MARK) and seconds.isdecimal() and now_seconds - int(seconds) < REFRESH_SECONDS


def is_anothers(mark: str) -> bool:
    """Whether another program has moved the group: neither a task of ours nor our REST API."""
    return not mark.startswith((CLAIM_MARK, ALTERED_MARK))


class Origin(StrEnum):
    """Whose offset a start is."""

    GROUP = "the consumer group's"
    DESTINATION = "the destination's"
    BATCH_LOG = "the batch log's, because the group's has expired"
    RESET = "auto.offset.reset"


@dataclass(frozen=True, slots=True)
class KnownOffsets:
    """All that is known of one partition. ``mark`` is the metadata of the group's commit, ``is_fresh`` whether that is ours and young;
    ``destination`` is None unless the destination keeps offsets itself; ``end`` is the last stable offset, ``high`` the high watermark.
    ``is_unfinished``: the batch log's position was being set over REST when the process that did it died."""

    beginning: int
    end: int
    high: int
    group: int | None = None
    mark: str = ""
    is_fresh: bool = False
    destination: int | None = None
    batch_log: int | None = None
    is_unfinished: bool = False


@dataclass(frozen=True, slots=True)
class StartPosition:
    """Where to start, and what has to be written first: the destination's offset (exactly once), the group's commit."""

    offset: int
    origin: Origin
    rewrite_destination: bool
    commit_group: bool


def start_position(partition: TopicPartition, known: KnownOffsets, *, exactly_once: bool, reset: str) -> StartPosition:
    """The start of one partition.

    A group offset without our mark was set by another program (a real Connect, an admin tool) and holds; with our mark the destination's
    holds, because the process may have ended between the two. A group without an offset has expired if the batch log knows the partition;
    else the partition was never seen, or was reset. An offset outside the log is treated as never seen, as Kafka does.
    """
    ours = known.mark.startswith(CLAIM_MARK)
    origin, offset = _chosen(known, exactly_once=exactly_once, ours=ours)
    if offset is None or not known.beginning <= offset <= known.high:
        if offset is not None and reset == "none":
            raise ConnectException(
                f"offset {offset} of {partition} lies outside the log, {known.beginning} to {known.high}, and auto.offset.reset is none"
            )
        origin, offset = Origin.RESET, _reset_offset(partition, known, reset)
    rewrite = exactly_once and known.destination != offset
    commit = known.group != offset or not known.is_fresh
    return StartPosition(offset, origin, rewrite, commit)


def _chosen(known: KnownOffsets, *, exactly_once: bool, ours: bool) -> tuple[Origin, int | None]:
    if known.group is not None and not (exactly_once and ours and known.destination is not None):
        return Origin.GROUP, known.group
    if known.group is None and known.batch_log is None:
        return Origin.RESET, None
    if exactly_once and known.destination is not None and not (known.group is None and known.is_unfinished):
        return Origin.DESTINATION, known.destination
    return Origin.BATCH_LOG, known.batch_log


def _reset_offset(partition: TopicPartition, known: KnownOffsets, reset: str) -> int:
    if reset == "earliest":
        return known.beginning
    if reset == "latest":
        return known.end
    if reset == "none":
        raise ConnectException(f"no offset is known for {partition}, and auto.offset.reset is none")
    raise ConfigException.of("auto.offset.reset", reset, "String must be one of: earliest, latest, none")


def partitions_of(settings: ConnectorSettings, admin: TopicAdmin) -> list[TopicPartition]:
    """All partitions of a sink's topics: those that it names, or that its pattern matches. A topic that does not exist yet is left out."""
    counts = admin.partitions(settings.topics) if settings.topics else admin.matching(settings.topics_regex or "")
    for topic in settings.topics:
        if topic not in counts:
            log.warning("Topic %s of connector %s does not exist yet", topic, settings.name)
    return [TopicPartition(topic, number) for topic, count in sorted(counts.items()) for number in range(count)]


def owned_by(partition: TopicPartition, task: int, tasks: int) -> bool:
    """Whether ``task`` of ``tasks`` reads ``partition``. Each topic is shifted, so that topics of one partition do not all fall to task 0.
    The owner of a partition depends on nothing but itself: a new topic moves no other partition."""
    return (partition.partition + _shift(partition.topic)) % tasks == task


@lru_cache(1024)
def _shift(topic: str) -> int:
    return murmur2(topic.encode()) & 0x7FFFFFFF
