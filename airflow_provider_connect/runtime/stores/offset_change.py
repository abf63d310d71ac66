"""Changes all given offsets or none. Used by a process that runs no task of the connector, with a separate transactional id
(``offsets_change_id``).

Steps of the transaction: 1 take over the id, which ends an open transaction of another change; 2 send everything; 3 check whether the
change is still allowed; 4 commit. A run that starts tasks after the check finds the open transaction, and waits for its end before it reads
offsets. A run that started tasks before the check makes the check fail. So tasks never continue from offsets that are being changed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import StoreTimeoutException
from airflow_provider_connect.runtime.config.client_settings import ClientKind, client_config
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.ids import offsets_change_id
from airflow_provider_connect.runtime.stores.kafka_errors import QUICK, LastError, translating
from airflow_provider_connect.runtime.stores.log_consumer import Closing, CommittedOffset
from airflow_provider_connect.runtime.stores.transactional_producer import ProducerRecord, TransactionalProducer

TRANSACTION_TIMEOUT_MS = 10_000  # if this process dies midway, readers wait no longer than this
_SECONDS = 30.0

_log = logging.getLogger(__name__)


class OffsetChange(Closing):
    """See the module. ``overrides`` are client settings, without a prefix, for the cluster of the offsets. Use it once, then close it."""

    def __init__(self, settings: WorkerSettings, connector: str, overrides: Mapping[str, str]) -> None:
        self._settings = settings
        self._overrides = dict(overrides)
        name = offsets_change_id(settings.group_id, connector)
        limits = {"transaction.timeout.ms": str(TRANSACTION_TIMEOUT_MS)}
        config = client_config(settings, ClientKind.PRODUCER, self._overrides | limits, transactional_id=name)
        quick = {**QUICK, "linger.ms": 0}
        self._owner = TransactionalProducer(Producer({**config, **quick, **LastError().callbacks()}), timeout_seconds=_SECONDS)

    def take_over(self) -> None:
        """Step 1. Read the offsets to change only after this call. Raises RetriableException."""
        self._owner.take_over()

    def write(
        self,
        records: Sequence[ProducerRecord],
        *,
        group: str = "",
        positions: Mapping[TopicPartition, CommittedOffset] | None = None,
        check: Callable[[], None],
    ) -> None:
        """Steps 2 to 4: ``records`` on their topics, and ``positions`` as the offsets of consumer group ``group``, with their metadata.

        ``check`` is step 3. If it raises, the transaction is aborted and the exception propagates. Raises FencedException if another change
        took over. Raises RetriableException if the broker did not answer. Then the outcome of a commit is unknown until the id is taken
        over again.
        """
        if not records and not positions:
            check()
            return
        owner = self._owner
        owner.begin()
        try:
            owner.send(records)  # 2
            if positions:
                self._send_positions(group, positions)
            self._flush()
            check()  # 3
        except BaseException:
            self._abort()
            raise
        owner.commit()  # 4

    def _send_positions(self, group: str, positions: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Adds the group's offsets to the transaction, by a consumer that has not joined the group."""
        consumer = Consumer({**client_config(self._settings, ClientKind.CONSUMER, self._overrides), "group.id": group})
        try:
            asked = [ClientPartition(*partition, known.offset, known.metadata) for partition, known in sorted(positions.items())]
            with translating(f"changing the offsets of group {group}", self._owner.producer):
                self._owner.producer.send_offsets_to_transaction(asked, consumer.consumer_group_metadata(), _SECONDS)
        finally:
            consumer.close()

    def _flush(self) -> None:
        """Waits until everything is on the topics, so that readers see the open transaction."""
        with translating("writing offsets", self._owner.producer):
            left = self._owner.producer.flush(TRANSACTION_TIMEOUT_MS / 1000)
            self._owner.check()
        if left:
            raise StoreTimeoutException(f"{left} offsets were not written in time", stage="writing offsets")

    def _abort(self) -> None:
        try:
            self._owner.abort()
        except Exception as error:  # (the broker will end it)
            _log.debug("A change of offsets could not be aborted: %s", error)

    def close(self) -> None:
        """Closes the client without waiting for an open transaction, which the next owner of the id aborts."""
        self._owner.producer.purge(in_queue=True, in_flight=True, blocking=False)
