"""The wait of a source in a run that stays. When the source may have new data, a new task is created."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping

from airflow_provider_connect.errors import message_of, plugin_code, trace_of
from airflow_provider_connect.runtime.stores.offset_store import SourceOffsets
from airflow_provider_connect.runtime.worker.missing import missing_of
from airflow_provider_connect.runtime.worker.task.stop_signal import StopReason, StopSignal
from airflow_provider_connect.sdk.connector import DataSignal, SourceConnector
from airflow_provider_connect.sdk.task import SourceTask

FIRST_SECONDS = 0.02
REPEAT_SECONDS = 300.0  # for a source without offsets, whose next task reads everything again
SIGNAL_CHECK_SECONDS = 0.5  # the shortest wait with a data signal, unless the signal ends it
SIGNAL_PAUSE_SECONDS = 0.005  # after a signal without new data
_STEP_SECONDS = 0.1  # the longest time after which a wait notices a reason to stop
_SIGNAL_STEP_SECONDS = 0.5  # the same with a data signal
_SHORTEST_SECONDS = 0.001

log = logging.getLogger(__name__)


class Renewal:
    """Called by a SourceLoop when its task has no more records and all records are committed.

    ``config`` is the connector's config, resolved and without framework keys. ``offsets`` returns the committed offsets, from which
    ``create_task`` starts a task. ``records`` returns how many records the run has read, ``offsets_written`` how many offsets it has
    committed. The waits between two checks double, from ``FIRST_SECONDS`` to the connector's ``check_seconds``, until a task reads a
    record. If the connector has a data signal, the signal ends the wait, and there is a check every ``SIGNAL_CHECK_SECONDS``. If the
    signal fails, the waits are those without a signal. After records without offsets, the wait is ``REPEAT_SECONDS``. After
    ``idle_seconds`` without a record the wait ends with ``StopReason.IDLE``. ``note_missing`` receives what each check has found to be
    missing. ``mask`` hides secrets in the log.
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
        note_missing: Callable[[str | None], None] = lambda _: None,
        mask: Callable[[str], str] = str,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.monotonic,
        idle_seconds: float | None = None,
    ) -> None:
        self._name = name
        self._connector = connector
        self._config = config
        self._offsets = offsets
        self._create_task = create_task
        self._stop = stop
        self._records = records
        self._offsets_written = offsets_written
        self._note_missing = note_missing
        self._mask = mask
        self._sleep = sleep
        self._now = now
        self._idle_seconds = math.inf if idle_seconds is None else idle_seconds
        self._idle_end = math.inf
        self._read, self._written = -1, 0
        self._wait = FIRST_SECONDS
        self._reads_again = False  # whether the source has no offsets
        self._signal: DataSignal | None = None
        self._was_signalled = False  # whether the signal ended the last wait
        self._last_trace = ""  # a repeated failure is logged once

    def __call__(self, on_wait: Callable[[], None] = lambda: None) -> SourceTask | StopReason:
        """Wait, and return the task that reads the new data, or the reason to stop. ``on_wait`` is called twice a second or more
        often."""
        read, written = self._records(), self._offsets_written()
        if self._read < 0:
            self._open_signal()
        if read != self._read:
            self._idle_end = self._now() + self._idle_seconds
            self._reads_again = written == self._written and self._read >= 0
            self._read, self._written, self._wait = read, written, REPEAT_SECONDS if self._reads_again else self._first_wait
        elif self._was_signalled:
            self._sleep(FIRST_SECONDS)  # data that no task can read yet, such as half a line, must not keep a core busy
        while True:
            reason = self._pause(min(self._wait, self._idle_end - self._now()), on_wait)
            if reason is not None:
                return reason
            if self._now() > self._idle_end - _SHORTEST_SECONDS:
                return StopReason.IDLE
            if self._signal is None and not self._reads_again:
                self._wait = min(2 * self._wait, self._connector.check_seconds)
            if self.has_new_data() is not False:
                return self._create_task(self._offsets())
            if self._was_signalled:
                on_wait()
                self._sleep(SIGNAL_PAUSE_SECONDS)

    def has_new_data(self) -> bool | None:
        """Whether the connector reports new data. None: it has no check for new data, or the check has failed."""
        self._connector.missing = None
        try:
            found = self._connector.check_for_new_data(self._config, self._offsets().get)
        except Exception as error:  # (the connector's own code)
            trace = self._mask(trace_of(error))
            level, self._last_trace = logging.DEBUG if trace == self._last_trace else logging.WARNING, trace
            log.log(level, "Task %s: its connector could not check for new data, so it runs\n%s", self._name, trace)
            return None
        missing = missing_of(self._connector, self._mask)
        if missing or found is False:  # if there is new data, the check may not have gone further
            self._note_missing(missing)
        return found

    def close(self) -> None:
        """Close the data signal. Called at the end of the task. Never raises."""
        signal, self._signal = self._signal, None
        if signal is not None:
            try:
                with plugin_code():
                    signal.close()
            except Exception as error:  # (the connector's own code)
                log.warning("Task %s: its data signal could not be closed\n%s", self._name, self._mask(trace_of(error)))

    @property
    def _first_wait(self) -> float:
        return FIRST_SECONDS if self._signal is None else max(SIGNAL_CHECK_SECONDS, self._connector.check_seconds)

    def _pause(self, seconds: float, on_wait: Callable[[], None]) -> StopReason | None:
        """Wait for ``seconds``, until the data signal, or for a reason to stop, which is returned."""
        self._was_signalled = False
        end = self._now() + seconds
        while (reason := self._stop.reason()) is None and not self._was_signalled:
            left = end - self._now()
            if left < _SHORTEST_SECONDS:
                break
            if self._signal is None or self._reads_again:
                self._sleep(min(left, _STEP_SECONDS))
            else:
                self._was_signalled = self._is_signalled(self._signal, min(left, _SIGNAL_STEP_SECONDS))
            if not self._was_signalled:
                on_wait()
        return reason

    def _open_signal(self) -> None:
        try:
            with plugin_code():
                self._signal = self._connector.open_data_signal(self._connector.config_def.parse(self._config))
        except Exception as error:  # (the connector's own code)
            self._lose_signal(error)

    def _is_signalled(self, signal: DataSignal, seconds: float) -> bool:
        try:
            with plugin_code():
                return signal.wait(seconds)
        except Exception as error:  # (the connector's own code)
            self._lose_signal(error)
            return True

    def _lose_signal(self, error: Exception) -> None:
        seconds, text = self._connector.check_seconds, self._mask(message_of(error))
        log.warning("Task %s: without a signal of new data, it checks every %g s: %s", self._name, seconds, text)
        self._wait = FIRST_SECONDS
        self.close()
