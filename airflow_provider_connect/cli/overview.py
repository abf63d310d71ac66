"""All connectors at one instant, for commands with a live view: the page's rows, and the progress of runs."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from airflow_provider_connect.cli.connection import Verbs
from airflow_provider_connect.client.calls import Call
from airflow_provider_connect.client.conversation import ServerException
from airflow_provider_connect.errors import NotFoundException
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.health import health_of
from airflow_provider_connect.runtime.model.ids import dag_id_for
from airflow_provider_connect.runtime.model.page import ConnectorRow, ConnectorRows, row_of
from airflow_provider_connect.runtime.model.progress import Progress, Rates
from airflow_provider_connect.runtime.model.verbs import Verb
from airflow_provider_connect.runtime.model.view_json import of_json
from airflow_provider_connect.runtime.model.views import ConnectorInfo, ConnectorStatusView, Health, WorkerView

_PATH = "/ui/connectors"


@dataclass(frozen=True, slots=True)
class Line:
    """One connector. ``progress`` is None if no application of the connector is running."""

    row: ConnectorRow
    progress: Progress | None = None

    @property
    def has_failed(self) -> bool:
        return self.row.state == "FAILED" or "FAILED" in self.row.tasks

    @property
    def records(self) -> int | None:
        """The records of the run in progress, or of the last run."""
        if self.progress is not None:
            return self.progress.records
        return None if self.row.last_run is None else self.row.last_run.records

    @property
    def bytes(self) -> int | None:
        """The bytes of the same run."""
        if self.progress is not None:
            return self.progress.bytes
        return None if self.row.last_run is None else self.row.last_run.bytes

    @property
    def rate(self) -> float | None:
        return None if self.progress is None else self.progress.rate

    @property
    def left(self) -> tuple[int | None, str | None]:
        """The distance to the end and its unit. It is a sink's lag, or a source's distance in the run in progress or the last run."""
        if self.progress is None or self.progress.left is None or self.row.lag is not None:
            return self.row.left if self.row.lag is None else self.row.lag, self.row.left_unit
        return self.progress.left, self.progress.left_unit

    @property
    def seconds_left(self) -> float | None:
        """The time to the end at the current rate. None: unknown, or the distance is not in records."""
        return None if self.progress is None else self.progress.seconds_left(*self.left)


class Overview:
    """The connectors of one Connect, read repeatedly. ``now`` is a monotonic clock in seconds.

    A real Kafka Connect does not have this package's routes, so it returns only states and traces.
    """

    def __init__(self, verbs: Verbs, now: Callable[[], float] = time.monotonic) -> None:
        self._verbs, self._now, self._rates = verbs, now, Rates()
        self._has_page = self._has_workers = True

    def lines(self, names: Collection[str] = ()) -> list[Line]:
        """The connectors in ``names``, or all, sorted by name. Raises NotFoundException for an unknown name."""
        rows = [row for row in self._rows(names) if not names or row.name in names]
        if missing := sorted(set(names) - {row.name for row in rows}):
            raise NotFoundException(f"Connector {', '.join(missing)} not found")
        progress = self._progress()
        return [Line(row, progress.get(row.name)) for row in sorted(rows, key=lambda row: row.name)]

    def health(self, name: str) -> Health | None:
        """None: the state says everything, or the health is unknown."""
        return next((row.health for row in self._rows([name]) if row.name == name), None)

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
            except ServerException as error:  # a proxy's own page, or another version's answer
                if error.status not in (200, 404):
                    raise
                self._has_page = False
        found = self._verbs.expanded(info=True, status=True)
        return [row for views in found.values() if (row := row_of_views(views)) is not None]

    def _progress(self) -> dict[str, Progress]:
        return self._rates.progress(self._workers(), self._now())

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
    """The connector's row. None: the connector is being deleted."""
    info, status = views.get("info"), views.get("status")
    if not isinstance(info, ConnectorInfo):
        return None
    known = status if isinstance(status, ConnectorStatusView) else None
    health = health_of(known, None, None, now_ms=time.time() * 1000)
    return row_of(info, known, may_change=False, last_run=None, health=health)
