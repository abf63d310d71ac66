"""``/``, ``/health`` and ``/workers``."""

from __future__ import annotations

import dataclasses

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.herder.herder import Herder
from airflow_provider_connect.rest import documents
from airflow_provider_connect.rest.answers import answer, documented
from airflow_provider_connect.rest.calls import HEALTH_SECONDS, calls_of, user_of
from airflow_provider_connect.rest.entities import worker_json

router = APIRouter(tags=["server"])

_HEALTHY = "Worker has completed startup and is ready to handle requests."
_STARTING = "Worker is still starting up."
_UNHEALTHY = "Worker was unable to handle this request and may be unable to handle other requests."


@router.get("/", **documented(200, documents.ServerInfo))
async def get_server_info(request: Request) -> Response:
    """Who answers, and the Kafka cluster behind it."""
    info = await calls_of(request).in_thread(request.app.state.info)
    return answer(dataclasses.asdict(info))


@router.get("/health", **documented(200, documents.WorkerStatus, also={500: documents.WorkerStatus, 503: documents.WorkerStatus}))
async def get_health(request: Request) -> Response:
    """Whether the topics that hold the state can be read now (KIP-1017); and what an admin has to correct, for instance settings that are
    not in force."""
    calls = calls_of(request)
    try:
        herder = await calls.in_thread(calls.herder, seconds=HEALTH_SECONDS)
    except ConnectException as error:
        return _status(503, "starting", f"{_STARTING} {error.message}")
    try:
        problem = await calls.in_thread(herder.health_problem, seconds=HEALTH_SECONDS)
    except ConnectException as error:
        problem = error.message
    if problem:
        return _status(500, "unhealthy", f"{_UNHEALTHY} {problem}")
    warnings = [herder.health_warning(), *request.app.state.warnings()]
    return _status(200, "healthy", " ".join([_HEALTHY, *filter(None, warnings)]))


def _status(status: int, word: str, message: str) -> Response:
    return answer({"status": word, "message": message}, status)


@router.get("/openapi.json", include_in_schema=False)
async def get_openapi_document(request: Request) -> Response:
    """What this server takes and answers."""
    return await calls_of(request).in_thread(lambda: answer(request.app.openapi()))


@router.get("/workers", **documented(200, list[documents.Worker]))
async def get_workers(request: Request) -> Response:
    """The applications that run now, of connectors that the user may read."""
    calls = calls_of(request)

    def shown(herder: Herder) -> Response:
        workers = herder.workers()
        readable = calls.access.readable(user_of(request), {worker.connector for worker in workers})
        return answer([worker_json(worker) for worker in workers if worker.connector in readable])

    return await calls.look(shown)
