"""A worker of its own: the herder, and the connectors that this process hosts. Knows nothing of files, REST or signals."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from airflow_provider_connect.config.worker_settings import WorkerSettings
from airflow_provider_connect.herder.herder import Herder
from airflow_provider_connect.herder.probe import Probe
from airflow_provider_connect.model.states import TargetState
from airflow_provider_connect.model.views import ConnectorInfo
from airflow_provider_connect.standalone.connector_hosts import ConnectorHosts
from airflow_provider_connect.standalone.task_figures import TaskFigures
from airflow_provider_connect.stores.backing import Backing, TopicBacking
from airflow_provider_connect.worker.preview.runner import PreviewRunner

log = logging.getLogger(__name__)


class StandaloneWorker:
    """See the module. ``worker_id``, ``host:port``, stands in every status."""

    def __init__(self, settings: WorkerSettings, backing: Backing, probe: Probe, *, worker_id: str) -> None:
        self.settings = settings
        previewer = PreviewRunner(settings) if isinstance(backing, TopicBacking) else None
        self.figures = TaskFigures()
        backing.ensure()
        self._hosts = ConnectorHosts(settings, backing, worker_id=worker_id, figures=self.figures)
        self.herder = Herder(
            settings,
            self._hosts,
            probe=probe,
            previewer=previewer,
            takes_upgrades=False,
            backing=backing,
            worker_id=worker_id,
            figures=self.figures.read,
        )

    def put_connector(self, name: str, config: Mapping[str, str], initial_state: TargetState | None = None) -> ConnectorInfo:
        """Create the connector, or give the one that is there this config. Raises ConfigException when it cannot be taken."""
        if initial_state is not None and name not in self.herder.connectors():
            return self.herder.create_connector(name, config, initial_state)
        info, _ = self.herder.put_connector_config(name, config)
        return info

    def close(self) -> bool:
        """Every task ends after its batch, with its offsets committed. False: some were overdue."""
        ended = self._hosts.close()
        self.herder.close()
        return ended

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
