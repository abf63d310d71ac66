"""The process that makes previews for a ``PreviewRunner``: takes requests from standard input until that ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_connect.config.masking import Mask, secret_values
from airflow_provider_connect.config.worker_settings import WorkerSettings
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.model.previews import PreviewRequest
from airflow_provider_connect.plugins.validation.probe_messages import error_message
from airflow_provider_connect.plugins.validation.probe_worker import Answer, serve
from airflow_provider_connect.worker.preview.preview import make_preview


def _answer(settings: WorkerSettings, secrets: Mapping[str, str]) -> Answer:
    def answer(request: Mapping[str, Any]) -> dict[str, object]:
        asked = PreviewRequest(**{name: value for name, value in request.items() if name != "timeout_seconds"})
        mask = Mask(secrets.values())
        try:
            return make_preview(asked, settings, secrets, mask).to_json()
        except Exception as error:  # (plugins' code may raise anything)
            return _masked_error(error, asked, settings, secrets, mask)

    return answer


def _masked_error(
    error: Exception, asked: PreviewRequest, settings: WorkerSettings, secrets: Mapping[str, str], mask: Mask
) -> dict[str, object]:
    for config in (settings.originals, asked.config):
        try:
            mask.add(secret_values(config, settings.config_providers(asked.connector), secrets))
        except ConfigException:  # a variable that cannot be resolved has no value to hide
            continue
    message = error_message(error)
    errors = error.errors if isinstance(error, ConfigException) else ()
    return {**message, "error": mask(str(message["error"])), "errors": list(map(mask, errors))}


if __name__ == "__main__":
    serve(_answer)
