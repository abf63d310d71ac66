"""The costs of connectors: the usage of their runs, from the history, at the worker's prices."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Final

from airflow_provider_connect.errors import BadRequestException
from airflow_provider_connect.runtime.herder.ports import RecordedChanges
from airflow_provider_connect.runtime.herder.snapshot import SnapshotReader, config_of
from airflow_provider_connect.runtime.model.cost import MOST_DAYS, ConnectorCosts, Costs, Prices, Span, connector_costs, costs

MOST_ROWS: Final = 50_000
MOST_RUNS: Final = 1000
_NO_RUNS = "This server keeps no record of runs: it has only topics, and no database. Airflow's API server has one"

Readable = Callable[[Collection[str]], Collection[str]]
"""Returns those of the given connectors that the user may read."""


class RecordedCosts:
    """See the module. ``recorded`` None: no history is kept. ``now`` is in seconds since 1970."""

    def __init__(
        self, reader: SnapshotReader, recorded: RecordedChanges | None, prices: Prices, now: Callable[[], float] = time.time
    ) -> None:
        self._reader, self._recorded, self._prices, self._now = reader, recorded, prices, now

    def of_all(self, days: int, readable: Readable) -> Costs:
        """Raises BadRequestException for more than ``MOST_ROWS`` rows."""
        recorded, span = self._require_recorded(), self._span(days)
        names = readable(recorded.connectors_used(span))
        found = recorded.usage_by_day(sorted(names), span, most=MOST_ROWS + 1)
        if len(found) > MOST_ROWS:
            raise BadRequestException(f"The costs of {days} days have more than {MOST_ROWS} rows: ask for fewer days, or for one connector")
        return costs(found, span, self._prices)

    def of_one(self, name: str, days: int) -> ConnectorCosts:
        """Raises NotFoundException if the connector does not exist and has no run in these days."""
        recorded, span = self._require_recorded(), self._span(days)
        found = recorded.usage_by_day([name], span, most=MOST_DAYS)
        if not found:
            config_of(self._reader.configs(), name)
        runs = recorded.usage_by_run(name, span, most=MOST_RUNS + 1)
        return connector_costs(found, runs, span, self._prices, most_runs=MOST_RUNS)

    def _span(self, days: int) -> Span:
        if not 1 <= days <= MOST_DAYS:
            raise BadRequestException(f"'days' must be a number from 1 to {MOST_DAYS}, not {days}")
        return Span.until(int(self._now() * 1000), days)

    def _require_recorded(self) -> RecordedChanges:
        if self._recorded is None:
            raise BadRequestException(_NO_RUNS)
        return self._recorded
