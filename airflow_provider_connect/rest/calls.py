"""One call of the herder for one user: the right first, then the verb, in a thread, within Kafka Connect's time limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio
import anyio.to_thread
from starlette.requests import Request

from airflow_provider_connect.errors import ConnectException, ForbiddenException
from airflow_provider_connect.herder.herder import Herder
from airflow_provider_connect.rest.access import Access, Right, User, require
from airflow_provider_connect.rest.secrets import Secrets

SECONDS = 90.0
HEALTH_SECONDS = 10.0
USER = "connect_user"
"""Where the door leaves the user in the request's scope."""

_T = TypeVar("_T")


class Calls:
    """Shared by all requests of an app. ``herder`` gives the process's one herder, or raises while there is none.

    Verbs that change something have threads of their own, so that slow ones never keep readers waiting.
    """

    def __init__(self, herder: Callable[[], Herder], access: Access) -> None:
        self.herder, self.access = herder, access
        self.secrets = Secrets(lambda plugin, version: herder().plugin_config(plugin, version))
        self._readers, self._writers = anyio.CapacityLimiter(16), anyio.CapacityLimiter(32)

    async def read(self, request: Request, connector: str, verb: Callable[[Herder], _T]) -> _T:
        """``verb`` for a user who may read the connector."""
        return await self.connector(request, Right.READ, connector, verb)

    async def change(self, request: Request, connector: str, verb: Callable[[Herder], _T]) -> _T:
        """``verb`` for a user who may change the connector."""
        return await self.connector(request, Right.CHANGE, connector, verb)

    async def connector(self, request: Request, right: Right, connector: str, verb: Callable[[Herder], _T]) -> _T:
        def act() -> _T:
            require(self.access, user_of(request), right, connector)
            return verb(self.herder())

        return await self.in_thread(act, changes=right is not Right.READ)

    async def look(self, verb: Callable[[Herder], _T]) -> _T:
        """``verb`` for any user whom the door has let in."""
        return await self.in_thread(lambda: verb(self.herder()))

    async def administer(self, request: Request, act: Callable[[], _T]) -> _T:
        """``act`` for a user who may change what concerns all connectors."""

        def checked() -> _T:
            if not self.access.may_administer(user_of(request)):
                raise ForbiddenException("You may not change what concerns all connectors")
            return act()

        return await self.in_thread(checked, changes=True)

    async def in_thread(self, act: Callable[[], _T], *, changes: bool = False, seconds: float = SECONDS) -> _T:
        """Raises ConnectException when it takes too long; the thread goes on then, and what it does is done."""
        try:
            with anyio.fail_after(seconds):
                return await anyio.to_thread.run_sync(act, abandon_on_cancel=True, limiter=self._writers if changes else self._readers)
        except TimeoutError:
            raise ConnectException("Request timed out") from None


def calls_of(request: Request) -> Calls:
    """The calls of the app that the request came to."""
    calls: Calls = request.app.state.calls
    return calls


def user_of(request: Request) -> User:
    return request.scope[USER]
