"""Routes of the whole server: ``/``, ``/health``, ``/workers``, ``/costs``, ``/connector-plugins`` and ``/admin/loggers`` (contract §3.5,
§3.6)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from airflow_provider_connect.errors import ConnectException, ForbiddenException, NotFoundException
from airflow_provider_connect.rest import bodies, documents
from airflow_provider_connect.rest.access import Right, require
from airflow_provider_connect.rest.answers import answer, empty, warnings_header
from airflow_provider_connect.rest.calls import HEALTH_SECONDS, author_of, calls_of, known_config, user_of
from airflow_provider_connect.rest.routes import Logger, Plugin, query_of, route_for
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.log_levels import checked_level, level_word, logger_name, logger_names, logger_of, set_level
from airflow_provider_connect.runtime.model.views import HealthView, LoggerView

router = APIRouter()
admin_router = APIRouter()

_HEALTHY = "Worker has completed startup and is ready to handle requests."
_STARTING = "Worker is still starting up."
_UNHEALTHY = "Worker was unable to handle this request and may be unable to handle other requests."


@route_for(router, "server_info")
async def get_server_info(request: Request) -> Response:
    info = await calls_of(request).in_thread(request.app.state.info)
    return answer(info)


@route_for(router, "health")
async def get_health(request: Request) -> Response:
    calls = calls_of(request)
    try:
        herder = await calls.in_thread(calls.herder, seconds=HEALTH_SECONDS)
    except ConnectException as error:
        return answer(HealthView("starting", f"{_STARTING} {error.message}"), 503)
    try:
        warnings = await calls.in_thread(herder.health_warnings, seconds=HEALTH_SECONDS)
    except ConnectException as error:
        return answer(HealthView("unhealthy", f"{_UNHEALTHY} {error.message}"), 500)
    return answer(HealthView("healthy", " ".join([_HEALTHY, *warnings, *request.app.state.warnings()])))


@router.get("/openapi.json", include_in_schema=False)
async def get_openapi_document(request: Request) -> Response:
    """The OpenAPI document of this API."""
    return await calls_of(request).in_thread(lambda: answer(request.app.openapi()))


@route_for(router, "workers")
async def get_workers(request: Request) -> Response:
    calls = calls_of(request)

    def respond(herder: Herder) -> Response:
        workers = herder.workers()
        readable = calls.access.readable(user_of(request), {worker.connector for worker in workers})
        return answer([worker for worker in workers if worker.connector in readable])

    return await calls.ask(request, respond)


@route_for(router, "costs")
async def get_costs(request: Request) -> Response:
    """The sums leave out connectors that the user may not read."""
    calls, user, asked = calls_of(request), user_of(request), query_of(request, "costs")

    def readable(names: Collection[str]) -> Collection[str]:
        return calls.access.readable(user, names)

    return await calls.ask(request, lambda herder: answer(herder.costs(**asked, readable=readable)))


# ── plugins ──


@route_for(router, "validate", body=documents.CONFIG)
async def validate_config(request: Request, plugin: Plugin) -> Response:
    calls = calls_of(request)

    def check(herder: Herder, config: bodies.Config) -> Response:
        if name := config.get("name"):
            require(calls.access, user_of(request), Right.CHANGE, name)  # before the connector's secrets reach a plugin's code
        elif not calls.access.may_create_some(user_of(request)):
            raise ForbiddenException("You may not create connectors of any name: give the config a 'name'")
        restored = calls.secrets.restore(config, known_config(herder, name, config) if name else None)
        validation = herder.validate(plugin, restored)
        return answer(validation, headers=warnings_header(validation.warnings))

    return await calls.create_with_body(request, bodies.config, check)


# ── loggers, while the server runs (KIP-495, KIP-976) ──


@route_for(admin_router, "loggers")
async def list_loggers(request: Request) -> Response:
    return await calls_of(request).in_thread(lambda: answer(_loggers(request).all()))


@route_for(admin_router, "logger")
async def get_logger(request: Request, logger: Logger) -> Response:
    return await calls_of(request).in_thread(lambda: answer(_loggers(request).one(logger)))


@route_for(admin_router, "set_logger_level", body=documents.LOG_LEVEL)
async def put_logger(request: Request, logger: Logger) -> Response:
    calls, loggers = calls_of(request), _loggers(request)
    is_for_all = query_of(request, "set_logger_level")["scope"].lower() == "cluster"

    def put(level: str) -> Response:
        if not is_for_all:
            return answer(loggers.put(logger, level))
        checked_level(level)
        calls.herder().put_log_level(logger, level, author=author_of(request))
        loggers.put(logger, level)
        return empty(204)

    return await calls.administer_with_body(
        request, bodies.log_level, lambda level: calls.audit(request, None, lambda: put(level), level=level)
    )


def _loggers(request: Request) -> Loggers:
    loggers: Loggers = request.app.state.loggers
    return loggers


class Loggers:
    """The loggers of this process. ``now`` returns seconds since 1970. Safe for many threads."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._modified: dict[str, int] = {}
        self._following = threading.Lock()
        self._followed: int | None = None

    def all(self) -> dict[str, LoggerView]:
        """Every logger that the process has used, sorted, and the root."""
        return {name: self._view(name) for name in sorted(logger_names())}

    def follow(self, state: ClusterConfigState) -> None:
        """Apply the requests to all workers since the last call (KIP-976). Requests before the first call are ignored."""
        with self._following:
            since, self._followed = self._followed, state.offset
            if since is None:
                return
            for record in sorted(state.log_levels.values(), key=lambda record: record.offset):
                if record.offset >= since:
                    with suppress(ConnectException):  # an unknown level, which another program wrote
                        self.put(record.logger, record.level)

    def one(self, name: str) -> LoggerView:
        """The effective level. Raises NotFoundException for a logger that has not been used."""
        name = logger_name(name)
        if name not in logger_names():
            raise NotFoundException(f"Logger {name} not found.")
        return self._view(name)

    def _view(self, name: str) -> LoggerView:
        return LoggerView(level_word(logger_of(name).getEffectiveLevel()), self._modified.get(name))

    def put(self, name: str, level: str) -> list[str]:
        """Set the level of the logger and its children. The root's name means all loggers.

        Returns the sorted names of the loggers whose effective level changed. Raises NotFoundException for an unknown level, and
        BadRequestException for an empty level.
        """
        with self._lock:
            changed = set_level(name, level)
            self._modified |= dict.fromkeys(changed, int(self._now() * 1000))
        return changed
