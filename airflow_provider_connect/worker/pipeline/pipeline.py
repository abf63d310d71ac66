"""Transformations and converters between a task's batches and Kafka's bytes. Knows nothing of clients, offsets or guarantees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.converter import ColumnRun, Converter, HeaderConverter
from airflow_provider_connect.sdk.plugin import class_name_of
from airflow_provider_connect.sdk.records import SourceRecord
from airflow_provider_connect.sdk.schema import Schema
from airflow_provider_connect.sdk.transformation import Predicate, Transformation
from airflow_provider_connect.worker.delivery.consumed_records import consumed, consumed_at, offset_at
from airflow_provider_connect.worker.delivery.kafka_reader import RawBatch
from airflow_provider_connect.worker.delivery.kafka_writer import EncodedBatch
from airflow_provider_connect.worker.errors.failures import ErrorStage, FailedRecord, Failure, Operation, ReadRecord
from airflow_provider_connect.worker.errors.tolerance import Tolerance, is_whole
from airflow_provider_connect.worker.pipeline.joined_parts import (
    Range,
    common_runs,
    joined_batches,
    joined_runs,
    narrowed,
    ranges_of,
    ranges_without,
    taken,
    taken_batch,
    taken_raw,
    taken_runs,
)

ALL_COLUMNS = frozenset({"key", "headers", "timestamp"})


@dataclass(frozen=True, slots=True)
class Converters:
    """The three converters of one task, configured."""

    key: Converter
    value: Converter
    header: HeaderConverter


@dataclass(frozen=True, slots=True)
class Stage:
    """One transformation, and for which records: all, or those of which ``predicate`` is true (``negate``: is not)."""

    transformation: Transformation
    predicate: Predicate | None = None
    negate: bool = False

    def apply(self, batch: Batch) -> list[Batch]:
        if self.predicate is None or not batch.num_records:
            return _listed(self.transformation.apply_batch(batch))
        mask = self.predicate.test_batch(batch)
        chosen = (pc.invert(mask) if self.negate else mask).fill_null(False)
        if self.transformation.drops_all:
            kept = batch.filter(pc.invert(chosen))
            return [kept] if kept.num_records else []
        pieces: list[Batch] = []
        start = 0
        for run, is_chosen in _runs_of(batch, chosen):
            pieces += self._changed(run, start) if is_chosen else [run]
            start += run.num_records
        return pieces if len(pieces) == 1 else joined_batches(pieces)

    def _changed(self, run: Batch, start: int) -> list[Batch]:
        """The run that begins with record ``start``, which an error counts its record from."""
        try:
            return _listed(self.transformation.apply_batch(run))
        except DataException as error:
            if error.record is not None:
                error.record += start
            raise


@dataclass(frozen=True, slots=True)
class SourcePipeline:
    """Polled batches to encoded ones: transformations, then key and value converters. ``errors`` decides about records that fail."""

    converters: Converters
    stages: Sequence[Stage] = field(default_factory=tuple)
    errors: Tolerance = field(default_factory=Tolerance)

    def batches(self, polled: Batch | Sequence[Batch] | Sequence[SourceRecord]) -> list[Batch]:
        """What ``poll`` returned, as batches."""
        if isinstance(polled, Batch):
            return [polled]
        batches: list[Batch] = []
        records: list[SourceRecord] = []
        for piece in polled:  # a task may mix the two; what it returned first goes first
            if isinstance(piece, Batch):
                batches += [*self._in_columns(records), piece]
                records = []
            else:
                records.append(piece)
        return [*batches, *self._in_columns(records)]

    def encode(self, batch: Batch) -> Iterator[EncodedBatch]:
        """The batch as bytes, in as many pieces as transformations made of it; pieces without records are left out."""
        for _, encoded in self.pieces(batch):
            yield encoded

    def pieces(self, batch: Batch) -> Iterator[tuple[Batch, EncodedBatch]]:
        """As ``encode``, with what each piece was before the converters; without the records that failed there."""
        if not batch.num_records:
            return
        for piece in _through(self.errors, self.stages, [batch], self._read):
            if piece.num_records:
                yield from self._encoded(piece)

    def _in_columns(self, records: Sequence[SourceRecord]) -> list[Batch]:
        """Records whose values do not fit their schemas fail here; batches without records say how far the source has come with them."""
        if not records:
            return []
        header = self.converters.header
        parts = self.errors.parts(
            Operation(ErrorStage.VALUE_CONVERTER, class_name_of(type(self.converters.value))),
            len(records),
            lambda start, length: Batch.from_source_records(records[start : start + length], header),
            lambda index: ReadRecord(records[index].topic, lambda: records[index]),
        )
        if is_whole(parts, len(records)):
            return parts[0].result
        batches: list[Batch] = []
        end = 0
        for part in parts:
            batches += [*_positions(records[end : part.start]), *part.result]
            end = part.start + part.length
        return joined_batches([*batches, *_positions(records[end:])])

    def _encoded(self, batch: Batch) -> Iterator[tuple[Batch, EncodedBatch]]:
        """One piece, or none where no record of it can be converted."""
        converters = self.converters
        key, kept = self._column(ErrorStage.KEY_CONVERTER, converters.key, batch, batch.key_schema, batch.key)
        if kept is not None:
            batch = taken_batch(batch, kept)
        value, kept = self._column(ErrorStage.VALUE_CONVERTER, converters.value, batch, batch.value_schema, batch.value)
        if kept is not None:
            batch, key = taken_batch(batch, kept), None if key is None else taken(key, kept)
        if not batch.num_records:
            return
        encoded = EncodedBatch(
            topic=batch.topic,
            num_records=batch.num_records,
            value=value,
            key=key,
            headers=batch.headers,
            timestamp=None if batch.timestamp is None else batch.timestamp.cast(pa.int64()),
            kafka_partition=batch.kafka_partition,
        )
        yield batch, encoded

    def _column(
        self, stage: ErrorStage, converter: Converter, batch: Batch, schema: Schema | None, column: pa.Array | None
    ) -> tuple[pa.Array | None, list[Range] | None]:
        """A column as bytes, and which records are left of the batch; None: all of them."""
        count = batch.num_records
        if (column is None and schema is None) or not count:
            return None, None
        given = column if column is not None else pa.nulls(count)
        parts = self.errors.parts(
            Operation(stage, class_name_of(type(converter))),
            count,
            lambda start, length: converter.from_connect_column(batch.topic, schema, _cut(given, start, length)),
            lambda index: self._read(batch, index),
        )
        if is_whole(parts, count):
            return parts[0].result, None
        found = pa.concat_arrays([part.result for part in parts]) if parts else pa.array([], pa.binary())
        return found, ranges_of(parts)

    def _read(self, batch: Batch, index: int) -> FailedRecord:
        """A record as the failing step was given it."""
        return ReadRecord(batch.topic, lambda: batch.slice(index, 1).source_records(self.converters.header)[0])


@dataclass(frozen=True, slots=True)
class SinkPipeline:
    """Raw batches to what ``put`` takes: key and value converters, then transformations. ``errors`` decides about records that fail."""

    converters: Converters
    stages: Sequence[Stage] = field(default_factory=tuple)
    errors: Tolerance = field(default_factory=Tolerance)

    @property
    def columns(self) -> frozenset[str]:
        """What has to be read besides the value. Tasks may declare less; a transformation may look at anything."""
        return ALL_COLUMNS

    def batches(self, raw: RawBatch) -> Iterator[Batch]:
        """Batches of one schema each, in order, which together cover the raw batch's offsets; some may have no records."""

        def record(batch: Batch, index: int) -> FailedRecord:
            return consumed_at(raw, offset_at(batch, index))

        yield from _through(self.errors, self.stages, self._decoded(raw), record)

    def _decoded(self, raw: RawBatch) -> Iterator[Batch]:
        topic = raw.partition.topic
        keys = [ColumnRun(raw.num_records, None, None)]
        if raw.key is not None:
            raw, keys, _ = self._runs(ErrorStage.KEY_CONVERTER, self.converters.key, raw, raw.key)
        raw, values, kept = self._runs(ErrorStage.VALUE_CONVERTER, self.converters.value, raw, raw.value)
        if kept is not None:
            keys = taken_runs(keys, kept)
        whole = Batch(
            topic,
            kafka_partition=raw.partition.partition,
            headers=raw.headers,
            timestamp=raw.timestamp,
            timestamp_type=raw.timestamp_type,
            first_offset=raw.first_offset,
            next_offset=raw.next_offset,
            kafka_offset=raw.offsets,
        )
        if len(values) == len(keys) == 1:
            yield _with_columns(whole, values[0], keys[0])
            return
        marked = whole.replace(value=raw.value)  # a column to slice by; replaced run by run
        for start, value, key in common_runs(values, keys):
            yield _with_columns(marked.slice(start, value.length), value, key)

    def _runs(
        self, stage: ErrorStage, converter: Converter, raw: RawBatch, column: pa.Array
    ) -> tuple[RawBatch, list[ColumnRun], list[Range] | None]:
        """What is left of the batch, its column in runs of one schema, and which records these are; None: all of them."""
        count = raw.num_records
        if not count:
            return raw, [], None
        operation = Operation(stage, class_name_of(type(converter)))
        broken = converter.unreadable(raw.partition.topic, column)
        if broken:
            for index, error in sorted(broken.items(), key=itemgetter(0)):
                self.errors.failed(Failure(operation, error, consumed(raw, index)))
            ranges = ranges_without(count, sorted(broken))
            left, runs, kept = self._converted(operation, converter, taken_raw(raw, ranges), taken(column, ranges))
            return left, runs, ranges if kept is None else narrowed(ranges, kept)
        return self._converted(operation, converter, raw, column)

    def _converted(
        self, operation: Operation, converter: Converter, raw: RawBatch, column: pa.Array
    ) -> tuple[RawBatch, list[ColumnRun], list[Range] | None]:
        """As ``_runs``, record by record where that must be."""
        count = raw.num_records
        parts = self.errors.parts(
            operation,
            count,
            lambda start, length: converter.to_connect_column(raw.partition.topic, _cut(column, start, length)),
            lambda index: consumed(raw, index),
        )
        if is_whole(parts, count):
            return raw, parts[0].result, None
        ranges = ranges_of(parts)
        return taken_raw(raw, ranges), joined_runs(run for part in parts for run in part.result), ranges


def _with_columns(batch: Batch, value: ColumnRun, key: ColumnRun) -> Batch:
    return batch.replace(value=value.column, value_schema=value.schema, key=key.column, key_schema=key.schema)


def _positions(dropped: Sequence[SourceRecord]) -> list[Batch]:
    """Batches without records for records that were dropped."""
    return [Batch(r.topic, source_partition=r.source_partition, source_offset=r.source_offset) for r in dropped]


def _cut(column: pa.Array, start: int, length: int) -> pa.Array:
    return column if length == len(column) else column.slice(start, length)


def _through(
    errors: Tolerance, stages: Sequence[Stage], batches: Iterable[Batch], record: Callable[[Batch, int], FailedRecord]
) -> Iterator[Batch]:
    for batch in batches:
        pieces = [batch]
        for number, stage in enumerate(stages):
            pieces = [after for piece in pieces for after in _after(errors, number, stage, piece, record)]
        yield from pieces


def _after(errors: Tolerance, number: int, stage: Stage, batch: Batch, record: Callable[[Batch, int], FailedRecord]) -> list[Batch]:
    """What one transformation makes of a batch, without the records that it fails for."""
    count = batch.num_records
    if not count:
        return stage.apply(batch)
    parts = errors.parts(
        Operation(ErrorStage.TRANSFORMATION, class_name_of(type(stage.transformation)), number),
        count,
        lambda start, length: stage.apply(batch if length == count else batch.slice(start, length)),
        lambda index: record(batch, index),
    )
    if is_whole(parts, count):
        return parts[0].result
    return joined_batches([piece for part in parts for piece in part.result if piece.num_records])


def _listed(batches: Batch | list[Batch] | None) -> list[Batch]:
    return [] if batches is None else batches if isinstance(batches, list) else [batches]


def _runs_of(batch: Batch, mask: pa.BooleanArray) -> Iterator[tuple[Batch, bool]]:
    """The batch cut wherever the mask changes: order is kept, and each run stays columnar."""
    flags = mask.to_pylist()
    start = 0
    for index in range(1, len(flags) + 1):
        if index == len(flags) or flags[index] != flags[start]:
            yield batch.slice(start, index - start), flags[start]
            start = index
