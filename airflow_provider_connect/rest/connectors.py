"""``/connectors``: the connectors themselves, their configs and states (contract §3.3)."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import unquote

from fastapi import APIRouter, Path
from pydantic import AfterValidator
from starlette.requests import Request
from starlette.responses import Response

from airflow_provider_connect.errors import BadRequestException, NotFoundException
from airflow_provider_connect.herder.herder import Herder
from airflow_provider_connect.model.secret_keys import HIDDEN
from airflow_provider_connect.model.views import ConnectorInfo
from airflow_provider_connect.rest import bodies, documents
from airflow_provider_connect.rest.access import Right, require
from airflow_provider_connect.rest.answers import answer, documented, empty, is_true, query
from airflow_provider_connect.rest.calls import Calls, calls_of, user_of
from airflow_provider_connect.rest.entities import connector_json, status_json
from airflow_provider_connect.rest.paths import location_segment

Connector = Annotated[str, Path(description="The connector's name, percent-encoded"), AfterValidator(unquote)]

router = APIRouter(prefix="/connectors", tags=["connectors"])

_INFO = documents.ConnectorInfo


@router.get(
    "",
    **documented(
        200,
        list[str] | dict[str, documents.Expanded],
        parameters={"expand": "'info' or 'status', also both by giving it twice: an object by name instead of a list of names"},
    ),
)
async def list_connectors(request: Request) -> Response:
    """The connectors that the user may read."""
    calls, parts = calls_of(request), request.query_params.getlist("expand")

    def listed(herder: Herder) -> Response:
        if not parts:
            names = herder.connectors()
            readable = calls.access.readable(user_of(request), names)
            return answer([name for name in names if name in readable])
        found = herder.expanded("info" in parts, "status" in parts)
        readable = calls.access.readable(user_of(request), found)
        shown = found if len(readable) == len(found) else {name: views for name, views in found.items() if name in readable}
        return answer(request.app.state.listing.body(shown, parts))

    return await calls.look(listed)


@router.post("", **documented(201, _INFO, body=documents.NEW_CONNECTOR))
async def create_connector(request: Request) -> Response:
    """Create a connector; it runs at once unless ``initial_state`` says otherwise."""
    calls = calls_of(request)

    def create(herder: Herder, new: bodies.NewConnector) -> Response:
        require(calls.access, user_of(request), Right.CHANGE, new.name)
        config = _named(new.name, calls.secrets.restored(new.config, None))
        return _created(request, _shown(calls, herder.create_connector(new.name, config, new.initial_state)))

    return await calls.create_by(request, bodies.new_connector, create)


def _named(name: str, config: bodies.Config) -> bodies.Config:
    """``config`` with the connector's name in it. Raises BadRequestException where it holds another."""
    given = config.setdefault("name", name)
    if given != name:
        raise BadRequestException(f"Connector name configuration ({given}) doesn't match connector name in the URL ({name})")
    return config


def _created(request: Request, connector: dict[str, object]) -> Response:
    mounted_at = request.scope.get("root_path", "")
    where = f"{request.url.scheme}://{request.url.netloc}{mounted_at}/connectors/{location_segment(str(connector['name']))}"
    return answer(connector, 201, {"Location": where})


def _shown(calls: Calls, connector: ConnectorInfo) -> dict[str, object]:
    return connector_json(connector, calls.secrets.shown(connector.config))


@router.get("/{connector}", **documented(200, _INFO))
async def get_connector(request: Request, connector: Connector) -> Response:
    """The connector with its config, its secrets hidden."""
    calls = calls_of(request)
    return await calls.read(request, connector, lambda herder: answer(_shown(calls, herder.connector_info(connector))))


@router.delete("/{connector}", **documented(204))
async def delete_connector(request: Request, connector: Connector) -> Response:
    """End the connector and remove it; its offsets stay."""
    await calls_of(request).change(request, connector, lambda herder: herder.delete_connector(connector), right=Right.DELETE)
    return empty(204)


@router.get("/{connector}/config", **documented(200, dict[str, str]))
async def get_config(request: Request, connector: Connector) -> Response:
    """The config as it was given, variables unresolved, secrets hidden."""
    calls = calls_of(request)
    return await calls.read(request, connector, lambda herder: answer(calls.secrets.shown(herder.connector_config(connector))))


@router.put("/{connector}/config", **documented(200, _INFO, also={201: _INFO}, body=documents.CONFIG))
async def put_config(request: Request, connector: Connector) -> Response:
    """Replace the config, or create the connector. A secret that was shown hidden and comes back so keeps its value."""
    calls = calls_of(request)

    def put(herder: Herder, given: bodies.Config) -> Response:
        config = _named(connector, calls.secrets.restored(given, known_config(herder, connector, given)))
        info, created = herder.put_connector_config(connector, config)
        return _created(request, _shown(calls, info)) if created else answer(_shown(calls, info))

    return await calls.change_by(request, connector, bodies.config, put)


@router.patch("/{connector}/config", **documented(200, _INFO, body=documents.CONFIG_PATCH))
async def patch_config(request: Request, connector: Connector) -> Response:
    """Change some settings (KIP-477)."""
    calls = calls_of(request)

    def change(herder: Herder, patch: bodies.Config | None) -> Response:
        if patch is None:
            herder.connector_config(connector)
            raise BadRequestException("The body must be a JSON object with the settings to change, not empty")
        return answer(_shown(calls, herder.patch_connector_config(connector, patch, calls.secrets.patched)))

    return await calls.change_by(request, connector, bodies.config_patch, change)


@router.get("/{connector}/status", **documented(200, documents.ConnectorState))
async def get_status(request: Request, connector: Connector) -> Response:
    """The states of the connector and its tasks."""
    return await calls_of(request).read(request, connector, lambda herder: answer(status_json(herder.connector_status(connector))))


@router.post(
    "/{connector}/restart",
    **documented(
        204,
        also={202: documents.ConnectorState},
        parameters={"includeTasks": "'true': its tasks too", "onlyFailed": "'true': only what has FAILED"},
    ),
)
async def restart_connector(request: Request, connector: Connector) -> Response:
    """Restart the connector; with a parameter that is true, the answer tells what will restart (KIP-745)."""
    tasks, failed = (is_true(query(request, name, "false")) for name in ("includeTasks", "onlyFailed"))

    def restart(herder: Herder) -> Response:
        plan = herder.restart_connector(connector, include_tasks=tasks, only_failed=failed)
        return answer(status_json(plan), 202) if tasks or failed else empty(204)

    return await calls_of(request).change(request, connector, restart)


@router.put("/{connector}/pause", **documented(202))
async def pause_connector(request: Request, connector: Connector) -> Response:
    """Let it rest after the batch in progress."""
    await calls_of(request).change(request, connector, lambda herder: herder.pause(connector))
    return empty(202)


@router.put("/{connector}/resume", **documented(202))
async def resume_connector(request: Request, connector: Connector) -> Response:
    """Let it run again."""
    await calls_of(request).change(request, connector, lambda herder: herder.resume(connector))
    return empty(202)


@router.put("/{connector}/stop", **documented(204))
async def stop_connector(request: Request, connector: Connector) -> Response:
    """End its tasks and forget them; its offsets can be altered then (KIP-875)."""
    await calls_of(request).change(request, connector, lambda herder: herder.stop(connector))
    return empty(204)


def known_config(herder: Herder, connector: str, given: bodies.Config) -> dict[str, str] | None:
    """The config as it is, where ``given`` may have something of it to restore; None: there is no such connector."""
    if not any(HIDDEN in value for value in given.values() if value):
        return None
    try:
        return herder.connector_config(connector)
    except NotFoundException:
        return None
