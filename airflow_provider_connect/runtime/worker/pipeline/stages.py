"""The steps of both pipelines: converters, transformations, and joining parts of columns and batches.

Parts are joined so that one bad record in a thousand does not leave a hundred small batches. Knows nothing of clients or Kafka's bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_connect.errors import DataException
from airflow_provider_connect.runtime.worker.errors.failures import ErrorStage, FailedRecord, Operation
from airflow_provider_connect.runtime.worker.errors.tolerance import Part, Tolerance, is_whole
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import class_name_of
from airflow_provider_connect.sdk.converter import Converter, HeaderConverter
from airflow_provider_connect.sdk.transformations import Predicate, Transformation

Range = tuple[int, int]  # first record, number of records
COLUMNS = ("value", "key", "headers", "timestamp")


@dataclass(frozen=True, slots=True)
class Converters:
    """The three converters of one task, configured."""

    key: Converter
    value: Converter
    header: HeaderConverter


@dataclass(frozen=True, slots=True)
class Stage:
    """One transformation. It applies to all records, or to records for which ``predicate`` is true (with ``negate``: false)."""

    transformation: Transformation
    predicate: Predicate | None = None
    negate: bool = False

    def chosen(self, batch: Batch) -> pa.BooleanArray | None:
        """The records to which the stage applies. None: all."""
        if self.predicate is None or not batch.num_records:
            return None
        mask = self.predicate.test_batch(batch)
        return (pc.invert(mask) if self.negate else mask).fill_null(False)

    def apply(self, batch: Batch) -> list[Batch]:
        chosen = self.chosen(batch)
        if chosen is None:
            return _listed(self.transformation.apply_batch(batch))
        if self.transformation.drops_all:
            kept = batch.filter(pc.invert(chosen))
            return [kept] if kept.num_records else []
        pieces: list[Batch] = []
        start = 0
        for run, is_chosen in _runs_of(batch, chosen):
            pieces += self._changed(run, start) if is_chosen else [run]
            start += run.num_records
        return pieces if len(pieces) == 1 else join_batches(pieces)

    def _changed(self, run: Batch, start: int) -> list[Batch]:
        """Transform the part of the batch that begins with record ``start``. The record index of an error refers to the batch."""
        try:
            return _listed(self.transformation.apply_batch(run))
        except DataException as error:
            if error.record is not None:
                error.record += start
            raise


def transform(
    errors: Tolerance, stages: Sequence[Stage], batches: Iterable[Batch], record: Callable[[Batch, int], FailedRecord]
) -> Iterator[Batch]:
    """Pass each batch through the stages, without the records that fail in a stage."""
    for batch in batches:
        pieces = [batch]
        for number, stage in enumerate(stages):
            pieces = [after for piece in pieces for after in _after(errors, number, stage, piece, record)]
        yield from pieces


def _after(errors: Tolerance, number: int, stage: Stage, batch: Batch, record: Callable[[Batch, int], FailedRecord]) -> list[Batch]:
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
    return join_batches([piece for part in parts for piece in part.result if piece.num_records])


def _listed(batches: Batch | list[Batch] | None) -> list[Batch]:
    return [] if batches is None else batches if isinstance(batches, list) else [batches]


def _runs_of(batch: Batch, mask: pa.BooleanArray) -> Iterator[tuple[Batch, bool]]:
    """The batch split wherever the mask changes. Order is kept, and each run stays columnar."""
    flags = mask.to_pylist()
    start = 0
    for index in range(1, len(flags) + 1):
        if index == len(flags) or flags[index] != flags[start]:
            yield batch.slice(start, index - start), flags[start]
            start = index


def ranges_of(parts: Iterable[Part[Any]]) -> list[Range]:  # Any: their results are not read
    """The records of these parts. Adjacent ones are merged into one range."""
    ranges: list[Range] = []
    for part in parts:
        if ranges and sum(ranges[-1]) == part.start:
            first, length = ranges.pop()
            ranges.append((first, length + part.length))
        else:
            ranges.append((part.start, part.length))
    return ranges


def cut(column: pa.Array, start: int, length: int) -> pa.Array:
    return column if length == len(column) else column.slice(start, length)


def take(column: pa.Array, ranges: Sequence[Range]) -> pa.Array:
    """These records of a column."""
    if not ranges:
        return column.slice(0, 0)
    if ranges == [(0, len(column))]:
        return column
    return pa.concat_arrays([column.slice(start, length) for start, length in ranges])


def take_records(batch: Batch, ranges: Sequence[Range]) -> Batch:
    """These records of a batch."""
    pieces = join_batches([batch.slice(start, length) for start, length in ranges])
    return pieces[0] if pieces else batch.slice(0, 0)


def join_batches(batches: Sequence[Batch]) -> list[Batch]:
    """Join consecutive batches if topic, partition, schemas and columns agree."""
    return [_join_batch(list(group)) for _, group in groupby(batches, _kind_of)]


def _join_batch(group: list[Batch]) -> Batch:
    first, last = group[0], group[-1]
    if len(group) == 1:
        return first
    columns = {name: pa.concat_arrays([getattr(b, name) for b in group]) for name in COLUMNS if getattr(first, name) is not None}
    changes: dict[str, object] = {"source_offset": last.source_offset, **columns}
    if first.is_from_kafka:
        changes |= {"next_offset": last.next_offset, "kafka_offset": pa.concat_arrays([batch.kafka_offsets for batch in group])}
    if any(batch.source_offsets is not None for batch in group):
        changes["source_offsets"] = [offset for batch in group for offset in _source_offsets_of(batch)]
    return first.replace(**changes)


def _kind_of(batch: Batch) -> tuple[object, ...]:
    return (
        batch.topic,
        batch.kafka_partition,
        batch.source_partition,
        batch.key_schema,
        batch.value_schema,
        batch.timestamp_type,
        batch.topic_partition,
        batch.is_from_kafka,
        *(type_of(getattr(batch, name)) for name in COLUMNS),
    )


def type_of(column: pa.Array | None) -> pa.DataType | None:
    return None if column is None else column.type


def _source_offsets_of(batch: Batch) -> Sequence[Mapping[str, object] | None]:
    count = batch.num_records
    return batch.source_offsets if batch.source_offsets is not None else [None] * (count - 1) + [batch.source_offset] * min(count, 1)
