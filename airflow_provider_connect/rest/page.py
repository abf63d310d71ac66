"""``/ui``: the bundle of the page in Airflow's UI, what the page shows beside the answers of Kafka Connect's API, and the page itself where
there is no Airflow.

No part of that API, so not in its document: these routes change with the page. They only read; each change that the page asks for is a
verb of the API.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Protocol

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from airflow_provider_connect.config.dag_settings import DEFINED_IN
from airflow_provider_connect.errors import BadRequestException, NotFoundException
from airflow_provider_connect.herder.herder import Herder
from airflow_provider_connect.model.backfill import OF, backfill_name, takes_backfills
from airflow_provider_connect.model.config_limits import cut
from airflow_provider_connect.model.ids import dag_id_for
from airflow_provider_connect.model.page import (
    LAG_SPANS,
    AttemptView,
    BackfillRow,
    BackfillRows,
    ConnectorDetail,
    Distances,
    LagHistory,
    PlanView,
    ProgressView,
    ReplayView,
    RunView,
    row_of,
)
from airflow_provider_connect.model.progress import Progress, Rates
from airflow_provider_connect.model.replays import Replay, replay_connector
from airflow_provider_connect.model.states import TargetState
from airflow_provider_connect.model.view_json import to_json
from airflow_provider_connect.model.views import ConnectorInfo, ConnectorStatusView
from airflow_provider_connect.rest.access import Right
from airflow_provider_connect.rest.answers import HttpException, answer, json_bytes, query
from airflow_provider_connect.rest.calls import Calls, calls_of, user_of
from airflow_provider_connect.rest.dead_letters import shown_replay
from airflow_provider_connect.rest.refreshed import Refreshed
from airflow_provider_connect.rest.routes import Connector
from airflow_provider_connect.rest.secrets import Secrets

BUNDLE_PATH = "/ui/connect.js"
_HOST = "host.js"  # React, Chakra and the router, which Airflow's UI has otherwise
_LAG_SECONDS = 5.0
_HOURS_SECONDS = 10.0
_PROGRESS_SECONDS = 2.0
_OLD_SECONDS = 15.0
_SEARCHES, _SEARCHES_OF_ALL = 2, 8
_DEAD_LETTERS = "20"
_LONGEST_NUMBER = 10
_KEPT = "private, max-age=31536000, immutable"

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:; "
    "base-uri 'self'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_PAGE = """<!doctype html>
<html lang="en" data-connect="alone">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Connect</title><base href="{root}/">
<script defer src="ui/host.js?v={host}"></script><script defer src="ui/connect.js?v={connect}"></script></head>
<body><div id="root"></div></body>
</html>
"""

router = APIRouter(include_in_schema=False)
page_router = APIRouter(include_in_schema=False)
"""The page for a server of its own."""


class Runs(Protocol):
    """What is known of runs that delivered something. Called from worker threads."""

    def last(self) -> Mapping[str, RunView]:
        """The last one of each connector that exists, by name."""
        ...

    def of(self, connector: str) -> Sequence[RunView]:
        """The connector's, the newest first."""
        ...

    def by_hour(self) -> Mapping[str, Sequence[int]]:
        """The records of each connector in each of the last 24 hours, the present one last; those without any are left out. May take
        long, and raise anything."""
        ...

    def planned(self, dag_id: str | None = None) -> Mapping[str, PlanView] | None:
        """What comes next, by DAG; with ``dag_id``, of that DAG alone. A DAG that does not exist is left out. None: not known."""
        ...

    def attempts(self, connector: str) -> Sequence[AttemptView]:
        """Those of the connector's newest run."""
        ...

    def lags(self, connector: str, *, hours: int) -> LagHistory:
        """How far the connector was from its end in the last ``hours``, a key of ``LAG_SPANS``."""
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

    def lags(self, connector: str, *, hours: int) -> LagHistory:
        return LagHistory(0, LAG_SPANS[hours] * 1000)


class PageFacts:
    """What the page's routes share: what is known of runs, and what is kept because it is dear. One for each app.

    The lags of all sinks take requests to Kafka, the records by hour a scan of a day's rows. Neither may make the list wait or fail.
    """

    def __init__(self, calls: Calls, runs: Runs, now: Callable[[], float] = time.monotonic) -> None:
        self.runs, self._now = runs, now
        self.distances: Refreshed[Distances] = Refreshed(
            "lags and distances", lambda: calls.herder().current_distances(), {}, seconds=_LAG_SECONDS
        )
        self.hours: Refreshed[Mapping[str, Sequence[int]]] = Refreshed("records by hour", runs.by_hour, {}, seconds=_HOURS_SECONDS)
        self._rates = Rates()
        self._progress: Refreshed[tuple[float, Mapping[str, ProgressView]]] = Refreshed(
            "progress of runs", lambda: self._measured(calls.herder()), (float("-inf"), {}), seconds=_PROGRESS_SECONDS, now=now
        )
        self.secrets = Secrets(lambda *plugin: calls.herder().plugin_config(*plugin), hides_unknown=True)
        self.searches = Searches()
        self.row_bytes = RowBytes()

    def progress(self, connector: str) -> ProgressView | None:
        """What the connector delivers now, as it was some seconds ago; what was measured before that is not of now."""
        at, known = self._progress.known()
        return known.get(connector) if self._now() - at < _OLD_SECONDS else None

    def _measured(self, herder: Herder) -> tuple[float, Mapping[str, ProgressView]]:
        found = self._rates.progress(herder.workers(), now := self._now())
        lags = herder.sink_lags(found)  # of the same instant: what was left before does not fit what has been delivered since
        return now, {name: _progress_view(each, lags.get(name)) for name, each in found.items()}


def _progress_view(progress: Progress, lag: Mapping[str, float] | None) -> ProgressView:
    """``lag`` None: a source, which counts what is left itself."""
    left, unit = (progress.left, progress.left_unit) if lag is None else (int(lag["records-lag"]), None)
    return ProgressView(progress.records, progress.bytes, progress.rate, left, progress.seconds_left(left, unit), unit)


class Searches:
    """The searches of dead letters that go on, each up to ten seconds of a thread: few for a user, and some for all users together."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()

    @contextmanager
    def one_of(self, user: str | None) -> Iterator[None]:
        """One of the user's. Raises HttpException where too many go on; users without a name share those of one."""
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


class RowBytes:
    """The rows of the list as JSON, each kept while what it is made of is equal: every page that is open asks for all of them every five
    seconds, and few have changed. Safe for many threads: an entry is replaced as a whole."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, bool], tuple[tuple[object, ...], bytes]] = {}

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
    ) -> bytes:
        """As ``model.page.row_of``. Views that have not changed are the same objects, so comparing them costs nothing."""
        distance = distances.get(info.name)
        parts = (info, status, last_run, distance, hours, planned and planned.get(dag_id_for(info.name)), planned is None)
        kept = self._kept.get((info.name, may_change))
        if kept is None or kept[0] != parts:
            row = row_of(info, status, may_change=may_change, last_run=last_run, distance=distance, hours=hours, planned=planned)
            kept = self._kept[info.name, may_change] = (parts, json_bytes(to_json(row)))
        return kept[1]

    def forget(self, existing: Collection[str]) -> None:
        """Drop the rows of deleted connectors, once they are most of what is kept."""
        if len(self._kept) > 4 * len(existing) + 1000:
            self._kept = {key: kept for key, kept in list(self._kept.items()) if key[0] in existing}


@cache
def bundle(name: str = "connect.js") -> tuple[bytes, str]:
    """A script, and its version for the query of its address: the beginning of its hash."""
    script = files("airflow_provider_connect.rest").joinpath("ui", name).read_bytes()
    return script, sha256(script).hexdigest()[:12]


@router.get(BUNDLE_PATH)
async def get_bundle(request: Request) -> Response:
    return _script(request, bundle())


@page_router.get(f"/ui/{_HOST}")
async def get_host(request: Request) -> Response:
    return _script(request, bundle(_HOST))


@page_router.get("/ui")
async def get_page(request: Request) -> Response:
    text = _PAGE.format(root=escape(request.scope.get("root_path", "")), host=bundle(_HOST)[1], connect=bundle()[1])
    return Response(text, headers=_HEADERS, media_type="text/html; charset=utf-8")


def _script(request: Request, found: tuple[bytes, str]) -> Response:
    script, version = found
    is_current = request.query_params.get("v") == version
    headers = {"Cache-Control": _KEPT if is_current else "no-cache", "X-Content-Type-Options": "nosniff"}
    return Response(script, headers=headers, media_type="text/javascript; charset=utf-8")


@router.get("/ui/connectors")
async def list_rows(request: Request) -> Response:
    """With ``dag``, the connector of that DAG alone, if there is one."""
    calls, user, dag = calls_of(request), user_of(request), request.query_params.get("dag")

    def shown(herder: Herder) -> Response:
        existing = {info.name: (info, status) for info, status in herder.listed()}
        names = existing if dag is None else [name for name in existing if dag_id_for(name) == dag]
        readable = calls.access.readable(user, names)
        changeable = calls.access.changeable(user, readable)
        facts = facts_of(request)
        last, planned, distances, hours = facts.runs.last(), facts.runs.planned(dag), facts.distances.known(), facts.hours.known()
        rows = [
            facts.row_bytes.row(
                *existing[name],
                may_change=name in changeable,
                last_run=last.get(name),
                distances=distances,
                hours=hours.get(name, ()),
                planned=planned,
            )
            for name in sorted(readable)
        ]
        facts.row_bytes.forget(existing)
        rights = calls.access.may_create_some(user), calls.access.may_administer(user)
        return answer(
            b'{"connectors":[%b],"may_create":%b,"may_administer":%b}' % (b",".join(rows), *map(json_bytes, rights))
        )  # a ``ConnectorRows``

    return await calls.ask(request, shown)


@router.get("/ui/connectors/{connector}")
async def get_detail(request: Request, connector: Connector) -> Response:
    calls, user = calls_of(request), user_of(request)

    def shown(herder: Herder) -> Response:
        facts = facts_of(request)
        info, runs = herder.connector_info(connector), facts.runs.of(connector)
        state = herder.config_state()
        defined_in = (state.connector_config(connector) or {}).get(DEFINED_IN)
        row = row_of(
            info,
            _status(herder, connector),
            may_change=calls.access.may(user, Right.CHANGE, connector),
            last_run=runs[0] if runs else None,
            distance=facts.distances.known().get(connector),
            hours=facts.hours.known().get(connector, ()),
            planned=facts.runs.planned(dag_id_for(connector)),
        )
        target = str(state.target_state(connector) or TargetState.STARTED)
        may_delete = calls.access.may(user, Right.DELETE, connector)
        return answer(ConnectorDetail(row, target, may_delete, defined_in, runs, facts.runs.attempts(connector), facts.progress(connector)))

    return await calls.read(request, connector, shown)


@router.get("/ui/connectors/{connector}/dead-letters")
async def get_dead_letters(request: Request, connector: Connector) -> Response:
    """The newest ``limit`` records of the connector's dead letter queue, secrets hidden."""
    calls, user, facts, limit = calls_of(request), user_of(request), facts_of(request), query(request, "limit", _DEAD_LETTERS)

    def shown(herder: Herder) -> Response:
        if not (limit.isascii() and limit.isdigit() and len(limit) < _LONGEST_NUMBER):
            raise BadRequestException(f"limit is a whole number, not {cut(limit)}")
        with facts.searches.one_of(calls.access.name_of(user)):
            return answer(herder.dead_letters(connector, limit=int(limit), shown=facts.secrets.shown))

    return await calls.read(request, connector, shown)


@router.get("/ui/connectors/{connector}/replay")
async def get_replay(request: Request, connector: Connector) -> Response:
    """The last replay of dead-letter records, with the run that does it."""
    calls, user = calls_of(request), user_of(request)

    def shown(herder: Herder) -> Response:
        herder.connector_info(connector)
        name = replay_connector(connector)
        attempts = facts_of(request).runs.attempts(name) if calls.access.may(user, Right.READ, name) else ()
        may_replay = all(calls.access.may(user, Right.CHANGE, each) for each in (connector, name))
        found = _replay(herder, connector)
        state = None if found is None else shown_replay(calls, user, found)
        return answer(ReplayView(state, name, dag_id_for(name), attempts[0].run if attempts else None, may_replay))

    return await calls.read(request, connector, shown)


@router.get("/ui/connectors/{connector}/backfills")
async def get_backfills(request: Request, connector: Connector) -> Response:
    """With their last runs, and what the user may do with them."""
    calls, user = calls_of(request), user_of(request)

    def shown(herder: Herder) -> Response:
        config = herder.config_state().connector_config(connector) or {}
        found = herder.backfills(connector)
        readable, last = calls.access.readable(user, [each.name for each in found]), facts_of(request).runs.last()
        rows = [
            BackfillRow(each, dag_id_for(each.name), calls.access.may(user, Right.DELETE, each.name), last.get(each.name))
            for each in reversed(found)
            if each.name in readable
        ]
        named = (connector, backfill_name(connector, "new"))
        may_create = takes_backfills(config) and all(calls.access.may(user, Right.CHANGE, name) for name in named)
        return answer(BackfillRows(rows, may_create, config.get(OF)))

    return await calls.read(request, connector, shown)


def _replay(herder: Herder, connector: str) -> Replay | None:
    try:
        return herder.dead_letter_replay(connector)
    except NotFoundException:
        return None


def _status(herder: Herder, connector: str) -> ConnectorStatusView | None:
    try:
        return herder.connector_status(connector)
    except NotFoundException:
        return None


def facts_of(request: Request) -> PageFacts:
    facts: PageFacts = request.app.state.page
    return facts
