"""``/connector-plugins``: what is installed, how it is configured, and whether a config would do (contract §3.5)."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import unquote

from fastapi import APIRouter, Path
from pydantic import AfterValidator
from starlette.requests import Request
from starlette.responses import Response

from airflow_provider_connect.errors import ForbiddenException
from airflow_provider_connect.herder.herder import Herder
from airflow_provider_connect.rest import bodies, documents
from airflow_provider_connect.rest.access import Right, require
from airflow_provider_connect.rest.answers import answer, documented, is_true, query
from airflow_provider_connect.rest.calls import calls_of, user_of
from airflow_provider_connect.rest.entities import config_key_json, plugin_json, validation_json

Plugin = Annotated[str, Path(description="Class name or alias of a plugin"), AfterValidator(unquote)]

router = APIRouter(prefix="/connector-plugins", tags=["plugins"])


@router.get("", **documented(200, list[documents.Plugin], parameters={"connectorsOnly": "'true', the default: only connectors"}))
async def list_plugins(request: Request) -> Response:
    """The plugins that are installed, by kind, class and version."""
    only = is_true(query(request, "connectorsOnly", "true"))
    return await calls_of(request).look(lambda herder: answer([plugin_json(plugin) for plugin in herder.plugins(only)]))


@router.get("/{plugin}/config", **documented(200, list[documents.ConfigKey], parameters={"version": "A version or range of versions"}))
async def get_plugin_config(request: Request, plugin: Plugin) -> Response:
    """The settings that a plugin takes."""
    version = request.query_params.getlist("version")
    chosen = version[0] if version else None
    return await calls_of(request).look(lambda herder: answer([config_key_json(key) for key in herder.plugin_config(plugin, chosen)]))


@router.put("/{plugin}/config/validate", **documented(200, documents.Validation, body=documents.CONFIG))
async def validate_config(request: Request, plugin: Plugin) -> Response:
    """What is wrong with a config, setting by setting. Asks the plugin, so it is for those who might create such a connector."""
    calls = calls_of(request)

    def check(herder: Herder, config: bodies.Config) -> Response:
        if name := config.get("name"):
            require(calls.access, user_of(request), Right.CHANGE, name)
        elif not calls.access.may_create_some(user_of(request)):
            raise ForbiddenException("You may not create connectors of any name: give the config a 'name'")
        return answer(validation_json(herder.validate(plugin, config)))

    return await calls.create_by(request, bodies.config, check)
