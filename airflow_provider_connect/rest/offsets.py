"""``/connectors/«c»/offsets`` (KIP-875, contract §1.8)."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from airflow_provider_connect.rest import bodies, documents
from airflow_provider_connect.rest.answers import answer, documented
from airflow_provider_connect.rest.calls import calls_of
from airflow_provider_connect.rest.connectors import Connector
from airflow_provider_connect.rest.entities import offsets_json

router = APIRouter(prefix="/connectors/{connector}/offsets", tags=["offsets"])


@router.get("", **documented(200, documents.ConnectorOffsets))
async def get_offsets(request: Request, connector: Connector) -> Response:
    """How far the connector has got: by source partition, or by topic and partition in the sink's group."""
    return answer(offsets_json(await calls_of(request).read(request, connector, lambda herder: herder.offsets(connector))))


@router.patch("", **documented(200, documents.Message, body=documents.OFFSETS))
async def alter_offsets(request: Request, connector: Connector) -> Response:
    """Set offsets of a STOPPED connector; null removes one. Partitions that are not named stay."""
    offsets = await bodies.offsets(request)
    return answer({"message": await calls_of(request).change(request, connector, lambda herder: herder.alter_offsets(connector, offsets))})


@router.delete("", **documented(200, documents.Message))
async def reset_offsets(request: Request, connector: Connector) -> Response:
    """Remove all offsets of a STOPPED connector."""
    await bodies.ignored(request)
    return answer({"message": await calls_of(request).change(request, connector, lambda herder: herder.reset_offsets(connector))})
