"""The sink half of a preview: the records that ``put`` would get, read from the topics after the group's offsets. No sink task exists, and
no consumer joins or commits."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from contextlib import closing

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.backfill import read_partitions
from airflow_provider_connect.runtime.model.previews import PreviewedTask, PreviewEnd
from airflow_provider_connect.runtime.stores.admin_connection import AdminConnection
from airflow_provider_connect.runtime.stores.group_offsets import GroupOffsets
from airflow_provider_connect.runtime.stores.offset_location import sink_admin_overrides
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from airflow_provider_connect.runtime.worker.delivery.kafka_reader import KafkaReader
from airflow_provider_connect.runtime.worker.delivery.raw_batch import RawBatch
from airflow_provider_connect.runtime.worker.delivery.sink_positions import (
    KnownOffsets,
    is_owned_by,
    partitions_of,
    start_position,
    topics_of,
)
from airflow_provider_connect.runtime.worker.errors.tolerance import Tolerance
from airflow_provider_connect.runtime.worker.missing import missing_topics
from airflow_provider_connect.runtime.worker.pipeline.sink_pipeline import ALL_COLUMNS, SinkPipeline
from airflow_provider_connect.runtime.worker.preview.findings import Findings
from airflow_provider_connect.runtime.worker.preview.records import readable_records
from airflow_provider_connect.runtime.worker.preview.steps import Steps
from airflow_provider_connect.runtime.worker.task.checked_connector import CheckedConnector
from airflow_provider_connect.runtime.worker.task.sink_input import SinkInput

ANSWER_SECONDS = 10.0
_READ_SECONDS = 0.2
Ranges = dict[TopicPartition, tuple[int, int]]


class PreviewedSink:
    """Reads a share of each partition. ``deadline`` is a time of ``time.monotonic``. ``missing`` names topics that do not exist."""

    def __init__(
        self,
        checked: CheckedConnector,
        settings: WorkerSettings,
        pipeline: SinkPipeline,
        findings: Findings,
        steps: Steps,
        *,
        deadline: float,
    ) -> None:
        self.read = 0
        self.missing: str | None = None
        self._checked = checked
        self._settings = settings
        self._pipeline = pipeline
        self._findings = findings
        self._steps = steps
        lenient = Tolerance(dataclasses.replace(pipeline.errors.settings, tolerates_all=True))  # (failures are reported once)
        self._untransformed = SinkPipeline(pipeline.converters, errors=lenient)
        self._deadline = deadline
        self._input = SinkInput(checked, settings)

    def run_tasks(self, configs: list[Mapping[str, str]], most: int) -> list[PreviewedTask]:
        """Read ``most`` offsets, in the same order each time. ``configs`` are the configs to show."""
        connection = AdminConnection.of(self._settings, sink_admin_overrides(self._checked.resolved), ANSWER_SECONDS)
        with closing(connection):
            topics = topics_of(self._checked.settings, TopicAdmin(self._settings, connection=connection))
            self.missing, every = missing_topics(self._checked.resolved, topics), partitions_of(topics)
            partitions = read_partitions(every, self._input.ranges)
            available = self._available(partitions, connection)
        owners = {p: next((t for t in range(len(configs)) if is_owned_by(p, t, len(configs))), 0) for p in partitions}
        ranges = shares(available, most)
        raw = self._read(ranges)
        tasks = []
        for number, config in enumerate(configs):
            own = [p for p in partitions if owners[p] == number]
            before = self.read
            for partition in own:
                self._take(number, raw.get(partition, []))
            starts = [{"kafka_topic": p.topic, "kafka_partition": p.partition, "kafka_offset": available[p][0]} for p in own]
            tasks.append(PreviewedTask(number, config, self.read - before, self._end(own, available, ranges), starts))
        return tasks

    def _end(self, own: list[TopicPartition], available: Ranges, ranges: Ranges) -> PreviewEnd:
        if time.monotonic() >= self._deadline:
            return PreviewEnd.TIME
        return PreviewEnd.RECORDS if any(ranges[p] != available[p] for p in own) else PreviewEnd.END

    def _available(self, partitions: list[TopicPartition], connection: AdminConnection) -> Ranges:
        """The range of offsets to read in each partition."""
        committed = GroupOffsets(self._settings, connection=connection).committed(self._input.group, partitions)
        found: Ranges = {}
        for p, bounds in self._input.bounds(partitions, TopicAdmin(self._settings, connection=connection)).items():
            group = committed[p].offset if p in committed else None
            known = KnownOffsets(beginning=bounds.beginning, end=bounds.end, high=bounds.high, group=group)
            start = start_position(p, known, exactly_once=False, reset=self._input.reset)
            found[p] = (start.offset, max(start.offset, bounds.end))
        return found

    def _read(self, ranges: Ranges) -> dict[TopicPartition, list[RawBatch]]:
        found: dict[TopicPartition, list[RawBatch]] = {}
        if not any(start < end for start, end in ranges.values()):
            return found
        with (
            closing(self._input.open_consumer()) as consumer,
            closing(KafkaReader(consumer, ranges, ALL_COLUMNS, library=None)) as reader,
        ):
            while not reader.exhausted and time.monotonic() < self._deadline:
                for raw in reader.read(_READ_SECONDS):
                    found.setdefault(raw.partition, []).append(raw)
        return found

    def _take(self, task: int, raw: list[RawBatch]) -> None:
        for piece in raw:
            self.read += piece.num_records
            for batch in self._pipeline.batches(piece):
                self._findings.add(task, readable_records(batch, lambda known: known.sink_records(self._findings.header_converter)))
            if self._steps.has_room:
                for batch in self._untransformed.batches(piece):
                    self._steps.add(task, batch)


def shares(available: Ranges, most: int) -> Ranges:
    """The ranges shortened to ``most`` offsets in total, with equal shares. A range may be shorter than its share."""
    left, found = most, dict[TopicPartition, tuple[int, int]]()
    by_length = sorted(available, key=lambda p: (available[p][1] - available[p][0], p))
    for at, partition in enumerate(by_length):
        start, end = available[partition]
        length = min(end - start, -(-left // (len(by_length) - at)))
        found[partition] = (start, start + length)
        left -= length
    return found
