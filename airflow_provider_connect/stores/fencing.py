"""Fencing of transactional ids: afterwards no older producer of the id can commit anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Producer

from airflow_provider_connect.config.client_settings import client_config
from airflow_provider_connect.config.worker_settings import WorkerSettings
from airflow_provider_connect.model.ids import transactional_id
from airflow_provider_connect.stores.kafka_errors import LastError
from airflow_provider_connect.stores.transactional_producer import TransactionalProducer, take_over

FENCE_SECONDS = 30.0


class Fence:
    """Fences the ids of tasks, some at a time: 60 ms each, up to a second where a transaction is open."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings

    def fence(self, connector: str, tasks: Sequence[int], overrides: Mapping[str, str]) -> None:
        """Fence the transactional ids of the connector's ``tasks``. Raises RetriableException when the broker does not answer.

        ``overrides`` are those of the connector's own transactional producers: ids are fenced on the cluster on which they are used.
        """
        if not tasks:
            return
        with ThreadPoolExecutor(max_workers=min(8, len(tasks)), thread_name_prefix="fence") as pool:
            list(pool.map(lambda task: self._fence(self._config(connector, task, overrides)), tasks))

    @contextmanager
    def owner(self, connector: str, overrides: Mapping[str, str]) -> Iterator[TransactionalProducer]:
        """A producer that owns the id of the connector's task 0 from now on. Read after this call what is to be written."""
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
        """confluent-kafka has no fenceProducers: a producer that takes over the id and closes does the same."""
        producer = Producer(config)
        try:
            take_over(producer, FENCE_SECONDS)
        finally:
            producer.close()
