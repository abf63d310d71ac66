"""Answers as Kafka Connect sends them, and what the OpenAPI document says of them."""

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from airflow_provider_connect.rest.documents import ErrorMessage
from airflow_provider_connect.rest.entities import json_bytes

JSON = "application/json"


def answer(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """``value`` as JSON; ``bytes`` are taken for JSON already."""
    body = value if isinstance(value, bytes) else json_bytes(value)
    return Response(body, status_code=status, headers=dict(headers or {}), media_type=JSON)


def empty(status: int) -> Response:
    """An answer without body and without Content-Type."""
    return Response(status_code=status)


def query(request: Request, name: str, default: str) -> str:
    """The first value of a query parameter; the default also for an empty one, as in Kafka Connect."""
    values = request.query_params.getlist(name)
    return values[0] if values and values[0] else default


def is_true(text: str) -> bool:
    """As Java reads a boolean: ``true`` in any case, and nothing else."""
    return text.lower() == "true"


def documented(
    status: int,
    shape: Any = None,  # a pydantic model or a type made of some
    *,
    body: Mapping[str, object] | None = None,
    parameters: Mapping[str, str] | None = None,
    also: Mapping[int, Any] | None = None,
) -> dict[str, Any]:
    """Keywords for a route: status and shape of its answer, the schema of the body that it takes, its query parameters and what they mean.

    ``also`` has further statuses with their shapes; None is an empty answer. Bodies and parameters are read by the route itself.
    """
    extra: dict[str, Any] = {}
    if body is not None:
        extra["requestBody"] = {"required": True, "content": {JSON: {"schema": body}}}
    if parameters:
        extra["parameters"] = [
            {"name": name, "in": "query", "required": False, "description": meaning, "schema": {"type": "string"}}
            for name, meaning in parameters.items()
        ]
    responses: dict[int | str, dict[str, Any]] = {
        code: {"description": "Done", **({} if model is None else {"model": model})}
        for code, model in {status: shape, **(also or {})}.items()
    }
    for span, meaning in (("4XX", "The request is refused"), ("5XX", "The server cannot do it now")):
        responses[span] = {"model": ErrorMessage, "description": meaning}
    kind = {"response_class": Response} if shape is None else {}  # else an empty answer would be described as JSON
    return {"status_code": status, "responses": responses, "response_model": None, "openapi_extra": extra or None, **kind}
