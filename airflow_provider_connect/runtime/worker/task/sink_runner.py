"""Sets up a sink task: consumer, group, start positions and loop."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial

from airflow_provider_connect.data.records import Distance, TopicPartition
from airflow_provider_connect.errors import ChangedInputException, ConfigException, ConnectException, StoreTimeoutException
from airflow_provider_connect.runtime.model.backfill import read_partitions, recreated_topics
from airflow_provider_connect.runtime.model.batches import Stay
from airflow_provider_connect.runtime.model.connector_keys import names_of, own_config_def, sink_config_def, strip_framework_keys
from airflow_provider_connect.runtime.model.connector_settings import Guarantee
from airflow_provider_connect.runtime.model.run import TaskResult
from airflow_provider_connect.runtime.model.states import State
from airflow_provider_connect.runtime.stores.group_offsets import GroupOffsets
from airflow_provider_connect.runtime.stores.log_consumer import CommittedOffset
from airflow_provider_connect.runtime.stores.offset_location import sink_admin_overrides
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin, known_ids
from airflow_provider_connect.runtime.stores.transactional_producer import ProducerRecord, TransactionalProducer
from airflow_provider_connect.runtime.worker.delivery.kafka_reader import ENDLESS, AheadReader, KafkaReader
from airflow_provider_connect.runtime.worker.delivery.sink_delivery import (
    CommitAfterPut,
    CommitBeforePut,
    GroupCommit,
    Offsets,
    SinkDelivery,
    checked_offsets,
)
from airflow_provider_connect.runtime.worker.delivery.sink_positions import (
    KnownOffsets,
    Origin,
    Rollback,
    StartPosition,
    by_topic,
    destination_mark,
    group_mark,
    is_foreign_commit,
    is_of_destination,
    is_of_topic,
    is_owned_by,
    partitions_of,
    start_position,
    topics_of,
    was_committed_recently,
)
from airflow_provider_connect.runtime.worker.missing import missing_topics
from airflow_provider_connect.runtime.worker.pipeline.sink_pipeline import ALL_COLUMNS, SinkPipeline
from airflow_provider_connect.runtime.worker.task.contexts import TaskSinkContext
from airflow_provider_connect.runtime.worker.task.environment import TaskEnvironment
from airflow_provider_connect.runtime.worker.task.error_setup import (
    columns_for_reports,
    create_errant_record_reporter,
    create_sink_errors,
    with_transactions,
)
from airflow_provider_connect.runtime.worker.task.lineage import topic_fields
from airflow_provider_connect.runtime.worker.task.pipeline_setup import configure_task, create_stages
from airflow_provider_connect.runtime.worker.task.progress import ProgressLog
from airflow_provider_connect.runtime.worker.task.sink_input import Bounds, SinkInput
from airflow_provider_connect.runtime.worker.task.sink_loop import SinkLoop
from airflow_provider_connect.runtime.worker.task.stop_signal import StopReason
from airflow_provider_connect.runtime.worker.task.task_producers import transactional_producer
from airflow_provider_connect.runtime.worker.task.task_runner import TaskRunner
from airflow_provider_connect.sdk.config_def import Type
from airflow_provider_connect.sdk.connector import SinkConnector
from airflow_provider_connect.sdk.task import SinkTask

log = logging.getLogger(__name__)
SILENCE_SECONDS = 60.0
ANSWER_SECONDS = 10.0
COMMIT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class KnownPartitions:
    """A sink's partitions, and their known offsets outside the destination: the group's offsets, and the batch log's offsets of partitions
    in ``lost``. The group has lost the offsets of the partitions in ``lost``. In ``unfinished`` partitions, a change over REST was
    interrupted. This destination has also committed the offsets of the partitions in ``lost_here``. ``has_external_commits``: another
    program has committed or deleted offsets."""

    partitions: Sequence[TopicPartition]
    committed: Mapping[TopicPartition, CommittedOffset]
    lost: Mapping[TopicPartition, int] = field(default_factory=dict)
    unfinished: Collection[TopicPartition] = ()
    lost_here: Collection[TopicPartition] = ()
    has_external_commits: bool = False


class SinkTaskRunner(TaskRunner[KnownPartitions, SinkLoop]):
    """See ``TaskRunner``. A start also opens the task's partitions, and commits the start positions."""

    def __init__(self, environment: TaskEnvironment) -> None:
        super().__init__(environment, is_source=False)
        payload, settings = environment.payload, environment.settings
        self._input = SinkInput(environment.checked, settings, client_id=f"connector-consumer-{self._name}", endless=payload.endless)
        self._connection = self._admin_connection(sink_admin_overrides(environment.checked.resolved), ANSWER_SECONDS)
        self._admin = TopicAdmin(settings, connection=self._connection)
        self._groups = GroupOffsets(settings, connection=self._connection)
        self._exactly_once = payload.guarantee == Guarantee.EXACTLY_ONCE
        self._topic_ids: Mapping[str, str] = {}
        connector = environment.checked.connector
        assert isinstance(connector, SinkConnector)
        location = _settings_of_destination(connector, environment.checked.raw)
        self._destination = destination_mark(location) if self._exactly_once else ""  # for the group's marks
        self._starts: dict[TopicPartition, int] = {}
        self._logged: dict[TopicPartition, int] = {}  # the positions in the batch log
        self._consumer = self._input.open_consumer()
        self._open.callback(self._consumer.close)
        self._commit = GroupCommit(
            transactional_producer(environment),
            self._consumer,
            renewed=self._renewed_owner,
            group=self._input.group,
            mark=self._mark,
            members=self._members,
            batch_log=self._batch_log_of,
            timeout_seconds=COMMIT_SECONDS,
            stored=self._stored_offsets,
        )

    def take_over(self) -> None:
        self._commit.owner.take_over()

    def read_offsets(self) -> KnownPartitions:
        """The batch log is used only if the group has no offset. Offsets of topics that were recreated after the commit are left out."""
        self._commit.refuse_other_members()
        name, reads = self._environment.payload.connector, self._environment.connector_settings.reads_topic
        topics = topics_of(self._environment.connector_settings, self._admin)
        every, ids = partitions_of(topics), known_ids(topics)
        self._topic_ids = ids
        if recreated := recreated_topics(self._environment.checked.resolved, ids):
            raise ConfigException(
                f"Topic {recreated[0]} was created anew since this backfill was requested, and no longer holds the records of its ranges. "
                "Delete the backfill. For records of the new topic, request another"
            )
        self._environment.note_missing(missing_topics(self._environment.checked.resolved, topics))
        committed = {
            p: known
            for p, known in self._groups.committed(self._input.group).items()
            if reads(p.topic) and is_of_topic(known.metadata, ids.get(p.topic, ""))
        }
        moved = any(is_foreign_commit(known.metadata) for known in committed.values())
        with closing(self._environment.backing.batch_log()) as store:
            gone = {p for p in store.last(name, ids) if p not in committed and reads(p.topic)}
            if not gone:
                return KnownPartitions(every, committed, has_external_commits=moved)
            lost = store.lost(name, self._groups.retention_seconds(), time.time(), ids)
            here = store.of_destination(name, self._destination, ids) if self._exactly_once else ()
            unfinished, is_moved = store.unfinished(name), moved or not gone <= lost.keys()
            return KnownPartitions(every, committed, lost, unfinished, here, has_external_commits=is_moved)

    def start(self, known: KnownPartitions) -> SinkLoop:
        environment, payload = self._environment, self._environment.payload
        connector = environment.checked.connector
        assert isinstance(connector, SinkConnector)
        partitions = self._owned(known.partitions)
        self._metrics.partitions = len(partitions)
        errors = create_sink_errors(environment, self._metrics, lambda: self._commit.owner)
        task = configure_task(connector.task_class(), connector, environment.converters.header)
        context = TaskSinkContext(
            environment.task_config,
            payload.claim,
            guarantee=Guarantee(payload.guarantee),
            assignment=partitions,
            topic_ids=self._topic_ids,
            has_external_commits=known.has_external_commits,
            stays=payload.endless and not self._input.ranges,
            errant_record_reporter=None if task.is_transactional else create_errant_record_reporter(environment, errors),
        )
        self._stop_at_end(task)
        task.initialize(context)
        task.start(connector.task_config(strip_framework_keys(environment.task_config)))
        self._metrics.lost_values = task.lost_values
        sink = with_transactions(task, context, errors, environment)
        ends = self._open_partitions(sink, partitions, known)
        environment.report(State.RUNNING)
        self._open.callback(sink.close, partitions)
        is_endless = payload.endless and not self._input.ranges
        ranges = {p: (start, ENDLESS if is_endless else max(start, ends[p])) for p, start in self._starts.items()}
        delivery: SinkDelivery
        if payload.guarantee == Guarantee.AT_MOST_ONCE:
            delivery = CommitBeforePut(self._commit, environment.step, check=self._refuse_changed_input)
        else:
            delivery = CommitAfterPut(self._commit, environment.step, check=self._refuse_changed_input)
        library, on_lost = environment.librdkafka, self._metrics.note_lost
        reader = self._open.enter_context(
            AheadReader(KafkaReader(self._consumer, ranges, self._columns(task), library=library, on_lost=on_lost))
        )

        def distance() -> Distance | None:
            left = sum(max(0, end - reader.positions[at]) for at, (_, end) in ranges.items())
            return None if is_endless else Distance(left)

        self._distance = distance

        return SinkLoop(
            task=sink,
            context=context,
            reader=reader,
            pipeline=SinkPipeline(
                environment.converters,
                create_stages(environment.checked, environment.converters.header),
                errors.tolerance,
                joins_nulls=task.allows_mixed_nulls,
            ),
            delivery=delivery,
            stop=environment.stop,
            metrics=self._metrics,
            topics=environment.active_topics(),
            interval_seconds=environment.settings.offset_flush_interval_ms / 1000,
            silence_seconds=SILENCE_SECONDS,
            max_records=environment.max_records,
            now=time.monotonic,
            endless=is_endless,
            idle_seconds=payload.idle_seconds if is_endless else None,
            commits_when_caught_up=task.commits_when_caught_up,
            is_outdated=partial(self._has_other_partitions, partitions),
            errors=errors,
            note_position=environment.note_position,
            tick=self._turn(ProgressLog(str(self._name), self._metrics, distance=distance, endless=is_endless), self._connection),
        )

    def result(self, loop: SinkLoop, reason: StopReason | None) -> TaskResult:
        metrics = self._metrics
        task, records = self._environment.payload.task, metrics.records_delivered
        result = TaskResult(task, stopped_by=reason, records=records, bytes=metrics.bytes, metrics=metrics.by_name())
        result.ranges = by_topic({p: [self._starts[p], n] for p, n in loop.reader.positions.items() if n > self._starts[p]})
        result.topics = topic_fields(loop.pipeline.schemas, self._environment.mask)
        if reason is StopReason.FENCED:
            self._leave_out_uncommitted(result)
        return result

    def _renewed_owner(self) -> TransactionalProducer:
        """A new producer of the task's id. Raises FencedException if the claim is no longer the newest."""
        owner = transactional_producer(self._environment)
        owner.take_over()
        self._environment.refuse_old_claim()
        return owner

    def _members(self) -> Sequence[str]:
        """The members of the group. While the broker is unavailable, the request is repeated with a new client each time, for at most
        ``SILENCE_SECONDS``."""
        deadline = time.monotonic() + SILENCE_SECONDS
        while True:
            try:
                return self._groups.members(self._input.group)
            except StoreTimeoutException:
                if time.monotonic() + ANSWER_SECONDS > deadline:
                    raise

    def _refuse_changed_input(self, *, with_group: bool) -> None:
        """Raise ChangedInputException if another program has set the group's offsets, or a topic was recreated since it was opened. The
        records that were read may be from either topic, and their offsets would be stored as offsets of the first topic. If the broker does
        not answer, the commit waits for the broker."""
        if with_group:
            self._commit.refuse_other_offsets()
        elif not self._exactly_once:  # no offset is stored
            return
        known = {partition.topic: self._topic_ids[partition.topic] for partition in self._starts if partition.topic in self._topic_ids}
        with suppress(StoreTimeoutException):
            now = self._admin.topic_ids(known)
            for topic, topic_id in known.items():
                if now.get(topic, topic_id) != topic_id:
                    raise ChangedInputException(f"Topic {topic} was created anew during this run: nothing of it is committed")

    def _stored_offsets(self) -> dict[TopicPartition, int]:
        """The group's offsets of the task's partitions. Empty while the broker does not answer."""
        with suppress(StoreTimeoutException):
            return {p: known.offset for p, known in self._groups.committed(self._input.group, self._starts).items()}
        return {}

    def _owned(self, every: Sequence[TopicPartition]) -> list[TopicPartition]:
        """The partitions of the connector's topics that this task owns. For a backfill, the partitions in its ranges."""
        payload = self._environment.payload
        return [p for p in read_partitions(every, self._input.ranges) if is_owned_by(p, payload.task, payload.tasks)]

    def _has_other_partitions(self, partitions: Sequence[TopicPartition]) -> bool:
        """Whether the task now owns other partitions, or one of its topics was recreated. False if the broker does not answer."""
        try:
            topics = topics_of(self._environment.connector_settings, self._admin, warns=False)
        except ConnectException as error:
            log.warning("Task %s could not check for new partitions: %s", self._name, self._environment.mask(error.message))
            return False
        ids = known_ids(topics)
        recreated = any(ids.get(topic, known) != known for topic, known in self._topic_ids.items())
        try:
            self._commit.refuse_other_offsets()
        except ChangedInputException as error:
            log.warning("Task %s begins again: %s", self._name, error)
            return True
        return recreated or set(self._owned(partitions_of(topics))) != set(partitions)

    def _mark(self, topic: str) -> str:
        claim, topic_id = str(self._environment.payload.claim), self._topic_ids.get(topic, "")
        return group_mark(claim, time.time(), topic_id, self._destination)

    def _open_partitions(self, task: SinkTask, partitions: Sequence[TopicPartition], known: KnownPartitions) -> dict[TopicPartition, int]:
        """Decide where to start in each partition. Differences are written to the destination, then to the group. Returns the ends."""
        found = task.open(partitions) if partitions else None
        destination = None if found is None else checked_offsets("open", found)
        bounds = self._input.bounds(partitions, self._admin)
        starts = self._decided(task, bounds, known, destination)
        self._starts = {p: s.offset for p, s in starts.items()}
        self._metrics.note_lost(sum(start.lost for start in starts.values()))
        self._logged.update(self._starts)
        rewrites = {p: s.offset for p, s in starts.items() if s.rewrite_destination and s.origin is not Origin.DESTINATION}
        if rewrites and self._exactly_once:
            task.pre_commit(rewrites)
        for partition, start in starts.items():
            if start.origin in {Origin.BATCH_LOG, Origin.DESTINATION} and start.commit_group:
                log.info("Task %s: offset %d of %s is %s", self._name, start.offset, partition, start.origin)
        if any(s.commit_group for s in starts.values()):
            self._commit.commit(self._starts)
        else:
            self._commit.note({p: known.committed[p].offset for p in starts if p in known.committed})
        return {p: each.end for p, each in bounds.items()}

    def _decided(
        self,
        task: SinkTask,
        bounds: Mapping[TopicPartition, Bounds],
        known: KnownPartitions,
        destination: Mapping[TopicPartition, int] | None,
    ) -> dict[TopicPartition, StartPosition]:
        """The start of a backfill's partition. The partition begins and ends with its range, and an offset outside the range is ignored."""
        starts: dict[TopicPartition, StartPosition] = {}
        for partition, between in bounds.items():
            group = known.committed.get(partition)
            offsets = KnownOffsets(
                beginning=between.beginning,
                end=between.end,
                high=between.high,
                group=None if group is None else group.offset,
                mark="" if group is None else group.metadata,
                was_committed_recently=group is not None and was_committed_recently(group.metadata, time.time()),
                destination=None if destination is None else destination.get(partition),
                had_offset=destination is not None
                and (partition in known.lost_here if group is None else is_of_destination(group.metadata, self._destination)),
                batch_log=known.lost.get(partition),
                is_unfinished=partition in known.unfinished,
            )
            starts[partition] = start_position(
                partition,
                offsets,
                exactly_once=self._exactly_once,
                reset=self._input.reset,
                rollback=self._rollback(task, partition, offsets),
            )
        return starts

    def _rollback(self, task: SinkTask, partition: TopicPartition, offsets: KnownOffsets) -> Rollback:
        """The reaction if the destination has gone back. If all records were delivered again, those that the destination still holds would
        be duplicated."""
        checked = self._environment.checked
        if chosen := checked.settings.destination_rollback:
            return Rollback(chosen)
        assert isinstance(checked.connector, SinkConnector)
        if not offsets.went_back:
            return Rollback.REDELIVER
        held = offsets.destination
        is_apart = held is None and checked.connector.stores_offsets_separately
        return Rollback.FAIL if is_apart or task.holds_records(partition, held) else Rollback.REDELIVER

    def _columns(self, task: SinkTask) -> frozenset[str]:
        """The columns to read. A task may declare that it needs fewer columns (``required_columns``). Transformations and dead-letter
        records need all columns."""
        if self._environment.connector_settings.transforms:
            return ALL_COLUMNS
        return frozenset(task.required_columns) | columns_for_reports(self._environment)

    def _batch_log_of(self, offsets: Offsets) -> Sequence[ProducerRecord]:
        self._logged.update(offsets)
        ranges = {p: [self._starts[p], n] for p, n in self._logged.items() if n > self._starts.get(p, n)}
        stay = Stay.OPEN if self._environment.payload.stays else None
        return self._batch_log(by_topic(ranges), by_topic(self._logged), self._topic_ids, self._destination, stay)


def _settings_of_destination(connector: SinkConnector, raw: Mapping[str, str]) -> dict[str, str]:
    """The settings whose change may lead to another destination: the settings that the connector names, otherwise all its own settings
    except passwords."""
    if connector.location_settings:
        return {key: raw.get(key, "") for key in connector.location_settings}
    framework = {name for definition in (sink_config_def(), own_config_def()) for name in names_of(definition)}
    passwords = {key.name for key in connector.config_def.keys.values() if key.type is Type.PASSWORD}
    return {key: text for key, text in raw.items() if key not in framework | passwords and not key.startswith("airflow.")}
