"""A Java connector that stays started while its tasks run, because it may ask for other tasks or fail at any time, as in Kafka Connect."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_connect.errors import ConnectException, JavaException, RetriableException, last_line
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.worker.task.checked_connector import CheckedConnector
from airflow_provider_connect.runtime.worker.task.task_configs import publishable_configs

if TYPE_CHECKING:
    from airflow_provider_connect.runtime.java.jvm.connect_worker import ConnectWorker

_FIRST_RETRY_SECONDS, _LAST_RETRY_SECONDS = 1.0, 60.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Started:
    """A started connector. ``config`` is the config as the connector has it. ``mask`` hides its secrets."""

    worker: ConnectWorker
    checked: CheckedConnector
    config: Mapping[str, str]
    settings: WorkerSettings
    mask: Callable[[str], str]

    def task_configs(self) -> list[Mapping[str, str]]:
        """The configs of the tasks that the connector needs now, as they are published."""
        generated = self.worker.task_configs(self.checked.name, self.config, is_source=self.checked.is_source)
        return publishable_configs(self.checked, generated, self.settings)


class StayingConnector:
    """The connector of one run that stays, in a JVM of its own. ``failure`` is the stack trace of the connector's failure. None: it has not
    failed. A failed connector is started again after a growing wait, and its tasks continue. Not safe to share between threads."""

    def __init__(self) -> None:
        self.failure: str | None = None
        self._started: _Started | None = None
        self._asked_at = self._restart_at = math.inf
        self._retry = _FIRST_RETRY_SECONDS

    def task_configs(
        self, checked: CheckedConnector, settings: WorkerSettings, *, is_valid: bool, mask: Callable[[str], str]
    ) -> list[Mapping[str, str]]:
        """The configs of the tasks that the connector needs now, as they are published. Starts the connector, unless it runs with this
        config. Raises as ``java_task_configs``."""
        from airflow_provider_connect.runtime.java.task.connector_jvm import start_valid_connector

        started = self._started
        if started is None or started.checked.resolved != checked.resolved or self.failure is not None:
            self.close()
            worker, config = start_valid_connector(checked, settings, is_valid=is_valid, mask=mask)
            started = _Started(worker, checked, config, settings, mask)
        self._started = started = replace(started, checked=checked)
        return started.task_configs()

    def asks(self) -> bool:
        """Whether the connector may need other tasks now. Takes a millisecond. Starts a failed connector again if its time has come."""
        if self._started is None:
            return False
        worker, name, now = self._started.worker, self._started.checked.name, time.monotonic()
        try:
            if self.failure is not None and now >= self._restart_at:
                worker.stop_connector(name)
                worker.start_connector(name, self._started.config)
                self.failure, self._asked_at = None, now
            if self.failure is None and (trace := worker.connector_failure(name)) is not None:
                trace = trace or f"org.apache.kafka.connect.errors.ConnectException: connector {name} has failed"
                raise JavaException(self._started.mask(trace))
            if worker.takes_request():
                self._asked_at = now
        except JavaException as error:
            self.failure, self._restart_at = error.trace, now + self._next_retry()
            log.warning("Connector %s FAILED, and is started again in %g s: %s", name, self._restart_at - now, last_line(error.trace))
        except RetriableException as error:  # the JVM has ended
            log.warning("Connector %s: %s", name, error.message)
            self.close()
            return True
        return now >= self._asked_at

    def is_outdated(self, configs: Sequence[Mapping[str, str]]) -> bool:
        """Whether the connector needs other tasks than those of ``configs``, which are its published configs. Raises what the connector
        raises."""
        if self._started is None:
            return True
        if not math.isfinite(self._asked_at):
            return False
        try:
            is_outdated = self._started.task_configs() != list(configs)
        except ConnectException:
            self._asked_at = time.monotonic() + self._next_retry()
            raise
        self._asked_at, self._retry = math.inf, _FIRST_RETRY_SECONDS
        return is_outdated

    def close(self) -> None:
        """End the JVM. The connector starts again with the next plan."""
        started, self._started = self._started, None
        self.failure, self._asked_at = None, math.inf
        if started is not None:
            started.worker.close()

    def _next_retry(self) -> float:
        retry, self._retry = self._retry, min(2 * self._retry, _LAST_RETRY_SECONDS)
        return retry
