"""A Java connector that stays started while its tasks run, because it may ask for other tasks or fail at any time, as in Kafka Connect."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_connect.errors import ConnectException, JavaException, last_line, trace_of
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.worker.task.checked_connector import CheckedConnector

if TYPE_CHECKING:
    from airflow_provider_connect.runtime.java.jvm.connect_worker import ConnectWorker

_FIRST_RETRY_SECONDS, _LAST_RETRY_SECONDS = 1.0, 60.0
_HEALTHY_SECONDS = 60.0  # after this time without a failure, the next wait is short again
_WITHOUT_TRACE = "org.apache.kafka.connect.errors.ConnectException: the connector has failed"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Planned:
    """What a plan has started. ``mask`` hides the secrets of the config."""

    checked: CheckedConnector
    settings: WorkerSettings
    mask: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class _Running:
    """The connector in its JVM. ``config`` is the config as the connector has it."""

    worker: ConnectWorker
    config: Mapping[str, str]


class StayingConnector:
    """The connector of one run that stays, in a JVM of its own. ``failure`` is the stack trace of the connector's failure, which may be the
    end of its JVM. None: it has not failed. A failed connector is started again in a new JVM after a growing wait, and its tasks continue.
    Not safe to share between threads."""

    def __init__(self) -> None:
        self.failure: str | None = None
        self._planned: _Planned | None = None
        self._running: _Running | None = None
        self._asked_at = self._restart_at = math.inf
        self._retry, self._healthy_at = _FIRST_RETRY_SECONDS, -math.inf

    def task_configs(
        self, checked: CheckedConnector, settings: WorkerSettings, *, is_valid: bool, mask: Callable[[str], str]
    ) -> list[Mapping[str, str]]:
        """The configs of the tasks that the connector needs now, as they are published. Starts the connector, unless it runs with this
        config. Raises as ``java_task_configs``, after the end of the JVM: the next plan starts another one."""
        before, running = self._planned, self._running
        is_running = running is not None and running.worker.jvm.is_alive
        try:
            if not is_running or before is None or before.checked.resolved != checked.resolved:
                self.close()
            self._planned = _Planned(checked, settings, mask)
            if self._running is None:
                self._start(is_valid=is_valid)
            return self._task_configs()
        except BaseException:  # while no task is hosted, no other call would detect a JVM that has ended
            self.close()
            raise

    def asks(self) -> bool:
        """Whether the connector may need other tasks now. Takes a millisecond, unless it starts a failed connector again."""
        planned, now = self._planned, time.monotonic()
        if planned is None or (self.failure is not None and now < self._restart_at):
            return False
        try:
            if self.failure is not None:
                self._start(is_valid=True)
                self.failure, self._asked_at = None, now
            assert self._running is not None
            worker = self._running.worker
            if (trace := worker.connector_failure(planned.checked.name)) is not None:
                raise JavaException(planned.mask(trace or _WITHOUT_TRACE))
            worker.jvm.limit_threads(planned.settings.java_threads_max)
            if worker.takes_request():
                self._asked_at = now
        except ConnectException as error:
            self._fail(planned.mask(trace_of(error)))
            return False
        return now >= self._asked_at

    def is_outdated(self, configs: Sequence[Mapping[str, str]]) -> bool:
        """Whether the connector needs other tasks than those of ``configs``, which are its published configs. Raises what the connector
        raises."""
        if self._planned is None:
            return True
        if self.failure is not None or not math.isfinite(self._asked_at):
            return False
        try:
            is_outdated = self._task_configs() != list(configs)
        except ConnectException:
            self._asked_at = time.monotonic() + self._next_retry()
            raise
        self._asked_at = math.inf
        return is_outdated

    def close(self) -> None:
        """End the JVM. The connector starts again with the next plan."""
        self._planned = self.failure = None
        self._end()

    def _start(self, *, is_valid: bool) -> None:
        """Start the connector in a new JVM. Raises as ``java_task_configs``."""
        from airflow_provider_connect.runtime.java.task.connector_jvm import start_valid_connector

        assert self._planned is not None
        checked, settings, mask = self._planned.checked, self._planned.settings, self._planned.mask
        self._running = _Running(*start_valid_connector(checked, settings, is_valid=is_valid, mask=mask))

    def _task_configs(self) -> list[Mapping[str, str]]:
        from airflow_provider_connect.runtime.java.task.connector_jvm import started_task_configs

        assert self._planned is not None
        assert self._running is not None
        return started_task_configs(self._running.worker, self._planned.checked, self._running.config, self._planned.settings)

    def _fail(self, trace: str) -> None:
        """Note the failure, and end the JVM, with threads that the connector may have left in it."""
        assert self._planned is not None
        self._end()
        wait = self._next_retry()
        self.failure, self._restart_at = trace, time.monotonic() + wait
        log.warning("Connector %s FAILED, and is started again in %g s: %s", self._planned.checked.name, wait, last_line(trace))

    def _end(self) -> None:
        running, self._running = self._running, None
        self._asked_at = math.inf
        if running is not None:
            running.worker.close()

    def _next_retry(self) -> float:
        now = time.monotonic()
        wait = _FIRST_RETRY_SECONDS if now >= self._healthy_at else self._retry
        self._retry = min(2 * wait, _LAST_RETRY_SECONDS)
        self._healthy_at = now + wait + _HEALTHY_SECONDS
        return wait
