"""Kafka Connect inside an application. The application's process hosts connectors inside of a ``with`` (KIP-26's embedded mode)."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from airflow_provider_connect.errors import BadRequestException, ConnectException
from airflow_provider_connect.runtime.config.config_providers import warn_open_file_providers
from airflow_provider_connect.runtime.config.masking import Mask, mask_logs
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.connector_keys import strip_framework_keys
from airflow_provider_connect.runtime.plugins.probe import PluginProbe
from airflow_provider_connect.runtime.stores.offset_file import SETTING
from airflow_provider_connect.runtime.worker.task.checked_connector import check_connector
from airflow_provider_connect.sdk.connector import SourceConnector
from airflow_provider_connect.standalone.files import open_backing, standalone_settings, with_data_folder
from airflow_provider_connect.standalone.worker import StandaloneWorker

TOPIC_SECONDS = 30.0
_POLL_SECONDS = 0.1

log = logging.getLogger(__name__)


class Connect:
    """Connectors in this process::

        with Connect("orders-app", {"offset.storage.file.filename": "/var/lib/orders/offsets"}) as connect:
            config = {"name": "orders", "connector.class": "FileStreamSource", "file": "connect-data/in.txt", "topic": "orders"}
            topics = connect.add_connector(config)

    With ``offset.storage.file.filename``, configs are kept in memory and source offsets in that file. Delivery is then at least once.

    Without this setting, everything is kept on the topics ``«app_id»-configs``, ``-offsets``, ``-status`` and ``-batches``, unless
    ``worker_config`` names other topics. The group is ``app_id``. Delivery is exactly once if the connector supports it. If a second
    process of the same ``app_id`` adds the connector, the second process takes it over.

    At the end of the ``with``, each task ends after its current batch, with its offsets committed. Safe to share between threads.
    """

    def __init__(self, app_id: str, worker_config: Mapping[str, str] | None = None) -> None:
        """Raises ConfigException for invalid settings. Opens nothing before the ``with``."""
        self._settings = _settings(app_id, worker_config or {})
        self._mask = Mask()
        self._open = ExitStack()
        self._worker: StandaloneWorker | None = None

    def add_connector(self, config: Mapping[str, str], *, timeout_seconds: float = TOPIC_SECONDS) -> list[str]:
        """Start the connector that ``config`` names. If it is already running, give it this config.

        Returns the topics that the connector writes to; empty for a sink. If the config does not determine the topics, or transformations
        may change them, waits up to ``timeout_seconds`` for the first records. Raises ConfigException.
        """
        name = str(config.get("name") or "")
        if not name:
            raise BadRequestException("The connector's config has no name")
        self._started.put_connector(name, {key: str(value) for key, value in config.items()})
        checked = check_connector(name, config, self._settings, {}, hide=self._mask.add)
        if not isinstance(checked.connector, SourceConnector):
            return []
        topics = None if checked.settings.transforms else checked.connector.output_topics(strip_framework_keys(checked.resolved))
        return sorted(topics) if topics is not None else self._wait_for_topics(name, time.monotonic() + timeout_seconds)

    def remove_connector(self, name: str) -> None:
        """End and remove the connector. Its offsets are kept. Raises NotFoundException."""
        self._started.herder.delete_connector(name)

    @property
    def herder(self) -> Herder:
        """Every verb of Kafka Connect: statuses, pause and resume, restarts, offsets."""
        return self._started.herder

    @property
    def _started(self) -> StandaloneWorker:
        if self._worker is None:
            raise ConnectException("Connect is used outside of its with statement")
        return self._worker

    def _wait_for_topics(self, name: str, deadline: float) -> list[str]:
        while True:
            topics = self._started.herder.active_topics(name)
            if topics or time.monotonic() > deadline:
                return sorted(topics)
            time.sleep(_POLL_SECONDS)

    def __enter__(self) -> Self:
        warn_open_file_providers(self._settings.originals)
        with ExitStack() as opened:
            backing = open_backing(self._settings, opened)
            probe = PluginProbe(self._settings)
            opened.callback(probe.close)
            worker_id = f"{socket.gethostname()}:{os.getpid()}"
            worker = StandaloneWorker(self._settings, backing, probe, worker_id=worker_id, mask=self._mask)
            unmask = mask_logs(self._mask)

            def close() -> None:
                if worker.close():
                    unmask()  # otherwise an overdue task may still log its secrets

            opened.callback(close)
            self._worker, self._open = worker, opened.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._worker = None
        self._open.close()


def _settings(app_id: str, worker_config: Mapping[str, str]) -> WorkerSettings:
    named = with_data_folder({"group.id": app_id, **worker_config}, Path.cwd())
    return standalone_settings(named) if named.get(SETTING, "").strip() else WorkerSettings.of(named)
