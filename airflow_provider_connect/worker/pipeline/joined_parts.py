"""Parts of columns and batches put together again, so that one bad record in a thousand does not leave a hundred small batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa

from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.converter import ColumnRun
from airflow_provider_connect.worker.delivery.kafka_reader import RawBatch
from airflow_provider_connect.worker.errors.bisection import Part

Result = TypeVar("Result")
Range = tuple[int, int]  # first record, how many
_COLUMNS = ("value", "key", "headers", "timestamp")


def ranges_of(parts: Iterable[Part[Result]]) -> list[Range]:
    """The records of these parts; neighbours are one range."""
    ranges: list[Range] = []
    for part in parts:
        if ranges and sum(ranges[-1]) == part.start:
            first, length = ranges.pop()
            ranges.append((first, length + part.length))
        else:
            ranges.append((part.start, part.length))
    return ranges


def ranges_without(count: int, left_out: Iterable[int]) -> list[Range]:
    """Of so many records all but some, which are given in their order."""
    ranges: list[Range] = []
    start = 0
    for index in (*left_out, count):
        if index > start:
            ranges.append((start, index - start))
        start = index + 1
    return ranges


def narrowed(ranges: Sequence[Range], kept: Sequence[Range]) -> list[Range]:
    """``kept`` counts among the records of ``ranges``: the same ones as the whole counts them."""
    found: list[Range] = []
    for start, length in kept:
        first = 0
        for begin, count in ranges:
            low, high = max(start, first), min(start + length, first + count)
            if low < high:
                found.append((begin + low - first, high - low))
            first += count
    return found


def taken(column: pa.Array, ranges: Sequence[Range]) -> pa.Array:
    """These records of a column."""
    if not ranges:
        return column.slice(0, 0)
    if ranges == [(0, len(column))]:
        return column
    return pa.concat_arrays([column.slice(start, length) for start, length in ranges])


def taken_raw(raw: RawBatch, ranges: Sequence[Range]) -> RawBatch:
    """These records of a raw batch. What it covers, its offsets, stays as it is."""
    if ranges == [(0, raw.num_records)]:
        return raw
    offsets = raw.offsets
    if offsets is None:
        offsets = _offsets_from(raw.first_offset, raw.num_records)
    columns = {name: None if (column := getattr(raw, name)) is None else taken(column, ranges) for name in _COLUMNS}
    return RawBatch(
        raw.partition, raw.first_offset, raw.next_offset, **columns, timestamp_type=raw.timestamp_type, offsets=taken(offsets, ranges)
    )


def taken_batch(batch: Batch, ranges: Sequence[Range]) -> Batch:
    """These records of a batch."""
    pieces = joined_batches([batch.slice(start, length) for start, length in ranges])
    return pieces[0] if pieces else batch.slice(0, 0)


def taken_runs(runs: Sequence[ColumnRun], ranges: Sequence[Range]) -> list[ColumnRun]:
    """These records of a column that is cut into runs."""
    found: list[ColumnRun] = []
    for start, length in ranges:
        first = 0
        for run in runs:
            begin, end = max(start, first), min(start + length, first + run.length)
            if begin < end:
                column = None if run.column is None else run.column.slice(begin - first, end - begin)
                found.append(ColumnRun(end - begin, run.schema, column))
            first += run.length
    return joined_runs(found)


def common_runs(values: Sequence[ColumnRun], keys: Sequence[ColumnRun]) -> Iterator[tuple[int, ColumnRun, ColumnRun]]:
    """Runs within which neither the value's nor the key's schema changes, each with its first record."""
    bounds = sorted({*_ends(values), *_ends(keys)})
    start = 0
    for end in bounds:
        if end > start:
            yield start, _run_at(values, start, end), _run_at(keys, start, end)
        start = end


def _ends(runs: Sequence[ColumnRun]) -> Iterator[int]:
    end = 0
    for run in runs:
        end += run.length
        yield end


def _run_at(runs: Sequence[ColumnRun], start: int, end: int) -> ColumnRun:
    return next(iter(taken_runs(runs, [(start, end - start)])))


def joined_runs(runs: Iterable[ColumnRun]) -> list[ColumnRun]:
    """Consecutive runs of one schema and one type as one run each."""
    groups: list[list[ColumnRun]] = []
    for run in runs:
        if groups and groups[-1][0].schema == run.schema and _type_of(groups[-1][0].column) == _type_of(run.column):
            groups[-1].append(run)
        else:
            groups.append([run])
    return [_joined_run(group) for group in groups]


def _joined_run(group: list[ColumnRun]) -> ColumnRun:
    if len(group) == 1:
        return group[0]
    column = None if group[0].column is None else pa.concat_arrays([run.column for run in group])
    return ColumnRun(sum(run.length for run in group), group[0].schema, column)


def joined_batches(batches: Sequence[Batch]) -> list[Batch]:
    """Consecutive batches as one each where topic, partition, schemas and columns agree."""
    groups: list[list[Batch]] = []
    for batch in batches:
        if groups and _kind_of(groups[-1][0]) == _kind_of(batch):
            groups[-1].append(batch)
        else:
            groups.append([batch])
    return [_joined_batch(group) for group in groups]


def _joined_batch(group: list[Batch]) -> Batch:
    first, last = group[0], group[-1]
    if len(group) == 1:
        return first
    columns = {name: pa.concat_arrays([getattr(b, name) for b in group]) for name in _COLUMNS if getattr(first, name) is not None}
    changes: dict[str, object] = {"source_offset": last.source_offset, "next_offset": last.next_offset, **columns}
    if first.is_from_kafka:
        changes["kafka_offset"] = pa.concat_arrays([_offsets_of(batch) for batch in group])
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
        batch.original_topic,
        batch.original_partition,
        *(_type_of(getattr(batch, name)) for name in _COLUMNS),
    )


def _type_of(column: pa.Array | None) -> pa.DataType | None:
    return None if column is None else column.type


def _source_offsets_of(batch: Batch) -> Sequence[Mapping[str, object] | None]:
    count = batch.num_records
    return batch.source_offsets if batch.source_offsets is not None else [None] * (count - 1) + [batch.source_offset] * min(count, 1)


def _offsets_of(batch: Batch) -> pa.Array:
    if batch.kafka_offset is not None:
        return batch.kafka_offset
    return _offsets_from(batch.first_offset or 0, batch.num_records)


def _offsets_from(first: int, count: int) -> pa.Array:
    return pa.array(np.arange(first, first + count, dtype=np.int64))
