"""``/connectors/«c»/backfills``: another connector delivers ranges of a sink's topics again.

The user needs two rights: to change the live connector, as for a change of its offsets, and to create the new connector. The new config is
the live config with changes; a hidden secret is never sent to another address than before.
"""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from airflow_provider_connect.rest import bodies
from airflow_provider_connect.rest.access import Right, require
from airflow_provider_connect.rest.answers import answer
from airflow_provider_connect.rest.calls import author_of, calls_of, user_of
from airflow_provider_connect.rest.routes import Connector, route_for
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.backfill import backfill_name

router = APIRouter()


@route_for(router, "backfills")
async def list_backfills(request: Request, connector: Connector) -> Response:
    calls = calls_of(request)

    def respond(herder: Herder) -> Response:
        found = herder.backfills(connector)
        readable = calls.access.readable(user_of(request), [each.name for each in found])
        return answer([each for each in found if each.name in readable])

    return await calls.read(request, connector, respond)


@route_for(router, "create_backfill", body=bodies.BackfillBody.model_json_schema())
async def create_backfill(request: Request, connector: Connector) -> Response:
    calls = calls_of(request)

    def create(herder: Herder, asked: bodies.BackfillBody) -> Response:
        wanted = asked.request()
        require(calls.access, user_of(request), Right.CHANGE, backfill_name(connector, wanted.id))
        found = herder.create_backfill(connector, wanted, calls.secrets.restore_patch, dry_run=asked.dry_run, author=author_of(request))
        return answer(found, 200 if asked.dry_run else 201)

    return await calls.change_with_body(request, connector, bodies.BackfillBody.of, create)
