"""Log lines of a task's work: the amount, the speed, and the distance to the end. Knows nothing of Kafka."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from airflow_provider_connect.data.records import BYTES, RECORDS, Distance
from airflow_provider_connect.errors import plugin_code
from airflow_provider_connect.runtime.model.config_limits import cut
from airflow_provider_connect.runtime.worker.metrics import TaskMetrics
from airflow_provider_connect.sdk.task import SourceTask

INTERVAL_SECONDS = 10.0
ENDLESS_SECONDS = 600.0
"""Between the lines of a task without an end."""
_UNITS = ("B", "kB", "MB", "GB", "TB")

log = logging.getLogger(__name__)


def end_not_known() -> Distance | None:
    """The distance of a task that does not know how much is left."""
    return None


def distance_of(task: SourceTask) -> Distance | None:
    """The distance that the task reports. None if the call raises: it is the author's code, and nothing depends on it."""
    try:
        with plugin_code():
            found = task.distance()
            return Distance(int(found.left), cut(str(found.unit))) if found is not None and found.left >= 0 else None
    except Exception as error:
        log.debug("The task's distance raised %s", type(error).__name__)
        return None


class ProgressLog:
    """Logs the progress of task ``name``. ``distance`` returns what is left until the end of the run. None: not known. ``count`` updates
    the metrics if another process counts. ``now`` is a monotonic clock, in seconds. A run shorter than ten seconds logs nothing. An
    ``endless`` task logs every ten minutes, and only if it has delivered records since the last line."""

    def __init__(
        self,
        name: str,
        metrics: TaskMetrics,
        *,
        distance: Callable[[], Distance | None] = end_not_known,
        count: Callable[[], None] = lambda: None,
        now: Callable[[], float] = time.monotonic,
        endless: bool = False,
    ) -> None:
        self._name = name
        self._metrics = metrics
        self._distance = distance
        self._count = count
        self._now = now
        self._endless = endless
        self._last, self._records = now(), 0
        self._counted = self._last

    def tick(self) -> None:
        """Log if a line is due. Called by the task's loop once per turn."""
        now = self._now()
        if now - self._counted < INTERVAL_SECONDS:
            return
        self._counted = now
        self._count()
        records = self._metrics.records_out
        if self._endless and (now - self._last < ENDLESS_SECONDS or records == self._records):
            return
        rate = (records - self._records) / (now - self._last)
        self._last, self._records = now, records
        log.info("Task %s: %s", self._name, progress_text(records, self._metrics.bytes, rate, self._distance()))


def progress_text(records: int, size: int, rate: float, distance: Distance | None) -> str:
    """One line. ``rate`` is in records per second since the previous line."""
    text = f"{records:,} records, {_size(size)}, {rate:,.0f} records/s"
    if distance is None:
        return text
    left, unit = distance
    until = f", {_duration(left / rate)} at this rate" if unit == RECORDS and left and rate > 0 else ""
    shown = _size(left) if unit == BYTES else f"{left:,} {unit}"
    return f"{text}, {shown} before the end{until}"


def _size(size: float) -> str:
    unit = 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.{1 if unit else 0}f} {_UNITS[unit]}"


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"
