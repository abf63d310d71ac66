"""One call of the herder for one user, within Kafka Connect's time limit: (1) check the right, (2) read the body, (3) call the verb.

The event loop only reads the bytes of a body. Worker threads check rights, parse, call the verb and build its answer.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar
from urllib.parse import unquote
from weakref import WeakValueDictionary

import anyio
import anyio.to_thread
from starlette.requests import Request

from airflow_provider_connect.errors import ConnectException, ForbiddenException, NotFoundException
from airflow_provider_connect.rest import bodies
from airflow_provider_connect.rest.access import Access, Right, User, require
from airflow_provider_connect.rest.secrets import Secrets
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.config_limits import cut
from airflow_provider_connect.runtime.model.secret_keys import HIDDEN
from airflow_provider_connect.runtime.model.verbs import VERBS

SECONDS = 90.0
HEALTH_SECONDS = 10.0
OF_ONE_USER = 2
"""The limit of one user's concurrent requests with a body. Plugin probes have four processes (``plugins.validation.probe_process``)."""
READS_OF_ONE_USER = 8
"""The limit of one user's concurrent reads: half of the readers' threads, because a plugin or Kafka may block each thread."""

USER = "connect_user"
"""The key of the user in the request's scope."""

_T = TypeVar("_T")
_B = TypeVar("_B")
_OWN_FAILURE = 500
_PARSED_AT_ONCE = 2
"""The limit of concurrent parsers. Parsing holds Python's global lock, which the event loop also needs."""


class Calls:
    """Shared by all requests of an app. ``herder`` returns the process's herder, or raises if it is not ready.

    Changes have their own threads, so that slow changes never block readers.
    """

    def __init__(self, herder: Callable[[], Herder], access: Access) -> None:
        self.herder, self.access = herder, access
        self.secrets = Secrets(lambda *plugin: herder().plugin_config(*plugin))
        self._readers, self._writers = anyio.CapacityLimiter(16), anyio.CapacityLimiter(32)
        self._shares: WeakValueDictionary[tuple[str, int], anyio.CapacityLimiter] = WeakValueDictionary()
        self._parsing = threading.BoundedSemaphore(_PARSED_AT_ONCE)

    async def read(self, request: Request, connector: str, verb: Callable[[Herder], _T]) -> _T:
        """Call ``verb`` for a user who may read the connector."""

        def act() -> _T:
            require(self.access, user_of(request), Right.READ, connector)
            return verb(self.herder())

        async with self._user_turn(request, READS_OF_ONE_USER):
            return await self.in_thread(act)

    async def change(self, request: Request, connector: str, verb: Callable[[Herder], _T], *, right: Right = Right.CHANGE) -> _T:
        """Call ``verb`` for a user who has the right on the connector. A body is read and ignored."""
        await self.in_thread(lambda: require(self.access, user_of(request), right, connector))
        await bodies.receive(request, seconds=SECONDS)
        return await self.in_thread(lambda: self.audit(request, connector, lambda: verb(self.herder())), changes=True)

    async def change_with_body(
        self, request: Request, connector: str, parse: Callable[[bodies.Body], _B], verb: Callable[[Herder, _B], _T]
    ) -> _T:
        """Call ``verb`` with the body of the request, for a user who may change the connector."""

        def act(herder: Herder, body: _B) -> _T:
            if getattr(body, "dry_run", False):
                return verb(herder, body)
            return self.audit(request, connector, lambda: verb(herder, body))

        return await self._with_body(request, lambda: require(self.access, user_of(request), Right.CHANGE, connector), parse, act)

    async def create_with_body(self, request: Request, parse: Callable[[bodies.Body], _B], verb: Callable[[Herder, _B], _T]) -> _T:
        """Like ``change_with_body``, for a request in which only the body names the connector. The user must be able to change at least one
        connector. ``verb`` checks the right on the connector and calls ``audit``."""

        def check() -> None:
            if not self.access.may_change_some(user_of(request)):
                raise ForbiddenException("You may not create connectors")

        return await self._with_body(request, check, parse, verb)

    def audit(self, request: Request, connector: str | None, act: Callable[[], _T], **details: str) -> _T:
        """Call ``act``, write an entry in the host's audit log, and return the result. A failure that may have changed something is also
        logged; a refusal is not. ``details`` are added to the details of the request."""
        try:
            done = act()
        except Exception as error:
            status = error.status_code if isinstance(error, ConnectException) else _OWN_FAILURE
            if status >= _OWN_FAILURE:
                self._note(request, connector, {**details, "failed": str(status)})
            raise
        self._note(request, connector, details)
        return done

    def _note(self, request: Request, connector: str | None, details: Mapping[str, str]) -> None:
        verb = VERBS[request.scope["route"].name]
        if verb.is_trial:
            return
        asked = {name: unquote(text) for name, text in request.path_params.items() if name != "connector"}
        asked |= {name: text for name, text in request.query_params.items() if name in verb.query}
        self.access.note(user_of(request), verb.name, connector, {name: cut(text) for name, text in {**asked, **details}.items()})

    async def _with_body(
        self, request: Request, check: Callable[[], None], parse: Callable[[bodies.Body], _B], verb: Callable[[Herder, _B], _T]
    ) -> _T:
        await self.in_thread(check)
        body = await bodies.receive(request, seconds=SECONDS)
        async with self._user_turn(request, OF_ONE_USER):
            return await self.in_thread(lambda: verb(self.herder(), self._parse(parse, body)), changes=True)

    @asynccontextmanager
    async def _user_turn(self, request: Request, most: int) -> AsyncIterator[None]:
        """Limit the user to ``most`` calls at the same time, because all users share a few threads and plugin processes. Without users,
        there is no limit. Raises ConnectException if the call could not begin in time."""
        name = self.access.name_of(user_of(request))
        if not name:
            yield
            return
        share = self._shares.setdefault((name, most), anyio.CapacityLimiter(most))
        try:
            with anyio.fail_after(SECONDS):
                await share.acquire()
        except TimeoutError:
            raise ConnectException("Request timed out") from None
        try:
            yield
        finally:
            share.release()

    def _parse(self, parse: Callable[[bodies.Body], _B], body: bodies.Body) -> _B:
        with self._parsing:
            return parse(body)

    async def ask(self, request: Request, verb: Callable[[Herder], _T]) -> _T:
        """Call ``verb`` for any user who passed the checks."""
        async with self._user_turn(request, READS_OF_ONE_USER):
            return await self.in_thread(lambda: verb(self.herder()))

    async def administer_with_body(self, request: Request, parse: Callable[[bodies.Body], _B], act: Callable[[_B], _T]) -> _T:
        """Call ``act`` with the body of the request, for a user who may change settings of all connectors."""

        def check() -> None:
            if not self.access.may_administer(user_of(request)):
                raise ForbiddenException("You may not change what concerns all connectors")

        await self.in_thread(check)
        body = await bodies.receive(request, seconds=SECONDS)
        return await self.in_thread(lambda: act(self._parse(parse, body)), changes=True)

    async def in_thread(self, act: Callable[[], _T], *, changes: bool = False, seconds: float = SECONDS) -> _T:
        """Call ``act`` in a thread. Raises ConnectException after ``seconds``; the thread still completes the call."""
        try:
            with anyio.fail_after(seconds):
                return await anyio.to_thread.run_sync(act, abandon_on_cancel=True, limiter=self._writers if changes else self._readers)
        except TimeoutError:
            raise ConnectException("Request timed out") from None


def calls_of(request: Request) -> Calls:
    """The calls of the app that serves the request."""
    calls: Calls = request.app.state.calls
    return calls


def author_of(request: Request) -> str | None:
    """The name of the request's user, for the history of changes."""
    return calls_of(request).access.author(user_of(request))


def user_of(request: Request) -> User:
    return request.scope[USER]


def known_config(herder: Herder, connector: str, given: bodies.Config) -> dict[str, str] | None:
    """The stored config, if ``given`` has hidden values to restore. None: no hidden values, or no such connector."""
    if not any(HIDDEN in value for value in given.values() if value):
        return None
    try:
        return herder.connector_config(connector)
    except NotFoundException:
        return None
