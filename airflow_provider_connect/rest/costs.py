"""``/costs`` and ``/connectors/«c»/costs``: what runs have used and cost. Connectors that the user may not read are in no sum."""

from __future__ import annotations

from collections.abc import Collection

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from airflow_provider_connect.errors import BadRequestException
from airflow_provider_connect.rest.answers import answer, query
from airflow_provider_connect.rest.calls import calls_of, user_of
from airflow_provider_connect.rest.routes import Connector, serves
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.config_limits import cut
from airflow_provider_connect.runtime.model.cost import DEFAULT_DAYS, MOST_DAYS

_MOST_DIGITS = 9

router = APIRouter(tags=["connectors"])


@serves(router, "costs")
async def get_costs(request: Request) -> Response:
    calls, user, days = calls_of(request), user_of(request), _days(request)

    def readable(names: Collection[str]) -> Collection[str]:
        return calls.access.readable(user, names)

    def read(herder: Herder) -> Response:
        return answer(herder.costs(days=days, readable=readable))

    return await calls.ask(request, read)


@serves(router, "connector_costs")
async def get_connector_costs(request: Request, connector: Connector) -> Response:
    days = _days(request)
    return await calls_of(request).read(request, connector, lambda herder: answer(herder.connector_costs(connector, days=days)))


def _days(request: Request) -> int:
    """A whole number; which of them are allowed, the herder decides. Raises BadRequestException."""
    text = query(request, "days", str(DEFAULT_DAYS))
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS):
        raise BadRequestException(f"'days' must be a number from 1 to {MOST_DAYS}, not {cut(text)}")
    return int(text)
