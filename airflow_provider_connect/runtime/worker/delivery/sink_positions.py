"""Which partitions a sink task reads, and where it starts in each: rules over plain values."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from airflow_provider_connect.data.records import TopicPartition, describe_outside, may_be_same_topic
from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.runtime.model.ids import murmur2
from airflow_provider_connect.runtime.model.offsets import ALTERED_MARK, CLAIM_MARK

if TYPE_CHECKING:
    from airflow_provider_connect.runtime.model.connector_settings import ConnectorSettings
    from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin, TopicIdentity

log = logging.getLogger(__name__)
_Value = TypeVar("_Value")
_TIME, _TOPIC, _DESTINATION = "at=", "topic=", "to="
REFRESH_SECONDS = 86_400.0  # offsets of a group without members expire after a week


def by_topic(values: Mapping[TopicPartition, _Value]) -> dict[str, dict[str, _Value]]:
    """``values`` in the form of the batch log: by topic, then by the partition's number as text, sorted."""
    nested: dict[str, dict[str, _Value]] = {}
    for partition, value in sorted(values.items()):
        nested.setdefault(partition.topic, {})[str(partition.partition)] = value
    return nested


def group_mark(claim: str, now_seconds: float, topic_id: str = "", destination: str = "") -> str:
    """The metadata of our commits: claim, time, the topic's id, and the mark of a destination that has also committed the offset."""
    words = [
        f"{CLAIM_MARK}{claim}",
        f"{_TIME}{int(now_seconds)}",
        topic_id and _TOPIC + topic_id,
        destination and _DESTINATION + destination,
    ]
    return " ".join(filter(None, words))


def was_committed_recently(mark: str, now_seconds: float) -> bool:
    """Whether a commit is ours and less than a day old. Other commits are repeated before they expire."""
    seconds = _word(mark, _TIME)
    return mark.startswith(CLAIM_MARK) and seconds.isdecimal() and now_seconds - int(seconds) < REFRESH_SECONDS


def is_of_topic(mark: str, topic_id: str) -> bool:
    """Whether the offset may apply to the topic with this id."""
    return may_be_same_topic(_word(mark, _TOPIC), topic_id)


def is_of_destination(mark: str, destination: str) -> bool:
    """Whether this same destination has also committed the offset."""
    return bool(destination) and _word(mark, _DESTINATION) == destination


def destination_mark(config: Mapping[str, str]) -> str:
    """The destination's name in marks: a hash of the settings that identify it."""
    return hashlib.sha256(json.dumps(sorted(config.items())).encode()).hexdigest()[:12]


def _word(mark: str, name: str) -> str:
    return next((word.removeprefix(name) for word in mark.split(" ")[1:] if word.startswith(name)), "")


def is_foreign_commit(mark: str) -> bool:
    """Whether the group's offset was set by another program: neither by a task of ours nor by our REST API."""
    return not mark.startswith((CLAIM_MARK, ALTERED_MARK))


class Origin(StrEnum):
    """Where a start offset comes from."""

    GROUP = "the consumer group's"
    DESTINATION = "the destination's"
    EMPTIED = "the first that the topic holds, because the destination holds nothing of what was committed there"
    BATCH_LOG = "the batch log's, because the group's has expired"
    RESET = "auto.offset.reset"


@dataclass(frozen=True, slots=True)
class KnownOffsets:
    """What is known of one partition. ``mark`` is the metadata of the group's commit. ``was_committed_recently``: that commit is ours, and
    less than a day old. ``destination`` None: the destination has no offset. ``had_offset``: with exactly once, this same destination has
    also committed the group's offset, or the batch log's if the group has none. ``end`` is the last stable offset, ``high`` the high
    watermark. ``is_unfinished``: a process died while setting the batch log's position over REST."""

    beginning: int
    end: int
    high: int
    group: int | None = None
    mark: str = ""
    was_committed_recently: bool = False
    destination: int | None = None
    had_offset: bool = False
    batch_log: int | None = None
    is_unfinished: bool = False

    @property
    def committed(self) -> int | None:
        """The group's offset, or the batch log's if the group has lost its own."""
        return self.batch_log if self.group is None else self.group

    @property
    def went_back(self) -> bool:
        """Whether the destination now holds less than it had committed."""
        return self.had_offset and self.committed is not None and (self.destination is None or self.destination < self.committed)


@dataclass(frozen=True, slots=True)
class StartPosition:
    """Where to start. Also whether the destination's offset (exactly once) and the group's offset must be written before. ``lost`` is the
    number of offsets that the topic's retention removed before they were delivered."""

    offset: int
    origin: Origin
    rewrite_destination: bool
    commit_group: bool
    lost: int = 0


class Rollback(StrEnum):
    """The reaction if a destination holds less than it had committed (``destination.rollback``)."""

    REDELIVER = "redeliver"
    FAIL = "fail"


def start_position(
    partition: TopicPartition, known: KnownOffsets, *, exactly_once: bool, reset: str, rollback: Rollback = Rollback.REDELIVER
) -> StartPosition:
    """The start of one partition. Raises ConnectException if the destination has gone back and ``rollback`` is ``fail``.

    A group offset without our mark was set by another program (a real Connect, an admin tool), and applies. If the group's offset has our
    mark, the destination's offset applies, because the process may have ended between the two commits. If the destination's offset is the
    smaller one, the destination has gone back, and the missing records are delivered again. But if the group's offset was committed with
    another destination, the larger of the two offsets applies, because the records before it were delivered. If the group has no offset but
    the batch log knows the partition, the group's offset has expired. Otherwise the partition was never seen, or was reset. If an offset is
    outside the log, the partition is treated as never seen, as in Kafka.
    """
    ours = known.mark.startswith(CLAIM_MARK)
    origin, offset = _chosen(known, exactly_once=exactly_once, ours=ours)
    if known.went_back:
        _refuse_rollback(partition, known, rollback)
    elif ours and origin is Origin.GROUP and known.destination is not None and offset is not None:
        log.warning(
            "The destination holds %s up to offset %d, and the settings that lead to it were others when %d was committed: the records "
            "between are taken for those of another destination, and not delivered here. To deliver them, stop the connector "
            "and set its offset (PATCH /connectors/«name»/offsets)",
            *(partition, known.destination, offset),
        )
    if origin is Origin.DESTINATION and offset is not None and offset > known.high:
        raise ConnectException(
            f"The destination holds {partition} up to offset {offset}, and the topic ends at {known.high}: it has lost its end, as after "
            "the restore of a broker or an unclean election. To deliver it again would double records. Stop the connector, and set "
            "the offset to go on from (PATCH /connectors/«name»/offsets)"
        )
    lost = 0
    if offset is None or not known.beginning <= offset <= known.high:
        if offset is not None and reset == "none":
            raise ConnectException(
                f"offset {offset} of {partition} lies outside the log, {known.beginning} to {known.high}, and auto.offset.reset is none"
            )
        reset_to = _reset_offset(partition, known, reset)
        if offset is not None:
            lost = max(known.beginning - offset, 0)
            removed = describe_outside(partition, offset, known.beginning, known.high)
            log.warning("%s. auto.offset.reset decides: the connector goes on at %d", removed, reset_to)
        origin, offset = Origin.RESET, reset_to
    rewrite = exactly_once and known.destination != offset
    commit = known.group != offset or not known.was_committed_recently
    return StartPosition(offset, origin, rewrite, commit, lost)


def _chosen(known: KnownOffsets, *, exactly_once: bool, ours: bool) -> tuple[Origin, int | None]:
    if known.group is not None and exactly_once and ours:
        if known.destination is None and known.had_offset:
            return Origin.EMPTIED, known.beginning
        if known.destination is not None and (known.had_offset or known.destination >= known.group):
            return Origin.DESTINATION, known.destination
    if known.group is not None:
        return Origin.GROUP, known.group
    if known.batch_log is None:
        return Origin.RESET, None
    if exactly_once and not known.is_unfinished and (known.destination is not None or known.had_offset):
        is_there = known.destination is not None
        return (Origin.DESTINATION, known.destination) if is_there else (Origin.EMPTIED, known.beginning)
    return Origin.BATCH_LOG, known.batch_log


def _refuse_rollback(partition: TopicPartition, known: KnownOffsets, rollback: Rollback) -> None:
    held = "no offset" if known.destination is None else f"offset {known.destination}"
    text = f"The destination holds {held} of {partition}, and this connector has committed {known.committed} there: it has been rolled "
    text += "back, restored or emptied"
    if rollback is Rollback.FAIL:
        raise ConnectException(
            f"{text}. Set destination.rollback=redeliver to deliver again what it lacks (records that it still holds come twice then); or "
            "stop the connector, and set the offset to go on from (PATCH /connectors/«name»/offsets)"
        )
    log.warning("%s. What it lacks is delivered again", text)


def _reset_offset(partition: TopicPartition, known: KnownOffsets, reset: str) -> int:
    if reset == "earliest":
        return known.beginning
    if reset == "latest":
        return known.end
    if reset == "none":
        raise ConnectException(f"no offset is known for {partition}, and auto.offset.reset is none")
    raise ConfigException.of("auto.offset.reset", reset, "String must be one of: earliest, latest, none")


def topics_of(settings: ConnectorSettings, admin: TopicAdmin, *, warns: bool = True) -> dict[str, TopicIdentity]:
    """A sink's topics: those that its config names, or that its pattern matches. A topic that does not exist yet is left out. ``warns``:
    the log names it."""
    found = admin.identities(settings.topics or admin.matching(settings.topics_regex or ""))
    for topic in settings.topics if warns else ():
        if topic not in found:
            log.warning("Topic %s of connector %s does not exist yet", topic, settings.name)
    return found


def partitions_of(topics: Mapping[str, TopicIdentity]) -> list[TopicPartition]:
    """All partitions of the topics."""
    return [TopicPartition(name, number) for name, topic in sorted(topics.items()) for number in range(topic.partitions)]


def is_owned_by(partition: TopicPartition, task: int, tasks: int) -> bool:
    """Whether ``task`` of ``tasks`` reads ``partition``. The assignment is shifted for each topic, so that not all first partitions belong
    to task 0. The owner of a partition depends only on that partition: a new topic moves no other partition."""
    return (partition.partition + _shift(partition.topic)) % tasks == task


@lru_cache(1024)
def _shift(topic: str) -> int:
    return murmur2(topic.encode()) & 0x7FFFFFFF
