"""Routes from the table of verbs: path, method, parameters, rights, status and document of each.

A verb needs no code: its route calls the herder's method of the same name. Use ``add_route`` for a verb with a body or with another form of
answer, and ``route_for`` for a verb whose route is a function.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from inspect import Parameter, Signature
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import unquote

from fastapi import APIRouter, Path
from pydantic import AfterValidator, BeforeValidator
from starlette.requests import Request
from starlette.responses import Response

from airflow_provider_connect.rest import bodies
from airflow_provider_connect.rest.access import Right
from airflow_provider_connect.rest.answers import HttpException, answer, empty
from airflow_provider_connect.rest.calls import Calls, author_of, calls_of
from airflow_provider_connect.rest.documents import described
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.verbs import VERBS, Verb

Route = TypeVar("Route", bound=Callable[..., Awaitable[Response]])
_MOST = 2**31


def _task_number(text: str) -> int:
    """Parse a number as Java parses an int. Raises HttpException 404 for any other text."""
    text = unquote(text)
    number = int(text) if re.fullmatch(r"[+-]?[0-9]{1,10}", text) else _MOST
    if not -_MOST <= number < _MOST:
        raise HttpException(404)
    return number


Connector = Annotated[str, Path(description="The connector's name, percent-encoded"), AfterValidator(unquote)]
Task = Annotated[int, Path(description="The number of the task"), BeforeValidator(_task_number)]
Plugin = Annotated[str, Path(description="Class name or alias of a plugin"), AfterValidator(unquote)]
Logger = Annotated[str, Path(description="The logger's name, or 'root'"), AfterValidator(unquote)]
_NAMES: Final[Mapping[str, Any]] = {"connector": Connector, "task": Task, "plugin": Plugin, "logger": Logger}
_DELETED: Final = VERBS["delete_connector"]


def route_for(router: APIRouter, verb: str, *, body: Mapping[str, object] | None = None) -> Callable[[Route], Route]:
    """Make the decorated function the route of ``verb``. ``body`` is the schema of the request's body."""
    found = VERBS[verb]
    return router.api_route(found.path, methods=[found.method], **described(found, body))


def add_route(
    router: APIRouter,
    verb: str,
    *,
    body: type[bodies.JsonBody] | None = None,
    given: Callable[[Calls], Mapping[str, object]] = lambda _: {},
    view: Callable[[Calls, Any], object] = lambda _, found: found,
    headers: Callable[[Any], Mapping[str, str]] = lambda _: {},
) -> None:
    """Add a route of a verb that reads anything or changes one connector. It calls the herder's method of the same name.

    The method's arguments are the names in the path, the query parameters, the fields of ``body`` and of ``given``, and the author of a
    change. ``view`` turns the result into the answer, and ``headers`` into headers of the answer. Raises TypeError for any other change.
    Also raises it for a verb of admins, because the route of such a verb must check the right itself.
    """
    found = VERBS[verb]
    if found.is_admin:
        raise TypeError(f"{verb} is for admins: write its route out, with the right that it needs")
    if found.method != "GET" and "connector" not in found.path_names:
        raise TypeError(f"{verb} changes no single connector: write its route out, with the right that it needs")

    async def route(request: Request, **names: object) -> Response:
        calls, asked = calls_of(request), query_of(request, verb)

        def act(herder: Herder, fields: Mapping[str, object]) -> Response:
            author = {"author": author_of(request)} if found.changes else {}
            result = getattr(herder, verb)(*map(names.get, found.path_names), **asked, **fields, **given(calls), **author)
            return empty(found.status) if found.answer is None else answer(view(calls, result), found.status, headers(result))

        return await _carry_out(request, found, str(names.get("connector", "")), body, act)

    parameters = [Parameter(name, Parameter.KEYWORD_ONLY, annotation=_NAMES[name]) for name in found.path_names]
    first = Parameter("request", Parameter.POSITIONAL_OR_KEYWORD, annotation=Request)
    route.__signature__ = Signature([first, *parameters])  # type: ignore[attr-defined]
    route_for(router, verb, body=None if body is None else body.model_json_schema())(route)


async def _carry_out(
    request: Request,
    verb: Verb,
    connector: str,
    body: type[bodies.JsonBody] | None,
    act: Callable[[Herder, Mapping[str, object]], Response],
) -> Response:
    """Call ``act`` with the fields of the body, for a user who has the right that the verb needs."""
    calls = calls_of(request)
    if body is not None:
        return await calls.change_with_body(request, connector, body.of, lambda herder, asked: act(herder, dict(asked)))
    if verb.method != "GET":
        right = Right.DELETE if verb is _DELETED else Right.CHANGE
        return await calls.change(request, connector, lambda herder: act(herder, {}), right=right)
    if connector:
        return await calls.read(request, connector, lambda herder: act(herder, {}))
    return await calls.ask(request, lambda herder: act(herder, {}))


def remaining_routes(routers: Iterable[APIRouter]) -> APIRouter:
    """A router with a route for each verb that ``routers`` do not serve, except verbs of admins."""
    router, served = APIRouter(), {getattr(route, "name", None) for each in routers for route in each.routes}
    for verb in VERBS.values():
        if verb.name not in served and not verb.is_admin:
            add_route(router, verb.name)
    return router


def query_of(request: Request, verb: str) -> dict[str, Any]:
    """The values of the verb's query parameters, by argument. Raises BadRequestException."""
    found = VERBS[verb]
    return found.arguments({name: request.query_params.getlist(name) for name in found.query})
