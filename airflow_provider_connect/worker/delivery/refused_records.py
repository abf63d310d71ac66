"""Source records that the broker refuses for what they are, where ``errors.tolerance`` is all: found, reported and left out.

A broker answers for whole batches: one that is too large, or that holds one bad record, is refused with all that lies in it. So what was
refused is sent again in halves, once everything else is acknowledged, and only what is refused alone is given up. Records that were sent
again stand behind later ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from airflow_provider_connect.errors import RetriableException
from airflow_provider_connect.sdk.records import SourceRecord
from airflow_provider_connect.stores.kafka_errors import translated
from airflow_provider_connect.worker.errors.failures import SOURCE_TASK, ErrorStage, Failure, Operation, ReadRecord

RECORD_ERRORS: Final = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
    }
)
"""Errors that another record would not meet. An error of the topic itself is not among them."""
PRODUCE: Final = Operation(ErrorStage.KAFKA_PRODUCE, SOURCE_TASK)


@dataclass(frozen=True, slots=True)
class _Sent:
    """A record as ``Producer.produce`` takes it."""

    topic: str
    options: dict[str, Any]  # Any: the arguments of the client's produce


class RefusedRecords:
    """Belongs to one producer, whose delivery reports and refusals it gets. ``failed`` is called with each record that is given up."""

    def __init__(self, producer: Producer, failed: Callable[[Failure], None]) -> None:
        self._producer = producer
        self._failed = failed
        self._refused: list[tuple[_Sent, KafkaError]] = []

    def give_up(self, topic: str, options: dict[str, Any], error: KafkaError) -> bool:
        """The client itself refused a record. False: for a reason that lies elsewhere."""
        if error.code() not in RECORD_ERRORS:
            return False
        self._report(_Sent(topic, options), error)
        return True

    def delivered(self, error: KafkaError, message: Message, headers: object = None) -> bool:
        """A delivery report; reports don't have the ``headers`` of their record. False: the reason of the error lies elsewhere."""
        return self._take(_sent(message, headers), error)

    def _take(self, sent: _Sent, error: KafkaError) -> bool:
        if error.code() not in RECORD_ERRORS:
            return False
        self._refused.append((sent, error))
        return True

    def settle(self, timeout_seconds: float) -> None:
        """Send again what was refused, until only records are left that are refused alone. All else must be acknowledged before."""
        while self._refused:
            refused, self._refused = self._refused, []
            self._send_in_halves([sent for sent, _ in refused], timeout_seconds)

    def _send_in_halves(self, records: Sequence[_Sent], timeout_seconds: float) -> None:
        half = len(records) // 2
        for piece in (records[:half], records[half:]):
            refused = self._sent_again(piece, timeout_seconds)
            if len(piece) == 1 and refused:
                self._report(*refused[0])
            elif refused:
                self._send_in_halves([sent for sent, _ in refused], timeout_seconds)

    def _sent_again(self, records: Sequence[_Sent], timeout_seconds: float) -> list[tuple[_Sent, KafkaError]]:
        """Send these records and wait for the answers; which were refused."""
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
