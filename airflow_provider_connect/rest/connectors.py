"""``/connectors`` and the routes below it: configs, states, tasks, topics, offsets, previews, upgrades (contract §3.3, §3.4, §3.8, §7).

Previews return records, so they need the right to change the connector.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Mapping
from operator import is_
from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from airflow_provider_connect.errors import BadRequestException, ForbiddenException, NotFoundException
from airflow_provider_connect.rest import bodies, documents
from airflow_provider_connect.rest.access import Right, require
from airflow_provider_connect.rest.answers import answer, empty, json_bytes, short_warnings_header
from airflow_provider_connect.rest.calls import SECONDS, Calls, author_of, calls_of, known_config, user_of
from airflow_provider_connect.rest.request_checks import location_segment
from airflow_provider_connect.rest.routes import Connector, Task, add_route, query_of, route_for
from airflow_provider_connect.rest.secrets import Secrets
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.view_json import to_json
from airflow_provider_connect.runtime.model.views import (
    ActiveTopics,
    ConnectorInfo,
    ConnectorOffsets,
    ConnectorStatusView,
    Message,
    OffsetView,
    TaskDetail,
    TaskInfo,
    TaskView,
)

View = ConnectorInfo | ConnectorStatusView
_ABSENT: Final = object()

router = APIRouter()

_SIGNATURE, _ALGORITHM = "X-Connect-Authorization", "X-Connect-Request-Signature-Algorithm"
_ALGORITHMS = ("HmacSHA256",)


# ── connectors ──


@route_for(router, "connectors")
async def list_connectors(request: Request) -> Response:
    calls, parts = calls_of(request), request.query_params.getlist("expand")

    def respond(herder: Herder) -> Response:
        if not parts:
            names = herder.connectors()
            readable = calls.access.readable(user_of(request), names)
            return answer([name for name in names if name in readable])
        found = herder.expanded("info" in parts, "status" in parts)
        readable = calls.access.readable(user_of(request), found)
        shown = found if len(readable) == len(found) else {name: views for name, views in found.items() if name in readable}
        return answer(request.app.state.listing.body(shown, parts, existing=found.keys()))

    return await calls.ask(request, respond)


@route_for(router, "create_connector", body=documents.NEW_CONNECTOR)
async def create_connector(request: Request) -> Response:
    calls = calls_of(request)

    def create(herder: Herder, new: bodies.NewConnector) -> Response:
        require(calls.access, user_of(request), Right.CHANGE, new.name)
        config = _named(new.name, calls.secrets.restore(new.config, None))

        def write() -> ConnectorInfo:
            return herder.create_connector(new.name, config, new.initial_state, author=author_of(request))

        return _created(request, calls, calls.audit(request, new.name, write))

    return await calls.create_with_body(request, bodies.new_connector, create)


@route_for(router, "put_connector_config", body=documents.CONFIG)
async def put_config(request: Request, connector: Connector) -> Response:
    calls = calls_of(request)

    def put(herder: Herder, given: bodies.Config) -> Response:
        config = _named(connector, calls.secrets.restore(given, known_config(herder, connector, given)))
        info, is_new = herder.put_connector_config(connector, config, author=author_of(request))
        return _created(request, calls, info) if is_new else _written(calls, info)

    return await calls.change_with_body(request, connector, bodies.config, put)


@route_for(router, "patch_connector_config", body=documents.CONFIG_PATCH)
async def patch_config(request: Request, connector: Connector) -> Response:
    calls = calls_of(request)

    def patch(herder: Herder, given: bodies.Config | None) -> Response:
        if given is None:
            herder.connector_config(connector)
            raise BadRequestException("The body must be a JSON object with the settings to change, not empty")
        info = herder.patch_connector_config(connector, given, calls.secrets.restore_patch, author=author_of(request))
        return _written(calls, info)

    return await calls.change_with_body(request, connector, bodies.config_patch, patch)


@route_for(router, "restart_connector")
async def restart_connector(request: Request, connector: Connector) -> Response:
    asked = query_of(request, "restart_connector")

    def restart(herder: Herder) -> Response:
        plan = herder.restart_connector(connector, **asked, author=author_of(request))
        return answer(plan, 202) if any(asked.values()) else empty(204)

    return await calls_of(request).change(request, connector, restart)


add_route(router, "connector_info", view=lambda calls, info: calls.secrets.redacted_info(info))
add_route(router, "connector_config", view=lambda calls, config: calls.secrets.redacted(config))
add_route(router, "config_history", given=lambda calls: {"redact": calls.secrets.redacted})
add_route(
    router,
    "rollback_config",
    body=bodies.RollbackBody,
    given=lambda calls: {"restore": calls.secrets.restore_patch},
    view=lambda calls, info: calls.secrets.redacted_info(info),
    headers=lambda info: short_warnings_header(info.warnings),
)


def _named(name: str, config: bodies.Config) -> bodies.Config:
    """``config`` with the connector's name. Raises BadRequestException if it has another name."""
    given = config.get("name")
    if given is None:
        config["name"] = given = name
    if given != name:
        raise BadRequestException(f"Connector name configuration ({given}) doesn't match connector name in the URL ({name})")
    return config


def _created(request: Request, calls: Calls, info: ConnectorInfo) -> Response:
    mounted_at = request.scope.get("root_path", "")
    location = f"{request.url.scheme}://{request.url.netloc}{mounted_at}/connectors/{location_segment(info.name)}"
    return _written(calls, info, 201, {"Location": location})


def _written(calls: Calls, info: ConnectorInfo, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """The answer to a written config. Its warnings are in a header, because Kafka Connect's body has no field for them."""
    return answer(calls.secrets.redacted_info(info), status, {**(headers or {}), **short_warnings_header(info.warnings)})


class Listing:
    """The bytes of ``GET /connectors?expand=…``, cached for each connector while its views are the same objects.

    Safe for many threads: entries are replaced as a whole.
    """

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._entries: dict[tuple[str, tuple[str, ...]], tuple[tuple[object, ...], int, bytes]] = {}
        self._infos: dict[str, tuple[View, int, bytes]] = {}

    def body(self, connectors: Mapping[str, Mapping[str, View | None]], parts: Iterable[str], *, existing: Collection[str]) -> bytes:
        """The whole answer, with ``parts`` in the order of the request. ``connectors`` are those of ``existing`` that the user may read.
        Drops cached bytes of connectors that are not in ``existing``."""
        known = tuple(part for part in dict.fromkeys(parts) if part in ("info", "status"))
        entries = [self._entry(name, views, known) for name, views in connectors.items()]
        self._forget_others(existing)
        return b"{%b}" % b",".join(entries)

    def _entry(self, name: str, views: Mapping[str, View | None], parts: tuple[str, ...]) -> bytes:
        """The field of one connector. Compares identity, because an unchanged view is the same object."""
        given = tuple([views.get(part, _ABSENT) for part in parts])
        kept, generation = self._entries.get((name, parts)), self._secrets.generation
        if kept is not None and kept[1] == generation and all(map(is_, kept[0], given)):
            return kept[2]
        shown = [b'"%b":%b' % (part.encode(), self._part(name, views[part], generation)) for part in parts if part in views]
        entry = b"%b:{%b}" % (json_bytes(name), b",".join(shown))
        self._entries[name, parts] = (given, generation, entry)
        return entry

    def _part(self, name: str, view: View | None, generation: int) -> bytes:
        """The JSON of a view. The JSON of an info is cached separately, until a new object replaces the info, because hiding the info's
        secrets may call the plugin."""
        if not isinstance(view, ConnectorInfo):
            return json_bytes(to_json(view))
        kept = self._infos.get(name)
        if kept is None or kept[0] is not view or kept[1] != generation:
            kept = (view, generation, json_bytes(to_json(self._secrets.redacted_info(view))))
            self._infos[name] = kept
        return kept[2]

    def _forget_others(self, existing: Collection[str]) -> None:
        if len(self._infos) > len(existing):
            self._infos = {name: kept for name, kept in list(self._infos.items()) if name in existing}
        if len(self._entries) > 4 * len(existing):  # a request may have one of 4 orders of parts
            self._entries = {key: kept for key, kept in list(self._entries.items()) if key[0] in existing}


# ── tasks and topics ──


@route_for(router, "task_infos")
async def get_tasks(request: Request, connector: Connector) -> Response:
    calls = calls_of(request)

    def respond(herder: Herder) -> Response:
        tasks, of = herder.task_infos(connector), herder.connector_config(connector)
        return answer([TaskInfo(task.id, calls.secrets.redacted(task.config, of)) for task in tasks])

    return await calls.read(request, connector, respond)


@route_for(router, "task")
async def get_task(request: Request, connector: Connector, task: Task) -> Response:
    calls = calls_of(request)

    def respond(herder: Herder) -> Response:
        found = next((known for known in herder.task_infos(connector) if known.id.task == task), None)
        if found is None:
            raise NotFoundException(f"Unknown task: {connector}-{task}")
        config = calls.secrets.redacted(found.config, herder.connector_config(connector))
        return answer(TaskDetail(found.id, config, _status(herder, connector, task)))

    return await calls.read(request, connector, respond)


def _status(herder: Herder, connector: str, task: int) -> TaskView | None:
    try:
        return herder.task_status(connector, task)
    except NotFoundException:
        return None


@route_for(router, "active_topics")
async def get_active_topics(request: Request, connector: Connector) -> Response:
    return await calls_of(request).read(
        request, connector, lambda herder: answer({connector: ActiveTopics(herder.active_topics(connector))})
    )


@router.post("/connectors/{connector}/tasks", include_in_schema=False)
@router.put("/connectors/{connector}/fence", include_in_schema=False)
async def refuse_internal_request(request: Request, connector: Connector) -> Response:
    """Refuse requests that Kafka Connect's workers send each other. They are signed with their cluster's key, which this server does not
    have."""
    await bodies.receive(request, seconds=SECONDS)
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


# ── offsets ──


add_route(router, "offsets", view=lambda _, offsets: ConnectorOffsets(offsets))
add_route(router, "reset_offsets", view=lambda _, message: Message(message))
add_route(router, "undo_offsets", body=bodies.UndoBody)


@route_for(router, "alter_offsets", body=documents.OFFSETS)
async def alter_offsets(request: Request, connector: Connector) -> Response:
    def alter(herder: Herder, offsets: list[OffsetView]) -> Response:
        return answer(Message(herder.alter_offsets(connector, offsets, author=author_of(request))))

    return await calls_of(request).change_with_body(request, connector, bodies.offsets, alter)


# ── previews and upgrades ──


@route_for(router, "preview", body=bodies.PreviewBody.model_json_schema())
async def preview_connector(request: Request, connector: Connector) -> Response:
    calls = calls_of(request)

    def preview(herder: Herder, asked: bodies.PreviewBody) -> Response:
        config: dict[str, str] | None = None
        if asked.config is not None:
            restored = calls.secrets.restore(asked.config, known_config(herder, connector, asked.config))
            config = {key: text for key, text in restored.items() if text is not None}
        return answer(herder.preview(connector, config, records=asked.records, version=asked.version))

    return await calls.change_with_body(request, connector, bodies.PreviewBody.of, preview)


add_route(router, "request_upgrade", body=bodies.UpgradeBody)
add_route(router, "compare_versions", body=bodies.ComparisonBody)
