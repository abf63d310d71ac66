"""Finds, reports and leaves out source records that client or broker refuse because of their size or timestamp.

Records that are known to be too large, or have an invalid timestamp, never reach the client (``remove_refused``). If ``errors.tolerance``
is ``all``, ``RefusedRecords`` finds records that are refused nevertheless. A broker answers for whole batches: if a batch is too large or
has one bad record, the broker refuses all its records. So refused records are sent again in halves, once everything else is acknowledged.
Only a record that is refused when it is sent alone has failed. Records that are sent again come after later records on the topic.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow.compute as pc
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from airflow_provider_connect.data.records import SourceRecord
from airflow_provider_connect.errors import DataException, RetriableException
from airflow_provider_connect.runtime.stores.kafka_errors import translated
from airflow_provider_connect.runtime.worker.delivery.encoded_batch import EncodedBatch
from airflow_provider_connect.runtime.worker.delivery.record_limits import Excess
from airflow_provider_connect.runtime.worker.errors.failures import SOURCE_TASK, ErrorStage, Failure, Operation, ReadRecord

RECORD_ERRORS: Final = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
    }
)
"""Errors of a single record, not of the topic itself."""
PRODUCE: Final = Operation(ErrorStage.KAFKA_PRODUCE, SOURCE_TASK)


@dataclass(frozen=True, slots=True)
class InvalidTimestamp:
    """A record, by its index in the batch, with a timestamp that no record may have."""

    index: int
    timestamp: int

    def text(self, topic: str) -> str:
        return f"has the timestamp {self.timestamp}: those of records are milliseconds from 1970 on. Correct it where it comes from"


def invalid_timestamps(batch: EncodedBatch) -> list[InvalidTimestamp]:
    """The records of the batch with times before 1970, in order."""
    if batch.timestamp is None or batch.timestamp.null_count == batch.num_records or pc.min(batch.timestamp).as_py() >= 0:
        return []
    indices = pc.indices_nonzero(pc.fill_null(pc.less(batch.timestamp, 0), False)).to_pylist()
    return [InvalidTimestamp(index, batch.timestamp[index].as_py()) for index in indices]


def remove_refused(
    batch: EncodedBatch,
    refusals: Sequence[Excess | InvalidTimestamp],
    source_partition: Mapping[str, object] | None,
    failed: Callable[[Failure], None],
) -> list[EncodedBatch]:
    """The batch without the records of ``refusals``. Calls ``failed`` with each of them, in order; ``failed`` may raise."""
    pieces, start = [], 0
    for refusal in refusals:
        record = batch.slice(refusal.index, 1)
        where = "" if source_partition is None else f" of source partition {dict(source_partition)}"
        error = DataException(f"The record for topic {batch.topic}{where}{_key_text(record)} {refusal.text(batch.topic)}")
        failed(Failure(PRODUCE, error, _read(record)))
        pieces.append(batch.slice(start, refusal.index - start))
        start = refusal.index + 1
    pieces.append(batch.slice(start, batch.num_records - start))
    return [piece for piece in pieces if piece.num_records]


def _key_text(record: EncodedBatch) -> str:
    key = None if record.key is None else record.key[0].as_py()
    return "" if key is None else f", with a key of {len(key)} bytes and SHA-256 {hashlib.sha256(key).hexdigest()[:16]}…,"


def _read(record: EncodedBatch) -> ReadRecord:
    def source_record() -> SourceRecord:
        value, key, timestamp = (None if c is None else c[0].as_py() for c in (record.value, record.key, record.timestamp))
        known = None if timestamp is None or timestamp < 0 else timestamp
        return SourceRecord(None, None, record.topic, value, key, kafka_partition=record.kafka_partition, timestamp=known)

    return ReadRecord(record.topic, source_record)


@dataclass(frozen=True, slots=True)
class _Sent:
    """A record as ``Producer.produce`` takes it."""

    topic: str
    options: dict[str, Any]  # Any: the arguments of the client's produce


class RefusedRecords:
    """Handles the delivery reports and refusals of one producer. ``failed`` is called with each record that has failed for good."""

    def __init__(self, producer: Producer, failed: Callable[[Failure], None]) -> None:
        self._producer = producer
        self._failed = failed
        self._refused: list[tuple[_Sent, KafkaError]] = []

    def give_up(self, topic: str, options: dict[str, Any], error: KafkaError) -> bool:
        """Report a record that the client itself refused. False: the record is not the cause."""
        if error.code() not in RECORD_ERRORS:
            return False
        self._report(_Sent(topic, options), error)
        return True

    def delivered(self, error: KafkaError, message: Message, headers: object = None) -> bool:
        """Note a delivery report, which lacks the ``headers`` of its record. False: the record is not the cause of the error."""
        return self._take(_sent(message, headers), error)

    def _take(self, sent: _Sent, error: KafkaError) -> bool:
        if error.code() not in RECORD_ERRORS:
            return False
        self._refused.append((sent, error))
        return True

    def settle(self, timeout_seconds: float) -> None:
        """Send refused records again, in smaller parts, until only records that are refused alone remain. All other records must be
        acknowledged before."""
        while self._refused:
            refused, self._refused = self._refused, []
            self._send_in_halves([sent for sent, _ in refused], timeout_seconds)

    def _send_in_halves(self, records: Sequence[_Sent], timeout_seconds: float) -> None:
        half = len(records) // 2
        for piece in (records[:half], records[half:]):
            refused = self._resend(piece, timeout_seconds)
            if len(piece) == 1 and refused:
                self._report(*refused[0])
            elif refused:
                self._send_in_halves([sent for sent, _ in refused], timeout_seconds)

    def _resend(self, records: Sequence[_Sent], timeout_seconds: float) -> list[tuple[_Sent, KafkaError]]:
        """Send these records and wait for the answers. Returns those that were refused."""
        failures: list[KafkaError] = []

        def report(sent: _Sent, error: KafkaError | None, _message: Message) -> None:
            if error is not None and not self._take(sent, error):
                failures.append(error)

        for sent in records:
            try:
                self._producer.produce(sent.topic, on_delivery=partial(report, sent), **sent.options)
            except KafkaException as error:
                raise translated(error, f"writing to topic {sent.topic}") from error
        if self._producer.flush(timeout_seconds):
            raise RetriableException(f"{len(records)} records were not acknowledged by the broker within {timeout_seconds:g} s")
        if failures:
            raise translated(failures[0], "writing records")
        refused, self._refused = self._refused, []
        return refused

    def _report(self, sent: _Sent, error: KafkaError) -> None:
        record = SourceRecord(
            None,
            None,
            sent.topic,
            sent.options.get("value"),
            sent.options.get("key"),
            kafka_partition=sent.options.get("partition"),
            timestamp=sent.options.get("timestamp"),
        )
        self._failed(Failure(PRODUCE, translated(error, f"writing to topic {sent.topic}"), ReadRecord(sent.topic, lambda: record)))


def _sent(message: Message, headers: object) -> _Sent:
    options: dict[str, Any] = {"value": message.value(), "key": message.key(), "headers": headers}
    kind, timestamp = message.timestamp()
    if kind:
        options["timestamp"] = timestamp
    partition = message.partition()
    if partition is not None and partition >= 0:
        options["partition"] = partition
    return _Sent(str(message.topic()), options)
