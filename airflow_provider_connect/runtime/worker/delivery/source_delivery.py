"""How a source task's records and offsets become durable: one class per guarantee. Knows nothing of tasks, converters or when to stop.

======================  =====================================================================
exactly once            one transaction: records, offset records → commit
at least once           1 records acknowledged  2 offsets committed
at most once            1 offsets committed  2 records sent, never again
======================  =====================================================================

Each guarantee writes offsets on topics inside a transaction of the task's own transactional id, so that a newer claim fences them. Offsets
in a file are fenced by the committer. ``step`` surrounds each step (``commit_steps``).
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Protocol

from airflow_provider_connect.errors import FencedException, RetriableException, TransactionExpiredException
from airflow_provider_connect.runtime.stores.backing import OffsetCommitter
from airflow_provider_connect.runtime.stores.transactional_producer import ProducerRecord, TransactionalProducer
from airflow_provider_connect.runtime.worker.delivery.commit_steps import CommitStep, StepHook, unobserved
from airflow_provider_connect.runtime.worker.delivery.encoded_batch import EncodedBatch
from airflow_provider_connect.runtime.worker.delivery.kafka_writer import KafkaWriter
from airflow_provider_connect.runtime.worker.delivery.transaction_boundary import Boundary

log = logging.getLogger(__name__)
SourceOffset = tuple[Mapping[str, object], Mapping[str, object]]  # source partition, offset from which to resume
EncodeOffsets = Callable[[Iterable[SourceOffset]], Sequence[ProducerRecord]]


class SourceDelivery(Protocol):
    """Accepts encoded batches with the offsets after them. ``commit`` makes all of them durable."""

    def deliver(self, batches: Sequence[EncodedBatch], offsets: Sequence[SourceOffset]) -> None: ...

    def is_due(self) -> bool:
        """Whether a commit is due now. Called after each poll."""
        ...

    def commit(self, closing: Sequence[ProducerRecord] = ()) -> bool:
        """Commit, with the ``closing`` records in the same transaction. False: there was nothing to commit."""
        ...

    def abort(self) -> None:
        """Discard what was not committed, as far as the guarantee allows. Never raises."""
        ...


class ExactlyOnce:
    """Delivers records and offsets in one transaction. The transaction ends when ``boundary`` decides so, or when the caller commits."""

    def __init__(
        self,
        producer: TransactionalProducer,
        writer: KafkaWriter,
        encode: EncodeOffsets,
        *,
        boundary: Boundary,
        flush_seconds: float,
        expiry_seconds: float = math.inf,
        step: StepHook = unobserved,
    ) -> None:
        self._producer = producer
        self._writer = writer
        self._encode = encode
        self._boundary = boundary
        self._flush = flush_seconds
        self._expiry = expiry_seconds
        self._step = step
        self._offsets = _LatestOffsets()

    def deliver(self, batches: Sequence[EncodedBatch], offsets: Sequence[SourceOffset]) -> None:
        with self._step(CommitStep.WRITE_RECORDS):
            if not self._producer.is_open:
                self._producer.begin()
                self._boundary.begun()
            with self._unexpired():
                for batch in batches:
                    self._writer.write(batch)
            self._offsets.add(offsets)

    def is_due(self) -> bool:
        return self._producer.is_open and self._boundary.is_due()

    def commit(self, closing: Sequence[ProducerRecord] = ()) -> bool:
        """Steps: 1 write the offsets and ``closing``; 2 commit the transaction."""
        if not self._producer.is_open and not self._offsets and not closing:
            return False
        self._producer.begin()
        with self._unexpired():
            with self._step(CommitStep.WRITE_OFFSETS):  # 1
                self._producer.send([*self._encode(self._offsets.all()), *closing])
            with self._step(CommitStep.COMMIT_TRANSACTION):  # 2
                self._producer.commit()
                self._writer.check()
        self._offsets.clear()
        self._boundary.ended()
        return True

    def drop(self, *, with_offsets: bool) -> bool:
        """Discard the records of the open transaction. ``with_offsets``: discard their offsets too. Otherwise the next commit writes these
        offsets. False: no transaction was open.

        Steps: 1 wait until every record is acknowledged, because the broker refuses to end a transaction that has received no record; 2
        abort the transaction.
        """
        if with_offsets:
            self._offsets.clear()
        if not self._producer.is_open:
            return False
        with self._unexpired():
            self._writer.flush(self._flush)  # 1
            with self._step(CommitStep.ABORT_TRANSACTION):  # 2
                self._producer.abort()
        return True

    def abort(self) -> None:
        _abort(self._producer)

    @contextmanager
    def _unexpired(self) -> Iterator[None]:
        """Raises TransactionExpiredException, not FencedException, if a transaction has been open for ``expiry_seconds``."""
        open_seconds = self._producer.open_seconds
        try:
            yield
        except FencedException as error:
            if max(open_seconds, self._producer.open_seconds) < self._expiry:
                raise
            raise TransactionExpiredException(f"a transaction was open for more than {self._expiry:g} s: {error}") from error


class AtLeastOnce:
    """Records go through a separate producer. Their offsets are committed when every record is acknowledged."""

    def __init__(
        self,
        producer: OffsetCommitter,
        writer: KafkaWriter,
        encode: EncodeOffsets,
        *,
        interval_seconds: float,
        flush_seconds: float,
        now: Callable[[], float],
        step: StepHook = unobserved,
    ) -> None:
        self._producer = producer
        self._writer = writer
        self._encode = encode
        self._interval = interval_seconds
        self._flush = flush_seconds
        self._now = now
        self._step = step
        self._last = now()
        self._offsets = _LatestOffsets()
        self._is_unacknowledged = False

    def deliver(self, batches: Sequence[EncodedBatch], offsets: Sequence[SourceOffset]) -> None:
        with self._step(CommitStep.WRITE_RECORDS):
            for batch in batches:
                self._is_unacknowledged = True
                self._writer.write(batch)
            self._offsets.add(offsets)

    def is_due(self) -> bool:
        return bool(self._offsets) and self._now() - self._last >= self._interval

    def commit(self, closing: Sequence[ProducerRecord] = ()) -> bool:
        """Steps: 1 wait until every record is acknowledged; 2 commit the offsets."""
        if not self._offsets and not closing and not self._is_unacknowledged:
            return False
        with self._step(CommitStep.ACKNOWLEDGE_RECORDS):  # 1
            self._writer.flush(self._flush)
        self._is_unacknowledged = False
        if self._offsets:
            with self._step(CommitStep.COMMIT_OFFSETS):  # 2
                _commit(self._producer, [*self._encode(self._offsets.all()), *closing])
        elif closing:
            _close(self._producer, closing)
        self._offsets.clear()
        self._last = self._now()
        return True

    def abort(self) -> None:
        _abort(self._producer)


class AtMostOnce:
    """Offsets of a poll are committed before its records are sent. A record that fails is lost, and is never sent twice."""

    def __init__(
        self,
        producer: OffsetCommitter,
        writer: KafkaWriter,
        encode: EncodeOffsets,
        *,
        flush_seconds: float,
        step: StepHook = unobserved,
    ) -> None:
        self._producer = producer
        self._writer = writer
        self._encode = encode
        self._flush = flush_seconds
        self._step = step
        self._sent = False

    def deliver(self, batches: Sequence[EncodedBatch], offsets: Sequence[SourceOffset]) -> None:
        """Steps: 1 commit the offsets; 2 send the records."""
        with self._step(CommitStep.COMMIT_OFFSETS):  # 1
            _commit(self._producer, self._encode(offsets))
        with self._step(CommitStep.WRITE_RECORDS):  # 2
            for batch in batches:
                self._writer.write(batch)
        self._sent = True

    def is_due(self) -> bool:
        return False

    def commit(self, closing: Sequence[ProducerRecord] = ()) -> bool:
        if not self._sent and not closing:
            return False
        self._writer.flush(self._flush)
        if closing:
            _close(self._producer, closing)
        self._sent = False
        return True

    def abort(self) -> None:
        _abort(self._producer)


class _LatestOffsets:
    """The latest offset of each source partition, in the order in which partitions were first seen."""

    def __init__(self) -> None:
        self._latest: dict[str, SourceOffset] = {}

    def __bool__(self) -> bool:
        return bool(self._latest)

    def add(self, offsets: Iterable[SourceOffset]) -> None:
        for partition, offset in offsets:
            self._latest[json.dumps(partition, sort_keys=True, default=str)] = (partition, offset)

    def all(self) -> list[SourceOffset]:
        return list(self._latest.values())

    def clear(self) -> None:
        self._latest.clear()


def _commit(producer: OffsetCommitter, records: Sequence[ProducerRecord]) -> None:
    producer.begin()
    producer.send(records)
    producer.commit()


def _close(producer: OffsetCommitter, closing: Sequence[ProducerRecord]) -> None:
    """Write the batch log's record of a run that has delivered records, but has no offsets to commit with them.

    If the write takes too long, the run is missing from the batch log. The write must not fail the run, because a retry would write the
    same records again.
    """
    try:
        _commit(producer, closing)
    except RetriableException as error:
        log.warning("All records are delivered, but the run is missing from the batch log: %s", error.message)
        _abort(producer)


def _abort(producer: OffsetCommitter) -> None:
    """Abort, so that readers do not wait for the transaction's timeout. The task ends in any case."""
    with suppress(Exception):
        producer.abort()
