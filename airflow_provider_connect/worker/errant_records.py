"""What a sink task hands over because its destination refuses it: the framework's ``ErrantRecordReporter``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.records import SinkRecord
from airflow_provider_connect.worker.consumed_records import Originals
from airflow_provider_connect.worker.dead_letters import DeadLetterQueue
from airflow_provider_connect.worker.failures import SINK_TASK, ConsumedRecord, ErrorStage, Failure, Operation
from airflow_provider_connect.worker.pipeline import Converters
from airflow_provider_connect.worker.tolerance import Tolerance

PUT = Operation(ErrorStage.TASK_PUT, SINK_TASK)


class ErrantRecords:
    """Each reported record is a failure of stage TASK_PUT. It is told as it lies in Kafka where it is among the ``originals``; else its
    bytes are made anew by the task's converters, as in Connect. ``originals`` None: nobody wants its bytes. Called from the task's own
    thread."""

    def __init__(
        self, tolerance: Tolerance, originals: Originals | None, converters: Converters, queue: DeadLetterQueue | None = None
    ) -> None:
        self._tolerance = tolerance
        self._queue = queue
        self._originals = originals
        self._converters = converters

    def report(self, records: SinkRecord | Batch, error: Exception) -> None:
        """Log and dead letter queue get the records as configured. Raises where ``errors.tolerance`` is none."""
        listed = records.sink_records(self._converters.header) if isinstance(records, Batch) else [records]
        for record in listed:
            self._tolerance.failed(Failure(PUT, error, self._original(record)))

    def report_all(self, failures: Iterable[tuple[SinkRecord | Batch, Exception]]) -> None:
        with contextlib.nullcontext() if self._queue is None else self._queue.together():
            for records, error in failures:
                self.report(records, error)

    def _original(self, record: SinkRecord) -> ConsumedRecord:
        place, offset = record.topic_partition, record.kafka_offset
        if self._originals is None:
            return ConsumedRecord(*place, offset, timestamp=record.timestamp, timestamp_type=record.timestamp_type)
        found = self._originals.find(place, offset)
        return found if found is not None else self._made_again(record)

    def _made_again(self, record: SinkRecord) -> ConsumedRecord:
        topic, converters = record.topic_partition.topic, self._converters
        try:
            key = converters.key.from_connect_data(topic, record.key_schema, record.key)
            value = converters.value.from_connect_data(topic, record.value_schema, record.value)
            headers = record.headers.wire() or [
                (header.key, converters.header.from_connect_header(topic, header.key, header.schema, header.value))
                for header in record.headers
            ]
        except Exception as error:  # (a stranger's converter) a letter without contents would be a record lost
            raise ConnectException(
                f"The record at offset {record.kafka_offset} of {record.topic_partition} was reported and cannot be converted back: {error}"
            ) from error
        return ConsumedRecord(
            topic, record.topic_partition.partition, record.kafka_offset, key, value, headers, record.timestamp, record.timestamp_type
        )
