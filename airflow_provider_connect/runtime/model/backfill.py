"""The rules of backfills, as functions of plain values. A backfill is a connector that delivers ranges of another connector's data again,
and ends.

A backfill has its own name, and so its own consumer group, claims, transactional ids and rows in a destination. The live connector is
unaffected.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from airflow_provider_connect.codecs.dead_letters import REPLAY_CLASS
from airflow_provider_connect.data.records import TopicPartition, may_be_same_topic
from airflow_provider_connect.errors import BadRequestException, ConfigException
from airflow_provider_connect.runtime.model.config_limits import cut
from airflow_provider_connect.runtime.model.ids import named_topics, refusal_of_topic

OF, RANGES, CHANGED, TOPIC_IDS = "backfill.of", "backfill.ranges", "backfill.changed", "backfill.topic.ids"
MOST_RANGES: Final = 1000
Ranges = Mapping[TopicPartition, tuple[int, int]]
"""By partition: the first offset, and the offset after the last one."""

_MIDDLE: Final = ".backfill."
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,60}")
_RANGE: Final = re.compile(r"([^:]+):([0-9]{1,9}):([0-9]{1,18}):([0-9]{1,18})")
_FORM: Final = "give «topic»:«partition»:«first offset»:«offset after the last», several separated by commas"
_TAGS: Final = "airflow.tags"
_SET_BY_ITSELF: Final = ("name", OF, RANGES, CHANGED, TOPIC_IDS, "topics", "topics.regex")
_NOT_TAKEN_OVER: Final = (
    "airflow.defined.in",
    "airflow.released",
    "airflow.schedule",
    "airflow.description",
    "airflow.display.name",
    "airflow.doc",
    "airflow.max.duration",
    "airflow.application",
    "airflow.run.idle.timeout",
    "airflow.run.max.duration",
    "airflow.on.deadline",
    "batch.max.records",
    "batch.max.duration.ms",
    "consumer.override.group.id",
    "topics.regex",
)
"""Settings that limit or name the live connector and its runs. A backfill has a single run, and a schedule and group of its own."""


def ranges_of(config: Mapping[str, Any]) -> Ranges:
    """The ranges of a sink that is a backfill. Empty for any other connector. Raises ConfigException for malformed ranges."""
    return parse_ranges(config.get(RANGES) or "")


def known_ranges(config: Mapping[str, Any]) -> Ranges:
    """Like ``ranges_of``, but empty for malformed ranges, although a run would refuse them. For callers that only show a connector."""
    try:
        return ranges_of(config)
    except ConfigException:
        return {}


def parse_ranges(text: str) -> Ranges:
    """The ranges in a config's text. Raises ConfigException."""
    found: dict[TopicPartition, tuple[int, int]] = {}
    parts = text.split(",") if text.strip() else []
    if len(parts) > MOST_RANGES:
        raise ConfigException.of(RANGES, cut(text), f"It has {len(parts)} ranges; at most {MOST_RANGES} are allowed.")
    for part in parts:
        match = _RANGE.fullmatch(part.strip())
        if match is None or refusal_of_topic(match[1]):
            raise ConfigException.of(RANGES, cut(part), _FORM)
        partition, first, end = TopicPartition(match[1], int(match[2])), int(match[3]), int(match[4])
        if first >= end:
            raise ConfigException.of(RANGES, cut(part), f"the offset after the last must be greater than {first}")
        if partition in found:
            raise ConfigException.of(RANGES, cut(part), "a partition may have one range only")
        found[partition] = (first, end)
    return found


def ranges_text(ranges: Ranges) -> str:
    """``ranges`` as the text of a config."""
    return ",".join(f"{at.topic}:{at.partition}:{first}:{end}" for at, (first, end) in sorted(ranges.items()))


def topic_ids_text(ids: Mapping[str, str]) -> str:
    """The ids of topics as the text of a config."""
    return ",".join(f"{topic}:{topic_id}" for topic, topic_id in sorted(ids.items()))


def recreated_topics(config: Mapping[str, Any], ids: Mapping[str, str]) -> list[str]:
    """The topics of a backfill that were recreated after its request. Its ranges name records of earlier topics. ``ids`` are the current
    ids, empty if the brokers give none."""
    noted = dict(part.rsplit(":", 1) for part in (config.get(TOPIC_IDS) or "").split(",") if ":" in part)
    return sorted(topic for topic, topic_id in noted.items() if not may_be_same_topic(topic_id, ids.get(topic, "")))


def topics_error(config: Mapping[str, Any]) -> str:
    """The error of a config whose ranges do not match its topics. Empty if they match."""
    ranges = known_ranges(config)
    if not ranges:
        return ""
    missing = sorted({at.topic for at in ranges}.symmetric_difference(named_topics(config)))
    if not missing:
        return ""
    reason = f"topics must name the topics of these ranges and no others, but only one of the two has {', '.join(missing[:5])}"
    return ConfigException.of(RANGES, cut(str(config[RANGES])), reason).message


def ends_within(ends: Mapping[TopicPartition, int], ranges: Ranges) -> dict[TopicPartition, int]:
    """The ends of the partitions that the connector reads, for a backfill within its ``ranges``."""
    return {at: min(end, ranges[at][1]) for at, end in ends.items() if at in ranges} if ranges else dict(ends)


def beginnings_within(beginnings: Mapping[TopicPartition, int], ranges: Ranges) -> dict[TopicPartition, int]:
    """The first offsets of the partitions that the connector reads, for a backfill within its ``ranges``."""
    return {at: max(first, ranges[at][0]) for at, first in beginnings.items() if at in ranges} if ranges else dict(beginnings)


def positions_beyond(positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], ranges: Ranges) -> list[TopicPartition]:
    """The partitions whose position is beyond the end, sorted: the topic was recreated or truncated, or the offset was altered. The number
    of records before the end is then unknown. A backfill that has delivered its range has no such partition. ``ends`` are high
    watermarks."""
    return sorted(at for at, end in ends.items() if positions.get(at, 0) > end and (at not in ranges or positions[at] < ranges[at][1]))


def read_partitions(partitions: Iterable[TopicPartition], ranges: Ranges) -> list[TopicPartition]:
    """The ``partitions`` that the connector reads. For a backfill, the partitions in its ranges."""
    return [at for at in partitions if at in ranges] if ranges else list(partitions)


def backfill_name(connector: str, backfill_id: str) -> str:
    """The name of a backfill of ``connector``. Raises BadRequestException for an invalid id."""
    if _ID.fullmatch(backfill_id) is None:
        raise BadRequestException(
            f"The id of a backfill must be 1 to 60 letters, digits, hyphens and underscores, got {cut(backfill_id)!r}"
        )
    return f"{connector}{_MIDDLE}{backfill_id}"


def is_backfill_of(connector: str, name: str, config: Mapping[str, str]) -> bool:
    """Whether ``name`` is a backfill of ``connector``, according to the backfill's config and name. The backfill's author needs rights for
    that name."""
    return config.get(OF) == connector and name.startswith(f"{connector}{_MIDDLE}")


def takes_backfills(config: Mapping[str, str]) -> bool:
    """Whether the connector with ``config`` may have backfills: it exists, is not a backfill itself, and does not replay dead-letter
    records. Does not check its plugin."""
    return bool(config) and OF not in config and config.get("connector.class") != REPLAY_CLASS


def changed_config(name: str, connector: str, config: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """The config of backfill ``name``, without its ranges. It is the config of the live ``connector``, without settings of the connector's
    runs, and with ``changes`` applied. In ``changes``, None removes a key.

    Raises BadRequestException for changes of keys that a backfill sets itself, and for a backfill of a backfill.
    """
    if OF in config:
        raise BadRequestException(f"Connector {connector} is itself a backfill of {config[OF]}: name that connector")
    own = sorted(key for key in changes if key in _SET_BY_ITSELF)
    if own:
        raise BadRequestException(f"{', '.join(own)}: a backfill sets this itself; remove it from the changes")
    kept = {key: text for key, text in config.items() if key not in _NOT_TAKEN_OVER and not key.startswith("airflow.deadline.")}
    described = {"airflow.schedule": "none", "airflow.description": cut(f"A backfill of {connector}"), _TAGS: _tags(config)}
    wanted = {**kept, **described, **changes}
    found = {key: text for key, text in wanted.items() if text is not None}
    changed = sorted(key for key in changes if _meant(config.get(key)) != _meant(changes[key]))
    return {**found, "name": name, OF: connector, CHANGED: ",".join(changed)}


def _meant(text: str | None) -> str | None:
    """The normalized form of a path or address: ``/data/./x`` and ``/data//x/`` become ``/data/x``. Does not follow links."""
    return re.sub("/+", "/", posixpath.normpath(text.strip())) if text and text.strip() else None


def _tags(config: Mapping[str, str]) -> str:
    return ",".join(filter(None, [config.get(_TAGS, "").strip(), "backfill"]))
