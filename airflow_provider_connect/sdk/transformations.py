"""Transformations change records between source or sink and topic; predicates select records. Both work on batches or single records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, TypeVar

from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.data.records import SinkRecord, SourceRecord
from airflow_provider_connect.sdk.batch import Batch, KafkaBatch
from airflow_provider_connect.sdk.config_def import Plugin
from airflow_provider_connect.sdk.converter import RAW_HEADERS, HeaderConverter

if TYPE_CHECKING:
    from airflow_provider_connect.sdk.config_def import Config

Record = TypeVar("Record", SourceRecord, SinkRecord)


class Transformation(Plugin):
    """Changes, drops or splits records. Define ``apply`` or ``apply_batch``; the framework derives the other.

    Each task has its own instance, configures it once and calls it from one thread. After an exception the framework passes the same
    records again in smaller batches, to find the failed record, unless ``DataException.record`` has its index. So the transformation should
    have no side effects.
    """

    header_converter: HeaderConverter = RAW_HEADERS
    """Reads headers when a batch is converted to records. The framework sets it before ``configure``."""
    drops_all: ClassVar[bool] = False
    """Whether it drops every record, like ``Filter``. With a predicate the framework then removes the records itself, without splitting
    batches."""

    def configure(self, config: Config) -> None:
        """Read the settings. Called once, before any record. ``config`` has the prefix (``transforms.«alias».``) removed."""

    def apply(self, record: Record) -> Record | None:
        """The changed record (``record.replace(…)``), or None to drop it."""
        self._need_one_form()
        changed = _as_list(self.apply_batch(_batch_of(record, self.header_converter)))
        records = [after for batch in changed for after in _records_of(batch, record, self.header_converter)]
        return records[0] if records else None

    def apply_batch(self, batch: Batch) -> Batch | list[Batch] | None:
        """The changed batch, several batches (for records of different topics), or None to drop all records.

        A batch without records may be returned, to keep the source's position after all records were dropped."""
        self._need_one_form()
        if batch.is_from_kafka:
            sunk = [self.apply(record) for record in batch.sink_records(self.header_converter)]
            kept = Batch.from_sink_records((record for record in sunk if record is not None), self.header_converter)
        else:
            read = [self.apply(record) for record in batch.source_records(self.header_converter)]
            kept = Batch.from_source_records((record for record in read if record is not None), self.header_converter)
        return cover_positions(batch, kept)

    def close(self) -> None:
        """Release what ``configure`` acquired."""

    def _need_one_form(self) -> None:
        if type(self).apply is Transformation.apply and type(self).apply_batch is Transformation.apply_batch:
            raise NotImplementedError(f"{type(self).__qualname__} must define apply or apply_batch")


class Predicate(Plugin):
    """Selects the records that a transformation applies to. Define ``test`` or ``test_batch``; the framework derives the other.

    Each task has its own instance, configures it once and calls it from one thread."""

    header_converter: HeaderConverter = RAW_HEADERS
    """Reads headers when a batch is converted to records. The framework sets it before ``configure``."""

    def configure(self, config: Config) -> None:
        """Read the settings. Called once, before any record. ``config`` has the prefix (``predicates.«alias».``) removed."""

    def test(self, record: SourceRecord | SinkRecord) -> bool:
        """Whether the predicate selects the record."""
        self._need_one_form()
        return bool(self.test_batch(_batch_of(record, self.header_converter))[0].as_py())

    def test_batch(self, batch: Batch) -> pa.BooleanArray:
        """For each record, whether the predicate selects it: Arrow booleans, as many as there are records."""
        self._need_one_form()
        records: Sequence[SourceRecord | SinkRecord]
        records = batch.sink_records(self.header_converter) if batch.is_from_kafka else batch.source_records(self.header_converter)
        return pa.array([self.test(record) for record in records], type=pa.bool_())

    def close(self) -> None:
        """Release what ``configure`` acquired."""

    def _need_one_form(self) -> None:
        if type(self).test is Predicate.test and type(self).test_batch is Predicate.test_batch:
            raise NotImplementedError(f"{type(self).__qualname__} must define test or test_batch")


def cover_positions(whole: Batch, pieces: list[Batch]) -> list[Batch]:
    """``pieces``, the changed records of ``whole``, with positions that together cover all of ``whole``.

    Each piece starts where the previous piece ends. The last piece ends where ``whole`` ends, even if the last records were dropped. If no
    piece is left, the result is one batch without records.
    """
    if not isinstance(whole, KafkaBatch):
        if not pieces:
            return [whole.slice(0, 0).replace(source_offset=whole.source_offset)]
        if pieces[-1].source_partition == whole.source_partition:
            pieces[-1] = pieces[-1].replace(source_offset=whole.source_offset)
        return pieces
    if not pieces:
        return [whole.slice(0, 0).replace(first_offset=whole.first_offset, next_offset=whole.next_offset)]
    first = whole.first_offset
    for index, piece in enumerate(pieces):
        next_offset = whole.next_offset if index == len(pieces) - 1 else piece.next_offset
        pieces[index] = piece.replace(first_offset=first, next_offset=next_offset)
        first = next_offset
    return pieces


def _as_list(batches: Batch | list[Batch] | None) -> list[Batch]:
    return [] if batches is None else batches if isinstance(batches, list) else [batches]


def _batch_of(record: SourceRecord | SinkRecord, converter: HeaderConverter) -> Batch:
    if isinstance(record, SinkRecord):
        return Batch.from_sink_records([record], converter)[0]
    return Batch.from_source_records([record], converter)[0]


def _records_of(batch: Batch, like: Record, converter: HeaderConverter) -> list[Record]:
    if isinstance(like, SinkRecord):
        return batch.sink_records(converter)
    return batch.source_records(converter)
