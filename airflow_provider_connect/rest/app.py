"""The REST server as a FastAPI app. The caller passes herder, access rights and background work. Knows nothing of Airflow."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from fastapi import FastAPI

from airflow_provider_connect import __version__
from airflow_provider_connect.rest import backfills, connectors, dead_letters, lags, metrics, page, server_routes
from airflow_provider_connect.rest.access import Access
from airflow_provider_connect.rest.calls import Calls
from airflow_provider_connect.rest.connectors import Listing
from airflow_provider_connect.rest.page_facts import NoRuns, PageFacts, Runs
from airflow_provider_connect.rest.request_checks import RequestChecks
from airflow_provider_connect.rest.routes import remaining_routes
from airflow_provider_connect.rest.server_routes import Loggers
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.views import ServerView

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]

_ROUTERS = (
    server_routes.router,
    metrics.router,
    connectors.router,
    dead_letters.router,
    backfills.router,
    page.router,
    lags.router,
)


def create_app(
    *,
    herder: Callable[[], Herder],
    access: Access,
    info: Callable[[], ServerView],
    lifespan: Lifespan | None = None,
    loggers: Loggers | None = None,
    has_admin: bool = True,
    warnings: Callable[[], list[str]] = list,
    runs: Runs | None = None,
    has_page: bool = False,
) -> FastAPI:
    """Create the app. ``herder`` is called for each request and raises ConnectException if it is not ready; ``info`` may ask the broker.

    ``loggers``: the process's loggers, if the process applies log levels that are set for all workers. ``has_admin``: whether this app
    serves ``/admin``; Kafka Connect's ``admin.listeners`` may move or disable this route. ``warnings``: problems that an admin must
    correct, for ``/health``. ``runs``: the runs of connectors, for the page. ``has_page``: whether ``/ui`` serves the page, for servers
    without Airflow's UI.
    """
    app = FastAPI(
        title="Kafka Connect REST API",
        summary="Connectors as Airflow DAGs and Spark jobs, spoken to as a Kafka Connect cluster",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,  # FastAPI's own route creates the document in the event loop
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.state.calls = calls = Calls(herder, access)
    app.state.info, app.state.loggers, app.state.listing = info, loggers or Loggers(), Listing(calls.secrets)
    app.state.warnings, app.state.page = warnings, PageFacts(calls, runs or NoRuns())
    routers = [*_ROUTERS, *([server_routes.admin_router] if has_admin else []), *([page.page_router] if has_page else [])]
    routers.append(remaining_routes(routers))
    for router in routers:
        app.include_router(router)
    routes = [route for router in routers for route in router.routes]  # from FastAPI 0.137 on, app.routes nests them
    app.add_middleware(RequestChecks, access=access, routes=routes)
    return app
