"""The first records of a preview as they were read, and after each transformation.

Each record passes the stages alone, after its whole batch has passed the pipeline. Transformations have no side effects, and
transformations that learn fields have learned them from the batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from airflow_provider_connect.errors import DataException, message_of
from airflow_provider_connect.runtime.config.masking import Mask
from airflow_provider_connect.runtime.model.connector_settings import TransformationSettings
from airflow_provider_connect.runtime.model.previews import PreviewedRecord, PreviewedStep, PreviewedSteps, StepOutcome
from airflow_provider_connect.runtime.worker.pipeline.stages import Stage
from airflow_provider_connect.runtime.worker.preview.findings import MAX_VALUE_LENGTH, previewed_record
from airflow_provider_connect.runtime.worker.preview.records import readable_records
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import class_name_of
from airflow_provider_connect.sdk.converter import HeaderConverter

MAX_RECORDS = 5
"""The number of records whose steps are shown. If a step splits a record, also the number of its records that are shown."""
MAX_STEPS_LENGTH = 1 << 18
"""Characters of all steps together."""
_STEP_LENGTH = 100
"""The approximate number of characters of a step without its texts and records."""


class Steps:
    """Collects the steps of batches before transformations. ``named`` has the aliases of ``stages``, in the same order. After ``deadline``,
    a time of ``now``, no record is added. ``mask`` masks secrets in shown texts."""

    def __init__(
        self,
        named: Sequence[TransformationSettings],
        stages: Sequence[Stage],
        header_converter: HeaderConverter,
        mask: Mask,
        *,
        deadline: float,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.shown: list[PreviewedSteps] = []
        self._stages = list(zip(named, stages, strict=True))
        self._header_converter = header_converter
        self._mask = mask
        self._deadline = deadline
        self._now = now
        self._room = MAX_STEPS_LENGTH

    @property
    def has_room(self) -> bool:
        """Whether the steps of another record will be shown."""
        return bool(self._stages) and len(self.shown) < MAX_RECORDS and self._room > 0 and self._now() < self._deadline

    def add(self, task: int, batch: Batch) -> None:
        """Add the batch's first records, as long as there is room."""
        for index in range(batch.num_records):
            if not self.has_room:
                return
            self._pass(task, batch.slice(index, 1))

    def _pass(self, task: int, read: Batch) -> None:
        """Show one record, as a batch, before and after each stage that it passes."""
        try:
            shown = self._record(task, read)
        except DataException:  # (an unreadable header, of a record that a stage may drop)
            return
        pieces, steps, is_cut = [read], list[PreviewedStep](), False
        for named, stage in self._stages:
            if not pieces:
                break
            if self._room <= 0 or self._now() >= self._deadline:
                is_cut = True
                break
            left = _applied(stage, pieces)
            is_cut |= len(left.pieces) > MAX_RECORDS
            pieces = left.pieces[:MAX_RECORDS]
            steps.append(self._step(task, named, stage, left))
        self.shown.append(PreviewedSteps(shown, steps, is_cut))

    def _step(self, task: int, named: TransformationSettings, stage: Stage, left: _Left) -> PreviewedStep:
        records, error = list[PreviewedRecord](), left.error
        for piece in [] if left.outcome is StepOutcome.SKIPPED else left.pieces[:MAX_RECORDS]:
            try:
                records.append(self._record(task, piece))
            except DataException as unreadable:
                error = error or unreadable
        text = None if error is None else self._mask(f"{type(error).__name__}: {message_of(error)}")[:MAX_VALUE_LENGTH]
        predicate = None if named.predicate is None else f"{'not ' if named.negate else ''}{named.predicate}"
        name = class_name_of(type(stage.transformation))
        self._room -= len(named.alias) + len(name) + len(predicate or "") + len(text or "") + _STEP_LENGTH
        return PreviewedStep(named.alias, name, left.outcome, predicate, records, text)

    def _record(self, task: int, piece: Batch) -> PreviewedRecord:
        converter = self._header_converter
        if piece.is_from_kafka:
            shown, length = previewed_record(task, readable_records(piece, lambda known: known.sink_records(converter))[0], self._mask)
        else:
            shown, length = previewed_record(task, readable_records(piece, lambda known: known.source_records(converter))[0], self._mask)
        self._room -= length
        return shown


@dataclass(slots=True)
class _Left:
    """The output of a stage: batches of one record each, without the failed ones, and the first error."""

    outcome: StepOutcome
    pieces: list[Batch]
    error: Exception | None = None


def _applied(stage: Stage, pieces: Sequence[Batch]) -> _Left:
    """Pass batches of one record each through a stage."""
    after: list[Batch] = []
    error: Exception | None = None
    is_skipped = True
    for piece in pieces:
        try:
            chosen = stage.chosen(piece)
            if chosen is not None and not chosen[0].as_py():
                after.append(piece)
                continue
            is_skipped = False
            after += _singles(Stage(stage.transformation).apply(piece))
        except Exception as failure:  # (plugins' code may raise anything)
            is_skipped = False
            error = error or failure
    if error is not None:
        return _Left(StepOutcome.FAILED, after, error)
    if is_skipped:
        return _Left(StepOutcome.SKIPPED, after)
    return _Left(StepOutcome.APPLIED if after else StepOutcome.DROPPED, after)


def _singles(batches: Sequence[Batch]) -> Iterator[Batch]:
    """The first records that a stage has returned, each as a batch. Returns one more than is shown."""
    left = MAX_RECORDS + 1
    for batch in batches:
        for index in range(min(batch.num_records, left)):
            yield batch.slice(index, 1)
        left -= min(batch.num_records, left)
