"""A source task's body: producers, topics, offsets and the loop put together."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

from confluent_kafka import Producer

from airflow_provider_connect.errors import ConnectException, StoreException
from airflow_provider_connect.model.connector_keys import strip_framework_keys
from airflow_provider_connect.model.connector_settings import Guarantee, TransactionBoundary
from airflow_provider_connect.model.run import TaskResult
from airflow_provider_connect.model.states import State
from airflow_provider_connect.model.topic_creation import TopicCreation, TopicGroup
from airflow_provider_connect.plugins.validation.reliability import OFFSETS_TOPIC
from airflow_provider_connect.sdk.connector import SourceConnector
from airflow_provider_connect.sdk.records import TopicPartition
from airflow_provider_connect.sdk.task import SourceTask
from airflow_provider_connect.stores.admin_connection import AdminConnection
from airflow_provider_connect.stores.backing import OffsetCommitter, Offsets, repairs
from airflow_provider_connect.stores.batch_log import BatchLog
from airflow_provider_connect.stores.offset_location import OffsetLocation, is_elsewhere
from airflow_provider_connect.stores.offset_store import ProducedOffset
from airflow_provider_connect.stores.topic_admin import Creation, TopicAdmin, TopicSpec
from airflow_provider_connect.stores.transactional_producer import ProducerRecord, TransactionalProducer
from airflow_provider_connect.worker.delivery.kafka_writer import KafkaWriter
from airflow_provider_connect.worker.delivery.native_queue import NativeQueue
from airflow_provider_connect.worker.delivery.source_delivery import (
    AtLeastOnce,
    AtMostOnce,
    ExactlyOnce,
    SourceDelivery,
    SourceOffset,
)
from airflow_provider_connect.worker.delivery.transaction_boundary import Boundary, IntervalBoundary, PollBoundary, RequestedBoundary
from airflow_provider_connect.worker.errors.tolerance import Tolerance
from airflow_provider_connect.worker.metrics import TaskMetrics
from airflow_provider_connect.worker.pipeline.pipeline import SourcePipeline
from airflow_provider_connect.worker.task.contexts import TaskSourceContext
from airflow_provider_connect.worker.task.environment import TaskEnvironment
from airflow_provider_connect.worker.task.error_setup import tolerance_of
from airflow_provider_connect.worker.task.lifecycle import StopReason
from airflow_provider_connect.worker.task.pipeline_setup import stages_of
from airflow_provider_connect.worker.task.source_loop import SourceLoop, TransactionRequests
from airflow_provider_connect.worker.task.task_producers import (
    TAKE_OVER_SECONDS,
    acknowledged_writer,
    interval_ms,
    producer_config,
    transaction_overrides,
    transaction_seconds,
    transactional_producer,
)

log = logging.getLogger(__name__)


def run_source(environment: TaskEnvironment) -> TaskResult:
    """1 take over the id 2 still the newest claim? 3 repair and read offsets 4 start the task 5 the loop."""
    payload, settings = environment.payload, environment.settings
    owner = environment.backing.committer(payload.connector, payload.claim) or transactional_producer(environment)
    owner.take_over()  # 1
    environment.refuse_old_claim()  # 2
    location = OffsetLocation.of(settings, environment.checked.resolved)
    offsets = environment.backing.offsets(location)
    try:
        offsets.ensure()
        if payload.tasks == 1:  # siblings' open transactions look like aborted ones: the planner repairs for several
            owner.write(repairs(offsets, payload.connector))
        known = offsets.read(payload.connector)  # 3
        metrics = environment.metrics(is_source=True)
        boundary = boundary_of(environment)
        requested = boundary if isinstance(boundary, RequestedBoundary) else None
        task = _started(
            environment, TaskSourceContext(environment.task_config, payload.claim, known, lambda: bool(environment.stop), requested)
        )  # 4
        client_id = f"connector-adminclient-{payload.connector}-{payload.task}"
        connection = AdminConnection.of(settings, environment.connector_settings.overrides["admin"], TAKE_OVER_SECONDS, client_id=client_id)
        admin = TopicAdmin(settings, connection=connection)
        written = WrittenRanges(admin)
        try:
            sent: list[ProducedOffset] = []
            errors = tolerance_of(environment, metrics)
            delivery = _delivery(environment, owner, offsets, sent, boundary, errors=errors)
            loop = _loop(environment, task, delivery, errors, _before_write(environment, admin, written, offsets))
            loop.committed = partial(_copy, offsets, sent)
            if requested is not None and isinstance(delivery, ExactlyOnce):
                loop.requests = TransactionRequests(requested, delivery.drop)
            reason = loop.run()  # 5
        finally:
            environment.stopped(task)
    finally:
        offsets.close()
    result = TaskResult(payload.task, stopped_by=reason, records=metrics.records_delivered, bytes=metrics.bytes, metrics=metrics.figures())
    try:
        result.ranges = written.ranges()
    except ConnectException as error:  # everything is delivered and committed: a retry of a bulk read would write it again
        log.warning(
            "Task %s-%s: which offsets it has written is not known: %s", payload.connector, payload.task, environment.mask(error.message)
        )
    return result


def keeps_batch_log(environment: TaskEnvironment) -> bool:
    """Whether the batch log is written in the task's transactions: it lies on the worker's own cluster, and they must too."""
    return environment.backing.keeps_batch_log and not is_elsewhere(environment.settings, transaction_overrides(environment))


def _started(environment: TaskEnvironment, context: TaskSourceContext) -> SourceTask:
    connector = environment.checked.connector
    assert isinstance(connector, SourceConnector)
    task = connector.task_class()
    task.allowed_paths = environment.settings.allowed_paths
    task.header_converter = environment.converters.header
    task.initialize(context)
    task.start(connector.task_config(strip_framework_keys(environment.task_config)))
    environment.report(State.RUNNING)
    return task


def _before_write(environment: TaskEnvironment, admin: TopicAdmin, written: WrittenRanges, offsets: Offsets) -> Callable[[str], None]:
    """What is done before each batch, by its topic: 1 refuse internal topics, as transformations have left it 2 make the topic 3 note where
    it ends."""
    creation = environment.checked.topic_creation
    task = f"{environment.payload.connector}-{environment.payload.task}"
    topics = None if creation is None else NewTopics(task, creation, admin, written.begins)
    own = offsets.topic if environment.payload.guarantee == Guarantee.EXACTLY_ONCE else None
    of_offsets = _offsets_topics(environment)

    def before_write(topic: str) -> None:
        if topic == own:
            raise ConnectException("Source tasks may not produce to their own offsets topics when exactly-once support is enabled")
        reason = environment.settings.refusal_of_data_topic(topic)
        if reason or topic in of_offsets:
            raise ConnectException(f"Records may not go to topic {topic}. {reason or 'It holds the offsets of connectors. Name another.'}")
        if topics is not None:
            topics.ensure(topic)
        written.note(topic)

    return before_write


def _offsets_topics(environment: TaskEnvironment) -> Collection[str]:
    """The topics that connectors keep their own offsets in, as far as their configs name them. One that this connector has written to
    before is its own: a config that names it afterwards must not stop this connector."""
    reserved = environment.configs.read().reserved
    named = {keys.get(OFFSETS_TOPIC, "") for connector, keys in reserved.items() if connector != environment.payload.connector}
    named -= set(environment.payload.known_topics or ())
    return {environment.checked.resolved.get(OFFSETS_TOPIC, "").strip(), *named} - {""}


class NewTopics:
    """The topics that the task makes before it writes to them (KIP-158).

    Looks once for each topic that is written to, and makes it by the settings of its group where it does not exist.

    ``task`` names the task in logs; ``made`` is told of each topic that was made.
    """

    def __init__(self, task: str, creation: TopicCreation, admin: TopicAdmin, made: Callable[[str], None]) -> None:
        self._task = task
        self._creation = creation
        self._admin = admin
        self._made = made
        self._known: set[str] = set()

    def ensure(self, topic: str) -> None:
        """``topic`` is about to be written to. Raises ConnectException where it can neither be found nor made, StoreTimeoutException."""
        if topic in self._known:
            return
        if not self._admin.partitions([topic]):
            self._make(topic, self._creation.group_of(topic))
        self._known.add(topic)

    def _make(self, topic: str, group: TopicGroup) -> None:
        try:
            outcome = self._admin.try_create(TopicSpec(topic, group.partitions, group.replication_factor, group.configs))
        except StoreException as error:
            raise ConnectException(f"Task failed to create new topic {_described(topic, group)}: {error}") from error
        if outcome is Creation.FORBIDDEN:
            raise ConnectException(
                f"Task failed to create new topic {_described(topic, group)}. Ensure that the task is authorized to create topics or that "
                "the topic exists and restart the task"
            )
        if outcome is Creation.CREATED:
            log.info("Task %s: created topic %s using creation group %s", self._task, _described(topic, group), group.name)
            self._made(topic)


def _described(topic: str, group: TopicGroup) -> str:
    configs = ", ".join(f"{name}={text}" for name, text in group.configs.items())
    return f"(name={topic}, numPartitions={group.partitions}, replicationFactor={group.replication_factor}, configs={{{configs}}})"


class WrittenRanges:
    """Which offsets of which topics the run has written to: what asset events and the batch log tell.

    Two looks at the ends of each topic, before its first record and after the last: no delivery report for each record.

    Other writers of the same topic lie in the range too, and so do transaction markers.
    """

    def __init__(self, admin: TopicAdmin) -> None:
        self._admin = admin
        self._before: dict[str, dict[TopicPartition, int]] = {}

    def note(self, topic: str) -> None:
        """``topic`` is about to be written to. Costs a request the first time."""
        if topic not in self._before:
            self._before[topic] = self._ends(topic)

    def begins(self, topic: str) -> None:
        """``topic`` was made a moment ago: there is nothing in it."""
        self._before[topic] = {}

    def ranges(self) -> dict[str, dict[str, list[int]]]:
        """By topic and partition, the end before and the end now, where they differ."""
        return {topic: spans for topic in sorted(self._before) if (spans := self._spans(topic))}

    def _spans(self, topic: str) -> dict[str, list[int]]:
        before = self._before[topic]
        ends = self._ends(topic)
        return {str(p.partition): [before.get(p, 0), end] for p, end in sorted(ends.items()) if end > before.get(p, 0)}

    def _ends(self, topic: str) -> dict[TopicPartition, int]:
        """None for a topic that does not exist yet."""
        count = self._admin.partitions([topic]).get(topic, 0)
        return self._admin.end_offsets([TopicPartition(topic, number) for number in range(count)], read_committed=False)


def boundary_of(environment: TaskEnvironment) -> Boundary:
    """Where the task's transactions end, if it delivers in transactions."""
    connector, settings = environment.connector_settings, environment.settings
    match connector.transaction_boundary:
        case TransactionBoundary.CONNECTOR if environment.payload.guarantee == Guarantee.EXACTLY_ONCE:
            return RequestedBoundary()
        case TransactionBoundary.INTERVAL:
            return IntervalBoundary(interval_ms(environment) / 1000, time.monotonic)
    return PollBoundary(settings.transaction_boundary_poll_linger_ms / 1000, time.monotonic)


def _loop(
    environment: TaskEnvironment, task: SourceTask, delivery: SourceDelivery, errors: Tolerance, before_write: Callable[[str], None]
) -> SourceLoop:
    metrics = errors.metrics
    return SourceLoop(
        task=task,
        pipeline=SourcePipeline(environment.converters, stages_of(environment.checked, environment.converters.header), errors),
        delivery=delivery,
        stop=environment.stop,
        metrics=metrics,
        topics=environment.active_topics(),
        closing=partial(_batch_log_records, environment, metrics),
        before_write=before_write,
        max_records=environment.connector_settings.batch_max_records or environment.settings.batch_max_records,
        sleep=time.sleep,
        mask=environment.mask,
        step=environment.step,
    )


def _copy(offsets: Offsets, sent: list[ProducedOffset]) -> None:
    offsets.copy(sent)
    sent.clear()


def _delivery(
    environment: TaskEnvironment,
    owner: OffsetCommitter,
    offsets: Offsets,
    sent: list[ProducedOffset],
    boundary: Boundary,
    *,
    errors: Tolerance,
) -> SourceDelivery:
    """``sent`` takes the offsets that each commit writes."""

    def encode(latest: Iterable[SourceOffset]) -> Sequence[ProducerRecord]:
        records = offsets.records(environment.payload.connector, list(latest))
        sent.extend(records)
        return [ProducerRecord(offsets.topic, partition, key, value, environment.payload.claim) for partition, key, value in records]

    def give_up() -> bool:
        return environment.stop.reason() in {StopReason.FENCED, StopReason.STOPPED, StopReason.DELETED}

    settings = environment.settings
    if environment.payload.guarantee == Guarantee.EXACTLY_ONCE:
        assert isinstance(owner, TransactionalProducer)  # no other backing offers exactly once
        writer = KafkaWriter(owner.producer, native=NativeQueue.of(owner.producer), give_up=give_up)
        return ExactlyOnce(
            owner,
            writer,
            encode,
            boundary=boundary,
            flush_seconds=TAKE_OVER_SECONDS,
            expiry_seconds=transaction_seconds(environment),
            step=environment.step,
        )
    config = producer_config(environment, environment.connector_settings.overrides["producer"])
    config.pop("transactional.id", None)
    if environment.payload.guarantee == Guarantee.AT_MOST_ONCE:
        writer = KafkaWriter(Producer({**config, "retries": "0", "enable.idempotence": "false"}), give_up=give_up)
        return AtMostOnce(owner, writer, encode, flush_seconds=TAKE_OVER_SECONDS, step=environment.step)
    return AtLeastOnce(
        owner,
        acknowledged_writer(environment, config, errors, give_up),
        encode,
        interval_seconds=settings.offset_flush_interval_ms / 1000,
        flush_seconds=TAKE_OVER_SECONDS,
        now=time.monotonic,
        step=environment.step,
    )


def _batch_log_records(environment: TaskEnvironment, metrics: TaskMetrics) -> Sequence[ProducerRecord]:
    """The batch log's record of this run, for the last transaction."""
    if not keeps_batch_log(environment):
        return []
    return [batch_log_record(environment, metrics, ranges={}, positions={})]


def batch_log_record(
    environment: TaskEnvironment,
    metrics: TaskMetrics,
    *,
    ranges: Mapping[str, Mapping[str, list[int]]],
    positions: Mapping[str, Mapping[str, int]],
) -> ProducerRecord:
    """What this task has delivered in this run so far, as a record of the batch log's topic."""
    payload = environment.payload
    partition, key, value = BatchLog.record(
        environment.settings,
        connector=payload.connector,
        task=payload.task,
        run=payload.run_id,
        claim=payload.claim,
        is_source=metrics.is_source,
        records=metrics.records_delivered,
        size=metrics.bytes,
        seconds=time.monotonic() - environment.started,
        cpu_seconds=time.process_time() - environment.started_cpu,
        ranges=ranges,
        positions=positions,
    )
    return ProducerRecord(environment.settings.batch_topic, partition, key, value)
