"""``/connectors/«c»/preview`` and ``/connectors/«c»/upgrade``: dry runs, and other versions of a plugin. Routes of ours beside Kafka
Connect's.

Whoever may see a connector's data may change the connector: records are shown to nobody else.
"""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from airflow_provider_connect.herder.herder import Herder
from airflow_provider_connect.rest import bodies, documents
from airflow_provider_connect.rest.answers import answer, documented, empty
from airflow_provider_connect.rest.calls import calls_of
from airflow_provider_connect.rest.connectors import Connector, known_config

router = APIRouter(prefix="/connectors", tags=["upgrades"])


@router.post("/{connector}/preview", **documented(200, documents.Preview, body=documents.PREVIEW))
async def preview_connector(request: Request, connector: Connector) -> Response:
    """What the connector's next run would plan and read first; of another config, or in another version, where one is given.

    Nothing is committed. A connector with a config of its own in the body need not exist.
    """
    calls = calls_of(request)

    def look(herder: Herder, asked: bodies.AskedPreview) -> Response:
        config: dict[str, str] | None = None
        if asked.config is not None:
            restored = calls.secrets.restored(asked.config, known_config(herder, connector, asked.config))
            config = {key: text for key, text in restored.items() if text is not None}
        return answer(herder.preview(connector, config, records=asked.records, version=asked.version).to_json())

    return await calls.change_by(request, connector, bodies.preview, look)


@router.get("/{connector}/upgrade", **documented(200, documents.Upgrade))
async def get_upgrade(request: Request, connector: Connector) -> Response:
    """What has become of the upgrade that was asked for last; 404 where none was."""
    return await calls_of(request).read(request, connector, lambda herder: answer(herder.upgrade(connector).to_json()))


@router.put("/{connector}/upgrade", **documented(202, documents.Upgrade, body=documents.UPGRADE))
async def put_upgrade(request: Request, connector: Connector) -> Response:
    """Have the next run compare the versions by their next records and, if nothing stands in the way, go to the new one.

    A first run with it that fails goes back to the old one.
    """

    def put(herder: Herder, asked: bodies.AskedUpgrade) -> Response:
        made = herder.request_upgrade(connector, asked.to, canary=asked.canary, accept_schema_change=asked.accept_schema_change)
        return answer(made.to_json(), 202)

    return await calls_of(request).change_by(request, connector, bodies.upgrade, put)


@router.delete("/{connector}/upgrade", **documented(204))
async def delete_upgrade(request: Request, connector: Connector) -> Response:
    """Forget it: the config alone says which version runs."""
    await calls_of(request).change(request, connector, lambda herder: herder.forget_upgrade(connector))
    return empty(204)


@router.post("/{connector}/upgrade/comparison", **documented(200, documents.Comparison, body=documents.COMPARISON))
async def compare_versions(request: Request, connector: Connector) -> Response:
    """What an upgrade would compare; nothing is asked for or changed."""

    def compare(herder: Herder, asked: bodies.AskedComparison) -> Response:
        return answer(herder.compare_versions(connector, asked.to, records=asked.records).to_json())

    return await calls_of(request).change_by(request, connector, bodies.comparison, compare)
