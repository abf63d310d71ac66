"""The settings of a replay: which records of a queue to replay, their edits, and their destination. The herder writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from airflow_provider_connect.codecs.dead_letters import by_partition, parse_range
from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.sdk.config_def import ConfigDef, ConfigKey, Importance, NonEmptyString, Password, Type

_HIGH, _LOW = Importance.HIGH, Importance.LOW
EDITABLE: Final = frozenset({"key", "value"})


def ranges(name: str, value: list[str] | None) -> None:
    """A validator: ranges of offsets by partition."""
    try:
        by_partition(value or ())
    except ConnectException as error:
        raise ConfigException.of(name, ",".join(value or ())[:200], error.message) from None


def ends(name: str, value: list[str] | None) -> None:
    """A validator: one end offset per partition."""
    ranges(name, value)
    if any("-" in entry for entry in value or ()):
        raise ConfigException.of(name, ",".join(value or ())[:200], "give one offset for each partition, such as 0:120")


def parse_edits(value: Password | None) -> dict[tuple[int, int], dict[str, bytes | None]]:
    """The replaced parts of records by partition and offset: ``key``, ``value`` or both. None means null.

    Raises ConnectException, whose message does not contain values.
    """
    if value is None or not value.value.strip():
        return {}
    try:
        given = json.loads(value.value)
    except (ValueError, RecursionError):
        raise ConnectException("it is not JSON") from None
    if not isinstance(given, dict):
        raise ConnectException("it must be a JSON object, by PARTITION:OFFSET")
    return {_parse_location(at): _parse_edit(at, edit) for at, edit in given.items()}


def _parse_location(text: str) -> tuple[int, int]:
    found = by_partition([text])
    ((partition, offsets),) = found.items()
    first, last = parse_range(str(offsets))
    if first != last:
        raise ConnectException(f"{text[:60]!r} is not a single record: give PARTITION:OFFSET, such as 0:15")
    return partition, first


def _parse_edit(at: str, edit: Any) -> dict[str, bytes | None]:
    if not isinstance(edit, Mapping) or not edit or not edit.keys() <= EDITABLE:
        raise ConnectException(f"the edit of {at[:60]!r} must have 'key', 'value' or both, and nothing else")
    if not all(text is None or isinstance(text, str) for text in edit.values()):
        raise ConnectException(f"in the edit of {at[:60]!r}, key and value must be text or null")
    return {part: None if text is None else text.encode("utf-8", "surrogatepass") for part, text in edit.items()}


def edits(name: str, value: Password | None) -> None:
    """A validator: edits of records."""
    try:
        parse_edits(value)
    except ConnectException as error:
        raise ConfigException.of(name, "[hidden]", error.message) from None


def parse_origins(value: Sequence[str] | None) -> dict[str, int]:
    """The number of partitions of each topic. Raises ConnectException."""
    found = {}
    for text in value or ():
        topic, _, count = text.rpartition(":")
        if not topic or not (count.isascii() and count.isdecimal() and len(count) < 10):
            raise ConnectException(f"{text[:60]!r} is not a topic with its number of partitions, such as orders:3")
        found[topic] = int(count)
    return found


def origins(name: str, value: list[str] | None) -> None:
    """A validator: topics with their numbers of partitions."""
    try:
        parse_origins(value)
    except ConnectException as error:
        raise ConfigException.of(name, ",".join(value or ())[:200], error.message) from None


def _names(name: str, doc: str) -> ConfigKey:
    return ConfigKey(name, Type.LIST, "", importance=_LOW, doc=doc)


REPLAY: Final = ConfigDef(
    ConfigKey("dead.letters.topic", Type.STRING, validator=NonEmptyString(), importance=_HIGH, doc="The dead letter queue."),
    ConfigKey("dead.letters.topic.id", Type.STRING, "", importance=_LOW, doc="The queue's id: one that was created anew begins anew."),
    ConfigKey(
        "dead.letters.connector",
        Type.STRING,
        validator=NonEmptyString(),
        importance=_HIGH,
        doc="The sink whose records are replayed: those whose context headers name it.",
    ),
    ConfigKey("dead.letters.replay", Type.STRING, "", importance=_LOW, doc="What identifies this replay among those of the sink."),
    ConfigKey(
        "dead.letters.until",
        Type.LIST,
        validator=ends,
        importance=_HIGH,
        doc="Where the replay ends in each partition, such as `0:120,1:30`: the offset behind the last record. "
        "Other partitions are not read.",
    ),
    ConfigKey(
        "dead.letters.offsets",
        Type.LIST,
        "",
        validator=ranges,
        doc="Only these records of the queue, such as `0:5-20,1:7`; both ends are included.",
    ),
    _names("dead.letters.from.topics", "Only records that failed on these topics."),
    _names("dead.letters.exceptions", "Only records that failed with these exceptions: class names, whole or their last part."),
    ConfigKey(
        "dead.letters.origins",
        Type.LIST,
        "",
        validator=origins,
        importance=_LOW,
        doc="The topics that the sink reads, with how many partitions each has, such as `orders:3`. Without a target topic, records of "
        "others are not replayed.",
    ),
    ConfigKey("dead.letters.target.topic", Type.STRING, "", doc="Where the records go; the topic on which each failed when empty."),
    ConfigKey(
        "dead.letters.edits",
        Type.PASSWORD,
        None,
        validator=edits,
        doc='Other keys and values, as JSON by partition and offset: `{"0:15": {"value": "…"}}`.',
    ),
    ConfigKey("dead.letters.hidden", Type.PASSWORD, None, importance=_LOW, doc="Texts that no message may have: secrets of the sink."),
    ConfigKey("dead.letters.hidden.variables", Type.PASSWORD, None, importance=_LOW, doc="Variables whose values no message may have."),
    ConfigKey(
        "dead.letters.decode",
        Type.BOOLEAN,
        False,
        importance=_LOW,
        doc="Decode keys and values by the connector's converters, so that transformations can change them.",
    ),
    ConfigKey(
        "dead.letters.origin",
        Type.BOOLEAN,
        False,
        importance=_LOW,
        doc="Give each record a first header that names the record of the queue that it was: for dry runs.",
    ),
)
"""The herder writes these settings for each replay; users do not."""
