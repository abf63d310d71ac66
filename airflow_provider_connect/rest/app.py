"""The REST server as a FastAPI app: who may call, what it answers, what runs beside it are all handed in. Knows nothing of Airflow."""

import dataclasses
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from fastapi import Depends, FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.server_info import ServerInfo

Authorize = Callable[..., Awaitable[object]]
Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


def create_app(*, authorize: Authorize, info: Callable[[], ServerInfo], health: Callable[[], str | None], lifespan: Lifespan) -> FastAPI:
    """The app. ``authorize`` is a FastAPI dependency that refuses whoever may not call; ``health`` says what is wrong, or None."""
    app = FastAPI(
        title="Kafka Connect", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan, dependencies=[Depends(authorize)]
    )

    @app.exception_handler(ConnectException)
    async def answer_error(request: Request, error: ConnectException) -> JSONResponse:
        return JSONResponse({"error_code": error.status_code, "message": error.message}, status_code=error.status_code)

    @app.get("/")
    async def get_server_info() -> dict[str, Any]:
        return dataclasses.asdict(await run_in_threadpool(info))

    @app.get("/health")
    async def get_health() -> JSONResponse:
        wrong = await run_in_threadpool(health)
        message = wrong or "Worker has completed startup and is ready to handle requests."
        return JSONResponse({"status": "unhealthy" if wrong else "healthy", "message": message}, status_code=500 if wrong else 200)

    return app
