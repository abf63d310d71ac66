"""A producer that owns a transactional id, and the records that it writes in addition to the task's records: offsets and the batch log.

Also fences transactional ids: afterwards, no older producer of the id can commit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException, Producer

from airflow_provider_connect.errors import ConnectException, RecordTooLargeException
from airflow_provider_connect.runtime.config.client_settings import client_config
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.ids import transactional_id
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.stores.kafka_errors import LastError, translated, translating
from airflow_provider_connect.runtime.stores.large_records import LargeRecords, is_too_large
from airflow_provider_connect.runtime.wire.record import author_headers, claim_headers


@dataclass(frozen=True, slots=True)
class ProducerRecord:
    """One record of the offsets topic, or of the batch log, for the task's own producer. ``claim`` is written as a header. The history of
    offsets uses it to find the run. ``author``, the user who requested a change of offsets, is also written as a header."""

    topic: str
    partition: int
    key: bytes
    value: bytes | None
    claim: Claim | None = None
    author: str | None = None


class TransactionalProducer:
    """A producer that owns the transactional id of a task or connector. Raises our exceptions for the client's errors."""

    def __init__(self, producer: Producer, *, timeout_seconds: float) -> None:
        self.producer = producer
        self._timeout = timeout_seconds
        self._begun = 0.0
        self.is_open = False
        self._large = LargeRecords("producer.override.max.request.size of the connector, or producer.max.request.size of the worker")

    def take_over(self) -> None:
        """Fences every older producer of this id, and aborts its open transaction. Read offsets only after this call."""
        take_over(self.producer, self._timeout)

    def begin(self) -> None:
        if not self.is_open:
            self._call("beginning a transaction", self.producer.begin_transaction)
            self.is_open, self._begun = True, time.monotonic()

    @property
    def open_seconds(self) -> float:
        """How long the transaction has been open. 0.0: no transaction is open."""
        return time.monotonic() - self._begun if self.is_open else 0.0

    def send(self, records: Iterable[ProducerRecord]) -> None:
        """Sends the records. Raises RecordTooLargeException for a record that the client refuses. If the broker refuses it, ``commit``
        raises."""
        with translating("writing offsets", self.producer):
            for record in records:
                headers = claim_headers(record.claim) + author_headers(record.author)
                try:
                    self.producer.produce(
                        record.topic,
                        record.value,
                        record.key,
                        record.partition,
                        headers=[*headers] or None,
                        on_delivery=self._large.delivered,
                    )
                except KafkaException as error:
                    raise self._large.by_producer(record.topic, record.key, record.value) if is_too_large(error) else error from None

    def check(self) -> None:
        """Raises RecordTooLargeException if the broker has already refused a record of ``send``."""
        self._large.check()

    def write(self, records: Sequence[ProducerRecord]) -> None:
        """Writes the records in a separate transaction. Does nothing without records."""
        if records:
            self.begin()
            self.send(records)
            self.commit()

    def commit(self) -> None:
        """Commits. After a RetriableException the outcome is unknown. Only a new producer of the same id can find out the outcome."""
        self._call("committing a transaction", lambda: self.producer.commit_transaction(self._timeout))
        self.is_open = False

    def abort(self) -> None:
        if self.is_open:
            self._call("aborting a transaction", lambda: self.producer.abort_transaction(self._timeout))
            self.is_open = False

    def _call(self, doing: str, act: Callable[[], object]) -> None:
        try:
            with translating(doing, self.producer):
                act()
        except ConnectException as error:
            if not self.is_open or doing.startswith("aborting"):
                raise
            try:
                self.check()
            except RecordTooLargeException as cause:
                raise cause from error
            raise


def take_over(producer: Producer, timeout_seconds: float) -> None:
    """Fences every older producer of the id, and aborts its open transaction. Raises RetriableException, FencedException."""
    try:
        init_transactions(producer, timeout_seconds)
    except KafkaException as error:
        raise translated(error, "taking over a transactional id") from error


def init_transactions(producer: Producer, timeout_seconds: float) -> None:
    """Calls the client's ``init_transactions``, without the half second that librdkafka waits after a request that was sent too early.

    The client's first request for a producer id may find no connected broker. Then the client retries 500 ms later (measured: 5 of 30
    times). After the metadata of the cluster was fetched, this did not occur (0 of 60).
    """
    deadline = time.monotonic() + timeout_seconds
    producer.list_topics(timeout=timeout_seconds)
    producer.init_transactions(max(0.1, deadline - time.monotonic()))


FENCE_SECONDS = 30.0


class Fence:
    """Fences the ids of tasks, eight at a time. Takes 60 ms each, up to a second if a transaction is open."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings

    def fence(self, connector: str, tasks: Sequence[int], overrides: Mapping[str, str]) -> None:
        """Fences the transactional ids of the connector's ``tasks``. Raises RetriableException if the broker does not answer.

        ``overrides`` are the settings of the connector's own transactional producers. Ids are fenced on the cluster on which they are used.
        """
        if not tasks:
            return
        with ThreadPoolExecutor(max_workers=min(8, len(tasks)), thread_name_prefix="fence") as pool:
            list(pool.map(lambda task: self._fence(self._config(connector, task, overrides)), tasks))

    @contextmanager
    def owner(self, connector: str, overrides: Mapping[str, str]) -> Iterator[TransactionalProducer]:
        """A producer that owns the id of the connector's task 0. Read the values to write only after this call."""
        owner = TransactionalProducer(Producer(self._config(connector, 0, overrides)), timeout_seconds=FENCE_SECONDS)
        try:
            owner.take_over()
            yield owner
        finally:
            owner.producer.close()

    def _config(self, connector: str, task: int, overrides: Mapping[str, str]) -> dict[str, Any]:
        name = transactional_id(self._settings.group_id, connector, task)
        return {**client_config(self._settings, "producer", overrides, transactional_id=name), **LastError().callbacks()}

    def _fence(self, config: dict[str, Any]) -> None:
        """A producer takes over the id and closes. This has the effect of Java's fenceProducers, which confluent-kafka lacks."""
        producer = Producer(config)
        try:
            take_over(producer, FENCE_SECONDS)
        finally:
            producer.close()
