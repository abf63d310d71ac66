"""Which rows of the list of connectors a page asks for: filters, an order, and a window."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request

from airflow_provider_connect.errors import BadRequestException
from airflow_provider_connect.rest.answers import query, whole_number
from airflow_provider_connect.runtime.model.config_limits import cut
from airflow_provider_connect.runtime.model.page import ConnectorRow
from airflow_provider_connect.runtime.model.states import State
from airflow_provider_connect.runtime.model.views import HealthWord

ATTENTION: Final = "attention"
"""The filter for connectors that users should look at: each health but ``idle`` and ``healthy``."""
_CALM: Final = (HealthWord.IDLE, HealthWord.HEALTHY)
_STATES: Final = [State.FAILED, State.UNASSIGNED, State.RESTARTING, State.RUNNING, State.PAUSED, State.STOPPED]
_HEALTHS: Final = list(HealthWord)

_Key = Callable[[ConnectorRow], str | float]


def _state_order(row: ConnectorRow) -> float:
    order = _STATES.index(State(row.state)) if row.state in _STATES else -1
    return order - 0.5 if row.tasks.get(State.FAILED) else order


def _next_run(row: ConnectorRow) -> float:
    if row.plan is None or (row.plan.attempt is None and row.plan.next_run_ms is None):
        return math.inf
    return 0 if row.plan.attempt is not None else float(row.plan.next_run_ms or 0)


def _class(row: ConnectorRow) -> str:
    return f"{row.class_name.rpartition('.')[2]} {row.version or ''}".lower()


def _tags(row: ConnectorRow) -> str:
    return "" if row.plan is None else ", ".join(row.plan.tags).lower()


def _owner(row: ConnectorRow) -> str:
    return "" if row.plan is None else (row.plan.owner or "").lower()


_ORDERS: Final[Mapping[str, _Key]] = {
    "name": lambda row: row.name.lower(),
    "class": _class,
    "type": lambda row: row.type,
    "state": _state_order,
    "health": lambda row: _HEALTHS.index(HealthWord.HEALTHY if row.health is None else row.health.word),
    "tasks": lambda row: sum(row.tasks.values()),
    "lag": lambda row: -1 if row.left is None else row.left,
    "records": lambda row: -1 if row.last_run is None else row.last_run.records,
    "bytes": lambda row: -1 if row.last_run is None else row.last_run.bytes,
    "when": lambda row: 0 if row.last_run is None else row.last_run.last_ms,
    "day": lambda row: sum(row.hours),
    "next": _next_run,
    "owner": _owner,
    "tags": _tags,
}


@dataclass(frozen=True, slots=True)
class RowQuery:
    """Filters that are empty match every row. ``words`` are parts of names, classes, types, owners and tags. ``limit`` None: all rows from
    ``offset`` on."""

    words: Sequence[str] = ()
    state: str = ""
    type: str = ""
    health: str = ""
    sort: str = "name"
    descends: bool = False
    offset: int = 0
    limit: int | None = None

    @classmethod
    def of(cls, request: Request) -> RowQuery:
        """Raises BadRequestException for a number or an order that there is not."""
        sort = query(request, "sort", "name")
        if sort not in _ORDERS:
            raise BadRequestException(f"sort is one of {', '.join(_ORDERS)}, not {cut(sort)}")
        return cls(
            tuple(query(request, "q", "").lower().split()),
            query(request, "state", ""),
            query(request, "type", ""),
            query(request, "health", ""),
            sort,
            query(request, "dir", "") == "desc",
            whole_number(request, "offset", "0"),
            whole_number(request, "limit", "") if query(request, "limit", "") else None,
        )

    def matches(self, row: ConnectorRow) -> bool:
        """Whether the row fits all filters. The state FAILED is also that of a connector with a task that has FAILED."""
        if self.state and row.state != self.state and not (self.state == State.FAILED and row.tasks.get(State.FAILED)):
            return False
        if self.type and row.type != self.type:
            return False
        if self.health and not self._matches_health(row):
            return False
        text = f"{row.name} {row.class_name} {row.version or ''} {row.type} {_owner(row)} {_tags(row)}".lower() if self.words else ""
        return all(word in text for word in self.words)

    def order(self, row: ConnectorRow) -> str | float:
        """The key by which rows are sorted. Rows with equal keys are in the order of their names."""
        return _ORDERS[self.sort](row)

    @property
    def window(self) -> slice:
        return slice(self.offset, None if self.limit is None else self.offset + self.limit)

    def _matches_health(self, row: ConnectorRow) -> bool:
        if row.health is None:
            return False
        return row.health.word not in _CALM if self.health == ATTENTION else row.health.word == self.health
