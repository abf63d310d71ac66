"""The order in which a sink's records and offsets become durable. Knows nothing of readers or when to stop.

======================  ==============================================================================
at least once           1 ``put``  2 ``pre_commit``  3 the group's offsets
at most once            1 the group's offsets  2 ``put``
exactly once            1 ``put``  2 ``pre_commit``: data, offsets and claim together  3 the group's offsets, for the lag tools
======================  ==============================================================================

Group offsets are committed only in a transaction of the task's own transactional id, because nothing fences a commit outside a transaction.
The metadata of the offsets contains the claim. ``step`` surrounds each step (``commit_steps``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientPartition

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import ChangedInputException, ConnectException, RetriableException, TaskException
from airflow_provider_connect.runtime.stores.kafka_errors import translating
from airflow_provider_connect.runtime.stores.transactional_producer import ProducerRecord, TransactionalProducer
from airflow_provider_connect.runtime.worker.bounded_call import within
from airflow_provider_connect.runtime.worker.delivery.commit_steps import CommitStep, StepHook, unobserved
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.task import SinkTask

log = logging.getLogger(__name__)
Offsets = Mapping[TopicPartition, int]
_SHOWN = 5


class CommitCheck(Protocol):
    """Is called before each commit, and raises if the commit must not happen. ``with_group``: whether the group's offsets are committed."""

    def __call__(self, *, with_group: bool) -> None: ...


class GroupCommit:
    """Commits the group's offsets, fenced by the task's transactional id. The batch log's record is in the same transaction.

    ``members`` lists the group's members. If the group has a member, the commit is refused, because that consumer would read the same
    records. ``mark`` is the metadata of a commit for a topic. ``renewed`` creates another producer that owns the same id, for use when the
    current producer gets no answer. ``stored`` reads the group's offsets of the task's partitions.
    """

    def __init__(
        self,
        producer: TransactionalProducer,
        consumer: Consumer,
        *,
        renewed: Callable[[], TransactionalProducer],
        group: str,
        mark: Callable[[str], str],
        members: Callable[[], Sequence[str]],
        batch_log: Callable[[Offsets], Sequence[ProducerRecord]],
        timeout_seconds: float,
        stored: Callable[[], Offsets] = dict,
    ) -> None:
        self._producer = producer
        self._consumer = consumer
        self._renewed = renewed
        self._group = group
        self._mark = mark
        self._members = members
        self._batch_log = batch_log
        self._timeout = timeout_seconds
        self._stored = stored
        self._known: dict[TopicPartition, int] = {}

    @property
    def owner(self) -> TransactionalProducer:
        """The producer that owns the task's transactional id now."""
        return self._producer

    def refuse_other_members(self) -> None:
        """Raise TaskException when another consumer is a member of the group."""
        members = self._members()
        if members:
            raise TaskException(f"another consumer is active in group {self._group}: {', '.join(members)}")

    def note(self, offsets: Offsets) -> None:
        """Note offsets that the group has, as the task found them."""
        self._known.update(offsets)

    def refuse_other_offsets(self) -> None:
        """Raise ChangedInputException if another program has set the group's offsets since this task read or committed them."""
        stored = self._stored() if self._known else {}
        other = {p: n for p, n in stored.items() if self._known.get(p, n) != n}
        if other:
            shown = ", ".join(f"{p}: {n} instead of {self._known[p]}" for p, n in sorted(other.items())[:_SHOWN])
            raise ChangedInputException(f"another program has set offsets of group {self._group}: {shown}")

    def commit(self, offsets: Offsets) -> None:
        """Commit ``offsets``: the offset of the next record to read in each partition. Raises FencedException when a newer claim has taken
        over."""
        self.refuse_other_members()
        positions = [ClientPartition(p.topic, p.partition, n, self._mark(p.topic)) for p, n in sorted(offsets.items())]
        try:
            self._send_offsets(positions)
        except RetriableException as error:
            log.warning("Group %s: %s Trying with a new producer", self._group, error)
            self._producer = self._renewed()
            self._send_offsets(positions)
        self._producer.send(self._batch_log(offsets))
        self._producer.commit()
        self._known.update(offsets)

    def _send_offsets(self, positions: list[ClientPartition]) -> None:
        """Begin a transaction with the group's offsets.

        The client ignores its own timeout, and may wait forever for a coordinator that has returned (librdkafka's issues 5456 and 5511).
        What the client sends late belongs to a transaction that no process will commit.
        """
        producer, metadata = self._producer, self._consumer.consumer_group_metadata()
        doing = f"committing offsets of group {self._group}"
        producer.begin()
        with translating(doing):
            within(self._timeout, lambda: producer.producer.send_offsets_to_transaction(positions, metadata, self._timeout), doing)


class SinkDelivery(Protocol):
    """Accepts batches. ``commit`` makes everything up to ``positions`` durable and returns what was committed. Without ``with_group``, the
    group's offsets stay as they are."""

    def deliver(self, task: SinkTask, batch: Batch, positions: Offsets) -> None: ...

    def commit(self, task: SinkTask, positions: Offsets, *, with_group: bool = True) -> Offsets: ...


class CommitAfterPut:
    """At least once, or exactly once. With exactly once, the destination commits in step 2. Steps: 1 ``put``; 2 ``pre_commit``; 3 commit
    the group's offsets."""

    def __init__(self, group: GroupCommit, step: StepHook = unobserved, *, check: CommitCheck = lambda *, with_group: None) -> None:
        self._group = group
        self._step = step
        self._check = check
        self._committed: dict[TopicPartition, int] = {}
        self._furthest: dict[TopicPartition, int] = {}  # a task that requested a rewind may still return offsets that it has written
        self._warned: set[TopicPartition] = set()

    def deliver(self, task: SinkTask, batch: Batch, positions: Offsets) -> None:
        with self._step(CommitStep.PUT):  # 1
            task.put(batch)

    def commit(self, task: SinkTask, positions: Offsets, *, with_group: bool = True) -> Offsets:
        self._check(with_group=with_group)
        with self._step(CommitStep.PRE_COMMIT):  # 2
            vouched = checked_offsets("pre_commit", task.pre_commit(dict(positions)))
        self._warn_unread_offsets(vouched, positions)
        offsets = {p: n for p, n in vouched.items() if p in positions and n <= positions[p]}
        changed = {p: n for p, n in offsets.items() if self._committed.get(p) != n}
        if changed and with_group:
            with self._step(CommitStep.COMMIT_GROUP):  # 3
                self._group.commit(changed)
            self._committed.update(changed)
        return offsets

    def _warn_unread_offsets(self, vouched: Offsets, positions: Offsets) -> None:
        self._furthest |= {p: max(n, self._furthest.get(p, 0)) for p, n in positions.items()}
        for partition, offset in vouched.items():
            read = self._furthest.get(partition, offset)
            if offset > read and partition not in self._warned:
                self._warned.add(partition)
                log.warning(
                    "pre_commit returned %d as the next offset of %s, where %d is the next to read: not committed",
                    *(offset, partition, read),
                )


class CommitBeforePut:
    """At most once. Steps: 1 commit the group's offsets; 2 ``put``, which is never retried."""

    def __init__(self, group: GroupCommit, step: StepHook = unobserved, *, check: CommitCheck = lambda *, with_group: None) -> None:
        self._group = group
        self._step = step
        self._check = check

    def deliver(self, task: SinkTask, batch: Batch, positions: Offsets) -> None:
        self._check(with_group=True)
        with self._step(CommitStep.COMMIT_GROUP):  # 1
            self._group.commit(positions)
        with self._step(CommitStep.PUT):  # 2
            try:
                task.put(batch)
            except RetriableException as error:
                raise TaskException(
                    f"{batch.num_records} records of topic {batch.topic} may be lost: at most once never puts again"
                ) from error

    def commit(self, task: SinkTask, positions: Offsets, *, with_group: bool = True) -> Offsets:
        task.flush(dict(positions))
        if with_group:
            self._check(with_group=True)
            with self._step(CommitStep.COMMIT_GROUP):
                self._group.commit(positions)
        return positions


def checked_offsets(method: str, returned: object) -> Offsets:
    """Check what a sink's ``method`` returned as the next offsets to read. Raises ConnectException for anything else."""
    if not isinstance(returned, Mapping):
        raise ConnectException(
            f"{method} must return a mapping of TopicPartition to the next offset to read (empty: no offset), got {type(returned).__name__}"
        )
    for partition, offset in returned.items():
        if not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
            raise ConnectException(f"{method} must return offsets that are numbers of 0 or more, got {offset!r} for {partition}")
        if not isinstance(partition, tuple) or len(partition) != 2:
            raise ConnectException(f"{method} must return offsets by TopicPartition, got {partition!r}")
    return returned
