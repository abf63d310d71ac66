"""Sets up a source task: producers, topics, offsets and loop."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from confluent_kafka import Producer

from airflow_provider_connect.data.records import Distance
from airflow_provider_connect.data.schema import Schema
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.model.batches import MOST_RANGES, Stay
from airflow_provider_connect.runtime.model.connector_keys import strip_framework_keys
from airflow_provider_connect.runtime.model.connector_settings import Guarantee, TransactionBoundary
from airflow_provider_connect.runtime.model.offsets import OffsetRecord
from airflow_provider_connect.runtime.model.run import Claim, TaskResult
from airflow_provider_connect.runtime.model.states import State
from airflow_provider_connect.runtime.stores.backing import OffsetCommitter, Offsets, repair_records
from airflow_provider_connect.runtime.stores.offset_location import OffsetLocation
from airflow_provider_connect.runtime.stores.offset_store import ProducedOffset, SourceOffsets, decode_produced
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from airflow_provider_connect.runtime.stores.transactional_producer import ProducerRecord, TransactionalProducer
from airflow_provider_connect.runtime.worker.delivery.kafka_writer import KafkaWriter
from airflow_provider_connect.runtime.worker.delivery.producer_queue import ProducerQueue
from airflow_provider_connect.runtime.worker.delivery.record_limits import RecordLimits
from airflow_provider_connect.runtime.worker.delivery.source_delivery import (
    AtLeastOnce,
    AtMostOnce,
    ExactlyOnce,
    SourceDelivery,
    SourceOffset,
)
from airflow_provider_connect.runtime.worker.delivery.transaction_boundary import (
    Boundary,
    IntervalBoundary,
    PollBoundary,
    RequestedBoundary,
)
from airflow_provider_connect.runtime.worker.errors.tolerance import Tolerance
from airflow_provider_connect.runtime.worker.pipeline.source_pipeline import SourcePipeline
from airflow_provider_connect.runtime.worker.task.after_commit import AfterCommit
from airflow_provider_connect.runtime.worker.task.contexts import TaskSourceContext, WorkersKafka
from airflow_provider_connect.runtime.worker.task.environment import TaskEnvironment
from airflow_provider_connect.runtime.worker.task.error_setup import create_tolerance
from airflow_provider_connect.runtime.worker.task.lineage import topic_fields
from airflow_provider_connect.runtime.worker.task.offsets_topic import refuse_lost_offsets
from airflow_provider_connect.runtime.worker.task.pipeline_setup import configure_task, create_stages
from airflow_provider_connect.runtime.worker.task.progress import ProgressLog, distance_of
from airflow_provider_connect.runtime.worker.task.renewal import Renewal
from airflow_provider_connect.runtime.worker.task.run_progress import RunProgress
from airflow_provider_connect.runtime.worker.task.source_loop import SourceLoop, TransactionRequests
from airflow_provider_connect.runtime.worker.task.stop_signal import StopReason
from airflow_provider_connect.runtime.worker.task.task_producers import (
    TAKE_OVER_SECONDS,
    acknowledged_writer,
    interval_ms,
    producer_config,
    transaction_seconds,
    transactional_producer,
)
from airflow_provider_connect.runtime.worker.task.task_runner import TaskRunner
from airflow_provider_connect.runtime.worker.task.written_topics import Ranges, WrittenTopics
from airflow_provider_connect.sdk.connector import SourceConnector
from airflow_provider_connect.sdk.task import SourceTask

log = logging.getLogger(__name__)


class TaskOffsets:
    """The offsets that a task commits, as records. After each commit, ``copy`` copies them to the worker's topic."""

    def __init__(self, store: Offsets, connector: str, claim: Claim) -> None:
        self._store = store
        self._connector = connector
        self._claim = claim
        self._uncopied: list[ProducedOffset] = []
        self._committed: dict[bytes, OffsetRecord] | None = None
        self.written = 0

    def follow(self, known: SourceOffsets) -> None:
        """Begin to track the committed offsets for ``committed``. ``known`` are the offsets at the beginning."""
        self._committed = dict(known.by_key)

    def committed(self) -> SourceOffsets:
        """The offsets that are committed now. Call ``follow`` before."""
        return SourceOffsets(self._connector, self._committed or {})

    def records(self, latest: Iterable[SourceOffset]) -> Sequence[ProducerRecord]:
        produced = self._store.records(self._connector, [(partition, offset or None) for partition, offset in latest])
        self._uncopied.extend(produced)
        return [ProducerRecord(self._store.topic, partition, key, value, self._claim) for partition, key, value in produced]

    def copy(self) -> None:
        self._store.copy(self._uncopied)
        self.written += len(self._uncopied)
        if self._committed is not None:
            self._committed.update(decode_produced(self._uncopied))
        self._uncopied.clear()


class SourceTaskRunner(TaskRunner[SourceOffsets, SourceLoop]):
    """See ``TaskRunner``."""

    def __init__(self, environment: TaskEnvironment) -> None:
        super().__init__(environment, is_source=True)
        payload, settings = environment.payload, environment.settings
        committer = environment.backing.committer(payload.connector, payload.claim)
        self._owner: OffsetCommitter = committer or transactional_producer(environment)
        self._store = environment.backing.offsets(OffsetLocation.of(settings, environment.checked.resolved))
        self._offsets = TaskOffsets(self._store, payload.connector, payload.claim)
        self._topic_ids: Mapping[str, str] = {}  # of the offsets topic, if this cluster has it
        self._progress: RunProgress | None = None
        self._schemas: dict[str, Schema | None] = {}  # schemas of the values by topic, for lineage
        self._boundary = create_boundary(environment)
        self._connection = self._admin_connection(environment.connector_settings.overrides["admin"], TAKE_OVER_SECONDS)
        self._admin = TopicAdmin(settings, connection=self._connection)
        is_transactional = payload.guarantee == Guarantee.EXACTLY_ONCE
        overrides = environment.producer_overrides if is_transactional else environment.connector_settings.overrides["producer"]
        self._limits = RecordLimits(producer_config(environment, overrides), self._admin.configs)

    def take_over(self) -> None:
        self._owner.take_over()

    def read_offsets(self) -> SourceOffsets:
        payload = self._environment.payload
        self._open.callback(self._store.close)
        self._store.ensure()
        if payload.tasks == 1:  # open transactions of other tasks look like aborted ones: if there are several tasks, the planner repairs
            self._owner.write(repair_records(self._store, payload.connector))
        known = self._store.read(payload.connector)
        if self._has_batch_log:
            self._topic_ids = self._admin.topic_ids([self._store.topic])
            if not known.by_key:
                refuse_lost_offsets(self._environment, self._topic_ids)
        return known

    def start(self, known: SourceOffsets) -> SourceLoop:
        environment = self._environment
        requested = self._boundary if isinstance(self._boundary, RequestedBoundary) else None
        errors = create_tolerance(environment, self._metrics)
        after_commit = AfterCommit(environment.mask)
        create_task = partial(self._create_task, errors=errors, requested=requested, after_commit=after_commit)
        task = create_task(known)
        environment.report(State.RUNNING)
        delivery = self._delivery(errors)
        transactions = None
        if requested is not None and isinstance(delivery, ExactlyOnce):
            transactions = TransactionRequests(requested, delivery.drop)
        self._distance = self._task_distance
        progress = ProgressLog(str(self._name), self._metrics, distance=self._distance, endless=environment.payload.endless)
        self._progress = RunProgress(
            self._metrics,
            environment.max_records,
            topics=WrittenTopics(environment, self._admin, self._store.topic),
            active_topics=environment.active_topics(),
            stays=self._logs_ranges,
            batch_log_entry=self._entry,
            copy_offsets=self._offsets.copy,
            tick=self._turn(progress, self._connection),
            note_position=environment.note_position,
            has_offsets=bool(known.by_key),
        )
        return SourceLoop(
            task=task,
            pipeline=SourcePipeline(
                environment.converters, create_stages(environment.checked, environment.converters.header), errors, self._schemas
            ),
            delivery=delivery,
            progress=self._progress,
            stop=environment.stop,
            transactions=transactions,
            limits=self._limits,
            mask=environment.mask,
            step=environment.step,
            renew=self._renewal(known, create_task) if environment.payload.endless else None,
            idle_seconds=environment.payload.idle_seconds,
            after_commit=after_commit,
        )

    def _create_task(
        self, known: SourceOffsets, *, errors: Tolerance, requested: RequestedBoundary | None, after_commit: AfterCommit
    ) -> SourceTask:
        environment, connector = self._environment, self._connector
        context = TaskSourceContext(
            environment.task_config,
            environment.payload.claim,
            known,
            lambda: bool(environment.stop),
            requested,
            kafka=WorkersKafka(environment.checked, environment.settings, environment.converters, errors, environment.librdkafka),
            after_commit=after_commit,
            note_lost=self._metrics.note_lost,
        )
        task = configure_task(connector.task_class(), connector, environment.converters.header)
        self._stop_at_end(task)
        task.initialize(context)
        task.start(connector.task_config(strip_framework_keys(environment.task_config)))
        return task

    def _renewal(self, known: SourceOffsets, create_task: Callable[[SourceOffsets], SourceTask]) -> Renewal:
        self._offsets.follow(known)
        environment, connector = self._environment, self._connector
        renewal = Renewal(
            self._name,
            connector,
            strip_framework_keys({**connector.default_settings, **environment.checked.resolved}),
            offsets=self._offsets.committed,
            create_task=create_task,
            stop=environment.stop,
            records=lambda: self._metrics.records_in,
            offsets_written=lambda: self._offsets.written,
            note_missing=environment.note_missing,
            mask=environment.mask,
            idle_seconds=environment.payload.idle_seconds,
        )
        self._open.callback(renewal.close)
        return renewal

    @property
    def _connector(self) -> SourceConnector:
        connector = self._environment.checked.connector
        assert isinstance(connector, SourceConnector)
        return connector

    def _task_distance(self) -> Distance | None:
        task = self._task_of_author
        return distance_of(task) if isinstance(task, SourceTask) else None

    def _entry(self, ranges: Ranges, stay: Stay | None) -> Sequence[ProducerRecord]:
        is_too_large = sum(map(len, ranges.values())) > MOST_RANGES
        ids = self._topic_ids if self._progress is not None and self._progress.has_offsets else {}
        return self._batch_log(ranges={} if is_too_large else ranges, positions={}, topic_ids=ids, stay=stay)

    def result(self, loop: SourceLoop, reason: StopReason | None) -> TaskResult:
        environment, metrics = self._environment, self._metrics
        task, records = environment.payload.task, metrics.records_delivered
        result = TaskResult(task, stopped_by=reason, records=records, bytes=metrics.bytes, metrics=metrics.by_name())
        result.topics = topic_fields(self._schemas, environment.mask)
        try:
            result.ranges = loop.progress.ranges()
        except ConnectException as error:  # everything is delivered and committed: a retry of a bulk read would write it again
            log.warning("Task %s: which offsets it has written is not known: %s", self._name, environment.mask(error.message))
        if reason is StopReason.FENCED:
            self._leave_out_uncommitted(result)
        return result

    def _delivery(self, errors: Tolerance) -> SourceDelivery:
        environment, owner, encode = self._environment, self._owner, self._offsets.records
        guarantee, give_up = environment.payload.guarantee, environment.stop.is_final
        if guarantee == Guarantee.EXACTLY_ONCE:
            assert isinstance(owner, TransactionalProducer)  # no other backing offers exactly once
            return ExactlyOnce(
                owner,
                KafkaWriter(
                    owner.producer, native=ProducerQueue.open(owner.producer, environment.librdkafka), give_up=give_up, limits=self._limits
                ),
                encode,
                boundary=self._boundary,
                flush_seconds=TAKE_OVER_SECONDS,
                expiry_seconds=transaction_seconds(environment),
                step=environment.step,
            )
        config = producer_config(environment, environment.connector_settings.overrides["producer"])
        config.pop("transactional.id", None)
        if guarantee == Guarantee.AT_MOST_ONCE:
            writer = KafkaWriter(Producer({**config, "retries": "0", "enable.idempotence": "false"}), give_up=give_up, limits=self._limits)
            return AtMostOnce(owner, writer, encode, flush_seconds=TAKE_OVER_SECONDS, step=environment.step)
        return AtLeastOnce(
            owner,
            acknowledged_writer(environment, config, errors, give_up, self._limits),
            encode,
            interval_seconds=environment.settings.offset_flush_interval_ms / 1000,
            flush_seconds=TAKE_OVER_SECONDS,
            now=time.monotonic,
            step=environment.step,
        )


def create_boundary(environment: TaskEnvironment) -> Boundary:
    """Where the task's transactions end, if the task delivers in transactions."""
    match environment.connector_settings.transaction_boundary:
        case TransactionBoundary.CONNECTOR if environment.payload.guarantee == Guarantee.EXACTLY_ONCE:
            return RequestedBoundary()
        case TransactionBoundary.INTERVAL:
            return IntervalBoundary(interval_ms(environment) / 1000, time.monotonic)
    return PollBoundary(environment.settings.transaction_boundary_poll_linger_ms / 1000, time.monotonic)
