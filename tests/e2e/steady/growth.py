"""What the processes of an application hold over time, and whether it grows. Only ``usages`` reads processes."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import sqrt

import psutil

DAY_SECONDS = 86_400.0
WARM_UP_SECONDS = 60.0  # of a process: imports, first connections, first batches
_FEWEST, _MOST = 10, 150  # values of a trend
_NORMAL_95 = 1.645  # one-sided
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Quantity:
    """A growth counts if it exceeds ``most_a_day``, and has exceeded ``least`` in the time that was measured."""

    name: str
    most_a_day: float
    least: float
    unit: float = 1.0


QUANTITIES = (
    Quantity("PSS MB", 256.0 * MIB, 8.0 * MIB, MIB),
    Quantity("threads", 24.0, 3.0),
    Quantity("descriptors", 24.0, 3.0),
    Quantity("TCP", 24.0, 3.0),
)


@dataclass(frozen=True, slots=True)
class Usage:
    """One process at one time. ``values`` has one value for each of ``QUANTITIES``."""

    process: tuple[int, float]
    role: str
    age_seconds: float
    values: tuple[float, ...]


def usages(application: int, now: float) -> list[Usage]:
    """Of the process ``application`` and of each process below it; those that end meanwhile are left out. ``now`` is the system's time."""
    found: list[Usage] = []
    try:
        driver = psutil.Process(application)
        processes = [driver, *driver.children(recursive=True)]
    except psutil.NoSuchProcess:
        return found
    for process in processes:
        try:
            role = "driver" if process.pid == application else role_of(process.cmdline())
            values = (process.memory_full_info().pss, process.num_threads(), process.num_fds(), len(process.net_connections("tcp")))
            began = process.create_time()
        except (psutil.Error, OSError):
            continue
        found.append(Usage((process.pid, began), role, now - began, tuple(map(float, values))))
    return found


def role_of(command: Sequence[str]) -> str:
    """What a process of an application is for, by its command line."""
    text = " ".join(command)
    names = {"process_host": "shared process", "task_processes": "task process", "memory_watch": "memory watch"}
    return next((role for name, role in names.items() if name in text), "other")


@dataclass(frozen=True, slots=True)
class Trend:
    """``slope`` is per second by Theil and Sen: the median of the slopes between any two values. ``low`` is the lower end of its
    confidence interval: with 95 %, the values grow at least so fast."""

    slope: float
    low: float
    seconds: float
    last: float

    def counts_for(self, quantity: Quantity) -> bool:
        """Whether it is a growth that matters over a day."""
        return self.low * DAY_SECONDS > quantity.most_a_day and self.slope * self.seconds >= quantity.least


def trend(points: Sequence[tuple[float, float]]) -> Trend | None:
    """Of (seconds, value) in order of time. None: too few."""
    if len(points) < _FEWEST:
        return None
    thinned = list(_thinned(points))
    slopes = sorted(
        (later[1] - earlier[1]) / (later[0] - earlier[0])
        for number, earlier in enumerate(thinned)
        for later in thinned[number + 1 :]
        if later[0] > earlier[0]
    )
    count = len(thinned)
    spread = _NORMAL_95 * sqrt(count * (count - 1) * (2 * count + 5) / 18)  # of Kendall's statistic
    low = slopes[max(0, int((len(slopes) - spread) / 2))]
    return Trend(statistics.median(slopes), low, points[-1][0] - points[0][0], statistics.median(value for _, value in points[-5:]))


def _thinned(points: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """At most ``_MOST`` points: the medians of neighbours."""
    width = -(-len(points) // _MOST)
    for start in range(0, len(points), width):
        part = points[start : start + width]
        yield statistics.median(time for time, _ in part), statistics.median(value for _, value in part)


@dataclass(slots=True)
class Growth:
    """Collects usages from ``note`` on. A process is measured after its warm-up; processes of one role are compared in one row."""

    _points: dict[tuple[str, tuple[int, float]], list[tuple[float, tuple[float, ...]]]] = field(default_factory=lambda: defaultdict(list))
    _totals: list[tuple[float, tuple[float, ...]]] = field(default_factory=list)

    def note(self, seconds: float, found: Iterable[Usage]) -> None:
        """What was found at this time."""
        all_values: list[tuple[float, ...]] = []
        for usage in found:
            all_values.append(usage.values)
            if usage.age_seconds >= WARM_UP_SECONDS:
                self._points[usage.role, usage.process].append((seconds, usage.values))
        if all_values:
            self._totals.append((seconds, (float(len(all_values)), *(sum(column) for column in zip(*all_values, strict=True)))))

    def rows(self, since: float = 0.0) -> list[GrowthRow]:
        """A row for each role, with the process that grows most from the time ``since`` on."""
        roles = sorted({role for role, _ in self._points})
        return [row for role in roles if (row := self._row(role, since)) is not None]

    def _row(self, role: str, since: float) -> GrowthRow | None:
        later = [[point for point in points if point[0] >= since] for (of, _), points in self._points.items() if of == role]
        series = [points for points in later if len(points) >= _FEWEST]
        if not series:
            return None
        worst: list[Trend] = []
        for number, _ in enumerate(QUANTITIES):
            trends = [trend([(seconds, values[number]) for seconds, values in points]) for points in series]
            worst.append(max((each for each in trends if each is not None), key=lambda each: (each.low, each.slope)))
        return GrowthRow(role, len(series), worst)

    def total(self, since: float) -> list[Trend | None]:
        """Of the number of processes, and of the sums over all of them, from the time ``since`` on."""
        points = [point for point in self._totals if point[0] >= since]
        return [trend([(seconds, values[number]) for seconds, values in points]) for number in range(len(QUANTITIES) + 1)]


@dataclass(frozen=True, slots=True)
class GrowthRow:
    """``trends``: of the process of the role that grows most, for each of ``QUANTITIES``."""

    role: str
    processes: int
    trends: Sequence[Trend]

    def grown(self) -> list[str]:
        """Each growth that matters over a day, in words."""
        found = zip(QUANTITIES, self.trends, strict=True)
        return [f"{self.role}: {_shown(each, quantity)} {quantity.name}" for quantity, each in found if each.counts_for(quantity)]


def table(rows: Sequence[GrowthRow]) -> str:
    """Roles with their values, and the growth per day of the process that grows most; the lower end of the interval is in brackets."""
    lines = [f"{'':16}{'n':>3}{'minutes':>9}" + "".join(f"{quantity.name:>34}" for quantity in QUANTITIES)]
    for row in rows:
        cells = "".join(f"{_shown(each, quantity):>34}" for quantity, each in zip(QUANTITIES, row.trends, strict=True))
        lines.append(f"{row.role:16}{row.processes:3}{max(each.seconds for each in row.trends) / 60:9.1f}{cells}")
    return "\n".join(lines)


def _shown(found: Trend, quantity: Quantity) -> str:
    day = DAY_SECONDS / quantity.unit
    return f"{found.last / quantity.unit:.0f}, {found.slope * day:+.0f} a day (≥ {found.low * day:+.0f})"
