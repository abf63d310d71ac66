"""``/connectors/«c»/tasks`` and ``/topics`` (contract §3.4), and what Kafka Connect's workers keep to themselves (contract §3.8)."""

from __future__ import annotations

import base64
import re
from typing import Annotated
from urllib.parse import unquote

from fastapi import APIRouter, Path
from pydantic import BeforeValidator
from starlette.requests import Request
from starlette.responses import Response

from airflow_provider_connect.errors import BadRequestException, ForbiddenException, NotFoundException
from airflow_provider_connect.herder.herder import Herder
from airflow_provider_connect.rest import bodies, documents
from airflow_provider_connect.rest.answers import answer, documented, empty
from airflow_provider_connect.rest.calls import SECONDS, calls_of
from airflow_provider_connect.rest.connectors import Connector
from airflow_provider_connect.rest.entities import task_json, task_state_json
from airflow_provider_connect.rest.errors import HttpException

_MOST = 2**31


def _task_number(text: str) -> int:
    """As Java reads an int. Raises HttpException 404 for what is none."""
    text = unquote(text)
    number = int(text) if re.fullmatch(r"[+-]?[0-9]{1,10}", text) else _MOST
    if not -_MOST <= number < _MOST:
        raise HttpException(404)
    return number


Task = Annotated[int, Path(description="The number of the task"), BeforeValidator(_task_number)]

router = APIRouter(prefix="/connectors/{connector}", tags=["tasks"])

_SIGNATURE, _ALGORITHM = "X-Connect-Authorization", "X-Connect-Request-Signature-Algorithm"
_ALGORITHMS = ("HmacSHA256",)


@router.get("/tasks", **documented(200, list[documents.TaskInfo]))
async def get_tasks(request: Request, connector: Connector) -> Response:
    """The tasks with their committed configs, secrets hidden."""
    calls = calls_of(request)

    def shown(herder: Herder) -> Response:
        tasks = herder.task_infos(connector)
        of = herder.connector_config(connector)
        return answer([task_json(task, calls.secrets.shown(task.config, of)) for task in tasks])

    return await calls.read(request, connector, shown)


@router.get("/tasks/{task}", **documented(200, documents.TaskDetail))
async def get_task(request: Request, connector: Connector, task: Task) -> Response:
    """One task: its config, and its state if it has one yet (KIP-26)."""
    calls = calls_of(request)

    def shown(herder: Herder) -> Response:
        found = [known for known in herder.task_infos(connector) if known.id.task == task]
        if not found:
            raise NotFoundException(f"Unknown task: {connector}-{task}")
        config = calls.secrets.shown(found[0].config, herder.connector_config(connector))
        return answer(task_json(found[0], config) | {"status": _state(herder, connector, task)})

    return await calls.read(request, connector, shown)


def _state(herder: Herder, connector: str, task: int) -> dict[str, object] | None:
    try:
        return task_state_json(herder.task_status(connector, task))
    except NotFoundException:
        return None


@router.get("/tasks/{task}/status", **documented(200, documents.TaskState))
async def get_task_status(request: Request, connector: Connector, task: Task) -> Response:
    """The state of one task."""
    return await calls_of(request).read(request, connector, lambda herder: answer(task_state_json(herder.task_status(connector, task))))


@router.post("/tasks/{task}/restart", **documented(204))
async def restart_task(request: Request, connector: Connector, task: Task) -> Response:
    """Restart one task."""
    await calls_of(request).change(request, connector, lambda herder: herder.restart_task(connector, task))
    return empty(204)


@router.get("/topics", **documented(200, dict[str, documents.Topics]))
async def get_active_topics(request: Request, connector: Connector) -> Response:
    """The topics that the connector has used since it was created, or since they were reset (KIP-558)."""
    return await calls_of(request).read(
        request, connector, lambda herder: answer({connector: {"topics": list(herder.active_topics(connector))}})
    )


@router.put("/topics/reset", **documented(200))
async def reset_active_topics(request: Request, connector: Connector) -> Response:
    """Forget the topics that the connector has used."""
    await calls_of(request).change(request, connector, lambda herder: herder.reset_active_topics(connector))
    return empty(200)


@router.post("/tasks", include_in_schema=False)
@router.put("/fence", include_in_schema=False)
async def refuse_internal_request(request: Request, connector: Connector) -> Response:
    """What Kafka Connect's workers ask of each other, signed with a key of their cluster. There is no such key here, so nobody can sign."""
    await bodies.received(request, seconds=SECONDS)
    signature, algorithm = request.headers.get(_SIGNATURE), request.headers.get(_ALGORITHM)
    if signature is None or algorithm is None:
        raise BadRequestException("Internal request missing required signature")
    if algorithm not in _ALGORITHMS:
        raise BadRequestException(
            f"This worker does not support the '{algorithm}' key signing algorithm used by other workers. This worker is currently "
            f"configured to use: [{', '.join(_ALGORITHMS)}]. Check that all workers' configuration files permit the same set of signature "
            "algorithms, and correct any misconfigured worker and restart it."
        )
    try:
        base64.b64decode(signature, validate=True)
    except ValueError:
        raise BadRequestException("The signature of the internal request is not base64") from None
    raise ForbiddenException("Internal request contained invalid signature.")
