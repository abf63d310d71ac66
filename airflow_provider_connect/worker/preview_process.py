"""Previews in processes of their own, with limits on time and memory, for whoever must not run plugins' code: REST, command line, runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from airflow_provider_connect.errors import ConfigException, ConnectException, trace_of
from airflow_provider_connect.isolation.probe_messages import error_message
from airflow_provider_connect.isolation.probe_process import ProbeProcess
from airflow_provider_connect.isolation.probe_worker import Answer, serve
from airflow_provider_connect.masking import Mask, secret_values
from airflow_provider_connect.model.previews import Preview
from airflow_provider_connect.settings import WorkerSettings
from airflow_provider_connect.worker.preview import PreviewRequest, make_preview

MOST_AT_ONCE: Final = 2
_READING_SHARE: Final = 0.7
"""Of the time for all: the rest is for starting, planning and closing."""


class PreviewRunner:
    """Safe to share between threads. ``secrets`` gives the values of Airflow's variables in a config.

    Each preview has ``plugin.probe.timeout.ms`` and ``plugin.probe.memory.bytes``, and is killed when it wants more.
    """

    def __init__(self, settings: WorkerSettings, *, secrets: Callable[[Mapping[str, str]], Mapping[str, str]] = lambda _: {}) -> None:
        self._settings = settings
        self._secrets = secrets
        self._free = threading.Semaphore(MOST_AT_ONCE)

    def preview(self, connector: str, config: Mapping[str, str], *, records: int, version: str | None = None) -> Preview:
        """Raises ConfigException for a config that could not run, ConnectException with what the connector raised, RetriableException when
        the time was over."""
        settings = self._settings
        seconds = settings.plugin_probe_timeout_ms / 1000
        secrets = {**self._secrets(settings.originals), **self._secrets(config)}
        request = PreviewRequest(connector, dict(config), records, seconds * _READING_SHARE, version)
        with self._free:
            process = ProbeProcess(settings.originals, settings.plugin_probe_memory_bytes, module=__name__, secrets=secrets)
            try:
                return Preview.of_json(process.ask(request.to_json(), seconds))
            except (KeyError, TypeError, ValueError) as error:
                raise ConnectException(f"The process that made the preview answered with what is none: {error}") from error
            finally:
                process.end()


def _answer(settings: WorkerSettings, secrets: Mapping[str, str]) -> Answer:
    def answer(request: Mapping[str, Any]) -> dict[str, object]:
        asked = PreviewRequest(**{name: value for name, value in request.items() if name != "timeout_seconds"})
        try:
            return make_preview(asked, settings, secrets).to_json()
        except Exception as error:  # (plugins' code may raise anything)
            return _masked_error(error, asked, settings, secrets)

    return answer


def _masked_error(error: Exception, asked: PreviewRequest, settings: WorkerSettings, secrets: Mapping[str, str]) -> dict[str, object]:
    mask = Mask(secrets.values())
    for config in (settings.originals, asked.config):
        try:
            mask.add(secret_values(config, settings.config_providers(), secrets))
        except ConfigException:  # a variable that cannot be resolved has no value to hide
            continue
    message = error_message(error)
    if not isinstance(error, ConnectException):
        message["error"] = "\n".join([str(message["error"]), *trace_of(error).splitlines()[-6:]])
    return {**message, "error": mask(str(message["error"])), "errors": list(map(mask, error.errors if isinstance(error, ConfigException) else ()))}


if __name__ == "__main__":
    serve(_answer)
