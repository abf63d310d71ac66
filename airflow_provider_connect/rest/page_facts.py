"""Data that the page's routes share: the runs of connectors, and cached values."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from starlette.requests import Request

from airflow_provider_connect.rest.answers import HttpException, json_bytes
from airflow_provider_connect.rest.calls import Calls
from airflow_provider_connect.rest.refreshed import Refreshed
from airflow_provider_connect.rest.secrets import Secrets
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.health import Pace, health_of
from airflow_provider_connect.runtime.model.ids import dag_id_for
from airflow_provider_connect.runtime.model.page import (
    LAG_SPANS,
    AttemptView,
    ConnectorRow,
    Distances,
    FailedRun,
    LagHistory,
    PlanView,
    ProgressView,
    RunView,
    row_of,
)
from airflow_provider_connect.runtime.model.progress import Progress, Rates
from airflow_provider_connect.runtime.model.view_json import to_json
from airflow_provider_connect.runtime.model.views import ConnectorInfo, ConnectorStatusView

_LAG_SECONDS = 5.0
_HOURS_SECONDS = 10.0
_PROGRESS_SECONDS = 2.0
_OLD_SECONDS = 15.0
_SEARCHES, _SEARCHES_OF_ALL = 2, 8


class Runs(Protocol):
    """Runs that delivered something. Called from worker threads."""

    def last(self) -> Mapping[str, RunView]:
        """The last run of each existing connector, by name."""
        ...

    def of(self, connector: str) -> Sequence[RunView]:
        """The connector's runs, newest first."""
        ...

    def by_hour(self) -> Mapping[str, Sequence[int]]:
        """The number of records of each connector in each of the last 24 hours, ending with the current hour. Connectors without records
        are left out. May take long and may raise any exception."""
        ...

    def planned(self, dag_id: str | None = None) -> Mapping[str, PlanView] | None:
        """The next run of each DAG, or only of ``dag_id``. A DAG that does not exist is left out. None: unknown."""
        ...

    def attempts(self, connector: str) -> Sequence[AttemptView]:
        """The attempts of the connector's newest run."""
        ...

    def failed(self, connector: str) -> Sequence[FailedRun]:
        """The connector's newest runs that failed, newest first."""
        ...

    def lags(self, connector: str, *, hours: int) -> LagHistory:
        """The connector's distances from the end of its input in the last ``hours``, a key of ``LAG_SPANS``."""
        ...


class NoRuns:
    """A server without a mirror."""

    def last(self) -> Mapping[str, RunView]:
        return {}

    def of(self, connector: str) -> Sequence[RunView]:
        return []

    def by_hour(self) -> Mapping[str, Sequence[int]]:
        return {}

    def planned(self, dag_id: str | None = None) -> None:
        return None

    def attempts(self, connector: str) -> Sequence[AttemptView]:
        return []

    def failed(self, connector: str) -> Sequence[FailedRun]:
        return []

    def lags(self, connector: str, *, hours: int) -> LagHistory:
        return LagHistory(0, LAG_SPANS[hours] * 1000)


class PageFacts:
    """The page's shared data, one instance for each app.

    The lags of all sinks need requests to Kafka; the records by hour need a scan of a day's rows. Neither may delay or fail the list.
    """

    def __init__(self, calls: Calls, runs: Runs, now: Callable[[], float] = time.monotonic) -> None:
        self.runs, self._now = runs, now
        self.distances: Refreshed[Distances] = Refreshed(
            "lags and distances", lambda: calls.herder().current_distances(), {}, seconds=_LAG_SECONDS
        )
        self.hours: Refreshed[Mapping[str, Sequence[int]]] = Refreshed("records by hour", runs.by_hour, {}, seconds=_HOURS_SECONDS)
        self._rates = Rates()
        self._progress: Refreshed[tuple[float, Mapping[str, ProgressView]]] = Refreshed(
            "progress of runs", lambda: self._measure(calls.herder()), (float("-inf"), {}), seconds=_PROGRESS_SECONDS, now=now
        )
        self.secrets = Secrets(lambda *plugin: calls.herder().plugin_config(*plugin), hides_unknown=True)
        self.searches = Searches()
        self.rows = KnownRows()

    def progress(self, connector: str) -> ProgressView | None:
        """The connector's progress some seconds ago. None: it has no run, or the measurement is too old."""
        at, known = self._progress.known()
        return known.get(connector) if self._now() - at < _OLD_SECONDS else None

    def _measure(self, herder: Herder) -> tuple[float, Mapping[str, ProgressView]]:
        found = self._rates.progress(herder.workers(), now := self._now())
        lags = herder.sink_lags(found)  # at the same instant as the deliveries
        return now, {name: _progress_view(each, lags.get(name)) for name, each in found.items()}


def _progress_view(progress: Progress, lag: Mapping[str, float] | None) -> ProgressView:
    """``lag`` is None for a source, which reports its own distance."""
    left, unit = (progress.left, progress.left_unit) if lag is None else (int(lag["records-lag"]), None)
    return ProgressView(progress.records, progress.bytes, progress.rate, left, progress.seconds_left(left, unit), unit, progress.failed)


class Searches:
    """Limits concurrent searches of dead letters, per user and in total. Each search takes a thread for up to ten seconds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()

    @contextmanager
    def start(self, user: str | None) -> Iterator[None]:
        """Run one search. Raises HttpException if too many are running. Users without a name share one limit."""
        name = user or ""
        with self._lock:
            if self._running[name] >= _SEARCHES:
                raise HttpException(429, "Dead letters are being read for you already. Try again in some seconds.")
            if self._running.total() >= _SEARCHES_OF_ALL:
                raise HttpException(429, "Others are reading dead letters now. Try again in some seconds.")
            self._running[name] += 1
        try:
            yield
        finally:
            with self._lock:
                self._running[name] -= 1
                self._running += Counter()  # forgets users without searches


class KnownRow:
    """A row of the list, and its JSON, which is created when it is first asked for."""

    def __init__(self, row: ConnectorRow, parts: tuple[object, ...]) -> None:
        self.row = row
        self.parts = parts
        self._json: bytes | None = None

    @property
    def json(self) -> bytes:
        if self._json is None:
            self._json = json_bytes(to_json(self.row))
        return self._json


class KnownRows:
    """The rows of the list. A row is cached until one of its parts changes: every open page requests rows every five seconds, and few rows
    have changed. Safe for many threads, because an entry is replaced as a whole."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, bool], KnownRow] = {}

    def row(
        self,
        info: ConnectorInfo,
        status: ConnectorStatusView | None,
        *,
        may_change: bool,
        last_run: RunView | None,
        distances: Distances,
        hours: Sequence[int],
        planned: Mapping[str, PlanView] | None,
        pace: Pace | None = None,
    ) -> KnownRow:
        """Like ``model.page.row_of``. Unchanged views are the same objects, so comparing them costs nothing."""
        distance = distances.get(info.name)
        health = health_of(status, distance, pace, now_ms=time.time() * 1000)
        parts = (info, status, last_run, distance, hours, planned and planned.get(dag_id_for(info.name)), planned is None, health)
        kept = self._kept.get((info.name, may_change))
        if kept is None or kept.parts != parts:
            row = row_of(
                info, status, may_change=may_change, last_run=last_run, distance=distance, hours=hours, planned=planned, health=health
            )
            kept = self._kept[info.name, may_change] = KnownRow(row, parts)
        return kept

    def forget(self, existing: Collection[str]) -> None:
        """Drop the rows of deleted connectors, if most rows in the cache are of deleted connectors."""
        if len(self._kept) > 4 * len(existing) + 1000:
            self._kept = {key: kept for key, kept in list(self._kept.items()) if key[0] in existing}


def facts_of(request: Request) -> PageFacts:
    facts: PageFacts = request.app.state.page
    return facts
