"""Transformations and converters between a task's batches and Kafka's bytes. Knows nothing of clients, offsets or guarantees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.converter import ColumnRun, Converter, HeaderConverter
from airflow_provider_connect.sdk.records import SourceRecord
from airflow_provider_connect.sdk.transformation import Predicate, Transformation
from airflow_provider_connect.worker.kafka_reader import RawBatch
from airflow_provider_connect.worker.kafka_writer import EncodedBatch

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
        return [piece for run, chosen in _runs_of(batch, pc.invert(mask) if self.negate else mask) for piece in self._piece(run, chosen)]

    def _piece(self, run: Batch, chosen: bool) -> list[Batch]:
        return _listed(self.transformation.apply_batch(run)) if chosen else [run]


@dataclass(frozen=True, slots=True)
class SourcePipeline:
    """Polled batches to encoded ones: transformations, then key and value converters."""

    converters: Converters
    stages: Sequence[Stage] = field(default_factory=tuple)

    def batches(self, polled: Batch | Sequence[Batch] | Sequence[SourceRecord]) -> list[Batch]:
        """What ``poll`` returned, as batches."""
        if isinstance(polled, Batch):
            return [polled]
        batches: list[Batch] = []
        records: list[SourceRecord] = []
        for piece in polled:
            if isinstance(piece, Batch):
                batches.append(piece)
            else:
                records.append(piece)
        return batches or Batch.from_source_records(records, self.converters.header)

    def encode(self, batch: Batch) -> Iterator[EncodedBatch]:
        """The batch as bytes, in as many pieces as transformations made of it; pieces without records are left out."""
        for piece in _through(self.stages, [batch]):
            if piece.num_records:
                yield self._encoded(piece)

    def _encoded(self, batch: Batch) -> EncodedBatch:
        converters = self.converters
        timestamp = None if batch.timestamp is None else batch.timestamp.cast(pa.int64())
        return EncodedBatch(
            topic=batch.topic,
            num_records=batch.num_records,
            value=_encoded_column(converters.value, batch.topic, batch.value_schema, batch.value, batch.num_records),
            key=_encoded_column(converters.key, batch.topic, batch.key_schema, batch.key, batch.num_records),
            headers=batch.headers,
            timestamp=timestamp,
            kafka_partition=batch.kafka_partition,
        )


@dataclass(frozen=True, slots=True)
class SinkPipeline:
    """Raw batches to what ``put`` takes: key and value converters, then transformations."""

    converters: Converters
    stages: Sequence[Stage] = field(default_factory=tuple)

    @property
    def columns(self) -> frozenset[str]:
        """What has to be read besides the value. Tasks may declare less; a transformation may look at anything."""
        return ALL_COLUMNS

    def batches(self, raw: RawBatch) -> Iterator[Batch]:
        """Batches of one schema each, in order, which together cover the raw batch's offsets; some may have no records."""
        yield from _through(self.stages, self._decoded(raw))

    def _decoded(self, raw: RawBatch) -> Iterator[Batch]:
        topic = raw.partition.topic
        values = self.converters.value.to_connect_column(topic, raw.value)
        keys = [ColumnRun(raw.num_records, None, None)] if raw.key is None else self.converters.key.to_connect_column(topic, raw.key)
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
        for start, value, key in _common_runs(values, keys):
            yield _with_columns(marked.slice(start, value.length), value, key)


def _with_columns(batch: Batch, value: ColumnRun, key: ColumnRun) -> Batch:
    return batch.replace(value=value.column, value_schema=value.schema, key=key.column, key_schema=key.schema)


def _common_runs(values: Sequence[ColumnRun], keys: Sequence[ColumnRun]) -> Iterator[tuple[int, ColumnRun, ColumnRun]]:
    """Runs within which neither the value's nor the key's schema changes."""
    bounds = sorted({*_ends(values), *_ends(keys)})
    start = 0
    for end in bounds:
        if end > start:
            yield start, _cut(values, start, end), _cut(keys, start, end)
        start = end


def _ends(runs: Sequence[ColumnRun]) -> Iterator[int]:
    end = 0
    for run in runs:
        end += run.length
        yield end


def _cut(runs: Sequence[ColumnRun], start: int, end: int) -> ColumnRun:
    first = 0
    for run in runs:
        if start < first + run.length:
            column = None if run.column is None else run.column.slice(start - first, end - start)
            return ColumnRun(end - start, run.schema, column)
        first += run.length
    raise IndexError(start)


def _through(stages: Sequence[Stage], batches: Iterable[Batch]) -> Iterator[Batch]:
    for batch in batches:
        pieces = [batch]
        for stage in stages:
            pieces = [after for piece in pieces for after in stage.apply(piece)]
        yield from pieces


def _listed(batches: Batch | list[Batch] | None) -> list[Batch]:
    return [] if batches is None else batches if isinstance(batches, list) else [batches]


def _runs_of(batch: Batch, mask: pa.BooleanArray) -> Iterator[tuple[Batch, bool]]:
    """The batch cut wherever the mask changes: order is kept, and each run stays columnar."""
    flags = mask.fill_null(False).to_pylist()
    start = 0
    for index in range(1, len(flags) + 1):
        if index == len(flags) or flags[index] != flags[start]:
            yield batch.slice(start, index - start), flags[start]
            start = index


def _encoded_column(converter: Converter, topic: str, schema: object, column: pa.Array | None, length: int) -> pa.Array | None:
    if column is None and schema is None:
        return None
    given = column if column is not None else pa.nulls(length)
    return converter.from_connect_column(topic, schema, given)  # type: ignore[arg-type]
