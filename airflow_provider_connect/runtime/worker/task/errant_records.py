"""The framework's ``ErrantRecordReporter``: reports records that a sink's destination refuses.

Decodes no value, because the refusal may be due to a value that Python's types cannot hold, such as a timestamp after the year 9999.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.data.records import SinkRecord
from airflow_provider_connect.data.schema import Schema
from airflow_provider_connect.errors import ConnectException, DataException, RetriableException
from airflow_provider_connect.runtime.worker.delivery.raw_batch import RetainedBatches
from airflow_provider_connect.runtime.worker.errors.dead_letters import DeadLetterQueue
from airflow_provider_connect.runtime.worker.errors.failures import PUT, ConsumedRecord, Failure, RetriedByNextRunException
from airflow_provider_connect.runtime.worker.errors.tolerance import Tolerance
from airflow_provider_connect.runtime.worker.pipeline.stages import Converters
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.converter import Converter


class ErrantRecords:
    """Reports each record as a failure of stage TASK_PUT. A record that is among the ``originals`` is reported as Kafka stores it.
    Otherwise the task's converters encode it again, as in Connect. ``originals`` None: no report needs the bytes of records. Called from
    the task's own thread."""

    def __init__(
        self, tolerance: Tolerance, originals: RetainedBatches | None, converters: Converters, queue: DeadLetterQueue | None = None
    ) -> None:
        self._tolerance = tolerance
        self._queue = queue
        self._originals = originals
        self._converters = converters

    def report(self, records: SinkRecord | Batch, error: Exception) -> None:
        """Write the records to the log and the dead letter queue as configured. Raises ConnectException if ``errors.tolerance`` is
        ``none``.

        This exception is never a DataException or a RetriableException. A task that raises one of these from ``put`` promises that it has
        accepted no record of the batch, and is called again with the same records. Raises RetriableException if the dead letter queue is
        unavailable."""
        for record in self._consumed(records):
            try:
                self._tolerance.failed(Failure(PUT, error, record))
            except (DataException, RetriableException) as refusal:
                if refusal.__cause__ is not error:
                    raise
                kind = RetriedByNextRunException if refusal.retriable else ConnectException
                raise kind(refusal.message) from error
            self._tolerance.metrics.records_refused += 1

    def report_all(self, failures: Iterable[tuple[SinkRecord | Batch, Exception]]) -> None:
        with contextlib.nullcontext() if self._queue is None else self._queue.write_together():
            for records, error in failures:
                self.report(records, error)

    def _consumed(self, records: SinkRecord | Batch) -> Iterator[ConsumedRecord]:
        partition = records.topic_partition
        if isinstance(records, SinkRecord):
            found = self._known(records.kafka_offset, records, records.timestamp)
            yield found or self._converted_record(records)
            return
        timestamps = None if records.timestamp is None else records.timestamp.cast(pa.int64())
        for index, offset in enumerate(records.kafka_offsets.to_pylist()):
            timestamp = None if timestamps is None else timestamps[index].as_py()
            yield self._known(offset, records, timestamp) or self._converted(records.slice(index, 1), offset, timestamp, str(partition))

    def _known(self, offset: int, records: SinkRecord | Batch, timestamp: int | None) -> ConsumedRecord | None:
        """The record as Kafka stores it, without its bytes if no report needs them. None: it must be encoded again."""
        if self._originals is None:
            return ConsumedRecord(*records.topic_partition, offset, timestamp=timestamp, timestamp_type=records.timestamp_type)
        return self._originals.find(records.topic_partition, offset)

    def _converted(self, record: Batch, offset: int, timestamp: int | None, partition: str) -> ConsumedRecord:
        topic = record.topic_partition.topic
        with _converting(offset, partition):
            key = _bytes(self._converters.key, topic, record.key_schema, record.key)
            value = _bytes(self._converters.value, topic, record.value_schema, record.value)
            headers = [] if record.headers is None else record.headers[0].as_py() or []
        wire = [(header["key"], header["value"]) for header in headers]
        return ConsumedRecord(*record.topic_partition, offset, key, value, wire, timestamp, record.timestamp_type)

    def _converted_record(self, record: SinkRecord) -> ConsumedRecord:
        topic, converters = record.topic_partition.topic, self._converters
        with _converting(record.kafka_offset, str(record.topic_partition)):
            key = converters.key.from_connect_data(topic, record.key_schema, record.key)
            value = converters.value.from_connect_data(topic, record.value_schema, record.value)
            headers = record.headers.wire() or [
                (header.key, converters.header.from_connect_header(topic, header.key, header.schema, header.value))
                for header in record.headers
            ]
        return ConsumedRecord(
            topic, record.topic_partition.partition, record.kafka_offset, key, value, headers, record.timestamp, record.timestamp_type
        )


@contextlib.contextmanager
def _converting(offset: int, partition: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # (any converter) a dead-letter record without contents would lose the record
        text = f"The record at offset {offset} of {partition} was reported and cannot be converted back: {error}"
        raise ConnectException(text) from error


def _bytes(converter: Converter, topic: str, schema: Schema | None, column: pa.Array | None) -> bytes | None:
    """The bytes of a column with one value."""
    if column is None:
        return converter.from_connect_data(topic, schema, None)
    data: bytes | None = converter.from_connect_column(topic, schema, column)[0].as_py()
    return data
