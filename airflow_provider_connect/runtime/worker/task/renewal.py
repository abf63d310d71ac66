"""The wait of a source in a run that stays. When the source may have new data, a new task is created."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from airflow_provider_connect.errors import trace_of
from airflow_provider_connect.runtime.stores.offset_store import SourceOffsets
from airflow_provider_connect.runtime.worker.task.stop_signal import StopReason, StopSignal
from airflow_provider_connect.sdk.connector import SourceConnector
from airflow_provider_connect.sdk.task import SourceTask

FIRST_SECONDS = 0.02
REPEAT_SECONDS = 300.0  # for a source without offsets, whose next task reads everything again
_STEP_SECONDS = 0.1  # the longest time after which a wait notices a reason to stop

log = logging.getLogger(__name__)


class Renewal:
    """Called by a SourceLoop when its task has no more records and all records are committed.

    ``config`` is the connector's config, resolved and without framework keys. ``offsets`` returns the committed offsets, from which
    ``create_task`` starts a task. ``records`` returns how many records the run has read, ``offsets_written`` how many offsets it has
    committed. The waits between two checks double, from ``FIRST_SECONDS`` to the connector's ``check_seconds``, until a task reads a
    record. After records without offsets, the wait is ``REPEAT_SECONDS``. ``mask`` hides secrets in the log.
    """

    def __init__(
        self,
        name: str,
        connector: SourceConnector,
        config: Mapping[str, str],
        *,
        offsets: Callable[[], SourceOffsets],
        create_task: Callable[[SourceOffsets], SourceTask],
        stop: StopSignal,
        records: Callable[[], int],
        offsets_written: Callable[[], int],
        mask: Callable[[str], str] = str,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._name = name
        self._connector = connector
        self._config = config
        self._offsets = offsets
        self._create_task = create_task
        self._stop = stop
        self._records = records
        self._offsets_written = offsets_written
        self._mask = mask
        self._sleep = sleep
        self._read, self._written = -1, 0
        self._wait = FIRST_SECONDS
        self._last_trace = ""  # a repeated failure is logged once

    def __call__(self) -> SourceTask | StopReason:
        """Wait, and return the task that reads the new data, or the reason to stop."""
        read, written = self._records(), self._offsets_written()
        if read != self._read:
            has_moved = written != self._written or self._read < 0
            self._read, self._written, self._wait = read, written, FIRST_SECONDS if has_moved else REPEAT_SECONDS
        while True:
            reason = self._pause(self._wait)
            if reason is not None:
                return reason
            if self._wait < REPEAT_SECONDS:
                self._wait = min(2 * self._wait, self._connector.check_seconds)
            if self.has_new_data() is not False:
                return self._create_task(self._offsets())

    def has_new_data(self) -> bool | None:
        """Whether the connector reports new data. None: it has no check for new data, or the check has failed."""
        try:
            return self._connector.check_for_new_data(self._config, self._offsets().get)
        except Exception as error:  # (the connector's own code)
            trace = self._mask(trace_of(error))
            level, self._last_trace = logging.DEBUG if trace == self._last_trace else logging.WARNING, trace
            log.log(level, "Task %s: its connector could not check for new data, so it runs\n%s", self._name, trace)
            return None

    def _pause(self, seconds: float) -> StopReason | None:
        left = seconds
        while (reason := self._stop.reason()) is None and left > 0:
            self._sleep(min(left, _STEP_SECONDS))
            left -= _STEP_SECONDS
        return reason
