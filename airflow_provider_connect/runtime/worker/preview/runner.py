"""Runs previews in separate processes, with limits on time and memory: REST, command line and runs must not run plugins' code."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Final

from airflow_provider_connect.errors import ConfigException, ConflictException, ConnectException
from airflow_provider_connect.runtime.config import config_providers
from airflow_provider_connect.runtime.config.masking import Mask, config_secrets
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.previews import Preview, PreviewRequest
from airflow_provider_connect.runtime.plugins.validation.probe_process import ProbeProcess

MAX_CONCURRENT: Final = 2
_QUEUE_SECONDS: Final = 20.0
_PROCESS: Final = "airflow_provider_connect.runtime.worker.preview.process"
_READING_SHARE: Final = 0.7
"""The share of the time that is for reading. The rest is for starting, planning and closing."""


class PreviewRunner:
    """Thread-safe. ``secrets`` returns the values of Airflow's variables in a config. ``passwords`` returns the values of a resolved
    config's settings of type PASSWORD.

    Each preview is limited by ``plugin.probe.timeout.ms`` and ``plugin.probe.memory.bytes``, and is killed when it exceeds one.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        *,
        secrets: Callable[[Mapping[str, str]], Mapping[str, str]] = lambda _: {},
        passwords: Callable[[Mapping[str, str]], Iterable[str]] = lambda _: (),
    ) -> None:
        self._settings = settings
        self._passwords = passwords
        self._secrets = secrets
        self._free = threading.Semaphore(MAX_CONCURRENT)

    def preview(self, connector: str, config: Mapping[str, str], *, records: int, version: str | None = None) -> Preview:
        """Make a preview. Raises ConfigException for a config that could not run, ConnectException with the connector's error,
        RetriableException when the time is over, ConflictException when too many previews are running."""
        settings = self._settings
        seconds = settings.plugin_probe_timeout_ms / 1000
        secrets = {
            **self._secrets(settings.originals),
            **config_providers.airflow_values(config, settings.config_providers(connector), self._secrets),
        }
        hidden = set[str]()
        for texts, providers in ((settings.originals, settings.config_providers()), (config, settings.config_providers(connector))):
            values = config_providers.variable_values(texts, providers, secrets)
            hidden |= config_providers.hidden_values(texts, providers, values)
            secrets |= values  # the process does not inherit this environment
        mask = Mask({*hidden, *config_secrets(config), *config_secrets(settings.originals)})
        mask.add(self._passwords(config_providers.resolve(config, secrets=secrets)))
        request = PreviewRequest(connector, dict(config), records, seconds * _READING_SHARE, version)
        if not self._free.acquire(timeout=_QUEUE_SECONDS):
            raise ConflictException(f"{MAX_CONCURRENT} previews are under way already; try again soon")
        try:
            process = ProbeProcess(settings.originals, settings.plugin_probe_memory_bytes, module=_PROCESS, secrets=secrets)
            try:
                return Preview.of_json(process.ask(asdict(request), seconds))
            except ConfigException as error:
                raise ConfigException(mask(error.message), errors=map(mask, error.errors)) from None
            except ConnectException as error:
                raise type(error)(mask(error.message)) from None
            except (KeyError, TypeError, ValueError) as error:
                raise ConnectException(f"The process of the preview gave an unreadable answer: {mask(str(error))}") from None
            finally:
                process.end()
        finally:
            self._free.release()
