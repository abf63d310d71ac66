"""Creates the tolerance, dead letter queue and reporters that a connector's ``errors.*`` settings configure, for one task."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from confluent_kafka import Producer

from airflow_provider_connect.runtime.config.client_settings import ClientKind, client_config
from airflow_provider_connect.runtime.stores.admin_connection import AdminConnection
from airflow_provider_connect.runtime.stores.kafka_errors import LastError
from airflow_provider_connect.runtime.stores.offset_location import sink_overrides
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from airflow_provider_connect.runtime.stores.transactional_producer import TransactionalProducer
from airflow_provider_connect.runtime.worker.delivery.dead_letter_producers import FencedDeadLetterProducer, PlainDeadLetterProducer
from airflow_provider_connect.runtime.worker.delivery.raw_batch import RetainedBatches
from airflow_provider_connect.runtime.worker.delivery.record_limits import RecordLimits
from airflow_provider_connect.runtime.worker.errors.dead_letters import (
    DeadLetterProducer,
    DeadLetterQueue,
    HeaderList,
    context_headers,
    ensure_topic,
)
from airflow_provider_connect.runtime.worker.errors.failures import Failure
from airflow_provider_connect.runtime.worker.errors.sink_transaction import SinkTransaction
from airflow_provider_connect.runtime.worker.errors.tolerance import Tolerance
from airflow_provider_connect.runtime.worker.metrics import TaskMetrics
from airflow_provider_connect.runtime.worker.task.contexts import TaskSinkContext
from airflow_provider_connect.runtime.worker.task.environment import TaskEnvironment
from airflow_provider_connect.runtime.worker.task.errant_records import ErrantRecords
from airflow_provider_connect.runtime.worker.task.sink_errors import SinkErrors
from airflow_provider_connect.runtime.worker.task.task_producers import owner_config
from airflow_provider_connect.sdk.task import ErrantRecordReporter, SinkTask

log = logging.getLogger(__name__)
WRITE_SECONDS = 60.0
ANSWER_SECONDS = 10.0


def create_tolerance(environment: TaskEnvironment, metrics: TaskMetrics, queue: DeadLetterQueue | None = None) -> Tolerance:
    """The task's tolerance, which reports to the log and to ``queue``."""
    return Tolerance(
        environment.connector_settings.errors,
        report=_create_report(environment, metrics, queue),
        metrics=metrics,
        is_stopping=lambda: bool(environment.stop),
        task=f"{environment.payload.connector}-{environment.payload.task}",
        mask=environment.mask,
    )


def create_sink_errors(environment: TaskEnvironment, metrics: TaskMetrics, owner: Callable[[], TransactionalProducer]) -> SinkErrors:
    """A sink's tolerance with its dead letter queue. Creates the topic of the queue if it is missing. ``owner`` returns the producer of the
    task's transactional id."""
    settings = environment.connector_settings.errors
    if settings.dead_letter_topic is None:
        return SinkErrors(create_tolerance(environment, metrics))
    overrides = environment.connector_settings.overrides["admin"]
    connection = AdminConnection.of(environment.settings, overrides, ANSWER_SECONDS, client_id="connector-dlq-adminclient-")
    admin = TopicAdmin(environment.settings, connection=connection)
    ensure_topic(admin, settings.dead_letter_topic, settings.dead_letter_replication_factor)
    name, number = environment.payload.connector, environment.payload.task
    with_context: Callable[[Failure], HeaderList] = partial(context_headers, connector=name, task=number, mask=environment.mask)
    queue = DeadLetterQueue(
        settings.dead_letter_topic,
        _create_dead_letter_producer(environment, owner, admin),
        headers=with_context if settings.dead_letter_context_headers else lambda _: [],
        metrics=metrics,
        writes_through=not settings.tolerates_all,
    )
    return SinkErrors(create_tolerance(environment, metrics, queue), queue, RetainedBatches())


def create_errant_record_reporter(environment: TaskEnvironment, errors: SinkErrors) -> ErrantRecordReporter | None:
    """The reporter for a sink task. None, as in Connect, if neither log nor dead letter queue is configured."""
    if errors.queue is None and not environment.connector_settings.errors.log_enable:
        return None
    return ErrantRecords(errors.tolerance, errors.originals, environment.converters, errors.queue)


def with_transactions(task: SinkTask, context: TaskSinkContext, errors: SinkErrors, environment: TaskEnvironment) -> SinkTask:
    """The task that the loop calls: ``task``, or for a transactional task a SinkTransaction around it."""
    if not task.is_transactional:
        return task
    reporter = ErrantRecords(errors.tolerance, errors.originals, environment.converters, errors.queue)
    return SinkTransaction(task, context, errors.tolerance, reporter.report_all)


def columns_for_reports(environment: TaskEnvironment) -> frozenset[str]:
    """The columns, besides the value, that failure reports need."""
    settings = environment.connector_settings.errors
    if settings.dead_letter_topic is not None:
        return frozenset({"key", "headers", "timestamp"})
    return frozenset({"timestamp"}) if settings.log_include_messages else frozenset()


def _create_report(environment: TaskEnvironment, metrics: TaskMetrics, queue: DeadLetterQueue | None) -> Callable[[Failure], None]:
    """The function that reports a failure, first to the log, then to the dead letter queue."""
    settings, mask = environment.connector_settings.errors, environment.mask
    task = f"{environment.payload.connector}-{environment.payload.task}"

    def report(failure: Failure) -> None:
        if settings.log_enable:
            metrics.errors_logged += 1
            text = f"Error encountered in task {task}. {failure.text(with_record=settings.log_include_messages)}"
            log.error("%s\n%s", mask(text), mask(failure.trace()))
        if queue is not None:
            queue.add(failure)

    return report


def _create_dead_letter_producer(
    environment: TaskEnvironment, owner: Callable[[], TransactionalProducer], admin: TopicAdmin
) -> DeadLetterProducer:
    """A producer that writes in the task's own transactions, if the transactions use the queue's cluster and user. Otherwise a separate
    producer."""
    overrides = environment.connector_settings.overrides["producer"]
    client_id = f"connector-dlq-producer-{environment.payload.connector}-{environment.payload.task}"
    wanted = client_config(environment.settings, ClientKind.PRODUCER, overrides, client_id=client_id)
    if wanted == client_config(
        environment.settings, ClientKind.PRODUCER, sink_overrides(environment.checked.resolved), client_id=client_id
    ):
        return FencedDeadLetterProducer(owner, RecordLimits(owner_config(environment), admin.configs), WRITE_SECONDS)
    producer = Producer({**wanted, "enable.idempotence": "true", **LastError().callbacks()})
    return PlainDeadLetterProducer(producer, RecordLimits(wanted, admin.configs), WRITE_SECONDS)
