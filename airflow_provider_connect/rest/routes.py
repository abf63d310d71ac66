"""How routes follow from the table of verbs: path, method and document of each; those that only read or change one connector as a whole."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, TypeVar
from urllib.parse import unquote

from fastapi import APIRouter, Path
from pydantic import AfterValidator, BeforeValidator
from starlette.requests import Request
from starlette.responses import Response

from airflow_provider_connect.rest.access import Right
from airflow_provider_connect.rest.answers import HttpException, answer, empty
from airflow_provider_connect.rest.calls import Calls, author_of, calls_of
from airflow_provider_connect.rest.documents import described
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.verbs import VERBS

Route = TypeVar("Route", bound=Callable[..., Awaitable[Response]])
_MOST = 2**31


def _task_number(text: str) -> int:
    """As Java reads an int. Raises HttpException 404 for any other text."""
    text = unquote(text)
    number = int(text) if re.fullmatch(r"[+-]?[0-9]{1,10}", text) else _MOST
    if not -_MOST <= number < _MOST:
        raise HttpException(404)
    return number


Connector = Annotated[str, Path(description="The connector's name, percent-encoded"), AfterValidator(unquote)]
Task = Annotated[int, Path(description="The number of the task"), BeforeValidator(_task_number)]
Plugin = Annotated[str, Path(description="Class name or alias of a plugin"), AfterValidator(unquote)]
Logger = Annotated[str, Path(description="The logger's name, or 'root'"), AfterValidator(unquote)]


def serves(router: APIRouter, verb: str, *, body: Mapping[str, object] | None = None) -> Callable[[Route], Route]:
    """The decorated function is the route of ``verb``; ``body`` is the schema of what it takes."""
    found = VERBS[verb]
    return router.api_route(found.path, methods=[found.method], **described(found, body))


def reads(router: APIRouter, verb: str, view: Callable[[Calls, Any], object] = lambda _, found: found) -> None:
    """The route of a verb that reads one connector: the herder's method of this name, whose result ``view`` puts into its answer."""

    @serves(router, verb)
    async def read(request: Request, connector: Connector) -> Response:
        calls = calls_of(request)
        return await calls.read(request, connector, lambda herder: answer(view(calls, getattr(herder, verb)(connector))))


def changes(router: APIRouter, verb: str, *, right: Right = Right.CHANGE) -> None:
    """The route of a verb that changes one connector without a body, and whose answer is empty."""

    @serves(router, verb)
    async def change(request: Request, connector: Connector) -> Response:
        def act(herder: Herder) -> Response:
            getattr(herder, verb)(connector, author=author_of(request))
            return empty(VERBS[verb].status)

        return await calls_of(request).change(request, connector, act, right=right)
