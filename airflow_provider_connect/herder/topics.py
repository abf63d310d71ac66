"""The topics that a connector has used since these were last reset (KIP-558): told and reset."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from airflow_provider_connect.config.worker_settings import WorkerSettings
from airflow_provider_connect.errors import ForbiddenException
from airflow_provider_connect.herder.snapshot import SnapshotReader

DISABLED = "Topic tracking is disabled"
RESET_DISABLED = "Topic tracking reset is disabled"


class UsedTopics:
    """See the module. ``forget`` removes topics of a connector and returns when that is written. Safe to share between threads."""

    def __init__(self, settings: WorkerSettings, reader: SnapshotReader, forget: Callable[[str, Iterable[str]], None]) -> None:
        self._settings = settings
        self._reader = reader
        self._forget = forget

    def active(self, connector: str) -> list[str]:
        """In alphabetical order; none for an unknown connector. Raises ForbiddenException where topics are not tracked."""
        if not self._settings.topic_tracking_enable:
            raise ForbiddenException(DISABLED)
        return self._reader.read().statuses.topics_of(connector)

    def reset(self, connector: str) -> None:
        """Forget them: those that records still flow through are noted again. Raises ForbiddenException where that is not allowed."""
        topics = self.active(connector)
        if not self._settings.topic_tracking_allow_reset:
            raise ForbiddenException(RESET_DISABLED)
        self._forget(connector, topics)
