"""Small sinks with a mistake each, and beside each its right sibling. The destination is one JSON file: rows, next offsets, claim."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from airflow_provider_connect.errors import DataException, FencedException, RetriableException
from airflow_provider_connect.sdk import Batch, Config, ConfigDef, ConfigKey, SinkConnector, SinkRecord, SinkTask, TopicPartition, pa

REFUSED = "refused"
Offsets = Mapping[TopicPartition, int]


class Store:
    """The destination. Each ``write`` is a commit."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def read(self) -> dict[str, Any]:
        return json.loads(self.path.read_text()) if self.path.exists() else {"claim": 0, "rows": [], "next": {}}

    def write(self, **changes: Any) -> None:
        draft = self.path.with_suffix(".draft")
        draft.write_text(json.dumps({**self.read(), **changes}))
        os.replace(draft, self.path)


class StoreTask(SinkTask):
    """Exactly once: rows, offsets and claim are written together."""

    def start(self, config: Config) -> None:
        self.store = Store(config["file"])
        self.rows: list[Any] = []

    def open(self, partitions: Collection[TopicPartition]) -> Offsets | None:
        self.refuse_newer()
        self.store.write(claim=self.context.claim_epoch)
        known = self.store.read()["next"]
        return {partition: known[str(partition)] for partition in partitions if str(partition) in known}

    def put_records(self, records: list[SinkRecord]) -> None:
        self.rows += [record.value for record in records]

    def pre_commit(self, offsets: Offsets) -> Offsets:
        self.refuse_newer()
        self.commit(offsets)
        self.rows = []
        return offsets

    def commit(self, offsets: Offsets) -> None:
        self.store.write(rows=self.all_rows(), next=self.merged(offsets))

    def all_rows(self) -> list[Any]:
        rows: list[Any] = self.store.read()["rows"]
        return rows + self.rows

    def merged(self, offsets: Offsets) -> dict[str, int]:
        return {**self.store.read()["next"], **{str(partition): offset for partition, offset in offsets.items()}}

    def refuse_newer(self) -> None:
        newest = self.store.read()["claim"]
        if newest > self.context.claim_epoch:
            raise FencedException(f"claim {newest} is newer than {self.context.claim_epoch}")

    def close(self, partitions: Collection[TopicPartition]) -> None:
        self.rows = []


class StoreSink(SinkConnector):
    config_def = ConfigDef(ConfigKey("file"))
    task_class = StoreTask
    exactly_once: ClassVar[bool] = True

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        return [self.config] * max_tasks

    def alter_offsets(self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        store = Store(config["file"])
        changed = {**store.read()["next"], **{str(partition): offset for partition, offset in offsets.items()}}
        store.write(next={partition: offset for partition, offset in changed.items() if offset is not None})
        return True


def sink(task: type[SinkTask], *, exactly_once: bool = True) -> type[StoreSink]:
    return type(task.__name__ + "Sink", (StoreSink,), {"task_class": task, "exactly_once": exactly_once})


# Commits


class OffsetsApartFromRows(StoreTask):
    def commit(self, offsets: Offsets) -> None:
        self.store.write(rows=self.all_rows())
        self.store.write(next=self.merged(offsets))


class RowsApartFromOffsets(StoreTask):
    def commit(self, offsets: Offsets) -> None:
        self.store.write(next=self.merged(offsets))
        self.store.write(rows=self.all_rows())


class WritesAtPut(StoreTask):
    def put_records(self, records: list[SinkRecord]) -> None:
        super().put_records(records)
        self.store.write(rows=self.all_rows())
        self.rows = []


class RowsOfTheClass(StoreTask):
    """All tasks of a process add to one list."""

    kept: ClassVar[list[Any]] = []

    def start(self, config: Config) -> None:
        super().start(config)
        self.rows = self.kept

    def pre_commit(self, offsets: Offsets) -> Offsets:
        super().pre_commit(offsets)
        self.kept.clear()
        self.rows = self.kept
        return offsets

    def close(self, partitions: Collection[TopicPartition]) -> None:
        """Forgets to clear them."""


class WritesWhenClosed(StoreTask):
    def close(self, partitions: Collection[TopicPartition]) -> None:
        self.store.write(rows=self.all_rows())
        self.rows = []


class KeepsWhenClosed(StoreTask):
    def close(self, partitions: Collection[TopicPartition]) -> None:
        pass


# Offsets


class OneOffsetForAll(StoreTask):
    def merged(self, offsets: Offsets) -> dict[str, int]:
        return {str(partition): max(offsets.values()) for partition in offsets}


class OnlyItsOwnOffsets(StoreTask):
    """The offsets of other tasks are lost."""

    def merged(self, offsets: Offsets) -> dict[str, int]:
        return {str(partition): offset for partition, offset in offsets.items()}


class CountsOffsets(StoreTask):
    def start(self, config: Config) -> None:
        super().start(config)
        self.counted: dict[TopicPartition, int] = {}

    def put(self, batch: Batch) -> None:
        super().put(batch)
        at = self.counted.get(batch.topic_partition, batch.first_offset or 0)
        self.counted[batch.topic_partition] = at + len(batch)

    def merged(self, offsets: Offsets) -> dict[str, int]:
        return super().merged(self.counted)


class TakesOffsetsFromBatches(CountsOffsets):
    def put(self, batch: Batch) -> None:
        StoreTask.put(self, batch)
        if batch.next_offset is not None:
            self.counted[batch.topic_partition] = batch.next_offset


class NeverMoreThanRows(StoreTask):
    """At least once: confirms as many offsets as it has rows."""

    def open(self, partitions: Collection[TopicPartition]) -> None:
        return None

    def pre_commit(self, offsets: Offsets) -> Offsets:
        super().pre_commit(offsets)
        written = len(self.store.read()["rows"])
        return {partition: min(offset, written) for partition, offset in offsets.items()}


class AtLeastOnce(StoreTask):
    def open(self, partitions: Collection[TopicPartition]) -> None:
        return None


class ConfirmsTooMuch(StoreTask):
    def pre_commit(self, offsets: Offsets) -> Offsets:
        super().pre_commit(offsets)
        return {partition: offset + 1 for partition, offset in offsets.items()}


class KnowsNoOffsets(StoreTask):
    def open(self, partitions: Collection[TopicPartition]) -> None:
        super().open(partitions)


class WritesLater(AtLeastOnce):
    """Confirms offsets of rows that it writes when it has ten."""

    def commit(self, offsets: Offsets) -> None:
        if len(self.rows) >= 10:
            super().commit(offsets)

    def pre_commit(self, offsets: Offsets) -> Offsets:
        self.commit(offsets)
        return offsets


# Claims


class AnyMayWrite(StoreTask):
    def refuse_newer(self) -> None:
        pass


class ClaimsAtItsFirstCommit(StoreTask):
    def open(self, partitions: Collection[TopicPartition]) -> Offsets:
        self.refuse_newer()
        known = self.store.read()["next"]
        return {partition: known[str(partition)] for partition in partitions if str(partition) in known}

    def commit(self, offsets: Offsets) -> None:
        self.store.write(rows=self.all_rows(), next=self.merged(offsets), claim=self.context.claim_epoch)


class OpensOverANewerClaim(StoreTask):
    def open(self, partitions: Collection[TopicPartition]) -> Offsets | None:
        self.store.write(claim=self.context.claim_epoch)
        return super().open(partitions)


# Batches


class LosesTheFirst(StoreTask):
    def put_records(self, records: list[SinkRecord]) -> None:
        super().put_records(records[1:])


class FailsNowAndThen(StoreTask):
    """Its server refuses every other batch."""

    batches = 0

    def put(self, batch: Batch) -> None:
        self.batches += 1
        if self.batches % 2:
            raise RetriableException("503 Service Unavailable")
        super().put(batch)


class TakesHalfAndFails(FailsNowAndThen):
    def put(self, batch: Batch) -> None:
        if self.batches % 2 == 0:
            self.put_records(batch.slice(0, len(batch) // 2).sink_records())
        super().put(batch)


class NeedsText(StoreTask):
    def put_records(self, records: list[SinkRecord]) -> None:
        self.rows += [record.value.strip() for record in records]


class TakesNulls(StoreTask):
    def put_records(self, records: list[SinkRecord]) -> None:
        self.rows += [record.value and record.value.strip() for record in records]


class ReadsBuffers(StoreTask):
    """Leaves out of account that a column may begin within its buffers."""

    def put(self, batch: Batch) -> None:
        if batch.value is not None:
            self.rows += self.column(batch.value).to_pylist()

    def column(self, column: pa.Array) -> pa.Array:
        return pa.Array.from_buffers(column.type, len(column), column.buffers())


class ReadsColumns(ReadsBuffers):
    def column(self, column: pa.Array) -> pa.Array:
        return column


class Refuses(StoreTask):
    def put_records(self, records: list[SinkRecord]) -> None:
        if any(record.value == REFUSED for record in records):
            raise DataException("this value is refused")
        super().put_records(records)


class LeavesOutInSilence(StoreTask):
    def put_records(self, records: list[SinkRecord]) -> None:
        super().put_records([record for record in records if record.value != REFUSED])


class TakesWhatComesBefore(StoreTask):
    """Raises DataException after it took the records before."""

    def put_records(self, records: list[SinkRecord]) -> None:
        for record in records:
            if record.value == REFUSED:
                raise DataException("this value is refused")
            super().put_records([record])


class ReportsAndWrites(StoreTask):
    def put_records(self, records: list[SinkRecord]) -> None:
        super().put_records(records)
        self.report(records)

    def report(self, records: list[SinkRecord]) -> None:
        reporter = self.context.errant_record_reporter
        if reporter is not None:
            reporter.report_all((record, DataException("refused")) for record in records if record.value == REFUSED)


class Reports(ReportsAndWrites):
    def put_records(self, records: list[SinkRecord]) -> None:
        StoreTask.put_records(self, [record for record in records if record.value != REFUSED])
        self.report(records)


# The rest


class StopsOnce(StoreTask):
    def start(self, config: Config) -> None:
        super().start(config)
        self.connections = ["open"]

    def stop(self) -> None:
        self.connections.pop()


class StopsTwice(StopsOnce):
    def stop(self) -> None:
        self.connections.clear()


class ResetsNothing(StoreSink):
    def alter_offsets(self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        return super().alter_offsets(config, {partition: offset for partition, offset in offsets.items() if offset is not None})


class AltersAll(StoreSink):
    def alter_offsets(self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        Store(config["file"]).write(next={})
        return super().alter_offsets(config, offsets)


PLANTED: Sequence[tuple[str, type[StoreSink], type[StoreSink]]] = (
    ("kill_at_any_line_neither_loses_nor_duplicates_records", sink(OffsetsApartFromRows), StoreSink),
    ("kill_at_any_line_neither_loses_nor_duplicates_records", sink(RowsApartFromOffsets), StoreSink),
    ("uncommitted_records_are_absent_and_then_delivered_once", sink(WritesAtPut), StoreSink),
    ("uncommitted_records_can_be_put_again", sink(RowsOfTheClass), StoreSink),
    ("uncommitted_records_can_be_put_again", sink(WritesWhenClosed), StoreSink),
    ("partitions_can_be_reopened", sink(KeepsWhenClosed), StoreSink),
    ("partitions_are_independent", sink(OneOffsetForAll), StoreSink),
    ("several_tasks_write_in_parallel", sink(OnlyItsOwnOffsets), StoreSink),
    ("offsets_may_have_gaps", sink(CountsOffsets), sink(TakesOffsetsFromBatches)),
    ("offsets_may_have_gaps", sink(NeverMoreThanRows, exactly_once=False), sink(AtLeastOnce, exactly_once=False)),
    ("commit_returns_no_offset_beyond_what_was_put", sink(ConfirmsTooMuch), StoreSink),
    ("destination_knows_the_next_offset", sink(KnowsNoOffsets), StoreSink),
    ("records_arrive_in_order", sink(WritesLater, exactly_once=False), sink(AtLeastOnce, exactly_once=False)),
    ("older_claim_is_refused", sink(AnyMayWrite), StoreSink),
    ("older_claim_is_refused", sink(ClaimsAtItsFirstCommit), StoreSink),
    ("older_claim_cannot_open", sink(OpensOverANewerClaim), StoreSink),
    ("records_arrive_in_order", sink(LosesTheFirst), StoreSink),
    ("records_arrive_in_order", sink(TakesHalfAndFails), sink(FailsNowAndThen)),
    ("null_is_written_or_refused", sink(NeedsText), sink(TakesNulls)),
    ("slices_of_batches_arrive_like_whole_batches", sink(ReadsBuffers), sink(ReadsColumns)),
    ("refused_records_are_reported_and_the_others_written", sink(LeavesOutInSilence), sink(Refuses)),
    ("refused_records_are_reported_and_the_others_written", sink(TakesWhatComesBefore), sink(Refuses)),
    ("refused_records_are_reported_and_the_others_written", sink(ReportsAndWrites), sink(Reports)),
    ("stop_may_be_called_twice_and_from_another_thread", sink(StopsOnce), sink(StopsTwice)),
    ("offsets_in_the_destination_can_be_altered", ResetsNothing, StoreSink),
    ("offsets_in_the_destination_can_be_altered", AltersAll, StoreSink),
)
"""The test of the suite that finds the mistake, the wrong sink, the right one."""
