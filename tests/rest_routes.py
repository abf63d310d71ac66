"""Every route that a REST server answers, as the app itself has them: what asks all of them asks a new one too."""

from __future__ import annotations

import functools
from typing import Any, cast

from starlette.routing import Route

from airflow_provider_connect.rest.access import OpenToAll
from airflow_provider_connect.rest.app import create_app
from airflow_provider_connect.rest.request_checks import RequestChecks

INTERNAL = (("POST", "/connectors/{connector}/tasks"), ("PUT", "/connectors/{connector}/fence"))
"""Of Kafka Connect's workers among themselves: refused for every user, rights or not."""


@functools.cache
def routes(*, has_page: bool = False) -> tuple[tuple[str, str], ...]:
    """Method and path of each, sorted; the middleware that knows them answers 404 for all others. The app is never asked.

    ``has_page``: with the page of servers without Airflow.
    """
    app = create_app(herder=cast(Any, None), access=OpenToAll(), info=cast(Any, None), has_page=has_page)
    (checks,) = (each for each in app.user_middleware if cast(object, each.cls) is RequestChecks)
    found = cast(list[Route], checks.kwargs["routes"])
    return tuple(sorted((method, route.path) for route in found for method in route.methods or ()))
