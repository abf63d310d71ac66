"""``/admin/loggers``: log levels while the server runs (KIP-495, KIP-976, contract §1.10)."""

from __future__ import annotations

import dataclasses
from typing import Annotated
from urllib.parse import unquote

from fastapi import APIRouter, Path
from pydantic import AfterValidator
from starlette.requests import Request
from starlette.responses import Response

from airflow_provider_connect.rest import bodies, documents
from airflow_provider_connect.rest.answers import answer, documented, empty, query
from airflow_provider_connect.rest.calls import calls_of
from airflow_provider_connect.rest.loggers import Loggers, checked_level

Logger = Annotated[str, Path(description="The logger's name, or 'root'"), AfterValidator(unquote)]

router = APIRouter(prefix="/admin/loggers", tags=["loggers"])


@router.get("", **documented(200, dict[str, documents.LoggerLevel]))
async def list_loggers(request: Request) -> Response:
    """The loggers that have a level of their own."""
    return answer({name: dataclasses.asdict(level) for name, level in _loggers(request).all().items()})


@router.get("/{logger}", **documented(200, documents.LoggerLevel))
async def get_logger(request: Request, logger: Logger) -> Response:
    """The level of one logger."""
    return answer(dataclasses.asdict(_loggers(request).one(logger)))


@router.put(
    "/{logger}",
    **documented(
        200,
        list[str],
        also={204: None},
        body=documents.LOG_LEVEL,
        parameters={"scope": "'worker', the default: this server process; 'cluster': all of them"},
    ),
)
async def put_logger(request: Request, logger: Logger) -> Response:
    """Set the level of a logger and of those below it, until this server is started anew."""
    level, calls = await bodies.log_level(request), calls_of(request)
    if query(request, "scope", "worker").lower() != "cluster":
        return answer(await calls.administer(request, lambda: _loggers(request).put(logger, level)))

    def everywhere() -> None:
        checked_level(level)
        calls.herder().put_log_level(logger, level)
        _loggers(request).put(logger, level)

    await calls.administer(request, everywhere)
    return empty(204)


def _loggers(request: Request) -> Loggers:
    loggers: Loggers = request.app.state.loggers
    return loggers
