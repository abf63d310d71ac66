"""Requests for backfills, with ranges by offset or time, and the responses, as plain values. Knows nothing of brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import BadRequestException
from airflow_provider_connect.runtime.model.config_limits import cut
from airflow_provider_connect.runtime.model.history import instant_ms
from airflow_provider_connect.runtime.model.offsets import OFFSET, sink_partition
from airflow_provider_connect.runtime.model.view_json import named

_LATEST_MS = 253_402_300_799_999  # the last millisecond of the year 9999


@dataclass(frozen=True, slots=True)
class AskedRange:
    """A range of a topic (None: the connector's only topic), and of a partition (None: all partitions). ``first`` and ``end`` (exclusive)
    are offsets, or texts with instants. None means the beginning of the partition for ``first``, and its current end for ``end``."""

    topic: str | None = None
    partition: int | None = None
    first: int | str | None = field(default=None, metadata=named("from"))
    end: int | str | None = field(default=None, metadata=named("to"))

    def instants(self) -> list[int]:
        """The instants of the range, in ms since 1970. Raises BadRequestException for malformed instants, and for instants before 1970."""
        found = {text: instant_ms(text) for text in (self.first, self.end) if isinstance(text, str)}
        for text, ms in found.items():
            if not 0 <= ms <= _LATEST_MS:
                raise BadRequestException(f"'{cut(text)}' is not a time of a record: give one from 1970 to 9999")
        return list(found.values())


@dataclass(frozen=True, slots=True)
class BackfillRequest:
    """``changes`` are settings in which the backfill differs from its connector. None removes a setting. The backfill's name ends with
    ``id``."""

    ranges: Sequence[AskedRange]
    changes: Mapping[str, str | None]
    id: str


def time_id(now: float) -> str:
    """The default id of a backfill: the time as a text, in seconds since 1970, to the millisecond."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%S%f")[:-3]


@dataclass(frozen=True, slots=True)
class BackfillRange:
    """One partition in the form of GET offsets, with three offsets: the first offset, the offset after the last, and the next offset to
    deliver."""

    partition: Mapping[str, object]
    first: Mapping[str, object] = field(metadata=named("from"))
    end: Mapping[str, object] = field(metadata=named("to"))
    position: Mapping[str, object]

    @classmethod
    def of_sink(cls, at: TopicPartition, first: int, end: int, position: int) -> BackfillRange:
        return cls(sink_partition(*at), {OFFSET: first}, {OFFSET: end}, {OFFSET: position})


@dataclass(frozen=True, slots=True)
class Backfill:
    """A backfill, which is connector ``name``. ``state`` is the connector's state, or FAILED if a task is FAILED. ``left`` counts the
    offsets that are not delivered yet, including transaction markers. The backfill is done when 0 are left. For a source, ``left`` is
    unknown (None), and there are no ranges, because the source's own settings limit the backfill."""

    name: str
    of: str
    state: str
    is_done: bool | None
    left: int | None
    ranges: Sequence[BackfillRange]


def chosen_partitions(asked: AskedRange, counts: Mapping[str, int]) -> list[TopicPartition]:
    """The partitions of a range. ``counts`` has the number of partitions by topic. Raises BadRequestException."""
    topic = asked.topic
    if topic is None:
        if len(counts) != 1:
            raise BadRequestException(f"Name a topic: the connector reads {_listed(counts)}")
        topic = next(iter(counts))
    if topic not in counts:
        raise BadRequestException(f"The connector reads no topic {cut(topic)}, or it does not exist; it reads {_listed(counts)}")
    count = counts[topic]
    if asked.partition is None:
        if count > 1 and (isinstance(asked.first, int) or isinstance(asked.end, int)):
            raise BadRequestException(f"Topic {topic} has {count} partitions: name the partition of these offsets, or give times")
        return [TopicPartition(topic, number) for number in range(count)]
    if not 0 <= asked.partition < count:
        raise BadRequestException(f"Topic {topic} has {count} partitions, and no partition {asked.partition}")
    return [TopicPartition(topic, asked.partition)]


def bounded_range(at: TopicPartition, asked: AskedRange, held: tuple[int, int], offsets_at: Mapping[int, int]) -> tuple[int, int] | None:
    """The first offset of a range, and the offset after its last. ``held`` has the same two offsets for the records in the partition.
    ``offsets_at`` has the first offset at or after each instant. Returns None if there are no records between two instants.

    Raises BadRequestException for offsets that the partition does not contain, and for an empty range.
    """
    beginning, end = held
    first = _offset(asked.first, beginning, offsets_at)
    last = _offset(asked.end, end, offsets_at)
    if first < beginning:
        raise BadRequestException(f"The records of {at} before offset {beginning} have been deleted: begin there, or later")
    if last > end:
        raise BadRequestException(f"{at} ends at offset {end} now: end there, or omit the end")
    if first < last:
        return first, last
    if isinstance(asked.first, int) or isinstance(asked.end, int):
        raise BadRequestException(f"There is nothing from offset {first} to offset {last} of {at}: the end must be greater")
    return None


def _offset(asked: int | str | None, default: int, offsets_at: Mapping[int, int]) -> int:
    if asked is None:
        return default
    return asked if isinstance(asked, int) else offsets_at[instant_ms(asked)]


def _listed(counts: Mapping[str, int]) -> str:
    names = sorted(counts)
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "") if names else "no topic that exists"
