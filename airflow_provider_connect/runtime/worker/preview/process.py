"""The process that makes previews for a ``PreviewRunner``. It reads requests from standard input until the input ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.config.config_providers import hidden_values
from airflow_provider_connect.runtime.config.masking import Mask
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.previews import PreviewRequest
from airflow_provider_connect.runtime.plugins.validation.probe_messages import error_message
from airflow_provider_connect.runtime.plugins.validation.probe_server import Answer, serve
from airflow_provider_connect.runtime.worker.preview.preview import make_preview, mask_failure


def _answer(settings: WorkerSettings, secrets: Mapping[str, str]) -> Answer:
    def answer(request: Mapping[str, Any]) -> dict[str, object]:
        asked = PreviewRequest(**{name: value for name, value in request.items() if name != "timeout_seconds"})
        mask = Mask(hidden_values({}, settings.config_providers(), secrets))
        try:
            return make_preview(asked, settings, secrets, mask).to_json()
        except Exception as error:  # (plugins' code may raise anything)
            mask_failure(mask, asked, settings, secrets)
            message = error_message(error)
            errors = error.errors if isinstance(error, ConfigException) else ()
            return {**message, "error": mask(str(message["error"])), "errors": list(map(mask, errors))}

    return answer


if __name__ == "__main__":
    serve(_answer)
