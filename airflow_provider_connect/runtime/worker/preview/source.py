"""The source half of a preview: each task polled from its current offset until it has given its share, and nothing committed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from airflow_provider_connect.data.records import SourceRecord
from airflow_provider_connect.errors import DataException, RetriableException
from airflow_provider_connect.runtime.model.connector_keys import strip_framework_keys
from airflow_provider_connect.runtime.model.previews import Fields, PreviewedTask, PreviewEnd
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.stores.offset_store import SourceOffsets
from airflow_provider_connect.runtime.worker.delivery.encoded_batch import EncodedBatch
from airflow_provider_connect.runtime.worker.errors.failures import unread
from airflow_provider_connect.runtime.worker.errors.tolerance import Tolerance
from airflow_provider_connect.runtime.worker.pipeline.source_pipeline import SourcePipeline
from airflow_provider_connect.runtime.worker.preview.fields import value_fields
from airflow_provider_connect.runtime.worker.preview.findings import Findings
from airflow_provider_connect.runtime.worker.preview.records import shown_records
from airflow_provider_connect.runtime.worker.preview.steps import Steps
from airflow_provider_connect.runtime.worker.task.contexts import TaskSourceContext, WorkersKafka
from airflow_provider_connect.runtime.worker.task.pipeline_setup import configure_task
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import class_name_of
from airflow_provider_connect.sdk.connector import SourceConnector
from airflow_provider_connect.sdk.task import SourceTask

NO_CLAIM = Claim(-1, "preview")
IDLE_SECONDS = 3.0
MOST_PARTITIONS = 1000
"""Of one task's source partitions that are shown."""
_LOOK_SECONDS = 0.05


class PreviewedSource:
    """Polls tasks one after another. ``deadline`` is a time of ``now``."""

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
        """What source partitions and offsets look like, as far as tasks gave any."""
        return {path: kind.rstrip("?") for path, kind in value_fields(self._positions).items() if path != "$"}

    def run_task(self, number: int, shown: Mapping[str, str], config: Mapping[str, str], most: int) -> PreviewedTask:
        """Read ``most`` records of task ``number``, which is not started if that is 0. ``config`` is its config with its values,
        ``shown`` the one to show."""
        if most <= 0:
            return PreviewedTask(number, shown, 0, PreviewEnd.NOT_ASKED)
        task = configure_task(self._connector.task_class(), self._connector, self._pipeline.converters.header)
        context = TaskSourceContext(
            config, NO_CLAIM, self._offsets, lambda: self._now() >= self._deadline, _NoTransactions(), kafka=self._kafka, is_preview=True
        )
        task.initialize(context)
        partitions: list[dict[str, object]] = []
        before = self.read
        errors = self._pipeline.errors.of_task(f"{self._pipeline.errors.task}-{number}")
        try:
            task.start(self._connector.task_config(strip_framework_keys(config)))
            end = self._poll(task, number, before + most, partitions, errors)
        finally:
            task.stop()
        return PreviewedTask(number, shown, self.read - before, end, partitions)

    def _poll(self, task: SourceTask, number: int, until: int, partitions: list[dict[str, object]], errors: Tolerance) -> PreviewEnd:
        quiet_since, refusal, retry_at = self._now(), None, -math.inf
        while self.read < until:
            if self._now() >= self._deadline:
                return PreviewEnd.TIME
            polled: Batch | Sequence[Batch] | Sequence[SourceRecord] | None = []
            try:
                if self._now() >= retry_at:
                    polled = task.poll()
            except RetriableException as error:
                refusal = error
                retry_at = self._now() + errors.retries("poll").delay(error, error.retry_after_ms)
            except DataException as error:
                errors.failed(unread(class_name_of(type(task)), error))
            if polled is None:
                return PreviewEnd.END
            batches = [batch for batch in self._pipeline.batches(polled) if batch.num_records]
            if batches:
                quiet_since, refusal = self._now(), None
            elif self._now() - quiet_since > IDLE_SECONDS:
                if refusal is not None:
                    raise refusal
                return PreviewEnd.IDLE
            else:
                time.sleep(_LOOK_SECONDS)
            for batch in batches:
                self._take(number, batch, until, partitions)
        return PreviewEnd.RECORDS

    def _take(self, number: int, whole: Batch, until: int, partitions: list[dict[str, object]]) -> None:
        if self.read >= until:
            return
        self._note_position(whole, partitions)
        batch = whole.slice(0, until - self.read)
        self.read += batch.num_records
        for piece, encoded in self._pipeline.pieces(batch):
            records = shown_records(piece, lambda known: known.source_records(self._findings.header_converter))
            self._findings.add(number, records, _pairs(encoded))
        self._steps.add(number, batch)

    def _note_position(self, batch: Batch, partitions: list[dict[str, object]]) -> None:
        offset = batch.last_offset
        if batch.source_partition is None or offset is None:
            return
        self._positions.append({"partition": dict(batch.source_partition), "offset": dict(offset)})
        if len(partitions) < MOST_PARTITIONS and dict(batch.source_partition) not in partitions:
            partitions.append(dict(batch.source_partition))


class _NoTransactions:
    """The transactions of a task that ends its own: a preview has none."""

    def commit_transaction(self, after: int | None = None) -> None:
        """Nothing is written, so nothing is committed."""

    def abort_transaction(self, after: int | None = None) -> None:
        """Nothing is written, so nothing is dropped."""


def _pairs(encoded: EncodedBatch) -> Iterator[tuple[bytes | None, bytes | None]]:
    nothing = [None] * encoded.num_records
    keys = nothing if encoded.key is None else encoded.key.to_pylist()
    values = nothing if encoded.value is None else encoded.value.to_pylist()
    return zip(keys, values, strict=True)
