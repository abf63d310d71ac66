"""The source half of a preview: each task runs in the loop of a run, from its current offset, with a delivery that writes nothing."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from airflow_provider_connect.data.records import SourceRecord
from airflow_provider_connect.runtime.model.connector_keys import strip_framework_keys
from airflow_provider_connect.runtime.model.previews import Fields, PreviewedTask, PreviewEnd
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.stores.offset_store import SourceOffsets
from airflow_provider_connect.runtime.stores.transactional_producer import ProducerRecord
from airflow_provider_connect.runtime.worker.delivery.encoded_batch import EncodedBatch
from airflow_provider_connect.runtime.worker.delivery.source_delivery import SourceOffset
from airflow_provider_connect.runtime.worker.errors.retries import Retries
from airflow_provider_connect.runtime.worker.metrics import TaskMetrics
from airflow_provider_connect.runtime.worker.pipeline.source_pipeline import SourcePipeline
from airflow_provider_connect.runtime.worker.preview.fields import value_fields
from airflow_provider_connect.runtime.worker.preview.findings import Findings
from airflow_provider_connect.runtime.worker.preview.records import readable_records
from airflow_provider_connect.runtime.worker.preview.steps import Steps
from airflow_provider_connect.runtime.worker.task.contexts import TaskSourceContext, WorkersKafka
from airflow_provider_connect.runtime.worker.task.pipeline_setup import configure_task
from airflow_provider_connect.runtime.worker.task.run_progress import RunProgress
from airflow_provider_connect.runtime.worker.task.source_loop import SourceLoop
from airflow_provider_connect.runtime.worker.task.stop_signal import StopReason, StopSignal
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.connector import SourceConnector

NO_CLAIM = Claim(-1, "preview")
IDLE_SECONDS = 3.0
MAX_PARTITIONS = 1000
"""How many source partitions of one task are shown."""


class PreviewedSource:
    """Runs tasks one after another. ``deadline`` is a time of ``now``."""

    def __init__(
        self,
        connector: SourceConnector,
        pipeline: SourcePipeline,
        offsets: SourceOffsets,
        findings: Findings,
        steps: Steps,
        *,
        kafka: WorkersKafka,
        deadline: float,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.read = 0
        self._kafka = kafka
        self._connector = connector
        self._pipeline = pipeline
        self._offsets = offsets
        self._findings = findings
        self._steps = steps
        self._deadline = deadline
        self._now = now
        self._positions: list[dict[str, Any]] = []

    def offset_fields(self) -> Fields:
        """The types of source partitions and offsets, if tasks returned any."""
        return {path: kind.rstrip("?") for path, kind in value_fields(self._positions).items() if path != "$"}

    def run_task(self, number: int, shown: Mapping[str, str], config: Mapping[str, str], limit: int) -> PreviewedTask:
        """Read ``limit`` records of task ``number``. If ``limit`` is 0, the task is not started. ``config`` is its resolved config, and
        ``shown`` is the config to show."""
        if limit <= 0:
            return PreviewedTask(number, shown, 0, PreviewEnd.NOT_ASKED)
        task = configure_task(self._connector.task_class(), self._connector, self._pipeline.converters.header)
        context = TaskSourceContext(
            config, NO_CLAIM, self._offsets, lambda: self._now() >= self._deadline, _NoTransactions(), kafka=self._kafka, is_preview=True
        )
        task.initialize(context)
        try:
            task.start(self._connector.task_config(strip_framework_keys(config)))
            errors = self._pipeline.errors.of_task(f"{self._pipeline.errors.task}-{number}")
            watch = _Watch(errors.retries("poll"), self._deadline, self._now)
            own = replace(self._pipeline, errors=errors)
            pipeline = _ObservedPipeline(own, number, limit, self._findings, steps=self._steps, watch=watch)
            stop = StopSignal(watch, None, now=self._now, deadline=math.inf)
            SourceLoop(task, pipeline, DiscardingDelivery(), RunProgress(TaskMetrics(is_source=True), limit), stop, sleep=watch.wait).run()
        finally:
            task.stop()
        self.read += pipeline.read
        self._positions += pipeline.positions
        end = watch.end or (PreviewEnd.RECORDS if pipeline.read >= limit else PreviewEnd.END)
        return PreviewedTask(number, shown, pipeline.read, end, pipeline.partitions)


class DiscardingDelivery:
    """A delivery that writes and commits nothing. Its commits return False, so neither the task nor a topic is notified of a commit."""

    def deliver(self, batches: Sequence[EncodedBatch], offsets: Sequence[SourceOffset]) -> None:
        """Discard the records."""

    def is_due(self) -> bool:
        return False

    def commit(self, closing: Sequence[ProducerRecord] = ()) -> bool:
        return False

    def abort(self) -> None:
        """No transaction is open."""


class _Watch:
    """Ends the loop of one task at ``deadline``, or when no record has arrived for ``IDLE_SECONDS``. ``retries`` are the retries of
    ``poll``."""

    def __init__(self, retries: Retries, deadline: float, now: Callable[[], float]) -> None:
        self.end: PreviewEnd | None = None
        self._retries = retries
        self._deadline = deadline
        self._now = now
        self._quiet_since, self._earlier_error = now(), retries.last_error

    def poll(self, timeout_seconds: float = 0.0) -> StopReason | None:
        """Called by the stop signal in each turn of the loop."""
        if self._now() >= self._deadline:
            self.end = PreviewEnd.TIME
        return None if self.end is None else StopReason.ASKED_TO_END

    def note_records(self) -> None:
        """Note that records have arrived."""
        self._quiet_since, self._earlier_error = self._now(), self._retries.last_error

    def wait(self, seconds: float) -> None:
        """Called by the loop after a poll without records. When the time is over, raises the error of a poll since the last records."""
        if self._now() - self._quiet_since <= IDLE_SECONDS:
            time.sleep(seconds)
        elif (error := self._retries.last_error) is not None and error is not self._earlier_error:
            raise error
        else:
            self.end = PreviewEnd.IDLE


class _ObservedPipeline:
    """The pipeline of one task, for its first ``limit`` records. Adds them to ``findings`` and ``steps`` as they pass."""

    def __init__(self, pipeline: SourcePipeline, number: int, limit: int, findings: Findings, *, steps: Steps, watch: _Watch) -> None:
        self.errors = pipeline.errors
        self.read = 0
        self.positions: list[dict[str, Any]] = []
        self.partitions: list[dict[str, object]] = []
        self._pipeline = pipeline
        self._number = number
        self._limit = limit
        self._findings = findings
        self._steps = steps
        self._watch = watch

    def batches(self, polled: Batch | Sequence[Batch] | Sequence[SourceRecord]) -> list[Batch]:
        """The polled batches that have records, up to the limit."""
        limited = []
        for whole in self._pipeline.batches(polled):
            if whole.num_records and self.read < self._limit:
                self._note_position(whole)
                limited.append(whole.slice(0, self._limit - self.read))
                self.read += limited[-1].num_records
        if limited:
            self._watch.note_records()
        return limited

    def encode(self, batch: Batch) -> Iterator[EncodedBatch]:
        for piece, encoded in self._pipeline.pieces(batch):
            records = readable_records(piece, lambda known: known.source_records(self._findings.header_converter))
            self._findings.add(self._number, records, _pairs(encoded))
            yield encoded
        self._steps.add(self._number, batch)

    def _note_position(self, batch: Batch) -> None:
        offset = batch.last_offset
        if batch.source_partition is None or offset is None:
            return
        partition = dict(batch.source_partition)
        self.positions.append({"partition": partition, "offset": dict(offset)})
        if len(self.partitions) < MAX_PARTITIONS and partition not in self.partitions:
            self.partitions.append(partition)


class _NoTransactions:
    """The transactions of a task that ends its transactions itself. A preview has none."""

    def commit_transaction(self, after: int | None = None) -> None:
        """Nothing is written, so nothing is committed."""

    def abort_transaction(self, after: int | None = None) -> None:
        """Nothing is written, so nothing is dropped."""


def _pairs(encoded: EncodedBatch) -> Iterator[tuple[bytes | None, bytes | None]]:
    nothing = [None] * encoded.num_records
    keys = nothing if encoded.key is None else encoded.key.to_pylist()
    values = nothing if encoded.value is None else encoded.value.to_pylist()
    return zip(keys, values, strict=True)
