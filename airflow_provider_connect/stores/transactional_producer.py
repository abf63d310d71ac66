"""A producer that owns a transactional id, and the records that it writes besides a task's own: offsets and the batch log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from confluent_kafka import Producer

from airflow_provider_connect.model.run import Claim
from airflow_provider_connect.stores.kafka_errors import translating
from airflow_provider_connect.stores.transactional_id import take_over
from airflow_provider_connect.wire.record import claim_headers


@dataclass(frozen=True, slots=True)
class ProducerRecord:
    """One record of the offsets topic, or of the batch log, to be written by the task's own producer. ``claim`` goes along as a header, by
    which the history of offsets knows the run."""

    topic: str
    partition: int
    key: bytes
    value: bytes | None
    claim: Claim | None = None


class TransactionalProducer:
    """The producer that owns a transactional id, a task's or a connector's; the client's errors come out as ours."""

    def __init__(self, producer: Producer, *, timeout_seconds: float) -> None:
        self.producer = producer
        self._timeout = timeout_seconds
        self._begun = 0.0
        self.is_open = False

    def take_over(self) -> None:
        """Fence every older producer of this id; what was left open is aborted. Offsets may be read only after this."""
        take_over(self.producer, self._timeout)

    def begin(self) -> None:
        if not self.is_open:
            self._call("beginning a transaction", self.producer.begin_transaction)
            self.is_open, self._begun = True, time.monotonic()

    @property
    def open_seconds(self) -> float:
        """How long ago the transaction began that is open."""
        return time.monotonic() - self._begun if self.is_open else 0.0

    def send(self, records: Iterable[ProducerRecord]) -> None:
        with translating("writing offsets", self.producer):
            self._send(records)

    def _send(self, records: Iterable[ProducerRecord]) -> None:
        for record in records:
            headers = claim_headers(record.claim)
            self.producer.produce(record.topic, record.value, record.key, record.partition, headers=[*headers] or None)

    def write(self, records: Sequence[ProducerRecord]) -> None:
        """Some records in a transaction of their own; nothing for none."""
        if records:
            self.begin()
            self.send(records)
            self.commit()

    def commit(self) -> None:
        """Commit. RetriableException leaves the outcome open: only a new producer of the same id may tell."""
        self._call("committing a transaction", lambda: self.producer.commit_transaction(self._timeout))
        self.is_open = False

    def abort(self) -> None:
        if self.is_open:
            self._call("aborting a transaction", lambda: self.producer.abort_transaction(self._timeout))
            self.is_open = False

    def _call(self, doing: str, act: Callable[[], object]) -> None:
        with translating(doing, self.producer):
            act()
