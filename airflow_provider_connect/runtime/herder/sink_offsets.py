"""The offsets of one sink connector, in its consumer group: read, alter, reset (contract §7).

The group's offsets and the batch log change together, because lost offsets are restored from the batch log. The connector is asked last.
Offsets in the group without a claim's mark take precedence over those at the sink's destination. So a process that dies before it asks the
connector leaves a complete change. If the connector refuses, the previous offsets are restored. A Java sink does not know such marks. So it
is asked first, as in Kafka Connect. The offsets that it keeps itself take precedence over the group's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import (
    BadRequestException,
    ConflictException,
    ConnectException,
    RetriableException,
    StoreException,
    StoreTimeoutException,
)
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.herder.ports import Ask, Pair
from airflow_provider_connect.runtime.model.batches import ALTERED, ALTERING
from airflow_provider_connect.runtime.model.ids import consumer_group
from airflow_provider_connect.runtime.model.offsets import (
    ALTER_BUSY,
    ALTER_FAILED,
    ALTERED_MARK,
    LIST_FAILED,
    OFFSET,
    RESET_BUSY,
    RESET_FAILED,
    SINK_GET_FAILED,
    beyond_end,
    sink_offsets,
    sink_partition,
)
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.model.views import OffsetView
from airflow_provider_connect.runtime.stores.admin_connection import AdminConnection
from airflow_provider_connect.runtime.stores.backing import Backing
from airflow_provider_connect.runtime.stores.batch_log import BatchLog
from airflow_provider_connect.runtime.stores.group_offsets import GroupOffsets
from airflow_provider_connect.runtime.stores.log_consumer import CommittedOffset
from airflow_provider_connect.runtime.stores.offset_change import OffsetChange
from airflow_provider_connect.runtime.stores.offset_location import is_elsewhere, sink_admin_overrides, sink_overrides
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from airflow_provider_connect.runtime.stores.transactional_producer import ProducerRecord

_SECONDS = 25.0  # longer than the open transaction of a killed process
Known = Mapping[TopicPartition, CommittedOffset]
Check = Callable[[], None]


class SinkOffsetChanges:
    """See the module. ``resolved`` is the config with its variables resolved. ``ask`` calls the connector's ``alter_offsets``, before the
    group changes if ``asks_first``. ``author`` is the user who requested a change. ``note`` is a warning about the requested offsets."""

    word = "sink"
    has_transactional_ids = True

    def __init__(
        self,
        settings: WorkerSettings,
        backing: Backing,
        name: str,
        resolved: Mapping[str, str],
        *,
        ask: Ask,
        asks_first: bool = False,
        author: str | None = None,
    ) -> None:
        self._settings = settings
        self._backing = backing
        self._name = name
        self._ask, self._asks_first = ask, asks_first
        self._author = author
        self._group = consumer_group(name, resolved, settings.values)
        self.transaction_overrides = sink_overrides(resolved)
        self._connection = AdminConnection.of(settings, sink_admin_overrides(resolved), _SECONDS)
        self._groups = GroupOffsets(settings, connection=self._connection)
        self._keeps_batch_log = backing.keeps_batch_log and not is_elsewhere(settings, self.transaction_overrides)
        self._wanted: Mapping[TopicPartition, int | None] | None = None
        self.note: str | None = None

    def read(self) -> list[OffsetView]:
        """The group's committed offsets. If the group has lost them, the offsets that the next run restores from the batch log."""
        try:
            known = {partition: found.offset for partition, found in self._groups.committed(self._group).items()}
            known = known or self._in_batch_log()
        except ConnectException as error:
            raise ConnectException(f"{SINK_GET_FAILED.format(self._name)}: {error}") from error
        return [OffsetView(sink_partition(*partition), {OFFSET: offset}) for partition, offset in sorted(known.items())]

    def request_alteration(self, offsets: Sequence[OffsetView]) -> None:
        """Have ``write`` set these offsets. Raises BadRequestException."""
        found = sink_offsets((view.partition, view.offset) for view in offsets)
        self._wanted = {TopicPartition(*partition): offset for partition, offset in found.items()}
        self._refuse_unknown(self._wanted)
        given = {partition: offset for partition, offset in self._wanted.items() if offset is not None}
        ends = TopicAdmin(self._settings, connection=self._connection).end_offsets(given, read_committed=False) if given else {}
        self.note = beyond_end(given, ends)

    def request_reset(self) -> None:
        """Have ``write`` remove every offset."""
        self._wanted = None

    def write(self, claim: Claim, check: Check) -> bool:
        """Write the requested offsets. Returns whether the connector agreed. ``check`` raises if the change is no longer allowed. See
        ``OffsetChange``."""
        self._refuse_members()
        with OffsetChange(self._settings, self._name, self.transaction_overrides) as change:
            change.take_over()
            before = self._listed()
            after = _changed(before, self._wanted, claim)
            wanted = dict.fromkeys(before) if self._wanted is None else self._wanted
            if self._asks_first:
                agreed = self._ask(self.word, _pairs(wanted))
                self._replace(change, before, after, claim, check)
                return agreed
            self._replace(change, before, after, claim, check)
            try:
                return self._ask(self.word, _pairs(wanted))
            except BaseException:
                self._replace(change, after, before, claim, check)
                raise

    def repair(self, check: Check) -> None:
        """End the open transaction of a killed process, so that other processes need not wait for its timeout."""
        with OffsetChange(self._settings, self._name, self.transaction_overrides) as change:
            change.take_over()

    def close(self) -> None:
        self._connection.close()

    def _replace(self, change: OffsetChange, now: Known, then: Known, claim: Claim, check: Check) -> None:
        """Replace the group's offsets ``now`` by ``then``.

        Uses one transaction, unless offsets must be removed. A transaction cannot remove offsets, so there are three steps: 1 write the
        intended offsets to the batch log; 2 delete the group; 3 write the remaining offsets again, and the completion to the batch log. A
        process that dies before step 2 has changed nothing. After step 2, the next run finds no group and restores the offsets of the batch
        log.
        """
        if now.keys() <= then.keys():
            changed = {partition: offset for partition, offset in then.items() if now.get(partition) != offset}
            self._write(change, self._batch_log_records(then, claim, ALTERED), changed, check)
            return
        self._write(change, self._batch_log_records(then, claim, ALTERING), {}, check)  # 1
        self._delete_group()  # 2
        if then:
            self._write(change, self._batch_log_records(then, claim, ALTERED), then, check)  # 3

    def _write(self, change: OffsetChange, entries: Sequence[ProducerRecord], positions: Known, check: Check) -> None:
        try:
            change.write(entries, group=self._group, positions=positions, check=check)
        except StoreTimeoutException as error:
            with OffsetChange(self._settings, self._name, self.transaction_overrides) as again:
                again.take_over()  # from now on, the commit has happened or will never happen
            if not positions or not positions.items() <= self._listed().items():
                raise StoreTimeoutException(f"{self._failed}: {error}", stage=error.stage) from error
        except StoreException as error:
            raise StoreException(f"{self._failed}: {error}") from error

    def _delete_group(self) -> None:
        try:
            self._groups.delete(self._group)
        except ConflictException as error:
            raise RetriableException(self._busy) from error
        except ConnectException as error:
            raise ConnectException(f"{self._failed}: {error}") from error

    def _batch_log_records(self, then: Known, claim: Claim, run: str) -> list[ProducerRecord]:
        """The records for the batch log. The entry of task 0 has all positions, and the entries of other tasks have no positions."""
        if not self._keeps_batch_log:
            return []
        with closing(BatchLog(self._settings)) as store:
            tasks = {entry.task.task for entry in store.entries(self._name)}
        entries = [BatchLog.reset(self._settings, self._name, task) for task in sorted(tasks - {0} if then else tasks)]
        records = [ProducerRecord(self._settings.batch_topic, *entry, author=self._author) for entry in entries]
        if not then:
            return records
        positions: dict[str, dict[str, int]] = {}
        for (topic, partition), known in sorted(then.items()):
            positions.setdefault(topic, {})[str(partition)] = known.offset
        entry = BatchLog.record(
            self._settings,
            connector=self._name,
            task=0,
            run=run,
            claim=claim,
            is_source=False,
            ranges={},
            positions=positions,
            topic_ids=self._topic_ids(then),
        )
        return [*records, ProducerRecord(self._settings.batch_topic, *entry, author=self._author)]

    def _in_batch_log(self) -> dict[TopicPartition, int]:
        if not self._keeps_batch_log:
            return {}
        with closing(self._backing.batch_log()) as batch_log:
            last = batch_log.last(self._name)
            return batch_log.lost(self._name, self._groups.retention_seconds(), time.time(), self._topic_ids(last)) if last else {}

    def _topic_ids(self, partitions: Iterable[TopicPartition]) -> dict[str, str]:
        return TopicAdmin(self._settings, connection=self._connection).topic_ids({partition.topic for partition in partitions})

    def _refuse_unknown(self, wanted: Iterable[TopicPartition]) -> None:
        """Raise BadRequestException for partitions that do not exist, because Kafka accepts offsets only for existing ones."""
        admin = TopicAdmin(self._settings, connection=self._connection)
        counts = admin.partitions({partition.topic for partition in wanted})
        for topic, number in wanted:
            if topic not in counts:
                raise BadRequestException(f"{ALTER_FAILED.format(self._name)}: there is no topic {topic}")
            if number >= counts[topic]:
                text = f"topic {topic} has {counts[topic]} partitions and no partition {number}"
                raise BadRequestException(f"{ALTER_FAILED.format(self._name)}: {text}")

    def _refuse_members(self) -> None:
        if self._groups.members(self._group):
            raise RetriableException(self._busy)

    @property
    def _failed(self) -> str:
        return (RESET_FAILED if self._wanted is None else ALTER_FAILED).format(self._name)

    @property
    def _busy(self) -> str:
        return (RESET_BUSY if self._wanted is None else ALTER_BUSY).format(self._name)

    def _listed(self) -> dict[TopicPartition, CommittedOffset]:
        try:
            return self._groups.committed(self._group)
        except ConnectException as error:
            text = LIST_FAILED if self._wanted is None else ALTER_FAILED
            raise ConnectException(f"{text.format(self._name)}: {error}") from error


def _changed(before: Known, wanted: Mapping[TopicPartition, int | None] | None, claim: Claim) -> dict[TopicPartition, CommittedOffset]:
    """The group's offsets after the change. Altered offsets have no claim's mark, so they take precedence over the destination's."""
    if wanted is None:
        return {}
    altered = {partition: CommittedOffset(offset, f"{ALTERED_MARK}{claim}") for partition, offset in wanted.items() if offset is not None}
    return {partition: known for partition, known in before.items() if partition not in wanted} | altered


def _pairs(wanted: Mapping[TopicPartition, int | None]) -> list[Pair]:
    return [(sink_partition(*partition), None if offset is None else {OFFSET: offset}) for partition, offset in wanted.items()]
