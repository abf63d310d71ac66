"""The producers of a task, and the settings of each. Knows nothing of the records that they write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Producer

from airflow_provider_connect.runtime.config.client_settings import client_config
from airflow_provider_connect.runtime.model.connector_settings import TransactionBoundary
from airflow_provider_connect.runtime.model.ids import transactional_id
from airflow_provider_connect.runtime.stores.kafka_errors import LastError
from airflow_provider_connect.runtime.stores.transactional_producer import TransactionalProducer
from airflow_provider_connect.runtime.worker.delivery.kafka_writer import KafkaWriter
from airflow_provider_connect.runtime.worker.delivery.producer_queue import ProducerQueue
from airflow_provider_connect.runtime.worker.delivery.record_limits import RecordLimits
from airflow_provider_connect.runtime.worker.delivery.refused_records import RefusedRecords
from airflow_provider_connect.runtime.worker.errors.tolerance import Tolerance
from airflow_provider_connect.runtime.worker.task.environment import TaskEnvironment

TAKE_OVER_SECONDS = 60.0
LARGEST_RECORD_BYTES = 64 * 1024 * 1024
FAST_PRODUCER: dict[str, Any] = {
    "batch.size": str(1024 * 1024),
    "linger.ms": "20",
    "compression.type": "lz4",
    "reconnect.backoff.ms": "1",  # librdkafka's default of 100 delays the first connection by 50 ms
    "reconnect.backoff.max.ms": "1000",
    "queue.buffering.max.messages": "2000000",
    "queue.buffering.max.kbytes": "2097151",
    "delivery.report.only.error": True,
}
STAYING_LINGER_MS = "2"  # in runs that stay, latency counts more than the size of batches
BOUNDED_BY_WRITER = ("queue.buffering.max.messages", "queue.buffering.max.kbytes")  # it waits before: a full queue would be an error


def transactional_producer(environment: TaskEnvironment) -> TransactionalProducer:
    """The producer that owns the task's id. Nothing is sent before ``take_over``."""
    return TransactionalProducer(Producer(owner_config(environment)), timeout_seconds=TAKE_OVER_SECONDS)


def owner_config(environment: TaskEnvironment) -> dict[str, Any]:
    """The settings of ``transactional_producer``."""
    name = transactional_id(environment.settings.group_id, environment.payload.connector, environment.payload.task)
    return producer_config(
        environment,
        {**_longer_transactions(environment), **_larger_records(environment), **environment.producer_overrides},
        transactional_id=name,
    )


def _longer_transactions(environment: TaskEnvironment) -> dict[str, str]:
    """A transaction timeout that covers an interval, a poll and a commit. Brokers allow at most 15 minutes."""
    is_by_interval = environment.connector_settings.transaction_boundary is TransactionBoundary.INTERVAL
    if not is_by_interval or "producer.transaction.timeout.ms" in environment.settings.values:
        return {}
    return {"transaction.timeout.ms": str(min(interval_ms(environment) + 60_000, 900_000))}


def transaction_seconds(environment: TaskEnvironment) -> float:
    """How long the broker lets a transaction of the task stay open."""
    name = "transaction.timeout.ms"
    of_worker = {name: environment.settings.values.get(f"producer.{name}", "60000")}
    return int({**of_worker, **_longer_transactions(environment), **environment.producer_overrides}[name]) / 1000


def _larger_records(environment: TaskEnvironment) -> dict[str, str]:
    """A larger limit, because dead-letter records contain headers in addition to the record. The broker's limit decides."""
    if environment.connector_settings.errors.dead_letter_topic is None or "producer.max.request.size" in environment.settings.values:
        return {}
    return {"max.request.size": str(LARGEST_RECORD_BYTES)}


def producer_config(environment: TaskEnvironment, overrides: Mapping[str, str], *, transactional_id: str | None = None) -> dict[str, Any]:
    """The settings of a task's producer: Connect's, then faster defaults, then those that the worker and the connector set themselves."""
    client_id = f"connector-producer-{environment.payload.connector}-{environment.payload.task}"
    config = client_config(environment.settings, "producer", overrides, client_id=client_id, transactional_id=transactional_id)
    chosen = {name.removeprefix("producer.") for name in environment.settings.values if name.startswith("producer.")} | set(overrides)
    faster = {**FAST_PRODUCER, "linger.ms": STAYING_LINGER_MS} if environment.payload.endless else FAST_PRODUCER
    fast = {name: value for name, value in faster.items() if name not in chosen or name in BOUNDED_BY_WRITER}
    return {**config, **fast, **LastError().callbacks()}


def interval_ms(environment: TaskEnvironment) -> int:
    """How long a transaction lasts with ``transaction.boundary=interval``."""
    own = environment.connector_settings.transaction_boundary_interval_ms
    return environment.settings.offset_flush_interval_ms if own is None else own


def acknowledged_writer(
    environment: TaskEnvironment, config: dict[str, Any], errors: Tolerance, give_up: Callable[[], bool], limits: RecordLimits
) -> KafkaWriter:
    """A writer of records that are acknowledged before their offsets are committed. If errors are tolerated, each record has a delivery
    report of its own, and a gap is not a fatal error."""
    is_idempotent = _may_be_idempotent(environment)
    if errors.settings.tolerates_all:
        producer = Producer({**config, "enable.idempotence": "true"} if is_idempotent else config)
        return KafkaWriter(producer, give_up=give_up, refused=RefusedRecords(producer, errors.failed), limits=limits)
    producer = Producer({**config, "enable.idempotence": "true", "enable.gapless.guarantee": "true"} if is_idempotent else config)
    is_native = is_idempotent and config.get("sasl.mechanism") != "OAUTHBEARER"  # OAuth tokens are renewed by a callback of the client
    native = ProducerQueue.open(producer, environment.librdkafka, reads_reports=True) if is_native else None
    return KafkaWriter(producer, native=native, give_up=give_up, limits=limits)


def _may_be_idempotent(environment: TaskEnvironment) -> bool:
    """Whether the settings of worker and connector allow idempotence. If not, the producer is not idempotent, as in Connect."""
    overrides = environment.connector_settings.overrides["producer"]
    given = {name.removeprefix("producer."): text for name, text in environment.settings.values.items() if name.startswith("producer.")}
    chosen = given | dict(overrides)
    return chosen.get("acks", "all") in {"all", "-1"} and chosen.get("enable.idempotence", "true").lower() == "true"
