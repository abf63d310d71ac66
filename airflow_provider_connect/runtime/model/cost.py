"""The usage of connectors' runs, and the cost of that usage by a table of prices. Knows nothing of how usage and prices are stored.

Days are in UTC. Money is ``None`` if no price is set, because the cost is then unknown, not 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

DAY_MS: Final = 86_400_000
DEFAULT_DAYS: Final = 7
MOST_DAYS: Final = 366
_HOUR_SECONDS = 3600
_GIGABYTE = 10**9
_DIGITS = 6
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Usage:
    """Sums over runs. ``runs`` counts the runs that delivered records. ``seconds`` and ``cpu_seconds`` are sums over the tasks and attempts
    of these runs."""

    runs: int = 0
    records: int = 0
    bytes: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.runs + other.runs,
            self.records + other.records,
            self.bytes + other.bytes,
            self.seconds + other.seconds,
            self.cpu_seconds + other.cpu_seconds,
        )


@dataclass(frozen=True, slots=True)
class DayUsage:
    """The usage of a connector on a day. The day is the number of days since 1970."""

    connector: str
    day: int
    used: Usage


@dataclass(frozen=True, slots=True)
class RunUsage:
    """The usage of a run. ``last_ms`` is the time of its last entry in the batch log, since 1970."""

    run: str
    last_ms: int
    used: Usage


@dataclass(frozen=True, slots=True)
class Prices:
    """The prices of an hour of CPU, of an hour of a task's time, and of 10⁹ delivered bytes. ``currency`` is for display and may be
    empty."""

    cpu_hour: float = 0.0
    task_hour: float = 0.0
    gigabyte: float = 0.0
    currency: str = ""

    @property
    def are_set(self) -> bool:
        return any((self.cpu_hour, self.task_hour, self.gigabyte))

    def cost(self, used: Usage) -> Cost:
        """The usage with its cost. Both are rounded to 6 decimals, because the last digits in a sum of many floats have no meaning."""
        hours = (used.cpu_seconds * self.cpu_hour + used.seconds * self.task_hour) / _HOUR_SECONDS
        money = round(hours + used.bytes * self.gigabyte / _GIGABYTE, _DIGITS) if self.are_set else None
        seconds, cpu_seconds = round(used.seconds, _DIGITS), round(used.cpu_seconds, _DIGITS)
        return Cost(used.runs, used.records, used.bytes, seconds, cpu_seconds, money)


@dataclass(frozen=True, slots=True)
class Cost:
    """A rounded ``Usage`` with its cost. ``money`` None: no price is set."""

    runs: int
    records: int
    bytes: int
    seconds: float
    cpu_seconds: float
    money: float | None


@dataclass(frozen=True, slots=True)
class DayCost:
    """The cost of a connector on a day, written as ``2026-01-31``."""

    connector: str
    day: str
    cost: Cost


@dataclass(frozen=True, slots=True)
class RunCost:
    """The cost of a run in the days of the response. ``last_ms`` is the time of its last entry in the batch log, since 1970."""

    run: str
    last_ms: int
    cost: Cost


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of connectors from ``first_day`` to ``last_day``. ``days``, newest first, are the days on which a connector delivered
    something. ``total`` is the sum over these days."""

    first_day: str
    last_day: str
    prices: Prices
    days: Sequence[DayCost]
    total: Cost


@dataclass(frozen=True, slots=True)
class ConnectorCosts:
    """The costs of one connector. ``runs`` are the runs that delivered something in these days, newest first. ``is_whole`` false: older
    runs are left out, because there are too many for a response. ``days`` and ``total`` include all runs."""

    first_day: str
    last_day: str
    prices: Prices
    days: Sequence[DayCost]
    total: Cost
    runs: Sequence[RunCost]
    is_whole: bool


@dataclass(frozen=True, slots=True)
class Span:
    """A range of days, as numbers since 1970, from ``first`` to ``last`` inclusive."""

    first: int
    last: int

    @classmethod
    def until(cls, now_ms: int, days: int) -> Span:
        """The day of this instant and the days before it, ``days`` in total."""
        last = now_ms // DAY_MS
        return cls(last - days + 1, last)

    @property
    def first_ms(self) -> int:
        return self.first * DAY_MS

    @property
    def end_ms(self) -> int:
        """The first instant after the last day."""
        return (self.last + 1) * DAY_MS


def costs(found: Sequence[DayUsage], span: Span, prices: Prices) -> Costs:
    """The costs by connector and day."""
    newest_first = sorted(found, key=lambda each: (-each.day, each.connector))
    days = [DayCost(each.connector, _date(each.day), prices.cost(each.used)) for each in newest_first]
    return Costs(_date(span.first), _date(span.last), prices, days, prices.cost(sum((each.used for each in found), Usage())))


def connector_costs(found: Sequence[DayUsage], runs: Sequence[RunUsage], span: Span, prices: Prices, *, most_runs: int) -> ConnectorCosts:
    """The costs of one connector. ``runs`` are sorted newest first. If there are more than ``most_runs``, one additional run is
    included."""
    by_day = costs(found, span, prices)
    by_run = [RunCost(each.run, each.last_ms, prices.cost(each.used)) for each in runs[:most_runs]]
    is_whole = len(runs) <= most_runs
    return ConnectorCosts(by_day.first_day, by_day.last_day, prices, by_day.days, by_day.total, by_run, is_whole)


def _date(day: int) -> str:
    return (_EPOCH + timedelta(days=day)).isoformat()
