"""``/connectors/«c»/offsets`` (KIP-875, contract §7)."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from airflow_provider_connect.herder.herder import Herder
from airflow_provider_connect.model.views import OffsetView
from airflow_provider_connect.rest import bodies, documents
from airflow_provider_connect.rest.answers import answer, documented
from airflow_provider_connect.rest.calls import calls_of
from airflow_provider_connect.rest.connectors import Connector
from airflow_provider_connect.rest.entities import offsets_json

router = APIRouter(prefix="/connectors/{connector}/offsets", tags=["offsets"])


@router.get("", **documented(200, documents.ConnectorOffsets))
async def get_offsets(request: Request, connector: Connector) -> Response:
    """How far the connector has got: by source partition, or by topic and partition in the sink's group."""
    return await calls_of(request).read(request, connector, lambda herder: answer(offsets_json(herder.offsets(connector))))


@router.patch("", **documented(200, documents.Message, body=documents.OFFSETS))
async def alter_offsets(request: Request, connector: Connector) -> Response:
    """Set offsets of a STOPPED connector; null removes one. Partitions that are not named stay."""

    def alter(herder: Herder, offsets: list[OffsetView]) -> Response:
        return answer({"message": herder.alter_offsets(connector, offsets)})

    return await calls_of(request).change_by(request, connector, bodies.offsets, alter)


@router.delete("", **documented(200, documents.Message))
async def reset_offsets(request: Request, connector: Connector) -> Response:
    """Remove all offsets of a STOPPED connector."""
    return await calls_of(request).change(request, connector, lambda herder: answer({"message": herder.reset_offsets(connector)}))
