"""``/admin/loggers``: log levels while the server runs (KIP-495, KIP-976, contract §3.6)."""

from __future__ import annotations

import dataclasses
from typing import Annotated
from urllib.parse import unquote

from fastapi import APIRouter, Path
from pydantic import AfterValidator
from starlette.requests import Request
from starlette.responses import Response

from airflow_provider_connect.model.log_levels import checked_level
from airflow_provider_connect.rest import bodies, documents
from airflow_provider_connect.rest.answers import answer, documented, empty, query
from airflow_provider_connect.rest.calls import calls_of
from airflow_provider_connect.rest.loggers import Loggers

Logger = Annotated[str, Path(description="The logger's name, or 'root'"), AfterValidator(unquote)]

router = APIRouter(prefix="/admin/loggers", tags=["loggers"])


@router.get("", **documented(200, dict[str, documents.LoggerLevel]))
async def list_loggers(request: Request) -> Response:
    """The loggers that have a level of their own."""
    loggers = _loggers(request)
    return await calls_of(request).in_thread(
        lambda: answer({name: {"level": one.level, "last_modified": one.last_modified} for name, one in loggers.all().items()})
    )


@router.get("/{logger}", **documented(200, documents.LoggerLevel))
async def get_logger(request: Request, logger: Logger) -> Response:
    """The level of one logger."""
    loggers = _loggers(request)
    return await calls_of(request).in_thread(lambda: answer(dataclasses.asdict(loggers.one(logger))))


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
    calls, loggers = calls_of(request), _loggers(request)
    is_for_all = query(request, "scope", "worker").lower() == "cluster"

    def put(level: str) -> Response:
        if not is_for_all:
            return answer(loggers.put(logger, level))
        checked_level(level)
        calls.herder().put_log_level(logger, level)
        loggers.put(logger, level)
        return empty(204)

    return await calls.administer_by(request, bodies.log_level, put)


def _loggers(request: Request) -> Loggers:
    loggers: Loggers = request.app.state.loggers
    return loggers
