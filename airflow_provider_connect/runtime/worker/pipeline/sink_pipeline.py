"""Converts Kafka's bytes to batches for ``put``: key and value converters, then transformations. Knows no clients, offsets or
guarantees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_connect.data.schema import Schema
from airflow_provider_connect.errors import DataException
from airflow_provider_connect.runtime.worker.delivery.raw_batch import RawBatch
from airflow_provider_connect.runtime.worker.errors.failures import ErrorStage, FailedRecord, Failure, Operation
from airflow_provider_connect.runtime.worker.errors.tolerance import Tolerance, is_whole
from airflow_provider_connect.runtime.worker.pipeline.stages import (
    COLUMNS,
    Converters,
    Range,
    Stage,
    cut,
    ranges_of,
    take,
    transform,
)
from airflow_provider_connect.sdk.batch import Batch, KafkaBatch
from airflow_provider_connect.sdk.config_def import class_name_of
from airflow_provider_connect.sdk.converter import ColumnRun, Converter, joined_runs

ALL_COLUMNS = frozenset({"key", "headers", "timestamp"})


@dataclass(frozen=True, slots=True)
class SinkPipeline:
    """Converts raw batches to batches for ``put``: key and value converters, then transformations. ``errors`` decides about records that
    fail. ``schemas`` gets the last schema of each topic's values, before transformations, for lineage. ``joins_nulls``: see
    ``SinkTask.allows_mixed_nulls``."""

    converters: Converters
    stages: Sequence[Stage] = field(default_factory=tuple)
    errors: Tolerance = field(default_factory=Tolerance)
    schemas: dict[str, Schema | None] = field(default_factory=dict)
    joins_nulls: bool = False

    def batches(self, raw: RawBatch) -> Iterator[Batch]:
        """Batches of one schema each, in order. Together they cover the raw batch's offsets. Some may have no records."""

        def record(batch: Batch, index: int) -> FailedRecord:
            return raw.original(batch, index)

        yield from transform(self.errors, self.stages, self._decoded(raw), record)

    def _decoded(self, raw: RawBatch) -> Iterator[Batch]:
        topic = raw.partition.topic
        raw = self._with_headers(raw)
        keys = [ColumnRun(raw.num_records, None, None)]
        if raw.key is not None:
            raw, keys, _ = self._runs(ErrorStage.KEY_CONVERTER, self.converters.key, raw, raw.key)
        raw, values, kept = self._runs(ErrorStage.VALUE_CONVERTER, self.converters.value, raw, raw.value)
        if kept is not None:
            keys = _take_runs(keys, kept)
        whole = KafkaBatch(
            topic,
            kafka_partition=raw.partition.partition,
            headers=raw.headers,
            timestamp=raw.timestamp,
            timestamp_type=raw.timestamp_type,
            first_offset=raw.first_offset,
            next_offset=raw.next_offset,
            kafka_offset=raw.offsets,
        )
        if values and values[-1].column is not None:
            self.schemas[topic] = values[-1].schema
        if self.joins_nulls and not self.stages:
            values = list(_with_nulls_joined(values))
        if len(values) == len(keys) == 1:
            yield _with_columns(whole, values[0], keys[0])
            return
        marked = whole.replace(value=raw.value)  # a column for slicing, replaced run by run
        for start, value, key in _common_runs(values, keys):
            yield _with_columns(marked.slice(start, value.length), value, key)

    def _with_headers(self, raw: RawBatch) -> RawBatch:
        """The batch without the records whose headers are unreadable."""
        if raw.headers is None or not raw.headers.null_count:
            return raw
        operation = Operation(ErrorStage.HEADER_CONVERTER, class_name_of(type(self.converters.header)))
        unreadable = pc.indices_nonzero(raw.headers.is_null()).to_pylist()
        for index in unreadable:
            record = raw.record(index)
            error = DataException(
                f"The headers of {record.description()} cannot be read: the name of one is not UTF-8, or they are too many"
            )
            self.errors.failed(Failure(operation, error, record))
        return _take_raw(raw, _ranges_without(raw.num_records, unreadable))

    def _runs(
        self, stage: ErrorStage, converter: Converter, raw: RawBatch, column: pa.Array
    ) -> tuple[RawBatch, list[ColumnRun], list[Range] | None]:
        """The remaining batch, its column in runs of one schema, and the ranges of the remaining records. None: all of them."""
        count = raw.num_records
        if not count:
            return raw, [], None
        operation = Operation(stage, class_name_of(type(converter)))
        broken = converter.find_invalid_rows(raw.partition.topic, column)
        if broken:
            for index, error in sorted(broken.items(), key=itemgetter(0)):
                self.errors.failed(Failure(operation, error, raw.record(index)))
            ranges = _ranges_without(count, sorted(broken))
            left, runs, kept = self._converted(operation, converter, _take_raw(raw, ranges), take(column, ranges))
            return left, runs, ranges if kept is None else _narrowed(ranges, kept)
        return self._converted(operation, converter, raw, column)

    def _converted(
        self, operation: Operation, converter: Converter, raw: RawBatch, column: pa.Array
    ) -> tuple[RawBatch, list[ColumnRun], list[Range] | None]:
        """As ``_runs``, in smaller parts if records fail."""
        count = raw.num_records
        parts = self.errors.parts(
            operation,
            count,
            lambda start, length: converter.to_connect_column(raw.partition.topic, cut(column, start, length)),
            raw.record,
        )
        if is_whole(parts, count):
            return raw, parts[0].result, None
        ranges = ranges_of(parts)
        return _take_raw(raw, ranges), joined_runs(run for part in parts for run in part.result), ranges


def _with_columns(batch: Batch, value: ColumnRun, key: ColumnRun) -> Batch:
    return batch.replace(value=value.column, value_schema=value.schema, key=key.column, key_schema=key.schema)


def _ranges_without(count: int, left_out: Iterable[int]) -> list[Range]:
    """The ranges of ``count`` records, without the records in ``left_out``. ``left_out`` is sorted."""
    ranges: list[Range] = []
    start = 0
    for index in (*left_out, count):
        if index > start:
            ranges.append((start, index - start))
        start = index + 1
    return ranges


def _narrowed(ranges: Sequence[Range], kept: Sequence[Range]) -> list[Range]:
    """Translate ``kept`` to indexes in the whole batch. ``kept`` counts only the records of ``ranges``."""
    found: list[Range] = []
    for start, length in kept:
        first = 0
        for begin, count in ranges:
            low, high = max(start, first), min(start + length, first + count)
            if low < high:
                found.append((begin + low - first, high - low))
            first += count
    return found


def _take_raw(raw: RawBatch, ranges: Sequence[Range]) -> RawBatch:
    """These records of a raw batch. The range of offsets that the batch covers does not change."""
    if ranges == [(0, raw.num_records)]:
        return raw
    columns = {name: None if (column := getattr(raw, name)) is None else take(column, ranges) for name in COLUMNS}
    return RawBatch(
        raw.partition,
        raw.first_offset,
        raw.next_offset,
        **columns,
        timestamp_type=raw.timestamp_type,
        offsets=take(raw.offset_column(), ranges),
    )


def _take_runs(runs: Sequence[ColumnRun], ranges: Sequence[Range]) -> list[ColumnRun]:
    """These records of a column in runs. The ranges are in order."""
    found: list[ColumnRun] = []
    at, first = 0, 0  # a run, and its first record
    for start, length in ranges:
        while at < len(runs) and first < start + length:
            end = first + runs[at].length
            begin, stop = max(start, first), min(start + length, end)
            if begin < stop:
                found.append(_part(runs[at], begin - first, stop - begin))
            if end > start + length:
                break
            at, first = at + 1, end
    return joined_runs(found)


def _with_nulls_joined(runs: Iterable[ColumnRun]) -> Iterator[ColumnRun]:
    """Join consecutive runs whose schemas differ only in null, together with the records without a value between them."""
    group: list[ColumnRun] = []
    first: ColumnRun | None = None  # the first of the group with a schema
    for run in runs:
        is_null = run.schema is None and pa.types.is_null(run.column.type)
        if not is_null and (first is None or not _differ_in_null_alone(first, run)):
            if first is not None or run.schema is None:
                yield from _joined_with_nulls(group, first)
                group = []
            first = run
        group.append(run)
    yield from _joined_with_nulls(group, first)


def _differ_in_null_alone(one: ColumnRun, other: ColumnRun) -> bool:
    return one.schema is not None and one.schema.equals_but_for_null(other.schema) and bool(one.column.type == other.column.type)


def _joined_with_nulls(group: Sequence[ColumnRun], first: ColumnRun | None) -> Sequence[ColumnRun]:
    if len(group) < 2 or first is None or first.schema is None:
        return group
    columns = [run.column if run.schema is not None else pa.nulls(run.length, first.column.type) for run in group]
    return [ColumnRun(sum(run.length for run in group), first.schema.as_optional(), pa.concat_arrays(columns))]


def _common_runs(values: Sequence[ColumnRun], keys: Sequence[ColumnRun]) -> Iterator[tuple[int, ColumnRun, ColumnRun]]:
    """Runs within which neither the value's nor the key's schema changes, each with its first record. The columns cover the same
    records."""
    left_of_values, left_of_keys = (iter([run for run in runs if run.length]) for runs in (values, keys))
    value, key = next(left_of_values, None), next(left_of_keys, None)
    start, of_value, of_key = 0, 0, 0
    while value is not None and key is not None:
        length = min(value.length - of_value, key.length - of_key)
        yield start, _part(value, of_value, length), _part(key, of_key, length)
        start, of_value, of_key = start + length, of_value + length, of_key + length
        if of_value == value.length:
            value, of_value = next(left_of_values, None), 0
        if of_key == key.length:
            key, of_key = next(left_of_keys, None), 0


def _part(run: ColumnRun, start: int, length: int) -> ColumnRun:
    """``length`` values of the run, beginning at ``start``."""
    if length == run.length:
        return run
    return ColumnRun(length, run.schema, None if run.column is None else run.column.slice(start, length))
