"""What a connector's ``errors.*`` settings ask for, made for one task."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from confluent_kafka import Producer

from airflow_provider_connect.client_settings import ClientKind, client_config
from airflow_provider_connect.sdk.task import ErrantRecordReporter
from airflow_provider_connect.stores.kafka_errors import LastError
from airflow_provider_connect.stores.offset_place import sink_overrides
from airflow_provider_connect.stores.topic_admin import AdminConnection, TopicAdmin
from airflow_provider_connect.stores.transactional_producer import TransactionalProducer
from airflow_provider_connect.worker.consumed_records import Originals
from airflow_provider_connect.worker.dead_letters import (
    DeadLetterQueue,
    FencedLetters,
    HeaderList,
    LetterProducer,
    PlainLetters,
    context_headers,
    ensure_topic,
)
from airflow_provider_connect.worker.errant_records import ErrantRecords
from airflow_provider_connect.worker.failures import Failure
from airflow_provider_connect.worker.metrics import TaskMetrics
from airflow_provider_connect.worker.sink_errors import SinkErrors
from airflow_provider_connect.worker.task_body import TaskScene
from airflow_provider_connect.worker.tolerance import Tolerance

log = logging.getLogger(__name__)
WRITE_SECONDS = 60.0
ANSWER_SECONDS = 10.0


def tolerance_of(scene: TaskScene, metrics: TaskMetrics, queue: DeadLetterQueue | None = None) -> Tolerance:
    """The task's tolerance, which tells log and ``queue``."""
    return Tolerance(
        scene.connector_settings.errors,
        report=_reports(scene, metrics, queue),
        metrics=metrics,
        is_stopping=lambda: bool(scene.stop),
    )


def sink_errors_of(scene: TaskScene, metrics: TaskMetrics, owner: Callable[[], TransactionalProducer]) -> SinkErrors:
    """A sink's tolerance with its dead letter queue, whose topic is made where it is missing. ``owner`` has the task's transactional id."""
    settings = scene.connector_settings.errors
    if settings.dead_letter_topic is None:
        return SinkErrors(tolerance_of(scene, metrics))
    overrides = scene.connector_settings.overrides["admin"]
    connection = AdminConnection.of(scene.settings, overrides, ANSWER_SECONDS, client_id="connector-dlq-adminclient-")
    admin = TopicAdmin(scene.settings, connection=connection)
    ensure_topic(admin, settings.dead_letter_topic, settings.dead_letter_replication_factor)
    name, number = scene.payload.connector, scene.payload.task
    with_context: Callable[[Failure], HeaderList] = partial(context_headers, connector=name, task=number, mask=scene.mask)
    queue = DeadLetterQueue(
        settings.dead_letter_topic,
        _letters(scene, owner),
        headers=with_context if settings.dead_letter_context_headers else lambda _: [],
        metrics=metrics,
        writes_through=not settings.tolerates_all,
    )
    return SinkErrors(tolerance_of(scene, metrics, queue), queue, Originals())


def errant_records_of(scene: TaskScene, errors: SinkErrors) -> ErrantRecordReporter | None:
    """The reporter that a sink task is offered. None, as in Connect, where neither a log nor a queue would hear of it."""
    if errors.queue is None and not scene.connector_settings.errors.log_enable:
        return None
    return ErrantRecords(errors.tolerance, errors.originals, scene.converters, errors.queue)


def columns_of(scene: TaskScene) -> frozenset[str]:
    """What has to be read besides the value so that failures can be told."""
    settings = scene.connector_settings.errors
    if settings.dead_letter_topic is not None:
        return frozenset({"key", "headers", "timestamp"})
    return frozenset({"timestamp"}) if settings.log_include_messages else frozenset()


def _reports(scene: TaskScene, metrics: TaskMetrics, queue: DeadLetterQueue | None) -> Callable[[Failure], None]:
    """1 the log 2 the dead letter queue."""
    settings, mask = scene.connector_settings.errors, scene.mask
    task = f"{scene.payload.connector}-{scene.payload.task}"

    def report(failure: Failure) -> None:
        if settings.log_enable:
            metrics.errors_logged += 1
            text = f"Error encountered in task {task}. {failure.text(with_record=settings.log_include_messages)}"
            log.error("%s\n%s", mask(text), mask(failure.trace()))
        if queue is not None:
            queue.add(failure)

    return report


def _letters(scene: TaskScene, owner: Callable[[], TransactionalProducer]) -> LetterProducer:
    """In the task's own transactions where its owner goes to the same cluster, as the same user, as Connect's own producer would."""
    overrides = scene.connector_settings.overrides["producer"]
    client_id = f"connector-dlq-producer-{scene.payload.connector}-{scene.payload.task}"
    wanted = client_config(scene.settings, ClientKind.PRODUCER, overrides, client_id=client_id)
    if wanted == client_config(scene.settings, ClientKind.PRODUCER, sink_overrides(scene.checked.resolved), client_id=client_id):
        return FencedLetters(owner, WRITE_SECONDS)
    return PlainLetters(Producer({**wanted, "enable.idempotence": "true", **LastError().callbacks()}), WRITE_SECONDS)
