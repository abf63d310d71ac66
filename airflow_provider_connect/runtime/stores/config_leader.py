"""Writes the config topic with a producer that owns the leader's transactional id until another process takes over the id."""

import time
from collections.abc import Iterable
from contextlib import suppress

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from airflow_provider_connect.errors import ConnectException, RecordTooLargeException
from airflow_provider_connect.runtime.config.client_settings import ClientKind, internal_client_config
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.ids import config_leader_id
from airflow_provider_connect.runtime.model.records import ConfigRecord
from airflow_provider_connect.runtime.stores.kafka_errors import (
    QUICK,
    LastError,
    cause_of,
    is_fenced,
    is_retriable,
    kafka_error,
    translated,
    unreachable,
)
from airflow_provider_connect.runtime.stores.large_records import LargeRecords, is_too_large
from airflow_provider_connect.runtime.stores.transactional_producer import init_transactions
from airflow_provider_connect.runtime.wire import config_topic

TRANSACTION_TIMEOUT_MS = 10_000
_NO_RECORD = b"open-transaction-ended"  # a key that readers of uncommitted records ignore


class NotWrittenException(ConnectException):
    """The records were not written. If ``uncertain`` contains their offsets, the records may have been written nevertheless. To find out,
    take over the id and read to the end.

    ``is_transient``: a retry may succeed.
    """

    def __init__(self, message: str, *, is_transient: bool, uncertain: list[int] | None = None) -> None:
        super().__init__(message)
        self.is_transient = is_transient
        self.uncertain = uncertain or []


class ConfigLeader:
    """See the module. Not usable after an exception from ``write``."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._topic = settings.config_topic
        self._last_error = LastError()
        config = internal_client_config(
            settings, ClientKind.PRODUCER, "configs-leader", transactional_id=config_leader_id(settings.group_id)
        )
        self._bootstrap_servers = config.get("bootstrap.servers")
        quick = {
            **QUICK,
            "linger.ms": 0,
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            "delivery.timeout.ms": TRANSACTION_TIMEOUT_MS,
            "socket.timeout.ms": TRANSACTION_TIMEOUT_MS,
        }
        self._producer = Producer({**config, **quick, **self._last_error.callbacks()})

    def take_over(self, timeout_seconds: float) -> None:
        """Fences every other writer, and aborts an open transaction of the previous owner. Raises StoreTimeoutException."""
        stage = f"taking over the right to write topic {self._topic}"
        try:
            init_transactions(self._producer, timeout_seconds)
        except KafkaException as error:
            self._last_error.raise_if_refused(stage)
            cause = kafka_error(error)
            if cause is not None and is_fenced(cause):
                raise NotWrittenException(str(translated(cause, stage)), is_transient=True) from error
            if cause is not None and is_retriable(cause):
                last = self._last_error if self._last_error.error else cause.str()
                raise unreachable(self._bootstrap_servers, timeout_seconds, stage, last) from error
            raise translated(error, stage) from error

    def write(self, records: list[ConfigRecord], timeout_seconds: float) -> list[int]:
        """Writes the records in one transaction, and returns their offsets. Raises NotWrittenException, RecordTooLargeException."""
        deadline = time.monotonic() + timeout_seconds
        delivered: list[tuple[int | None, KafkaError | None]] = []

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            delivered.append((message.offset(), error))
            large.delivered(error, message)

        large = LargeRecords("max.request.size of the worker's settings")
        try:
            self._producer.begin_transaction()
            for record in records:
                wire = config_topic.encode(record)
                try:
                    self._producer.produce(self._topic, wire.value, wire.key, 0, headers=[*wire.headers], on_delivery=on_delivery)
                except KafkaException as error:
                    raise large.by_producer(self._topic, wire.key, wire.value) if is_too_large(error) else error from None
            left = self._producer.flush(timeout_seconds)
            large.check()
            offsets = delivered_offsets(delivered, left)
        except RecordTooLargeException:
            self._abort(timeout_seconds)
            raise
        except (KafkaException, SystemError) as error:
            raise _not_written(cause_of(error, self._producer), []) from error
        self._commit(offsets, deadline)
        return offsets

    def end_open_transaction(self, timeout_seconds: float) -> None:
        """Aborts an earlier transaction of this id that has no marker. Uses a transaction that no reader sees. Raises
        NotWrittenException."""
        try:
            self._producer.begin_transaction()
            self._producer.produce(self._topic, None, _NO_RECORD, 0)
            self._producer.flush(timeout_seconds)
            self._producer.abort_transaction(timeout_seconds)
        except (KafkaException, SystemError) as error:
            raise _not_written(cause_of(error, self._producer), []) from error

    def _abort(self, timeout_seconds: float) -> None:
        """Ends the transaction. Otherwise, readers would wait for its end, because its other records may be on the topic."""
        with suppress(KafkaException, SystemError):
            self._producer.abort_transaction(timeout_seconds)

    def _commit(self, offsets: list[int], deadline: float) -> None:
        while True:
            try:
                self._producer.commit_transaction(max(1.0, deadline - time.monotonic()))
                return
            except (KafkaException, SystemError) as error:
                cause = kafka_error(error)
                if cause is not None and cause.txn_requires_abort():
                    raise _not_written(error, []) from error
                if cause is None or not cause.retriable() or time.monotonic() > deadline:
                    raise _not_written(error, offsets) from error

    def close(self) -> None:
        """Closes the client without waiting for an open transaction, which the next owner of the id aborts."""
        self._producer.purge(in_queue=True, in_flight=True, blocking=False)
        del self._producer


def delivered_offsets(delivered: Iterable[tuple[int | None, KafkaError | None]], left: int) -> list[int]:
    """The offsets in the delivery reports of a transaction. ``left`` reports have not arrived.

    Before the commit, raises NotWrittenException if an offset is missing. A report has no offset if the broker already had the record
    before a resend; then a claim would have no number. Raises KafkaException for a record that was refused.
    """
    offsets = []
    for offset, error in delivered:
        if error is not None:
            raise KafkaException(error)
        if offset is None or offset < 0:
            raise NotWrittenException("a delivery report came without an offset", is_transient=True)
        offsets.append(offset)
    if left:
        raise NotWrittenException("the broker did not acknowledge the records in time", is_transient=True)
    return offsets


def _not_written(error: KafkaError | BaseException, uncertain: list[int]) -> NotWrittenException:
    cause = error if isinstance(error, KafkaError) else kafka_error(error)
    passing = cause is not None and (is_fenced(cause) or is_retriable(cause) or cause.txn_requires_abort() or cause.fatal())
    text = str(error) if cause is None else f"{cause.str()} ({cause.name()})"
    return NotWrittenException(text, is_transient=passing, uncertain=uncertain)
