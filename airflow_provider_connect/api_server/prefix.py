"""The address of a mounted app without a slash behind it. Airflow asks the app only for what lies below, and answers with its UI's page.

Knows nothing of what is mounted.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]  # Any: as ASGI has it
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class BarePrefix:
    """A middleware of the whole API server: ``/connect`` is understood as ``/connect/``. Asked at every request, so it only compares."""

    def __init__(self, app: App, prefix: str) -> None:
        self._app, self._prefix = app, prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if path.endswith(self._prefix) and path.removeprefix(scope.get("root_path", "")) == self._prefix:
            sent: bytes = scope.get("raw_path") or path.encode()
            scope = {**scope, "path": f"{path}/", "raw_path": sent + b"/"}
        await self._app(scope, receive, send)
