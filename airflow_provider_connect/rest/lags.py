"""``/ui/connectors/«connector»/lag`` and ``/lags``, two of the page's routes: a connector's distance from the end of its input, now and
over time."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from airflow_provider_connect.errors import BadRequestException
from airflow_provider_connect.rest.answers import answer, query
from airflow_provider_connect.rest.calls import calls_of
from airflow_provider_connect.rest.page_facts import facts_of
from airflow_provider_connect.rest.routes import Connector
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.config_limits import cut
from airflow_provider_connect.runtime.model.page import LAG_SPANS

_SPANS = {str(hours): hours for hours in LAG_SPANS}

router = APIRouter(include_in_schema=False)


@router.get("/ui/connectors/{connector}/lag")
async def get_lag(request: Request, connector: Connector) -> Response:
    """A sink's current lag, by partition."""
    return await calls_of(request).read(request, connector, lambda herder: answer(herder.partition_lags(connector)))


@router.get("/ui/connectors/{connector}/lags")
async def get_lags(request: Request, connector: Connector) -> Response:
    """The distances over the last ``hours``: 1, 24 or 168."""
    hours = query(request, "hours", "24")

    def respond(herder: Herder) -> Response:
        herder.connector_info(connector)
        if hours not in _SPANS:
            raise BadRequestException(f"hours is one of {', '.join(_SPANS)}, not {cut(hours)}")
        return answer(facts_of(request).runs.lags(connector, hours=_SPANS[hours]))

    return await calls_of(request).read(request, connector, respond)
