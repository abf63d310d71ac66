"""``/connectors/«c»/preview``: dry runs. A route of ours beside Kafka Connect's.

Whoever may see a connector's data may change the connector: records are shown to nobody else.
"""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from airflow_provider_connect.herder.herder import Herder
from airflow_provider_connect.rest import bodies, documents
from airflow_provider_connect.rest.answers import answer, documented
from airflow_provider_connect.rest.calls import calls_of
from airflow_provider_connect.rest.connectors import Connector, known_config

router = APIRouter(prefix="/connectors", tags=["upgrades"])


@router.post("/{connector}/preview", **documented(200, documents.Preview, body=documents.PREVIEW))
async def preview_connector(request: Request, connector: Connector) -> Response:
    """What the connector's next run would plan and read first; of another config, or in another version, where one is given.

    Nothing is committed. A connector with a config of its own in the body need not exist.
    """
    asked, calls = await bodies.preview(request), calls_of(request)

    def look(herder: Herder) -> Response:
        config: dict[str, str] | None = None
        if asked.config is not None:
            restored = calls.secrets.restored(asked.config, known_config(herder, connector, asked.config))
            config = {key: text for key, text in restored.items() if text is not None}
        return answer(herder.preview(connector, config, records=asked.records, version=asked.version).to_json())

    return await calls.change(request, connector, look)
