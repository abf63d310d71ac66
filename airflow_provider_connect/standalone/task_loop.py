"""One task of a connector that is hosted by this process: run, and run again, until there is a reason to end.

A sink reads on as records come. A source task runs to the end of what there is, as everywhere, and again when its connector sees more, or
does not know. What fails for a passing reason is retried by itself, later and later; what fails for good waits to be restarted.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace

from airflow_provider_connect.errors import trace_of
from airflow_provider_connect.runtime.config import config_providers
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.connector_keys import strip_framework_keys
from airflow_provider_connect.runtime.model.run import TaskResult
from airflow_provider_connect.runtime.model.states import State
from airflow_provider_connect.runtime.model.status import TaskStatus
from airflow_provider_connect.runtime.stores.offset_location import OffsetLocation
from airflow_provider_connect.runtime.worker.application.task_body import TaskHost, run_task
from airflow_provider_connect.runtime.worker.task.checked_connector import CheckedConnector
from airflow_provider_connect.runtime.worker.task.stop_signal import FollowedConfig, StopEvent, StopReason
from airflow_provider_connect.runtime.worker.task.task_payload import TaskPayload
from airflow_provider_connect.sdk.connector import SourceConnector

FIRST_POLL_SECONDS, LAST_POLL_SECONDS = 0.1, 2.0  # between two checks for new data, doubled each time
FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 1.0, 60.0
STEP_SECONDS = 0.1  # how late a sleeping loop may be to see that it has to end

log = logging.getLogger(__name__)


class TaskLoop:
    """See the module. ``payload`` names the claim under which it runs; ``on_result`` is called from its thread after each run of the body,
    ``on_end`` when it has ended. ``reason`` is why; ``failed``: the task FAILED, and waits to be restarted."""

    def __init__(
        self,
        payload: TaskPayload,
        checked: CheckedConnector,
        host: TaskHost,
        *,
        on_result: Callable[[TaskResult], None],
        on_end: Callable[[], None],
    ) -> None:
        self.task = payload.task
        self.reason: StopReason | None = None
        self.failed = False
        self.has_ended = False
        self._payload = payload
        self._checked = checked
        self._values: tuple[Mapping[str, str], float] | None = None  # the resolved config, and until when it holds
        self._last_trace = ""  # of a check for new data: a failure that lasts is logged once
        self._stop_event = StopEvent()
        self._host = replace(host, connection=self._stop_event)
        self._on_result = on_result
        self._on_end = on_end
        self._name = f"Task {payload.connector}-{payload.task}"
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def cut(self) -> None:
        """Have it end after its current batch, with its offsets committed. Safe in a signal handler."""
        self._stop_event.request()

    def join(self, timeout_seconds: float) -> bool:
        """Wait for its end. False: it is overdue and stays behind; what it commits from now on is refused, once there is a newer claim."""
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            with self._host.backing.configs().follow(self._payload.connector, self._payload.claim) as follower:
                self.reason = self._until_stopped(FollowedConfig(follower))
        except Exception:  # (a store that cannot be read; what the task does wrong is a value)
            log.exception("%s is given up", self._name)
            self.failed = True
        finally:
            self.has_ended = True
            self._on_end()

    def _until_stopped(self, followed: FollowedConfig) -> StopReason | None:
        """Why it ended; None: it FAILED."""
        retry = FIRST_RETRY_SECONDS
        while True:
            result = self._run_body()
            reason = None if result.stopped_by is None else StopReason(result.stopped_by)
            if result.state == State.FAILED:
                if not result.retriable:
                    self.failed = True
                    return None
                retry = FIRST_RETRY_SECONDS if result.seconds > LAST_RETRY_SECONDS else min(2 * retry, LAST_RETRY_SECONDS)
                log.warning("%s FAILED and is retried in %g s", self._name, retry)
                reason = self._sleep(retry, followed)
            elif reason is None:
                reason = self._until_new_data(followed)
            if reason not in (None, StopReason.TIME, StopReason.EXPIRED):
                return reason

    def _run_body(self) -> TaskResult:
        payload, backing = self._payload, self._host.backing
        if payload.known_topics is not None:
            with closing(backing.statuses()) as statuses:
                payload = replace(payload, known_topics=statuses.read().topics_of(payload.connector))
        result = run_task(payload, self._host)
        self._on_result(result)
        return result

    def _until_new_data(self, followed: FollowedConfig) -> StopReason | None:
        """None: there is some, or the source does not know."""
        wait = FIRST_POLL_SECONDS
        while True:
            reason = self._sleep(wait, followed)
            if reason is StopReason.PAUSED:
                self._put_paused()
            if reason is not None or self._has_new_data() is not False:
                return reason
            wait = min(2 * wait, LAST_POLL_SECONDS)

    def _has_new_data(self) -> bool | None:
        """None: the connector does not know."""
        connector, payload = self._checked.connector, self._payload
        if not isinstance(connector, SourceConnector):
            return None
        settings = WorkerSettings.of(payload.settings, payload.secrets)
        try:
            resolved = {**connector.default_settings, **self._resolve_config(settings)}
            with closing(self._host.backing.offsets(OffsetLocation.of(settings, resolved))) as offsets:
                known = offsets.read(payload.connector)
            return connector.check_for_new_data(strip_framework_keys(resolved), known.get)
        except Exception as error:  # (the connector's own code)
            trace = self._host.mask(trace_of(error))
            level, self._last_trace = logging.DEBUG if trace == self._last_trace else logging.WARNING, trace
            log.log(level, "%s: its connector could not check for new data, so it runs\n%s", self._name, trace)
            return None

    def _resolve_config(self, settings: WorkerSettings) -> Mapping[str, str]:
        """The connector's config, with values that are resolved again when their time is over."""
        if self._values is None or time.monotonic() >= self._values[1]:
            providers = settings.config_providers(self._payload.connector)
            values = config_providers.variable_values(self._payload.connector_config, providers, self._payload.secrets)
            self._host.mask.add(config_providers.hidden_values(self._payload.connector_config, providers, values))
            resolved = config_providers.resolve(self._payload.connector_config, secrets=values)
            ttl_ms = config_providers.shortest_ttl_ms(providers)
            self._values = resolved, math.inf if ttl_ms is None else time.monotonic() + ttl_ms / 1000
        return self._values[0]

    def _put_paused(self) -> None:
        """Write PAUSED, as a body does that is paused in the middle of its work."""
        payload = self._payload
        with self._host.backing.status_notes(payload.claim) as statuses:
            version = self._checked.plugin.version
            statuses.put_task(TaskStatus(payload.connector, payload.task, State.PAUSED, self._host.worker_id, version=version))

    def _sleep(self, seconds: float, followed: FollowedConfig) -> StopReason | None:
        """Why to end, seen soon; None: the time is over."""
        until = time.monotonic() + seconds
        while True:
            reason = StopReason.ASKED_TO_END if self._stop_event.is_closed() else followed.poll()
            left = until - time.monotonic()
            if reason is not None or left <= 0:
                return reason
            time.sleep(min(left, STEP_SECONDS))
