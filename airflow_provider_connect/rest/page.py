"""``/ui``: the bundle of the page in Airflow's UI, the data that Kafka Connect's API does not have, and the page itself for servers without
Airflow.

These routes change with the page, so they are not part of the API or its document. These routes only read. The page changes connectors
through the API.
"""

from __future__ import annotations

import time
from collections import Counter
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from airflow_provider_connect.errors import NotFoundException
from airflow_provider_connect.rest.access import Right
from airflow_provider_connect.rest.answers import answer, json_bytes, whole_number
from airflow_provider_connect.rest.calls import calls_of, user_of
from airflow_provider_connect.rest.dead_letters import visible_replay
from airflow_provider_connect.rest.page_facts import KnownRow, Runs, facts_of
from airflow_provider_connect.rest.routes import Connector
from airflow_provider_connect.rest.row_query import RowQuery
from airflow_provider_connect.runtime.config.dag_settings import DEFINED_IN, dag_keys
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.backfill import OF, backfill_name, takes_backfills
from airflow_provider_connect.runtime.model.health import health_of
from airflow_provider_connect.runtime.model.ids import dag_id_for
from airflow_provider_connect.runtime.model.page import (
    BackfillRow,
    BackfillRows,
    ConnectorDetail,
    ConnectorNames,
    DatasetView,
    NamedConnector,
    ReplayView,
    row_of,
)
from airflow_provider_connect.runtime.model.replays import Replay, replay_connector
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.model.views import ConnectorStatusView

BUNDLE_PATH = "/ui/connect.js"
_HOST = "host.js"  # React, Chakra and the router, which Airflow's UI otherwise provides
_DEAD_LETTERS = "20"
_KEPT = "private, max-age=31536000, immutable"

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:; "
    "base-uri 'self'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_PAGE = """<!doctype html>
<html lang="en" data-connect="standalone">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Connect</title><base href="{root}/">
<script defer src="ui/host.js?v={host}"></script><script defer src="ui/connect.js?v={connect}"></script></head>
<body><div id="root"></div></body>
</html>
"""

router = APIRouter(include_in_schema=False)
page_router = APIRouter(include_in_schema=False)
"""The page, for servers without Airflow's UI."""


@cache
def bundle(name: str = "connect.js") -> tuple[bytes, str]:
    """A script, and the version for its URL. The version is the beginning of the script's hash."""
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
    """The rows of connectors (``RowQuery``); with ``dag``, only the row of that DAG's connector."""
    calls, user, dag = calls_of(request), user_of(request), request.query_params.get("dag")
    wanted = RowQuery.of(request)

    def respond(herder: Herder) -> Response:
        every = _rows(herder, request, dag)
        fitting = [each for each in every if wanted.matches(each.row)]
        fitting.sort(key=lambda each: wanted.order(each.row), reverse=wanted.descends)
        rest = {
            "may_create": calls.access.may_create_some(user),
            "may_administer": calls.access.may_administer(user),
            "may_read_all": calls.access.may_read_all(user),
            "offset": wanted.offset,
            "matching": len(fitting),
            "total": len(every),
            "changeable": sum(each.row.may_change for each in every),
            "states": Counter(each.row.state for each in every if each.row.state is not None),
        }
        rows = b",".join(each.json for each in fitting[wanted.window])
        return answer(b'{"connectors":[%b],%b' % (rows, json_bytes(rest)[1:]))  # a ``ConnectorRows``

    return await calls.ask(request, respond)


@router.get("/ui/connector-names")
async def list_names(request: Request) -> Response:
    """The connectors that the user may change, for actions on many: those that fit the filters of a ``RowQuery``, and the others."""
    calls, wanted = calls_of(request), RowQuery.of(request)

    def respond(herder: Herder) -> Response:
        rows = [each.row for each in _rows(herder, request) if each.row.may_change]
        return answer(ConnectorNames([NamedConnector(row.name, row.state, wanted.matches(row)) for row in rows]))

    return await calls.ask(request, respond)


def _rows(herder: Herder, request: Request, dag: str | None = None) -> list[KnownRow]:
    """The rows of all connectors that the user may read, or of that of one DAG, sorted by name."""
    calls, user, facts = calls_of(request), user_of(request), facts_of(request)
    existing = {info.name: (info, status) for info, status in herder.listed()}
    names = existing if dag is None else [name for name in existing if dag_id_for(name) == dag]
    readable = calls.access.readable(user, names)
    changeable = calls.access.changeable(user, readable)
    last, planned, distances, hours = facts.runs.last(), facts.runs.planned(dag), facts.distances.known(), facts.hours.known()
    facts.rows.forget(existing)
    return [
        facts.rows.row(
            *existing[name],
            may_change=name in changeable,
            last_run=last.get(name),
            distances=distances,
            hours=hours.get(name, ()),
            planned=planned,
            pace=herder.pace(name),
        )
        for name in sorted(readable)
    ]


@router.get("/ui/connector-plugins")
async def list_classes(request: Request) -> Response:
    """The connector classes that users can configure, with their summaries."""
    return await calls_of(request).ask(request, lambda herder: answer(herder.connector_classes()))


@router.get("/ui/connectors/{connector}")
async def get_detail(request: Request, connector: Connector) -> Response:
    calls, user = calls_of(request), user_of(request)

    def respond(herder: Herder) -> Response:
        facts = facts_of(request)
        info, runs = herder.connector_info(connector), facts.runs.of(connector)
        state = herder.config_state()
        config = state.connector_config(connector) or {}
        status, distance = _status(herder, connector), facts.distances.known().get(connector)
        row = row_of(
            info,
            status,
            may_change=calls.access.may(user, Right.CHANGE, connector),
            last_run=runs[0] if runs else None,
            distance=distance,
            hours=facts.hours.known().get(connector, ()),
            planned=facts.runs.planned(dag_id_for(connector)),
            health=health_of(status, distance, herder.pace(connector), now_ms=time.time() * 1000),
        )
        target = str(state.target_state(connector) or TargetState.STARTED)
        may_delete = calls.access.may(user, Right.DELETE, connector)
        attempts, failed = facts.runs.attempts(connector), facts.runs.failed(connector)
        own, progress = calls.secrets.redacted(dag_keys(config)), facts.progress(connector)
        datasets = [DatasetView(*each) for each in herder.datasets(connector)]
        return answer(ConnectorDetail(row, target, may_delete, config.get(DEFINED_IN), runs, attempts, progress, own, failed, datasets))

    return await calls.read(request, connector, respond)


@router.get("/ui/connectors/{connector}/dead-letters")
async def get_dead_letters(request: Request, connector: Connector) -> Response:
    """The newest ``limit`` records of the connector's dead letter queue, with hidden secrets."""
    calls, user, facts = calls_of(request), user_of(request), facts_of(request)

    def respond(herder: Herder) -> Response:
        limit = whole_number(request, "limit", _DEAD_LETTERS)
        with facts.searches.start(calls.access.name_of(user)):
            return answer(herder.dead_letters(connector, limit=limit, redact=facts.secrets.redacted))

    return await calls.read(request, connector, respond)


@router.get("/ui/connectors/{connector}/replay")
async def get_replay(request: Request, connector: Connector) -> Response:
    """The last replay of dead-letter records, with its run."""
    calls, user = calls_of(request), user_of(request)

    def respond(herder: Herder) -> Response:
        herder.connector_info(connector)
        name = replay_connector(connector)
        may_replay = all(calls.access.may(user, Right.CHANGE, each) for each in (connector, name))
        found = _replay(herder, connector)
        state = None if found is None else visible_replay(calls, user, found)
        run = _run_of(facts_of(request).runs, name, found) if calls.access.may(user, Right.READ, name) else None
        return answer(ReplayView(state, name, dag_id_for(name), run, may_replay))

    return await calls.read(request, connector, respond)


@router.get("/ui/connectors/{connector}/backfills")
async def get_backfills(request: Request, connector: Connector) -> Response:
    """Backfills with their last runs and the user's rights."""
    calls, user = calls_of(request), user_of(request)

    def respond(herder: Herder) -> Response:
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

    return await calls.read(request, connector, respond)


def _run_of(runs: Runs, name: str, replay: Replay | None) -> str | None:
    """The replay's run. If the replay is complete, the last run with records, because later runs have no work."""
    delivered = runs.of(name) if replay is not None and replay.is_done else ()
    newest = delivered or runs.attempts(name)
    return newest[0].run if newest else None


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
