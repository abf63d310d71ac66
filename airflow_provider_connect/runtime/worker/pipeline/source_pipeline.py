"""Converts polled records to Kafka's bytes: transformations, then key and value converters. Knows no clients, offsets or guarantees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_connect.data.records import SourceRecord
from airflow_provider_connect.data.schema import Schema
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.worker.delivery.encoded_batch import EncodedBatch
from airflow_provider_connect.runtime.worker.errors.failures import ErrorStage, FailedRecord, Operation, ReadRecord
from airflow_provider_connect.runtime.worker.errors.tolerance import Tolerance, is_whole
from airflow_provider_connect.runtime.worker.pipeline.stages import (
    Converters,
    Range,
    Stage,
    cut,
    join_batches,
    ranges_of,
    take,
    take_records,
    transform,
)
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import class_name_of
from airflow_provider_connect.sdk.converter import Converter


@dataclass(frozen=True, slots=True)
class SourcePipeline:
    """Converts polled batches to encoded ones: transformations, then key and value converters. ``errors`` decides about records that fail.
    ``schemas`` gets the last schema of each topic's values, for lineage."""

    converters: Converters
    stages: Sequence[Stage] = field(default_factory=tuple)
    errors: Tolerance = field(default_factory=Tolerance)
    schemas: dict[str, Schema | None] = field(default_factory=dict)

    def batches(self, polled: Batch | Sequence[Batch] | Sequence[SourceRecord]) -> list[Batch]:
        """The return value of ``poll`` as batches. Raises ConnectException for anything that is neither a batch nor a record."""
        if isinstance(polled, Batch):
            return [polled]
        if not isinstance(polled, Iterable) or isinstance(polled, str | bytes | Mapping | Iterator):  # (the error of an iterator is late)
            raise _not_polled(polled)
        batches: list[Batch] = []
        records: list[SourceRecord] = []
        for piece in polled:  # a task may mix the two; the order is kept
            if isinstance(piece, Batch):
                batches += [*self._in_columns(records), piece]
                records = []
            elif isinstance(piece, SourceRecord):
                records.append(piece)
            else:
                raise _not_polled(piece)
        return [*batches, *self._in_columns(records)]

    def encode(self, batch: Batch) -> Iterator[EncodedBatch]:
        """The batch as bytes, in the pieces that transformations return. Pieces without records are left out."""
        for _, encoded in self.pieces(batch):
            yield encoded

    def pieces(self, batch: Batch) -> Iterator[tuple[Batch, EncodedBatch]]:
        """As ``encode``, but each piece comes with the batch before the converters, without the records that failed in the converters."""
        if not batch.num_records:
            return
        for piece in transform(self.errors, self.stages, [batch], self._read):
            if piece.num_records:
                yield from self._encoded(piece)

    def _in_columns(self, records: Sequence[SourceRecord]) -> list[Batch]:
        """The records in batches. Records whose values do not fit their schemas fail. Batches without records keep the position."""
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
        return join_batches([*batches, *_positions(records[end:])])

    def _encoded(self, batch: Batch) -> Iterator[tuple[Batch, EncodedBatch]]:
        """One piece. Empty if none of its records can be converted."""
        converters = self.converters
        key, kept = self._column(ErrorStage.KEY_CONVERTER, converters.key, batch, batch.key_schema, batch.key)
        if kept is not None:
            batch = take_records(batch, kept)
        value, kept = self._column(ErrorStage.VALUE_CONVERTER, converters.value, batch, batch.value_schema, batch.value)
        if kept is not None:
            batch, key = take_records(batch, kept), None if key is None else take(key, kept)
        if not batch.num_records:
            return
        encoded = EncodedBatch(
            topic=batch.topic,
            num_records=batch.num_records,
            value=value,
            key=key,
            headers=batch.headers,
            timestamp=None if batch.timestamp is None else _times(batch.timestamp.cast(pa.int64())),
            kafka_partition=batch.kafka_partition,
        )
        self.schemas[batch.topic] = batch.value_schema
        yield batch, encoded

    def _column(
        self, stage: ErrorStage, converter: Converter, batch: Batch, schema: Schema | None, column: pa.Array | None
    ) -> tuple[pa.Array | None, list[Range] | None]:
        """A column as bytes, and the ranges of the remaining records. None: all of them."""
        count = batch.num_records
        if (column is None and schema is None) or not count:
            return None, None
        given = column if column is not None else pa.nulls(count)
        parts = self.errors.parts(
            Operation(stage, class_name_of(type(converter))),
            count,
            lambda start, length: converter.from_connect_column(batch.topic, schema, cut(given, start, length)),
            lambda index: self._read(batch, index),
        )
        if is_whole(parts, count):
            return parts[0].result, None
        found = pa.concat_arrays([part.result for part in parts]) if parts else pa.array([], pa.binary())
        return found, ranges_of(parts)

    def _read(self, batch: Batch, index: int) -> FailedRecord:
        """A record as the failing step received it."""
        return ReadRecord(batch.topic, lambda: batch.slice(index, 1).source_records(self.converters.header)[0])


def _times(given: pa.Array) -> pa.Array:
    """-1 is no time, as in Kafka."""
    if given.null_count == len(given) or pc.min(given).as_py() >= 0:
        return given
    return pc.if_else(pc.equal(given, -1), pa.scalar(None, pa.int64()), given)


def _not_polled(value: object) -> ConnectException:
    return ConnectException(
        f"poll must return a Batch, batches, SourceRecords, an empty list or None; it returned a {type(value).__name__}"
    )


def _positions(dropped: Sequence[SourceRecord]) -> list[Batch]:
    """Batches without records, in place of dropped records."""
    return [Batch(r.topic, source_partition=r.source_partition, source_offset=r.source_offset) for r in dropped]
