"""The OpenAPI document. The types in the table of verbs describe the answers; schemas describe the bodies. Parses and checks nothing."""

import functools
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Any, get_args, get_origin

from pydantic import create_model
from starlette.responses import Response

from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.model.verbs import Verb
from airflow_provider_connect.runtime.model.view_json import json_fields


@dataclass(frozen=True, slots=True)
class ErrorMessage:
    """The body of every error."""

    error_code: int
    message: str


def described(verb: Verb, body: Mapping[str, object] | None = None) -> dict[str, Any]:
    """FastAPI's keywords for the route of ``verb``; ``body`` is the schema of its body. The route itself reads bodies and parameters."""
    extra: dict[str, Any] = {}
    if body is not None:
        extra["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    if verb.query:
        extra["parameters"] = [
            {"name": name, "in": "query", "required": False, "description": each.about, "schema": {"type": "string"}}
            for name, each in verb.query.items()
        ]
    responses: dict[int | str, dict[str, Any]] = {
        code: {"description": "Done", **({} if kind is None else {"model": _model(kind)})}
        for code, kind in {verb.status: verb.answer, **verb.also}.items()
    }
    for span, meaning in (("4XX", "The request is refused"), ("5XX", "The server cannot do it now")):
        responses[span] = {"model": _model(ErrorMessage), "description": meaning}
    of_nothing = {"response_class": Response} if verb.answer is None else {}  # otherwise an empty answer would be documented as JSON
    return {
        "name": verb.name,
        "tags": [_tag(verb)],
        "description": verb.about,
        "status_code": verb.status,
        "responses": responses,
        "response_model": None,
        "openapi_extra": extra or None,
        **of_nothing,
    }


def _tag(verb: Verb) -> str:
    if verb.is_admin:
        return "loggers"
    return "connectors" if verb.path.startswith(("/connectors", "/costs")) else "server"


@functools.cache
def _model(kind: Any) -> Any:  # a type, or a form such as ``list[str]``
    """``kind``, with each dataclass and named tuple replaced by a pydantic model. The model's fields are named as in the JSON."""
    arguments = tuple(map(_model, get_args(kind)))
    if isinstance(kind, UnionType):
        return functools.reduce(operator.or_, arguments)
    if arguments:
        return get_origin(kind)[arguments]
    if kind is Claim:
        return str
    fields = json_fields(kind) if isinstance(kind, type) else ()
    if not fields:
        return kind
    pairs: dict[str, Any] = {each.name: (_model(each.hint), each.default if each.is_omitted else ...) for each in fields}
    return create_model(kind.__name__, **pairs)


_SETTING = {"type": ["string", "number", "boolean"]}
CONFIG = {"type": "object", "additionalProperties": _SETTING, "description": "Numbers and booleans become their text"}
CONFIG_PATCH = {
    "type": "object",
    "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
    "description": "Settings to put; null removes one",
}
NEW_CONNECTOR = {
    "type": "object",
    "required": ["name", "config"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string"},
        "config": CONFIG,
        "initial_state": {"type": ["string", "null"], "enum": ["RUNNING", "PAUSED", "STOPPED", None], "description": "In any case"},
    },
}
OFFSETS = {
    "type": "object",
    "required": ["offsets"],
    "additionalProperties": False,
    "properties": {
        "offsets": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "properties": {"partition": {"type": ["object", "null"]}, "offset": {"type": ["object", "null"]}},
            },
        }
    },
}
LOG_LEVEL = {
    "type": "object",
    "required": ["level"],
    "properties": {"level": {"type": "string", "enum": ["OFF", "FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE", "ALL"]}},
}
