"""The batch log: entries ↔ bytes. Kafka Connect has no such topic."""

from collections.abc import Iterator, Mapping

from airflow_provider_connect.data.records import Distance
from airflow_provider_connect.errors import DataException
from airflow_provider_connect.runtime.model.batches import MOST_DATASETS, BatchRecord, BatchReset, ConnectorType, Stay
from airflow_provider_connect.runtime.model.config_limits import LONGEST_NOTE, cut
from airflow_provider_connect.runtime.model.ids import ConnectorTaskId
from airflow_provider_connect.runtime.model.records import Unreadable
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.wire.compact_json import JsonValue, dumps, loads
from airflow_provider_connect.runtime.wire.record import Headers, WireRecord, integer_of, key_in_message, map_of, number_of, text_of


def key_bytes(task: ConnectorTaskId) -> bytes:
    """The key of a task's entry."""
    return dumps([task.connector, task.task])


def encode(record: BatchRecord | BatchReset) -> WireRecord:
    """The bytes of an entry. A BatchReset is a tombstone."""
    if isinstance(record, BatchReset):
        return WireRecord(key_bytes(record.task), None, [])
    value: dict[str, object] = {
        "run": record.run,
        "claim": str(record.claim),
        "type": str(record.type),
        "records": record.records,
        "bytes": record.bytes,
        "seconds": float(record.seconds),
        "cpu_seconds": float(record.cpu_seconds),
        "ranges": {topic: {str(number): list(span) for number, span in spans.items()} for topic, spans in record.ranges.items()},
        "next": {topic: {str(number): position for number, position in positions.items()} for topic, positions in record.next.items()},
    }
    if record.distance is not None:
        value["distance"] = list(record.distance)
    if record.topic_ids:
        value["topic_ids"] = dict(record.topic_ids)
    if record.failed:
        value |= {"failed": record.failed, "error": record.error}
    if record.destination:
        value["destination"] = record.destination
    if record.stay is not None:
        value["stay"] = str(record.stay)
    if record.datasets:
        value["datasets"] = [list(each) for each in record.datasets]
    return WireRecord(key_bytes(record.task), dumps(value), [])


def decode(
    key: bytes | None, value: bytes | None, headers: Headers | None = (), *, offset: int = -1, timestamp: int = -1
) -> BatchRecord | BatchReset | Unreadable:
    """The record's content, or the reason why it cannot be read. Never raises. Headers are ignored. ``timestamp`` is the record's
    timestamp, in ms."""
    try:
        if key is None:
            raise DataException("record has no key")
        match loads(key):
            case [str(connector), int(task)] if not isinstance(task, bool):
                return _entry(ConnectorTaskId(connector, task), value, offset, timestamp)
            case _:
                raise DataException('key must be ["«connector»",«task»]')
    except DataException as error:
        return Unreadable(f"{key_in_message(key)}: {error}", key, offset)


def _entry(task: ConnectorTaskId, value: bytes | None, offset: int, timestamp: int) -> BatchRecord | BatchReset:
    values = None if value is None else loads(value)
    if values is None:
        return BatchReset(task, offset)
    try:
        return _read(task, map_of(values, "value"), offset, timestamp)
    except ValueError as error:  # an invalid claim, type or partition
        raise DataException(f"entry cannot be read: {error}") from None


def _read(task: ConnectorTaskId, values: Mapping[str, JsonValue], offset: int, timestamp: int) -> BatchRecord:
    run, claim, kind = (text_of(values.get(name), name) for name in ("run", "claim", "type"))
    records, size = (integer_of(values.get(name), name) for name in ("records", "bytes"))
    seconds, cpu_seconds = (number_of(values.get(name), name) for name in ("seconds", "cpu_seconds"))
    ranges: dict[str, dict[int, tuple[int, int]]] = {}
    for topic, partition, span in _positions(values.get("ranges"), "ranges"):
        ranges.setdefault(topic, {})[partition] = _span(span)
    known: dict[str, dict[int, int]] = {}
    for topic, partition, position in _positions(values.get("next"), "next"):
        known.setdefault(topic, {})[partition] = integer_of(position, "next")
    measured = records, size, seconds, cpu_seconds
    distance = _distance(values.get("distance"))
    ids = {topic: cut(text_of(id, "topic id")) for topic, id in map_of(values.get("topic_ids", {}), "topic_ids").items()}
    failed, error = integer_of(values.get("failed", 0), "failed"), cut(text_of(values.get("error", ""), "error"), LONGEST_NOTE)
    written_to = cut(text_of(values.get("destination", ""), "destination"))
    stay = text_of(values.get("stay", ""), "stay")
    kept = Stay(stay) if stay else None, _datasets(values.get("datasets", []))
    found = *measured, ranges, known, distance, ids, failed, error, written_to, *kept, offset, timestamp
    return BatchRecord(task, run, Claim.parse(claim), ConnectorType(kind), *found)


def _datasets(value: JsonValue) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, list):
        raise DataException("datasets must be a list")
    found: list[tuple[str, str]] = []
    for each in value[:MOST_DATASETS]:
        match each:
            case [str(namespace), str(name)]:
                found.append((cut(namespace, LONGEST_NOTE), cut(name, LONGEST_NOTE)))
            case _:
                raise DataException("a dataset must be [namespace,name]")
    return tuple(found)


def _distance(value: JsonValue) -> Distance | None:
    match value:
        case None:
            return None
        case [left, unit]:
            return Distance(integer_of(left, "distance"), cut(text_of(unit, "unit of the distance")))
        case _:
            raise DataException("a distance must be [number,unit]")


def _span(value: JsonValue) -> tuple[int, int]:
    match value:
        case [first, after]:
            return integer_of(first, "first offset"), integer_of(after, "next offset")
        case _:
            raise DataException("a range must be [first,next]")


def _positions(value: JsonValue, name: str) -> Iterator[tuple[str, int, JsonValue]]:
    """Topic, partition and value."""
    for topic, partitions in map_of(value, name).items():
        for number, found in map_of(partitions, f"{name} of {topic}").items():
            yield topic, int(number), found
