"""Runs a task of a Java connector: starts the JVM, fences earlier runs, ends the run, and counts delivered records. Connect moves the
records inside the JVM."""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import ConnectException, FencedException, JavaException, RetriableException
from airflow_provider_connect.runtime.config.client_settings import client_config
from airflow_provider_connect.runtime.config.dag_settings import POLL_TIMEOUT, java_seconds
from airflow_provider_connect.runtime.config.internal_topics import KAFKAS_OWN
from airflow_provider_connect.runtime.java.bounded import iceberg_sink
from airflow_provider_connect.runtime.java.bounded.iceberg_sink import TableCommit
from airflow_provider_connect.runtime.java.bounded.runs import CHECK_SECONDS, Goal, JavaRun, slower_heartbeats, task_failure
from airflow_provider_connect.runtime.java.bounded.sources import bounded_source
from airflow_provider_connect.runtime.java.config.connector import guarded_sink, guarded_source, java_config, java_settings
from airflow_provider_connect.runtime.java.config.own_clients import own_client_settings
from airflow_provider_connect.runtime.java.jvm.connect_worker import ConnectWorker, JavaTask
from airflow_provider_connect.runtime.java.task.connector_jvm import line_within, start_connect_worker
from airflow_provider_connect.runtime.model.ids import consumer_group
from airflow_provider_connect.runtime.model.run import TaskResult
from airflow_provider_connect.runtime.model.states import State
from airflow_provider_connect.runtime.stores.backing import repair_records
from airflow_provider_connect.runtime.stores.group_offsets import GroupOffsets
from airflow_provider_connect.runtime.stores.offset_location import OffsetLocation, sink_admin_overrides
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin, known_ids
from airflow_provider_connect.runtime.stores.topic_reader import TopicReader, raw
from airflow_provider_connect.runtime.stores.transactional_producer import ProducerRecord, TransactionalProducer
from airflow_provider_connect.runtime.worker.bounded_call import within
from airflow_provider_connect.runtime.worker.delivery.kafka_ends import last_records
from airflow_provider_connect.runtime.worker.delivery.sink_delivery import GroupCommit
from airflow_provider_connect.runtime.worker.delivery.sink_positions import by_topic, group_mark, partitions_of, topics_of
from airflow_provider_connect.runtime.worker.missing import missing_topics
from airflow_provider_connect.runtime.worker.task.environment import TaskEnvironment
from airflow_provider_connect.runtime.worker.task.offsets_topic import refuse_lost_offsets
from airflow_provider_connect.runtime.worker.task.progress import ProgressLog
from airflow_provider_connect.runtime.worker.task.stop_signal import StopReason
from airflow_provider_connect.runtime.worker.task.task_producers import TAKE_OVER_SECONDS, transactional_producer
from airflow_provider_connect.runtime.worker.task.task_runner import TaskRunner
from airflow_provider_connect.runtime.worker.task.written_topics import offsets_topics

log = logging.getLogger(__name__)
_FENCED: Final = ("ProducerFencedException", "InvalidProducerEpochException", "FencedInstanceIdException", "InvalidTxnStateException")
"""Errors that mean that another producer has taken over the id. Brokers sometimes return the last of these errors to a new producer, when
requests of a killed producer with the same id arrive late."""
_COMMIT_SECONDS: Final = 10.0
_COORDINATOR_SECONDS: Final = 10.0
_TOPICS_SECONDS: Final = 1.0
_LIMITS_SECONDS: Final = 1.0
_LONG_START_SECONDS: Final = 60.0
_MAX_POLL: Final = "max.poll.interval.ms"
_DEFAULT_MAX_POLL_MS: Final = 300_000  # of Kafka's consumer
_LONG_POLL: Final = (
    "Task %s: a poll has not returned for %d s, and the run ends after it. If the connector waits for records in its poll, set "
    f"{POLL_TIMEOUT}=5s, or as long as it needs to find existing records"
)


@dataclass(slots=True)
class JavaLoop:
    """The run of a started task. Raises FencedException if another process has taken over the task's id."""

    started: JavaRun[StopReason]
    worker: ConnectWorker

    def run(self) -> StopReason | None:
        try:
            reason = self.started.run()
        except JavaException as error:
            if any(name in error.trace for name in _FENCED):
                self.worker.jvm.kill()  # a clean end would remove its successor's group member
                raise FencedException(error.trace.partition("\n")[0]) from error
            raise
        if reason is StopReason.FENCED:
            self.worker.jvm.kill()  # so that the task makes no more commits
        return reason


class JavaTaskRunner(TaskRunner[None, JavaLoop]):
    """The common part of sources and sinks. See ``TaskRunner``."""

    def __init__(self, environment: TaskEnvironment, *, is_source: bool) -> None:
        super().__init__(environment, is_source=is_source)
        payload = environment.payload
        self._task = JavaTask(payload.connector, payload.task, is_source)
        self._goal: Goal | None = None
        self._task_defaults: Mapping[str, str] = {}
        self._owner = transactional_producer(environment)
        self._topics: list[str] = []
        self._topics_due = self._limits_due = 0.0
        self._active_topics = environment.active_topics()

    def take_over(self) -> None:
        """Fences earlier runs before the JVM reads an offset, because an open transaction would block the JVM."""
        self._owner.take_over()

    def start(self, known: None) -> JavaLoop:
        environment = self._environment
        hosted = None if environment.java is None else environment.java.take()
        worker = hosted or start_connect_worker(
            environment.settings, environment.checked, environment.payload.locations, hide=environment.mask
        )
        self._open.callback(worker.close)
        config = {**java_config(environment.payload.connector, environment.checked.resolved), **self._additional(worker)}
        internal = self._internal_topics()
        task_config = dict(environment.task_config)
        task_config = {**self._task_defaults, **task_config}
        if self._task.is_source and not environment.payload.endless:
            task_config |= slower_heartbeats(task_config)
        if self._task.is_source:
            config = guarded_source(config, internal)
        else:
            task_config = guarded_sink(task_config, internal)
        worker.start_task(self._task, config, task_config, tasks=environment.payload.tasks)
        self._await_running(worker)
        environment.report(State.RUNNING)
        stop = environment.stop
        started = JavaRun(
            *(worker, self._task, stop.reason, stop.is_final, self._is_done, environment.max_records),
            now=time.monotonic,
            sleep=time.sleep,
            goal=self._goal,
            tick=partial(
                self._tick,
                worker,
                ProgressLog(self._name, self._metrics, count=lambda: self._count(worker), endless=environment.payload.endless),
            ),
            poll_seconds=java_seconds(environment.checked.resolved, POLL_TIMEOUT) if self._goal is None else None,
            note_long_poll=self._note_long_poll,
            endless=environment.payload.endless,
            idle_seconds=environment.payload.idle_seconds,
        )
        self._open.callback(_leave_poll, started, worker)
        self._open.callback(self._note_topics, worker)
        return JavaLoop(started, worker)

    def result(self, loop: JavaLoop, reason: StopReason | None) -> TaskResult:
        delivered = self._delivered(loop.started.metrics)
        self._metrics.records_in, self._metrics.records_out = loop.started.records, delivered
        self._metrics.bytes = size = self._bytes(loop.started.sizes)
        self._metrics.records_skipped = int(loop.started.metrics.get("total-records-skipped", 0))
        self._cpu_seconds_elsewhere = loop.worker.jvm.cpu_seconds
        if reason is not StopReason.FENCED:
            self._finish(is_at_goal=loop.started.is_at_goal)
        metrics = self._metrics.by_name() | loop.started.metrics
        topics: dict[str, list[dict[str, Any]]] = {topic: [] for topic in self._topics}
        cpu = self._cpu_seconds_elsewhere
        return TaskResult(
            self._task.number, stopped_by=reason, records=delivered, bytes=size, cpu_seconds=cpu, metrics=metrics, topics=topics
        )

    def _count(self, worker: ConnectWorker) -> None:
        """Update the metrics with the JVM's current counts."""
        self._metrics.records_out = self._delivered(counted := worker.metrics(self._task))
        self._metrics.bytes = self._bytes(worker.sizes(self._task))
        self._metrics.records_skipped = int(counted.get("total-records-skipped", 0))

    def _bytes(self, sizes: Mapping[str, int]) -> int:
        """The bytes of records. Offsets are not counted, although a source's producer also writes them."""
        internal = self._internal_topics()
        return sum(size for topic, size in sizes.items() if topic not in internal)

    @abstractmethod
    def _additional(self, worker: ConnectWorker) -> Mapping[str, str]:
        """Settings of the task in addition to the connector's own."""

    @abstractmethod
    def _is_done(self) -> bool:
        """Whether there are no more records. For a source, called while its task is paused."""

    @abstractmethod
    def _delivered(self, metrics: Mapping[str, float]) -> int:
        """The number of delivered records in Connect's metrics."""

    @abstractmethod
    def _finish(self, *, is_at_goal: bool) -> None:
        """Write the batch log and offsets after the JVM has ended. An error in this step does not fail the run."""

    def _internal_topics(self) -> set[str]:
        environment = self._environment
        return {*KAFKAS_OWN, *(topic.name for topic in environment.settings.internal_topics), *offsets_topics(environment)}

    def _await_running(self, worker: ConnectWorker) -> None:
        """Wait until the task runs. A source's gate is opened only after a check that the claim is the newest, because the task has just
        fenced other tasks."""
        began, limit = time.monotonic(), _LONG_START_SECONDS
        while (status := worker.status(self._task)).state != "RUNNING":
            if status.state == "FAILED":
                raise task_failure(status.trace, is_source=self._task.is_source)
            if self._environment.stop.is_final():
                raise FencedException(f"task {self._name} ends before it was started: {self._environment.stop.reason()}")
            if self._task.is_source and worker.is_at_gate(self._task):
                self._environment.refuse_old_claim()
                worker.open_gate(self._task)
            if (waited := time.monotonic() - began) >= limit:
                log.warning("Task %s: its start has not returned for %.0f s; it is at %s", self._name, waited, self._line(worker))
                limit *= 2
            self._check_limits(worker)
            time.sleep(CHECK_SECONDS)

    def _tick(self, worker: ConnectWorker, progress: ProgressLog) -> None:
        progress.tick()
        self._check_limits(worker)
        now = time.monotonic()
        if self._environment.payload.endless and now >= self._topics_due:  # other runs record active topics at their end
            self._note_topics(worker)
            self._topics_due = now + _TOPICS_SECONDS

    def _check_limits(self, worker: ConnectWorker) -> None:
        """Raises RetriableException after the end of a JVM that exceeds its limits. Checks them every ``_LIMITS_SECONDS``."""
        if (now := time.monotonic()) >= self._limits_due:
            self._limits_due = now + _LIMITS_SECONDS
            worker.jvm.limit_threads(self._environment.settings.java_threads_max)
            self._limit_calls(worker)

    def _limit_calls(self, worker: ConnectWorker) -> None:
        """Raises RetriableException after the end of a JVM in which a call of the plugin's code has exceeded its limit. The poll of a
        source has no limit, because it may wait for records."""

    def _line(self, worker: ConnectWorker) -> str:
        return line_within(worker, self._task.connector)

    def _note_long_poll(self, seconds: float) -> None:
        log.warning(_LONG_POLL, self._name, seconds)

    def _note_topics(self, worker: ConnectWorker) -> None:
        with suppress(ConnectException):  # the JVM may have ended
            self._topics = worker.active_topics(self._task.connector)
            self._active_topics.note(self._topics)

    def _new_owner(self) -> TransactionalProducer:
        """A producer with the task's id. Raises FencedException if the claim is not the newest."""
        owner = transactional_producer(self._environment)
        owner.take_over()
        self._environment.refuse_old_claim()
        return owner


def _leave_poll(run: JavaRun[StopReason], worker: ConnectWorker) -> None:
    if run.has_left_poll:
        worker.jvm.kill()  # stopping the task would wait for its poll


class JavaSourceRunner(JavaTaskRunner):
    """A source. Connect commits records and offsets in transactions of the task's id."""

    def __init__(self, environment: TaskEnvironment) -> None:
        super().__init__(environment, is_source=True)
        self._location = OffsetLocation.of(environment.settings, environment.checked.resolved)
        self._store = environment.backing.offsets(self._location)
        connection = self._admin_connection(environment.connector_settings.overrides["admin"], TAKE_OVER_SECONDS)
        self._admin = TopicAdmin(environment.settings, connection=connection)
        self._topic_ids: Mapping[str, str] = {}  # of the offsets topic, if this cluster has it

    def read_offsets(self) -> None:
        """Repairs offsets that an aborted transaction hides, and sets the run's goal. Kafka Connect's task itself reads the offsets."""
        payload = self._environment.payload
        self._open.callback(self._store.close)
        self._store.ensure()
        if payload.tasks == 1:
            self._owner.write(repair_records(self._store, payload.connector))
        if self._has_batch_log:
            self._topic_ids = self._admin.topic_ids([self._store.topic])
            if not self._store.read(payload.connector).by_key:
                refuse_lost_offsets(self._environment, self._topic_ids)
        class_name = self._environment.checked.plugin.class_name
        bounded = bounded_source(class_name)
        config = java_config(payload.connector, self._environment.checked.resolved)
        given = (config, java_settings(self._environment.settings), self._internal_topics())
        self._task_defaults = own_client_settings(class_name, *given)
        if bounded is not None and not payload.endless:
            self._task_defaults = {**self._task_defaults, **bounded.task_defaults(*given)}
            config = {**config, **self._task_defaults, **self._environment.task_config}
            self._goal = goal = bounded.goal(config, lambda partition: self._store.read(payload.connector).get(partition), within)
            if goal is not None:
                self._open.callback(goal.close)

    def _additional(self, worker: ConnectWorker) -> Mapping[str, str]:
        return {}

    def _is_done(self) -> bool:
        return True

    def _delivered(self, metrics: Mapping[str, float]) -> int:
        return int(metrics.get("source-record-write-total", 0))

    def _finish(self, *, is_at_goal: bool) -> None:
        """Write one transaction: offsets at the goal, and the batch log's entry if there was a record."""
        goal = self._goal if is_at_goal and self._goal is not None and self._goal.moves_offsets else None
        if goal is None and not self._metrics.records_in:
            return
        try:
            owner = self._new_owner()
            moved = self._moved_offsets(goal)
            entry = self._batch_log(ranges={}, positions={}, topic_ids=self._topic_ids_with_offsets()) if self._metrics.records_in else ()
            owner.write([*moved, *entry])
        except (ConnectException, FencedException) as error:  # everything is delivered
            text = "Task %s: offsets and batch log stay as the task left them: %s"
            log.warning(text, self._name, self._environment.mask(error.message))

    def _topic_ids_with_offsets(self) -> Mapping[str, str]:
        """The id of the offsets topic, if the connector has offsets on it."""
        with closing(self._environment.backing.offsets(self._location)) as store:
            return self._topic_ids if self._has_batch_log and store.read(self._environment.payload.connector).by_key else {}

    def _moved_offsets(self, goal: Goal | None) -> list[ProducerRecord]:
        """The moved offsets as records. Offsets are read after the task's id was taken over, so no other process writes offsets before
        these are committed."""
        if goal is None:
            return []
        connector = self._environment.payload.connector
        store = self._environment.backing.offsets(self._location)
        try:
            moved = goal.offsets_after(store.read(connector).get)
            return [ProducerRecord(store.topic, *record) for record in store.records(connector, moved)]
        finally:
            store.close()
            goal.close()


class JavaSinkRunner(JavaTaskRunner):
    """A sink with at-least-once delivery. It is a static member of the connector's group. This fences the member of an earlier run."""

    def __init__(self, environment: TaskEnvironment) -> None:
        super().__init__(environment, is_source=False)
        settings, resolved = environment.settings, environment.checked.resolved
        self._group = consumer_group(environment.payload.connector, resolved, settings.values)
        connection = self._admin_connection(sink_admin_overrides(resolved), TAKE_OVER_SECONDS)
        self._admin, self._groups = TopicAdmin(settings, connection=connection), GroupOffsets(settings, connection=connection)
        self._topic_ids: Mapping[str, str] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._goals: dict[TopicPartition, int] = {}
        self._before: dict[TopicPartition, int] = {}
        self._table_commit: TableCommit | None = None
        if environment.checked.plugin.class_name == iceberg_sink.CLASS:
            config = java_config(environment.payload.connector, resolved)
            self._task_defaults = iceberg_sink.task_defaults(config, java_settings(settings), self._internal_topics())
            self._table_commit = TableCommit(config, self._records_of, self._committed_by)

    @property
    def _member(self) -> str:
        return f"{self._task.connector}-{self._task.number}"

    def read_offsets(self) -> None:
        """Sets the goal to the current end offsets of the topics. An end offset is after the last record of a partition, because a task
        never commits past a transaction's marker."""
        if self._table_commit is not None:
            self._initialize_coordinator_offsets(self._table_commit)
        topics = topics_of(self._environment.connector_settings, self._admin)
        partitions, self._topic_ids = partitions_of(topics), known_ids(topics)
        self._environment.note_missing(missing_topics(self._environment.checked.resolved, topics))
        self._ends = self._admin.end_offsets(partitions)
        self._before = self._committed()
        overrides = self._environment.connector_settings.overrides["consumer"]
        config = client_config(self._environment.settings, "consumer", overrides, client_id=f"connector-consumer-{self._name}-ends")
        beginnings = self._admin.beginning_offsets(partitions)
        if config.get("auto.offset.reset") == "latest":
            skipped = {p: self._ends[p] for p, start in beginnings.items() if self._before.get(p, -1) < start}
            self._before |= skipped  # Connect commits nothing in such a partition until a record arrives, so it has no goal
        starts = {p: max(start, self._before.get(p, 0)) for p, start in beginnings.items()}
        with_more = {p: (starts[p], end) for p, end in self._ends.items() if end > starts[p]}
        self._goals = {p: last + 1 for p, last in last_records(config, self._group, with_more).items()}

    def _committed(self) -> dict[TopicPartition, int]:
        return self._committed_by(self._group)

    def _committed_by(self, group: str) -> dict[TopicPartition, int]:
        return {p: known.offset for p, known in self._groups.committed(group).items()}

    def _initialize_coordinator_offsets(self, table_commit: TableCommit) -> None:
        count = self._admin.partitions([table_commit.topic]).get(table_commit.topic, 0)
        absent = table_commit.absent(self._admin.beginning_offsets([TopicPartition(table_commit.topic, number) for number in range(count)]))
        if not absent:
            return
        config = client_config(self._environment.settings, "consumer", client_id=f"connector-consumer-{self._name}-control")
        consumer = Consumer({**config, "group.id": table_commit.group})
        try:
            consumer.commit(offsets=[ClientPartition(*partition, offset) for partition, offset in absent.items()], asynchronous=False)
        except KafkaException as error:  # the coordinator of another task is active
            log.info("Task %s: the offsets of group %s are unchanged: %s", self._name, table_commit.group, error)
        finally:
            consumer.close()

    def _records_of(self, topic: str, positions: Mapping[TopicPartition, int]) -> list[tuple[TopicPartition, int, bytes | None]]:
        config = client_config(self._environment.settings, "consumer", client_id=f"connector-consumer-{self._name}-control")
        with TopicReader(topic, {**config, "group.id": self._group}, raw) as events:
            events.start_at({partition.partition: offset for partition, offset in positions.items() if partition.topic == topic})
            return [(TopicPartition(topic, each.partition), each.offset, each.value) for each in events.read_to_end()]

    def _additional(self, worker: ConnectWorker) -> Mapping[str, str]:
        self._open.callback(self._leave, worker)
        return {"consumer.override.group.instance.id": self._member}

    def _leave(self, worker: ConnectWorker) -> None:
        """Remove the member from the group. Otherwise, a next run with another number of tasks would wait for this member."""
        with suppress(ConnectException, FencedException):  # otherwise, the member expires with its session; a successor's member stays
            until = time.monotonic() + _COORDINATOR_SECONDS
            while self._table_commit is not None and worker.has_thread(iceberg_sink.COORDINATOR) and time.monotonic() < until:
                time.sleep(CHECK_SECONDS)
            self._environment.refuse_old_claim()
            worker.remove_member(java_settings(self._environment.settings), self._group, self._member)

    def _limit_calls(self, worker: ConnectWorker) -> None:
        """See ``JavaTaskRunner``. A member that has not polled for ``max.poll.interval.ms`` has lost its partitions, so what its ``put``
        delivers would be read again for ever."""
        checked, settings = self._environment.checked, self._environment.settings
        text = checked.resolved.get(f"consumer.override.{_MAX_POLL}") or settings.values.get(f"consumer.{_MAX_POLL}")
        seconds = (int(text) if text is not None and text.strip().isdigit() else _DEFAULT_MAX_POLL_MS) / 1000
        if (passed := worker.seconds_since_poll(self._task)) <= seconds + _LIMITS_SECONDS:
            return
        line, plugin = self._line(worker), checked.plugin
        worker.jvm.kill()
        raise RetriableException(
            f"{plugin.class_name} ({plugin.origin}) has not returned from put or another call for {passed:.0f} s, longer than the "
            f"{seconds:g} s of consumer.override.{_MAX_POLL}, so other members got its partitions, and its JVM was ended. It was then at "
            f"{line}. If it needs that long, raise this setting, or lower consumer.override.max.poll.records. A later try may succeed."
        )

    def _is_done(self) -> bool:
        committed = self._committed()
        is_delivered = all(committed.get(partition, 0) >= goal for partition, goal in self._goals.items())
        return is_delivered and (self._table_commit is None or self._table_commit.is_done())

    def _delivered(self, metrics: Mapping[str, float]) -> int:
        return int(metrics.get("sink-record-send-total", 0))

    def _position(self, partition: TopicPartition, end: int, committed: int | None) -> int | None:
        """The offset to commit: ``end``, if there is no record between the delivered records and ``end``. None: no commit."""
        goal = self._goals.get(partition)
        if goal is None:
            return max(end, committed or 0)
        return end if committed == goal else committed

    def _finish(self, *, is_at_goal: bool) -> None:
        """Commit offsets past the transaction markers in a fenced transaction, together with the batch log's entry. The next check for new
        data then finds none."""
        committed = self._committed()
        positions = {p: n for p, end in self._ends.items() if (n := self._position(p, end, committed.get(p))) is not None}
        if not positions:
            return
        spans = {p: [self._before.get(p, 0), n] for p, n in positions.items() if n > self._before.get(p, 0)}
        log_record = self._batch_log(by_topic(spans), by_topic(positions), self._topic_ids)
        consumer = Consumer(
            {**client_config(self._environment.settings, "consumer", client_id=f"connector-consumer-{self._name}"), "group.id": self._group}
        )
        try:
            commit = GroupCommit(
                self._new_owner(),
                consumer,
                renewed=self._new_owner,
                group=self._group,
                mark=lambda topic: group_mark(str(self._environment.payload.claim), time.time(), self._topic_ids.get(topic, "")),
                members=lambda: self._groups.members(self._group),
                batch_log=lambda _: log_record,
                timeout_seconds=_COMMIT_SECONDS,
            )
            commit.commit(positions)
        except (ConnectException, FencedException) as error:  # another task is still in the group; all records are delivered anyway
            log.info("Task %s: offsets remain as the task committed them: %s", self._name, self._environment.mask(error.message))
        finally:
            consumer.close()
