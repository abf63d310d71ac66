"""All connectors at one instant, for commands that show them live: their rows as the page has them, and what runs in progress deliver."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from airflow_provider_connect.cli.connection import Verbs
from airflow_provider_connect.client.calls import Call
from airflow_provider_connect.client.conversation import ServerException
from airflow_provider_connect.errors import NotFoundException
from airflow_provider_connect.herder.herder import Herder
from airflow_provider_connect.model.ids import dag_id_for
from airflow_provider_connect.model.page import ConnectorRow, ConnectorRows, row_of
from airflow_provider_connect.model.verbs import Verb
from airflow_provider_connect.model.view_json import of_json
from airflow_provider_connect.model.views import ConnectorInfo, ConnectorStatusView, WorkerView

_PATH = "/ui/connectors"
_WINDOW_SECONDS = 30.0
_SHORTEST_SECONDS = 5.0

Key = tuple[str | None, ...]
"""A connector and the claims of its applications."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What the applications of a connector that run now have delivered since they began; ``rate`` in records a second. None: not known."""

    records: int | None = None
    bytes: int | None = None
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One connector. ``progress`` None: no application of it runs."""

    row: ConnectorRow
    progress: Progress | None = None

    @property
    def has_failed(self) -> bool:
        return self.row.state == "FAILED" or "FAILED" in self.row.tasks

    @property
    def records(self) -> int | None:
        """Of the run in progress, else of the last one."""
        if self.progress is not None:
            return self.progress.records
        return None if self.row.last_run is None else self.row.last_run.records

    @property
    def bytes(self) -> int | None:
        """As ``records``."""
        if self.progress is not None:
            return self.progress.bytes
        return None if self.row.last_run is None else self.row.last_run.bytes

    @property
    def rate(self) -> float | None:
        return None if self.progress is None else self.progress.rate

    @property
    def seconds_left(self) -> float | None:
        """Until a sink is at the ends of its topics, at the rate of now. None: not known, or a source: its end is not known."""
        return self.row.lag / self.rate if self.row.lag and self.rate else None


class Rates:
    """Records a second of the last half minute, from counts at successive calls; before there are any, those of the whole run."""

    def __init__(self) -> None:
        self._samples: dict[Key, list[tuple[float, int]]] = {}

    def of(self, counts: Mapping[Key, tuple[int, float | None]], at: float) -> dict[Key, float | None]:
        """``counts`` are records and, where that is known, the seconds that their delivery took; ``at`` is a monotonic time in seconds."""
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


class Overview:
    """The connectors of one Connect, read again and again. ``now`` is a monotonic clock in seconds.

    Of a real Kafka Connect, which has no routes of ours, states and traces alone are known.
    """

    def __init__(self, verbs: Verbs, now: Callable[[], float] = time.monotonic) -> None:
        self._verbs, self._now, self._rates = verbs, now, Rates()
        self._has_page = self._has_workers = True

    def lines(self, names: Collection[str] = ()) -> list[Line]:
        """Those of ``names``, else all, by name. Raises NotFoundException for a name that there is not."""
        rows = [row for row in self._rows(names) if not names or row.name in names]
        if missing := sorted(set(names) - {row.name for row in rows}):
            raise NotFoundException(f"Connector {', '.join(missing)} not found")
        progress = self._progress()
        return [Line(row, progress.get(row.name)) for row in sorted(rows, key=lambda row: row.name)]

    def _rows(self, names: Collection[str]) -> Iterable[ConnectorRow]:
        if isinstance(self._verbs, Herder):
            from airflow_provider_connect.cli.own_connect import own_rows  # loads Airflow's models

            return own_rows(self._verbs, names)
        if self._has_page:
            query = [("dag", dag_id_for(name)) for name in names] if len(names) == 1 else []
            call = Call(_ROWS, _PATH, lambda answer: cast("ConnectorRows", of_json(ConnectorRows, answer.body)), query)
            try:
                return self._verbs.carry_out(call).connectors
            except NotFoundException:
                self._has_page = False
            except ServerException as error:  # a proxy's own page, or what another version answers
                if error.status not in (200, 404):
                    raise
                self._has_page = False
        found = self._verbs.expanded(info=True, status=True)
        return [row for views in found.values() if (row := row_of_views(views)) is not None]

    def _progress(self) -> dict[str, Progress]:
        applications: dict[str, list[WorkerView]] = {}
        for worker in self._workers():
            applications.setdefault(worker.connector, []).append(worker)
        counts = {
            _key(name, found): (count, _longest(found)) for name, found in applications.items() if (count := _records(found)) is not None
        }
        rates = self._rates.of(counts, self._now())
        return {name: Progress(_records(found), _bytes(found), rates.get(_key(name, found))) for name, found in applications.items()}

    def _workers(self) -> list[WorkerView]:
        if not self._has_workers:
            return []
        try:
            return self._verbs.workers()
        except NotFoundException:
            self._has_workers = False
            return []


_ROWS = Verb("rows", "GET", _PATH, ConnectorRows, "What the page shows of all connectors.")


def row_of_views(views: Mapping[str, ConnectorInfo | ConnectorStatusView]) -> ConnectorRow | None:
    """None: the connector is just being deleted."""
    info, status = views.get("info"), views.get("status")
    if not isinstance(info, ConnectorInfo):
        return None
    return row_of(info, status if isinstance(status, ConnectorStatusView) else None, may_change=False, last_run=None)


def _key(connector: str, applications: Iterable[WorkerView]) -> Key:
    return (connector, *sorted({each.claim or "" for each in applications}))


def _records(applications: Iterable[WorkerView]) -> int | None:
    known = [each.records for each in applications if each.records is not None]
    return sum(known) if known else None


def _bytes(applications: Iterable[WorkerView]) -> int | None:
    known = [each.bytes for each in applications if each.bytes is not None]
    return sum(known) if known else None


def _longest(applications: Iterable[WorkerView]) -> float | None:
    return max((each.seconds for each in applications if each.seconds), default=None)
