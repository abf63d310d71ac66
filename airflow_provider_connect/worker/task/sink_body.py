"""A sink task's body: consumer, group, start positions and the loop put together."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TypeVar

from confluent_kafka import Consumer

from airflow_provider_connect.config.client_settings import client_config
from airflow_provider_connect.errors import ConfigException, StoreTimeoutException
from airflow_provider_connect.model.connector_keys import strip_framework_keys
from airflow_provider_connect.model.connector_settings import Guarantee
from airflow_provider_connect.model.ids import consumer_group, murmur2
from airflow_provider_connect.model.run import TaskResult
from airflow_provider_connect.model.states import State
from airflow_provider_connect.sdk.connector import SinkConnector
from airflow_provider_connect.sdk.records import TopicPartition
from airflow_provider_connect.sdk.task import SinkTask
from airflow_provider_connect.stores.admin_connection import AdminConnection
from airflow_provider_connect.stores.group_offsets import GroupOffsets
from airflow_provider_connect.stores.log_consumer import CommittedOffset
from airflow_provider_connect.stores.offset_location import sink_admin_overrides
from airflow_provider_connect.stores.topic_admin import TopicAdmin
from airflow_provider_connect.stores.transactional_producer import ProducerRecord, TransactionalProducer
from airflow_provider_connect.worker.delivery.ahead_reader import AheadReader
from airflow_provider_connect.worker.delivery.kafka_reader import ENDLESS, READER_SETTINGS, KafkaReader
from airflow_provider_connect.worker.delivery.sink_delivery import CommitAfterPut, CommitBeforePut, GroupCommit, Offsets, SinkDelivery
from airflow_provider_connect.worker.delivery.sink_positions import (
    KnownOffsets,
    Origin,
    StartPosition,
    is_anothers,
    is_fresh,
    owned_by,
    start_position,
)
from airflow_provider_connect.worker.pipeline.pipeline import SinkPipeline
from airflow_provider_connect.worker.task.contexts import TaskSinkContext
from airflow_provider_connect.worker.task.environment import TaskEnvironment
from airflow_provider_connect.worker.task.error_setup import columns_of, errant_records_of, sink_errors_of
from airflow_provider_connect.worker.task.pipeline_setup import stages_of
from airflow_provider_connect.worker.task.sink_errors import SinkErrors
from airflow_provider_connect.worker.task.sink_loop import SinkLoop
from airflow_provider_connect.worker.task.sink_topics import topics_of
from airflow_provider_connect.worker.task.source_body import batch_log_record, keeps_batch_log
from airflow_provider_connect.worker.task.task_producers import transactional_producer

_Value = TypeVar("_Value")
log = logging.getLogger(__name__)
PATIENCE_SECONDS = 60.0
ANSWER_SECONDS = 10.0
COMMIT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class _Kept:
    """What is known of a sink's offsets outside its destination: the group's, and of those that it has lost the batch log's, ``unfinished``
    where a change of them was. ``moved_by_others``: somebody else has committed, or deleted what was committed."""

    committed: Mapping[TopicPartition, CommittedOffset]
    lost: Mapping[TopicPartition, int] = field(default_factory=dict)
    unfinished: Collection[TopicPartition] = ()
    moved_by_others: bool = False


class SinkBody:
    """The parts of one sink task. ``run`` follows the order of ``task_body``."""

    def __init__(self, environment: TaskEnvironment) -> None:
        self._environment = environment
        payload, settings = environment.payload, environment.settings
        overrides = environment.connector_settings.overrides["consumer"]
        self._group = consumer_group(payload.connector, environment.checked.resolved, settings.values)
        of_task = f"{payload.connector}-{payload.task}"
        self._consumer_config = client_config(settings, "consumer", overrides, client_id=f"connector-consumer-{of_task}")
        self._reset = str(self._consumer_config.get("auto.offset.reset", "earliest"))
        admin_overrides, client_id = sink_admin_overrides(environment.checked.resolved), f"connector-adminclient-{of_task}"
        connection = AdminConnection.of(settings, admin_overrides, ANSWER_SECONDS, client_id=client_id)
        self._admin = TopicAdmin(settings, connection=connection)
        self._groups = GroupOffsets(settings, connection=connection)
        self._metrics = environment.metrics(is_source=False)
        self._starts: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._batch_log_positions: dict[TopicPartition, int] = {}
        self._exactly_once = payload.guarantee == Guarantee.EXACTLY_ONCE

    def run(self) -> TaskResult:
        """1 take over the id 2 still the newest claim? 3 start and open the task 4 read offsets, commit the starts 5 the loop."""
        environment = self._environment
        owner = self._owner()  # 1, 2
        consumer = Consumer(
            {**READER_SETTINGS, **self._consumer_config, "isolation.level": self._isolation(), "group.id": self._group} | _FORCED
        )
        commit = GroupCommit(
            owner,
            consumer,
            renewed=self._owner,
            group=self._group,
            claim=str(environment.payload.claim),
            members=self._members,
            batch_log=self._batch_log_records,
            timeout_seconds=COMMIT_SECONDS,
        )
        commit.refuse_strangers()
        try:
            return self._with_task(consumer, commit)
        finally:
            consumer.close()

    def _with_task(self, consumer: Consumer, commit: GroupCommit) -> TaskResult:
        environment = self._environment
        connector = environment.checked.connector
        assert isinstance(connector, SinkConnector)
        context = TaskSinkContext(environment.task_config, environment.payload.claim, guarantee=Guarantee(environment.payload.guarantee))
        errors = sink_errors_of(environment, self._metrics, lambda: commit.owner)
        context.errant_record_reporter = errant_records_of(environment, errors)
        task = connector.task_class()
        task.allowed_paths = environment.settings.allowed_paths
        task.header_converter = environment.converters.header
        task.initialize(context)
        partitions = self._partitions()
        self._metrics.partitions = len(partitions)
        context.assignment = partitions
        try:
            task.start(connector.task_config(strip_framework_keys(environment.task_config)))  # 3
            starts = self._open(task, context, partitions, commit)  # 4
            environment.report(State.RUNNING)
            endless = environment.payload.endless
            ranges = {p: (start, ENDLESS if endless else max(start, self._ends[p])) for p, start in starts.items()}
            try:
                with AheadReader(KafkaReader(consumer, ranges, self._columns(task))) as reader:
                    reason = self._loop(task, context, reader, commit, errors).run()  # 5
            finally:
                task.close(partitions)
        finally:
            environment.stopped(task)
        result = TaskResult(environment.payload.task, stopped_by=reason, records=self._metrics.records_out, bytes=self._metrics.bytes)
        result.ranges = _nested({p: [self._starts[p], n] for p, n in reader.positions.items() if n > self._starts[p]})
        result.metrics = self._metrics.figures()
        return result

    def _owner(self) -> TransactionalProducer:
        """Take over the id, whoever had it, and look whether the claim is still the newest."""
        owner = transactional_producer(self._environment)
        owner.take_over()
        self._environment.refuse_old_claim()
        return owner

    def _members(self) -> Sequence[str]:
        """Who is in the group; asked again, by a new client each time, while the broker is away, but not for longer than the patience."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return self._groups.members(self._group)
            except StoreTimeoutException:
                if time.monotonic() + ANSWER_SECONDS > deadline:
                    raise

    def _partitions(self) -> list[TopicPartition]:
        """The partitions of the connector's topics that this task owns."""
        payload = self._environment.payload
        counts = topics_of(self._environment.connector_settings, self._admin)
        spread = {topic: murmur2(topic.encode()) & 0x7FFFFFFF for topic in counts}
        every = [TopicPartition(topic, number) for topic, count in sorted(counts.items()) for number in range(count)]
        return [p for p in every if owned_by(p, payload.task, payload.tasks, spread)]

    def _open(self, task: SinkTask, context: TaskSinkContext, partitions: Sequence[TopicPartition], commit: GroupCommit) -> Offsets:
        """Where to start in each partition; what differs is written to the destination first, then to the group."""
        kept = self._kept()
        context.moved_by_others = kept.moved_by_others
        destination = task.open(partitions) if partitions else None
        starts = self._decided(partitions, kept, destination or {})
        rewrites = {p: s.offset for p, s in starts.items() if s.rewrite_destination and s.origin is not Origin.DESTINATION}
        if rewrites and self._exactly_once:
            task.pre_commit(rewrites)
        for partition, start in starts.items():
            if start.origin in {Origin.BATCH_LOG, Origin.DESTINATION} and start.commit_group:
                log.info("Task %s-%s: offset %d of %s is %s", *self._name, start.offset, partition, start.origin)
        self._starts = {p: s.offset for p, s in starts.items()}
        self._batch_log_positions.update(self._starts)
        if any(s.commit_group for s in starts.values()):
            commit.commit(self._starts)
        return self._starts

    @property
    def _name(self) -> tuple[str, int]:
        return self._environment.payload.connector, self._environment.payload.task

    def _kept(self) -> _Kept:
        """What the group and the batch log say of the connector's topics. The batch log counts only where the group says nothing."""
        name, reads = self._environment.payload.connector, self._environment.connector_settings.reads_topic
        committed = {p: known for p, known in self._groups.committed(self._group).items() if reads(p.topic)}
        moved = any(is_anothers(known.metadata) for known in committed.values())
        with closing(self._environment.backing.batch_log()) as store:
            gone = {p for p in store.last(name) if p not in committed and reads(p.topic)}
            if not gone:
                return _Kept(committed, moved_by_others=moved)
            lost = store.lost(name, self._groups.retention_seconds(), time.time())
            return _Kept(committed, lost, store.unfinished(name), moved_by_others=moved or not gone <= lost.keys())

    def _decided(
        self, partitions: Sequence[TopicPartition], kept: _Kept, destination: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, StartPosition]:
        beginnings = self._admin.beginning_offsets(partitions)
        ends = self._admin.end_offsets(partitions, read_committed=self._isolation() == "read_committed")
        highs = self._admin.end_offsets(partitions, read_committed=False)
        starts: dict[TopicPartition, StartPosition] = {}
        for partition in partitions:
            group = kept.committed.get(partition)
            known = KnownOffsets(
                beginning=beginnings[partition],
                end=ends[partition],
                high=highs[partition],
                group=None if group is None else group.offset,
                mark="" if group is None else group.metadata,
                is_fresh=group is not None and is_fresh(group.metadata, time.time()),
                destination=destination.get(partition),
                batch_log=kept.lost.get(partition),
                is_unfinished=partition in kept.unfinished,
            )
            self._ends[partition] = ends[partition]
            starts[partition] = start_position(partition, known, exactly_once=self._exactly_once, reset=self._reset)
        return starts

    def _loop(self, task: SinkTask, context: TaskSinkContext, reader: AheadReader, commit: GroupCommit, errors: SinkErrors) -> SinkLoop:
        environment = self._environment
        kind = CommitBeforePut if environment.payload.guarantee == Guarantee.AT_MOST_ONCE else CommitAfterPut
        delivery: SinkDelivery = kind(commit, environment.step)
        return SinkLoop(
            task=task,
            context=context,
            reader=reader,
            pipeline=SinkPipeline(environment.converters, stages_of(environment.checked, environment.converters.header), errors.tolerance),
            delivery=delivery,
            stop=environment.stop,
            metrics=self._metrics,
            topics=environment.active_topics(),
            interval_seconds=environment.settings.offset_flush_interval_ms / 1000,
            patience_seconds=PATIENCE_SECONDS,
            max_records=environment.connector_settings.batch_max_records or environment.settings.batch_max_records,
            now=time.monotonic,
            sleep=time.sleep,
            endless=environment.payload.endless,
            errors=errors,
        )

    def _columns(self, task: SinkTask) -> frozenset[str]:
        """A task may declare that it reads less than everything (``SinkTask.reads``); transformations and dead letters want it all."""
        if self._environment.connector_settings.transforms:
            return frozenset({"key", "headers", "timestamp"})
        return frozenset(task.reads) | columns_of(self._environment)

    def _isolation(self) -> str:
        level = str(self._consumer_config.get("isolation.level", "read_committed"))
        if level not in {"read_committed", "read_uncommitted"}:
            raise ConfigException.of("consumer.override.isolation.level", level, "String must be one of: read_committed, read_uncommitted")
        return level

    def _batch_log_records(self, offsets: Offsets) -> Sequence[ProducerRecord]:
        self._batch_log_positions.update(offsets)
        if not keeps_batch_log(self._environment):
            return []
        ranges = {p: [self._starts[p], n] for p, n in self._batch_log_positions.items() if n > self._starts.get(p, n)}
        return [batch_log_record(self._environment, self._metrics, ranges=_nested(ranges), positions=_nested(self._batch_log_positions))]


_FORCED = {"enable.auto.commit": "false", "enable.auto.offset.store": "false", "enable.partition.eof": "true"}


def run_sink(environment: TaskEnvironment) -> TaskResult:
    """Run a sink task."""
    return SinkBody(environment).run()


def _nested(values: Mapping[TopicPartition, _Value]) -> dict[str, dict[str, _Value]]:
    nested: dict[str, dict[str, _Value]] = {}
    for partition, value in sorted(values.items()):
        nested.setdefault(partition.topic, {})[str(partition.partition)] = value
    return nested
