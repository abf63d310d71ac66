"""A client of Kafka Connect's REST API. The server is a real Kafka Connect, or this package's server in Airflow or alone. Needs no Airflow.

::

    with ConnectClient.of("http://connect:8083") as connect:
        connect.put_connector_config("orders", {"connector.class": "FileStreamSource", ...})
        print(connect.connector_status("orders").connector.state)

Every verb raises the exceptions of ``errors`` with the server's own message. It raises ``conversation.ServerException`` for an answer that
is not from Kafka Connect, ``conversation.UnreachableException`` if no answer arrives within the limits, and ConnectException for an answer
of more than 64 MiB.
"""

import asyncio
import time
from collections.abc import Callable
from random import random
from typing import Self, TypeVar, cast

import httpx

from airflow_provider_connect.client.calls import Answer, Call
from airflow_provider_connect.client.conversation import Conversation, Lost, RetryLimits, Send, Wait, conversation
from airflow_provider_connect.client.server import Server, answer_of, lost
from airflow_provider_connect.client.verbs import AsyncConnectVerbs, ConnectVerbs
from airflow_provider_connect.sdk.http.bounded_body import limit_responses, limit_responses_async

T = TypeVar("T")

ANSWER_SECONDS = 100.0
"""The timeout of an answer: slightly longer than Kafka Connect's own 90 s."""


class _ByUrl:
    """The base of both clients."""

    def __init__(self, server: Server, retry: RetryLimits | None) -> None:
        self.server, self._retry = server, retry or RetryLimits()

    @classmethod
    def of(cls, url: str, *, login: str | None = None, password: str | None = None, token: str | None = None) -> Self:
        """A client of the server at ``url``, such as ``http://connect:8083`` or ``https://airflow.example.com/connect``."""
        return cls(Server.of(url, login=login, password=password, token=token), retry=None)

    def _conversation(self, call: Call[T]) -> Conversation[T]:
        return conversation(call, self.server.url, self._retry, time.monotonic, random)


class ConnectClient(_ByUrl, ConnectVerbs):
    """A blocking client. Several threads may call it at the same time. ``transport`` is httpx's. ``notify`` gets a sentence before the
    first retry of a request without an answer."""

    def __init__(
        self,
        server: Server,
        *,
        retry: RetryLimits | None = None,
        timeout_seconds: float = ANSWER_SECONDS,
        transport: httpx.BaseTransport | None = None,
        notify: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(server, retry)
        self._notify = notify
        hooks = {"response": [limit_responses(timeout_seconds)]}
        self._http = httpx.Client(event_hooks=hooks, transport=transport, **server.client_arguments(timeout_seconds))

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def carry_out(self, call: Call[T]) -> T:
        steps, came = self._conversation(call), None
        while True:
            try:
                step = steps.send(came)
            except StopIteration as end:
                return cast(T, end.value)
            came = self._answer(call, step)

    def _answer(self, call: Call[T], step: Send | Wait) -> Answer | Lost | None:
        if isinstance(step, Wait):
            if step.notice is not None and self._notify is not None:
                self._notify(step.notice)
            time.sleep(step.seconds)
            return None
        try:
            return answer_of(self._http.request(**self.server.request_arguments(call)))
        except httpx.RequestError as error:
            return lost(error)


class AsyncConnectClient(_ByUrl, AsyncConnectVerbs):
    """``ConnectClient`` with verbs that are awaited. Belongs to one event loop."""

    def __init__(
        self,
        server: Server,
        *,
        retry: RetryLimits | None = None,
        timeout_seconds: float = ANSWER_SECONDS,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(server, retry)
        hooks = {"response": [limit_responses_async(timeout_seconds)]}
        self._http = httpx.AsyncClient(event_hooks=hooks, transport=transport, **server.client_arguments(timeout_seconds))

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def carry_out(self, call: Call[T]) -> T:
        steps, came = self._conversation(call), None
        while True:
            try:
                step = steps.send(came)
            except StopIteration as end:
                return cast(T, end.value)
            came = await self._answer(call, step)

    async def _answer(self, call: Call[T], step: Send | Wait) -> Answer | Lost | None:
        if isinstance(step, Wait):
            await asyncio.sleep(step.seconds)
            return None
        try:
            return answer_of(await self._http.request(**self.server.request_arguments(call)))
        except httpx.RequestError as error:
            return lost(error)
