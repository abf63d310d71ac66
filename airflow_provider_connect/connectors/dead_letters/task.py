"""The task of DeadLetterReplay: reads a queue up to fixed ends, and returns the selected records with the position after them.

The position lists the records that any replay has written. So no record is written twice, not even after a kill or with another selection.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from airflow_provider_connect.codecs.dead_letters import (
    MOST_RANGES,
    FailureContext,
    ReplayPosition,
    by_partition,
    origin_header,
    queue_partition,
    strip_context,
)
from airflow_provider_connect.connectors.dead_letters.selection import Selection, Target
from airflow_provider_connect.connectors.dead_letters.settings import parse_edits
from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import ConnectException, RetriableException
from airflow_provider_connect.sdk.batch import Batch, KafkaBatch
from airflow_provider_connect.sdk.config_def import Config
from airflow_provider_connect.sdk.record_columns import headers_type
from airflow_provider_connect.sdk.task import RangeReader, SourceTask

POLL_SECONDS: Final = 1.0
READ_TIMEOUT_SECONDS: Final = 60.0
_Edits = dict[tuple[int, int], dict[str, bytes | None]]


def end_offsets(config: Config) -> dict[int, int]:
    """The offset at which the replay ends, by partition."""
    return {partition: offsets.first or 0 for partition, offsets in by_partition(config["dead.letters.until"]).items()}


@dataclass(frozen=True, slots=True)
class DeadLetterRecord:
    """A record to replay: its ``offset`` in the queue, its index in the batch (``row``), and its ``target``."""

    row: int
    offset: int
    target: Target
    context: FailureContext

    @property
    def kind(self) -> tuple[Target, str | None, int | None]:
        """Target and origin. Consecutive records of one kind form a batch."""
        return self.target, self.context.topic, self.context.partition


class DeadLetterReplayTask(SourceTask):
    """The source partition is ``{"topic", "partition"}`` of the queue. For the source offset, see ``ReplayPosition``. Timestamps and the
    records' own headers do not change. A record returns to its original partition, unless its key was edited."""

    def start(self, config: Config) -> None:
        self._reader: RangeReader | None = None
        self._topic: str = config["dead.letters.topic"]
        self._selection = Selection.of(config)
        self._edits: _Edits = parse_edits(config["dead.letters.edits"])
        self._decode: Callable[[Batch], list[Batch]] | None = self.context.decode if config["dead.letters.decode"] else None
        self._adds_origin: bool = config["dead.letters.origin"]
        self._positions: dict[int, ReplayPosition] = {}
        self._decided_from: dict[int, int | None] = {}
        ranges: dict[TopicPartition, tuple[int, int]] = {}
        for partition, end in end_offsets(config).items():
            self._add_range(partition, end, config["dead.letters.topic.id"], config["dead.letters.replay"], ranges)
        self._ends = {at.partition: end for at, (_, end) in ranges.items()}
        self._last_read = time.monotonic()
        if any(start < end for start, end in ranges.values()):
            self._reader = self.context.read_ranges(None, ranges)

    def _add_range(self, partition: int, end: int, topic_id: str, replay: str, ranges: dict[TopicPartition, tuple[int, int]]) -> None:
        """Add the range of a partition. An interrupted replay continues at its position. A new replay starts at its first record."""
        offset = self.context.offset(queue_partition(self._topic, partition))
        position = ReplayPosition.of(offset, topic_id)
        if position.replay != replay or offset is None:
            first = self._selection.first(partition)
            position = replace(position, replay=replay, read=end if first is None else min(first, end), records=0)
        self._positions[partition] = position
        self._decided_from[partition] = position.read
        ranges[TopicPartition(self._topic, partition)] = (position.read, end)

    def poll(self) -> Sequence[Batch] | None:
        if self._reader is None:
            return self._last_positions() or None
        batches = self._reader.read(POLL_SECONDS)
        if batches:
            self._last_read = time.monotonic()
            return [piece for batch in batches for piece in self._replay_batch(batch)]
        if self._reader.exhausted:
            return self._last_positions() or None
        if time.monotonic() - self._last_read > READ_TIMEOUT_SECONDS:
            self._last_read = time.monotonic()
            raise RetriableException(
                f"The dead letter queue {self._topic} has sent nothing for {READ_TIMEOUT_SECONDS:g} s, although it has more records"
            )
        return []

    def stop(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _last_positions(self) -> list[Batch]:
        """Batches with the end positions, because transaction markers may follow the last records. Each position is returned once."""
        ended, self._ends = self._ends, {}
        for partition, end in ended.items():
            self._advance(partition, end)
        return [self._position_batch(partition) for partition in ended]

    def _replay_batch(self, batch: Batch) -> list[Batch]:
        """The selected records of a batch of the queue, followed by the position after the batch."""
        partition, behind = batch.topic_partition.partition, batch.next_offset
        assert behind is not None
        headers = [[(each["key"], each["value"]) for each in row or ()] for row in _rows(batch.headers, batch.num_records)]
        chosen = list(self._select(partition, batch.kafka_offsets.to_pylist(), headers))
        changed = self._apply_edits(batch, chosen, self._own_headers(partition, batch, headers))
        pieces = [
            piece for (target, *_), run in groupby(chosen, lambda record: record.kind) for piece in self._pieces(changed, target, list(run))
        ]
        position = self._positions[partition]
        self._positions[partition] = replace(position, records=position.records + len(chosen))
        self._advance(partition, behind)
        return [*pieces, self._position_batch(partition)]

    def _own_headers(
        self, partition: int, batch: Batch, headers: Sequence[list[tuple[str, bytes | None]]]
    ) -> list[list[tuple[str, bytes | None]]]:
        """The records' own headers; in a dry run, the record's partition and offset in the queue come first."""
        own = [strip_context(row) for row in headers]
        if not self._adds_origin:
            return own
        return [[(origin_header(partition, offset), None), *row] for offset, row in zip(batch.kafka_offsets.to_pylist(), own, strict=True)]

    def _select(
        self, partition: int, offsets: Sequence[int], headers: Sequence[list[tuple[str, bytes | None]]]
    ) -> Iterator[DeadLetterRecord]:
        """The records to write, in order. A record of the connector that is not selected ends a range of ``replayed``."""
        for row, offset in enumerate(offsets):
            context = FailureContext.of(headers[row])
            if not self._selection.is_from_connector(context) or offset in self._positions[partition].replayed:
                self._decided_from[partition] = offset if self._decided_from[partition] is None else self._decided_from[partition]
                continue
            target = self._selection.target(partition, offset, context)
            if target is None:
                self._advance(partition, offset)
                self._decided_from[partition] = None
                continue
            if self._decided_from[partition] is None:
                self._decided_from[partition] = offset
            is_rekeyed = "key" in self._edits.get((partition, offset), ())
            yield DeadLetterRecord(row, offset, replace(target, partition=None) if is_rekeyed else target, context)

    def _advance(self, partition: int, behind: int) -> None:
        """Record that all offsets before ``behind`` were read, and that the offsets since the last unselected record were replayed."""
        position, first = self._positions[partition], self._decided_from[partition]
        if first is not None:
            position.replayed.add(first, behind - 1)
        if len(position.replayed) > MOST_RANGES:
            raise ConnectException(
                f"The replayed records of {self._topic}-{partition} would form more than {MOST_RANGES} ranges of offsets: replay fewer "
                "records at once, or whole ranges"
            )
        self._positions[partition] = replace(position, read=max(position.read, behind))

    def _position_batch(self, partition: int) -> Batch:
        offset = self._positions[partition].to_offset()
        return Batch(self._topic, source_partition=queue_partition(self._topic, partition), source_offset=offset)

    def _apply_edits(self, batch: Batch, chosen: Sequence[DeadLetterRecord], headers: Sequence[list[tuple[str, bytes | None]]]) -> Batch:
        """``batch`` with edited keys and values, and without the headers that describe failures."""
        rows = {record.row for record in chosen}
        at = batch.topic_partition.partition
        edits = {
            row: edit
            for row, offset in enumerate(batch.kafka_offsets.to_pylist())
            if row in rows and (edit := self._edits.get((at, offset)))
        }
        changes: dict[str, object] = {
            "headers": pa.array([[{"key": key, "value": value} for key, value in row] for row in headers], headers_type())
        }
        for part in ("key", "value"):
            edited = {row: edit[part] for row, edit in edits.items() if part in edit}
            if edited:
                known = _rows(getattr(batch, part), batch.num_records)
                changes[part] = pa.array([edited.get(row, data) for row, data in enumerate(known)], pa.binary())
        return batch.replace(**changes)

    def _pieces(self, batch: Batch, target: Target, run: Sequence[DeadLetterRecord]) -> Iterator[Batch]:
        """Batches of consecutive records of one kind. Records are decoded with the partition on which they failed, so that errors name that
        partition."""
        rows = pa.array([record.row for record in run], pa.int64())
        columns = {
            name: None if (column := getattr(batch, name)) is None else column.take(rows)
            for name in ("value", "key", "headers", "timestamp")
        }
        if columns["value"] is None:
            columns["value"] = pa.nulls(len(run), pa.binary())
        first = run[0].context
        if self._decode is None:
            yield Batch(
                target.topic,
                **columns,
                value_schema=batch.value_schema,
                key_schema=batch.key_schema,
                kafka_partition=target.partition,
            )
            return
        offsets = [-1 if record.context.offset is None else record.context.offset for record in run]
        raw = KafkaBatch(
            first.topic or self._topic,
            **columns,
            value_schema=batch.value_schema,
            key_schema=batch.key_schema,
            kafka_partition=first.partition or 0,
            first_offset=offsets[0],
            next_offset=offsets[-1] + 1,
            kafka_offset=pa.array(offsets, pa.int64()),
            timestamp_type=batch.timestamp_type,
        )
        for piece in self._decode_records(raw, run):
            kept = {name: getattr(piece, name) for name in ("value", "key", "value_schema", "key_schema", "headers", "timestamp")}
            yield Batch(target.topic, **kept, kafka_partition=target.partition)

    def _decode_records(self, raw: KafkaBatch, run: Sequence[DeadLetterRecord]) -> list[Batch]:
        """Decode records. An error names the original record. A note adds the offsets in the queue, by which users select records."""
        assert self._decode is not None
        try:
            return self._decode(raw)
        except ConnectException as error:
            error.add_note(f"It is one of the records at offsets {run[0].offset} to {run[-1].offset} of the queue {self._topic}")
            raise


def _rows(column: pa.Array | None, count: int) -> list:  # type: ignore[type-arg]  # of the column's values
    return [None] * count if column is None else column.to_pylist()
