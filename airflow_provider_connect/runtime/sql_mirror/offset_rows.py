"""Turns records of offsets topics and of the batch log into rows and history: source offsets, sink positions, deliveries of runs."""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.runtime.model.batches import BatchRecord, BatchReset, ConnectorType
from airflow_provider_connect.runtime.model.delivered import united
from airflow_provider_connect.runtime.model.ids import ConnectorTaskId
from airflow_provider_connect.runtime.model.offsets import OFFSET, OffsetRecord, sink_partition
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.sql_mirror.changes import Entry, Kind
from airflow_provider_connect.runtime.sql_mirror.rows import (
    Database,
    Row,
    Rows,
    is_claim,
    is_count,
    is_integer,
    is_name,
    json_text,
    optional,
    storable,
)
from airflow_provider_connect.runtime.sql_mirror.tables import batch, sink_position, source_offset
from airflow_provider_connect.runtime.stores.state_stream import StateRecord

_MOST_SECONDS = 1e9  # with this limit, sums fit into databases and JSON
_NOT_IN_BATCH_LOG = "the batch log no longer has it: offsets were altered or reset"


def take_offsets(database: Database, records: Sequence[StateRecord]) -> list[Entry]:
    """Apply the records to the rows of one offsets topic, in order. Returns the changes."""
    kept = [(record, value) for record in records if isinstance(value := record.value, OffsetRecord) and is_name(value.connector)]
    topics = source_offset.c.topic.in_({record.at.topic for record, _ in kept})
    rows = Rows(database, source_offset, source_offset.c.id, {offset_id(value) for _, value in kept}, topics)
    entries = []
    for record, value in kept:
        key = (record.at.topic, offset_id(value))
        known, offset = rows.now.get(key), optional(value.offset, json_text)
        old = None if known is None else known["source_offset"]
        if old == offset:
            continue
        partition = json_text(value.partition)
        claim = str(record.claim) if record.claim is not None and is_claim(record.claim) else None
        cause = (record.at, record.offset)
        who = optional(record.author, storable)
        entries.append(Entry(Kind.OFFSET, value.connector, record.timestamp, cause, partition, old, offset, who, claim))
        if offset is None:
            del rows.now[key]
        else:
            row = {"connector": value.connector, "source_partition": partition, "source_offset": offset, "changed_ms": record.timestamp}
            rows.put({"topic": key[0], "id": key[1], **row})
    rows.write(database)
    return entries


def offset_id(record: OffsetRecord) -> str:
    """A digest of the record's key."""
    return hashlib.sha256(record.key).hexdigest()


def offset_ids(records: Iterable[StateRecord]) -> set[tuple[str, str]]:
    """The keys of the rows for ``records``, which are all records of the topic."""
    held: dict[tuple[str, str], bool] = {}
    for record in records:
        if isinstance(record.value, OffsetRecord):
            held[record.at.topic, offset_id(record.value)] = record.value.offset is not None
    return {key for key, is_held in held.items() if is_held}


def take_batches(database: Database, records: Sequence[StateRecord]) -> list[Entry]:
    """Apply the records of the batch log to metrics and sink positions, in order. Returns the changed positions."""
    kept = [(record, value) for record in records if (value := _kept_batch(record.value)) is not None]
    metrics = Rows(database, batch, batch.c.claim, {str(value.claim) for _, value in kept if isinstance(value, BatchRecord)})
    positions = _Positions(database, {value.task.connector for _, value in kept})
    entries = []
    for record, value in kept:
        if isinstance(value, BatchRecord):
            metrics.put(_metrics(record, value, metrics.now.get((*value.task, str(value.claim)))))
        entries += positions.moved(record, value)
    metrics.write(database)
    positions.rows.write(database)
    return entries


def batch_tasks(records: Iterable[StateRecord]) -> set[ConnectorTaskId]:
    """The tasks with an entry in the batch log. ``records`` are all of its records."""
    held: dict[ConnectorTaskId, bool] = {}
    for record in records:
        if (value := _kept_batch(record.value)) is not None:
            held[value.task] = isinstance(value, BatchRecord)
    return {task for task, is_held in held.items() if is_held}


def _kept_batch(value: object) -> BatchRecord | BatchReset | None:
    """The record, if every database can store it. None: the record is not mirrored."""
    match value:
        case BatchRecord():
            names = [value.task.connector, value.run, *value.next]
            numbers = [value.task.task, *(number for numbers in value.next.values() for number in numbers)]
            counts, times = (value.records, value.bytes, value.failed), (value.seconds, value.cpu_seconds)
            is_measured = all(map(is_count, counts)) and all(map(_is_time, times))
            is_kept = is_claim(value.claim) and is_measured and all(map(is_name, names)) and all(map(is_integer, numbers))
            return value if is_kept else None
        case BatchReset():
            return value if is_name(value.task.connector) and is_integer(value.task.task) else None
        case _:
            return None


def _is_time(seconds: float) -> bool:
    return 0 <= seconds <= _MOST_SECONDS


def _metrics(record: StateRecord, value: BatchRecord, known: Row | None) -> Row:
    ranges = {topic: {str(number): list(span) for number, span in spans.items()} for topic, spans in value.ranges.items()}
    if known is not None and value.stay is not None:
        ranges = united(json.loads(known["ranges"]), ranges)
    return {
        "connector": value.task.connector,
        "task": value.task.task,
        "claim": str(value.claim),
        "type": str(value.type),
        **{name: getattr(value, name) for name in ("run", "records", "bytes", "seconds", "cpu_seconds", "failed")},
        "ranges": json_text(ranges),
        "first_ms": record.timestamp if known is None else known["first_ms"],
        "last_ms": record.timestamp,
        "stay": optional(value.stay, str),
        "datasets": json_text([list(map(storable, each)) for each in value.datasets]) if value.datasets else None,
        "is_pending": value.stay is not None,
    }


class _Positions:
    """The positions of some sinks. Each task has its own rows. For a partition that moved between tasks, the row of the newest claim is
    used."""

    def __init__(self, database: Database, connectors: Collection[str]) -> None:
        self.rows = Rows(database, sink_position, sink_position.c.connector, connectors)
        self._by_task: dict[ConnectorTaskId, dict[TopicPartition, Row]] = {}
        self._by_partition: dict[tuple[str, TopicPartition], dict[int, Row]] = {}
        for row in self.rows.now.values():
            self._index(row)

    def _index(self, row: Row) -> None:
        at, task = TopicPartition(row["topic"], row["kafka_partition"]), ConnectorTaskId(row["connector"], row["task"])
        self._by_task.setdefault(task, {})[at] = row
        self._by_partition.setdefault((task.connector, at), {})[task.task] = row

    def moved(self, record: StateRecord, value: BatchRecord | BatchReset) -> list[Entry]:
        """Replace all positions of the task by the positions in the entry. A reset entry has no positions."""
        wanted = _positions(value.next) if isinstance(value, BatchRecord) and value.type is ConnectorType.SINK else {}
        entries = []
        for at in sorted({*self._by_task.get(value.task, ()), *wanted}):
            old = self._position(value.task.connector, at)
            self._set(record, value, at, wanted.get(at))
            new = self._position(value.task.connector, at)
            if old != new:
                entries.append(_moved(record, value, at, old, new))
        return entries

    def _position(self, connector: str, at: TopicPartition) -> int | None:
        rows = self._by_partition.get((connector, at), {}).values()
        return max(((Claim.parse(row["claim"]), row["position"]) for row in rows), default=(None, None))[1]

    def _set(self, record: StateRecord, value: BatchRecord | BatchReset, at: TopicPartition, new: int | None) -> None:
        connector, task = value.task
        if new is None or not isinstance(value, BatchRecord):
            del self.rows.now[connector, task, *at]
            del self._by_task[value.task][at], self._by_partition[connector, at][task]
            return
        known = self._by_task.get(value.task, {}).get(at)
        moved_ms = record.timestamp if known is None or known["position"] != new else known["changed_ms"]
        row = {"connector": connector, "task": task, "topic": at.topic, "kafka_partition": at.partition, "position": new}
        row |= {"claim": str(value.claim), "changed_ms": moved_ms}
        self.rows.put(row)
        self._index(row)


def _moved(record: StateRecord, value: BatchRecord | BatchReset, at: TopicPartition, old: int | None, new: int | None) -> Entry:
    return Entry(
        Kind.OFFSET,
        value.task.connector,
        record.timestamp,
        (record.at, record.offset),
        json_text(sink_partition(*at)),
        _offset(old),
        _offset(new),
        who=optional(record.author, storable),
        claim=str(value.claim) if isinstance(value, BatchRecord) else None,
        note=None if isinstance(value, BatchRecord) else _NOT_IN_BATCH_LOG,
    )


def _positions(known: Mapping[str, Mapping[int, int]]) -> dict[TopicPartition, int]:
    return {TopicPartition(topic, number): position for topic, numbers in known.items() for number, position in numbers.items()}


def _offset(position: int | None) -> str | None:
    return None if position is None else json_text({OFFSET: position})
