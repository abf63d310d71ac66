"""The limits at which the open files of a topic partition end: records, bytes, record time or wall clock. Knows nothing of files."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from zoneinfo import ZoneInfo

from airflow_provider_connect.connectors.filesystem.partitioners.timestamps import Timestamps
from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.sdk.batch import Batch

NO_LIMIT: Final = -1
_DAY_MS: Final = 86_400_000


@dataclass(slots=True)
class Rotation:
    """Limits of open files. 0 or less means no limit. ``now_ms`` is the wall clock; ``zone`` is the schedule's time zone. ``open_ms`` is
    how long files are open if there is no schedule."""

    timestamps: Timestamps
    now_ms: Callable[[], int]
    zone: ZoneInfo
    max_records: int = NO_LIMIT
    max_bytes: int = NO_LIMIT
    interval_ms: int = NO_LIMIT
    schedule_ms: int = NO_LIMIT
    open_ms: int = NO_LIMIT
    _records: int = 0
    _first_ms: int | None = None  # the time of the first record
    _deadline_ms: int | None = None  # by the wall clock

    def reset(self) -> None:
        """Reset the counts, because there are no open files."""
        self._records, self._first_ms, self._deadline_ms = 0, None, None

    def room(self, batch: Batch) -> int:
        """The number of records of ``batch`` that fit into the open files. At least one if no file is open."""
        if self.is_due():
            return 0
        count = batch.num_records
        if self.max_records > 0:
            count = min(count, self.max_records - self._records)
        if self.interval_ms > 0:
            count = min(count, self._in_interval(batch))
        return count

    def add(self, batch: Batch) -> None:
        """Count a non-empty batch that was written."""
        self._records += batch.num_records
        if self._first_ms is None and self.interval_ms > 0:
            times = self.timestamps.of(batch)
            self._first_ms = self.now_ms() if times is None else _first(times)
        if self._deadline_ms is None and (self.schedule_ms > 0 or self.open_ms > 0):
            now = self.now_ms()
            self._deadline_ms = _next_multiple(now, self.schedule_ms, self.zone) if self.schedule_ms > 0 else now + self.open_ms

    def is_full(self, bytes_written: int) -> bool:
        """Whether the open files end after the records written so far."""
        return 0 < self.max_records <= self._records or 0 < self.max_bytes <= bytes_written

    def is_due(self) -> bool:
        """Whether the open files end according to the wall clock."""
        now = self.now_ms()
        is_past = self._deadline_ms is not None and now >= self._deadline_ms
        return is_past or (self.timestamps.is_wall_clock and self._first_ms is not None and now - self._first_ms >= self.interval_ms)

    def _in_interval(self, batch: Batch) -> int:
        """The number of records before the first one that is too late for the files' first record."""
        times = self.timestamps.of(batch)
        if times is None:
            return batch.num_records
        first = _first(times) if self._first_ms is None else self._first_ms
        late = pc.index(pc.greater_equal(pc.subtract(times, first), self.interval_ms), pa.scalar(value=True)).as_py()
        return int(late) if late >= 0 else batch.num_records


def _first(times: pa.Array) -> int:
    return int(times[0].as_py())


def _next_multiple(now_ms: int, period_ms: int, zone: ZoneInfo) -> int:
    """The next multiple of a period since midnight by the clock of ``zone``, at the latest the next midnight."""
    local = datetime.datetime.fromtimestamp(now_ms / 1000, zone).replace(tzinfo=None, fold=0)
    midnight, day = local.replace(hour=0, minute=0, second=0, microsecond=0), datetime.timedelta(days=1)
    period = datetime.timedelta(milliseconds=min(period_ms, _DAY_MS))
    reading = midnight + min(((local - midnight) // period + 1) * period, day)
    first, second = (round(reading.replace(tzinfo=zone, fold=fold).timestamp() * 1000) for fold in (0, 1))
    return first if first > now_ms else second  # when clocks are put back, they show the same time twice
