"""The plugin that Airflow loads into each of its processes. Only the API server has the mounted app, with the reconciler, and the page.

Airflow evaluates ``fastapi_apps`` and ``react_apps`` only in the API server, so other processes import only this module.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from functools import cached_property
from typing import Any

from airflow.plugins_manager import AirflowPlugin

URL_PREFIX = "/connect"

Scope = MutableMapping[str, Any]  # Any: as ASGI has it
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class ConnectPlugin(AirflowPlugin):  # type: ignore[misc]  # Airflow is not typed for us
    """Mounts the REST server at ``/connect``, and the page in Airflow's UI."""

    name = "connect"

    @cached_property
    def operator_extra_links(self) -> list[Any]:
        """Evaluated by the process that creates the UI's links."""
        from airflow_provider_connect.dag_files.links import ConnectorStatusLink

        return [ConnectorStatusLink()]

    @cached_property
    def fastapi_apps(self) -> list[dict[str, Any]]:
        """Evaluated in the API server, and by ``airflow plugins``."""
        from airflow_provider_connect.api_server.app import build_app  # loads FastAPI and the Kafka client

        return [{"app": build_app(), "url_prefix": URL_PREFIX, "name": "Kafka Connect REST"}]

    @cached_property
    def react_apps(self) -> list[dict[str, Any]]:
        """One bundle with three components, by name. Evaluated in the API server, and by ``airflow plugins``."""
        from airflow_provider_connect.rest.page import BUNDLE_PATH, bundle

        url = f"{URL_PREFIX.removeprefix('/')}{BUNDLE_PATH}?v={bundle()[1]}"  # relative, because Airflow may be served below a path
        return [
            {"name": "Connect", "bundle_url": url, "destination": "nav", "url_route": "connect", "nav_top_level": True},
            {"name": "Connector", "bundle_url": url, "destination": "dag", "url_route": "connector"},
            {"name": "ConnectOverview", "bundle_url": url, "destination": "dashboard", "url_route": "connect-overview"},
        ]

    @cached_property
    def fastapi_root_middlewares(self) -> list[dict[str, Any]]:
        """Serves the path ``/connect`` without a trailing slash, because clients may request it."""
        return [{"middleware": BarePrefix, "kwargs": {"prefix": URL_PREFIX}, "name": "Kafka Connect REST"}]


class BarePrefix:
    """A middleware of the whole API server that treats ``/connect`` as ``/connect/``. It is called for every request, so it must be fast.

    Airflow forwards only paths below the mounted app's address. For the address without the slash, it serves its UI's page.
    """

    def __init__(self, app: App, prefix: str) -> None:
        self._app, self._prefix = app, prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if path.endswith(self._prefix) and path.removeprefix(scope.get("root_path", "")) == self._prefix:
            sent: bytes = scope.get("raw_path") or path.encode()
            scope = {**scope, "path": f"{path}/", "raw_path": sent + b"/"}
        await self._app(scope, receive, send)
