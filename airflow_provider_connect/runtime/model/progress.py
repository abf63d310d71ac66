"""The progress and the rate of a connector's running applications. Knows no clock and no store."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from airflow_provider_connect.runtime.model.views import WorkerView

_WINDOW_SECONDS: Final = 30.0
_SHORTEST_SECONDS: Final = 5.0

Key = tuple[str | None, ...]
"""A connector and the claims of its applications."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The deliveries of a connector's running applications since their start. ``rate`` is in records per second. ``left`` and ``failed``
    are as in ``WorkerView``. None: unknown."""

    records: int | None = None
    bytes: int | None = None
    rate: float | None = None
    left: int | None = None
    left_unit: str | None = None
    failed: int | None = None

    def seconds_left(self, left: int | None, unit: str | None) -> float | None:
        """The seconds until ``left`` of ``unit`` are delivered, at the current rate. None: ``unit`` is not records, or nothing is left."""
        return left / self.rate if left and self.rate and unit in (None, "records") else None


class Rates:
    """Computes records per second in the last half minute from the counts of successive calls. Before the second call, the rate is the
    average of the whole run."""

    def __init__(self) -> None:
        self._samples: dict[Key, list[tuple[float, int]]] = {}

    def progress(self, workers: Iterable[WorkerView], at: float) -> dict[str, Progress]:
        """The progress by connector. ``workers`` are all running applications. ``at`` is a monotonic time in seconds."""
        applications: dict[str, list[WorkerView]] = {}
        for worker in workers:
            applications.setdefault(worker.connector, []).append(worker)
        counts = {
            _key(name, found): (count, _longest(found)) for name, found in applications.items() if (count := _records(found)) is not None
        }
        rates = self.of(counts, at)
        return {
            name: Progress(_records(found), _bytes(found), rates.get(_key(name, found)), *_left(found), _failed(found))
            for name, found in applications.items()
        }

    def of(self, counts: Mapping[Key, tuple[int, float | None]], at: float) -> dict[Key, float | None]:
        """The rates. ``counts`` has the number of records and, if known, the seconds that their delivery took. ``at`` is a monotonic time
        in seconds."""
        kept = {
            key: [*(each for each in self._samples.get(key, ()) if at - each[0] <= _WINDOW_SECONDS), (at, records)]
            for key, (records, _) in counts.items()
        }
        self._samples = kept
        return {key: _rate(kept[key], records, seconds) for key, (records, seconds) in counts.items()}


def _rate(samples: list[tuple[float, int]], records: int, seconds: float | None) -> float | None:
    (first, before), (last, _) = samples[0], samples[-1]
    if last - first >= _SHORTEST_SECONDS and (records > before or not seconds):
        return max(records - before, 0) / (last - first)
    return records / seconds if seconds else None


def _key(connector: str, applications: Iterable[WorkerView]) -> Key:
    return (connector, *sorted({each.claim or "" for each in applications}))


def _records(applications: Iterable[WorkerView]) -> int | None:
    return _sum(each.records for each in applications)


def _bytes(applications: Iterable[WorkerView]) -> int | None:
    return _sum(each.bytes for each in applications)


def _failed(applications: Iterable[WorkerView]) -> int | None:
    return _sum(each.failed for each in applications)


def _sum(counts: Iterable[int | None]) -> int | None:
    """The sum of the known counts. None: no count is known."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _left(applications: Iterable[WorkerView]) -> tuple[int | None, str | None]:
    """The sum of ``left`` and its unit, if all applications report the same unit."""
    known = [(each.left, each.left_unit) for each in applications]
    units = {unit for _, unit in known}
    if len(units) != 1 or any(left is None for left, _ in known):
        return None, None
    return sum(left or 0 for left, _ in known), units.pop()


def _longest(applications: Iterable[WorkerView]) -> float | None:
    return max((each.seconds for each in applications if each.seconds), default=None)
