"""Runs a task of a run that stays: runs its body again and again, until there is a reason to end.

The body reads new records as they arrive. It ends when its time is over, or when a value of a config provider has expired. Then it is run
again. A retriable failure is retried here, with a growing wait. Any other failure ends the task.
"""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

from airflow_provider_connect.errors import RetriableException, StoreTimeoutException, trace_of
from airflow_provider_connect.runtime.config.masking import Mask
from airflow_provider_connect.runtime.model.run import TaskResult
from airflow_provider_connect.runtime.model.states import State
from airflow_provider_connect.runtime.worker.application.task_body import TaskHost, own_process_host, rehearse_task, run_task
from airflow_provider_connect.runtime.worker.metrics import merge_results
from airflow_provider_connect.runtime.worker.task.stop_signal import FollowedConfig, HostConnection, StopReason
from airflow_provider_connect.runtime.worker.task.task_payload import TaskPayload

_FIRST_RETRY_SECONDS, _LAST_RETRY_SECONDS = 1.0, 60.0
_STEP_SECONDS = 0.1  # the longest time after which a sleeping loop notices a reason to end
_RENEWED = (None, StopReason.TIME, StopReason.EXPIRED, StopReason.OUTDATED)
"""The reasons for the end of a body after which the loop continues."""

log = logging.getLogger(__name__)


def run_payload(payload: TaskPayload, host: TaskHost | None = None, *, has_memory_limit: bool = False) -> TaskResult:
    """Run the task to its end. If it ``stays``, run it until there is a reason to end. A failure of the task is part of the result, and is
    never raised.

    ``host`` None and ``has_memory_limit``: see ``run_task``.
    """
    if payload.is_rehearsal:
        rehearse_task(payload, Mask() if host is None else host.mask)
        return TaskResult(payload.task)
    if not payload.stays:
        return run_task(payload, host, has_memory_limit=has_memory_limit)
    host = host or own_process_host(payload, has_memory_limit=has_memory_limit)
    if host.connection is None:  # no request to end would reach the task
        trace = trace_of(RetriableException(f"Task {payload.connector}-{payload.task} cannot reach its driver"))
        return TaskResult(payload.task, State.FAILED, trace, retriable=True)
    return TaskLoop(payload, host, host.connection).run()


class TaskLoop:
    """Runs one task in the calling thread. ``payload`` names the claim. The task's body runs in ``host``. ``connection`` requests the end;
    the loop closes it. ``on_result`` is called after each run of the body."""

    def __init__(
        self,
        payload: TaskPayload,
        host: TaskHost,
        connection: HostConnection,
        *,
        on_result: Callable[[TaskResult], None] = lambda _: None,
    ) -> None:
        self._payload = payload
        self._connection = connection
        self._host = replace(host, connection=_Lent(connection))
        self._on_result = on_result
        self._name = f"Task {payload.connector}-{payload.task}"

    def run(self) -> TaskResult:
        """Run to the end. Returns the counts of all runs of the body, with the state and the reason of the end. Raises the exception of a
        store that cannot be read."""
        with closing(self._connection), self._host.backing.configs().follow(self._payload.connector, self._payload.claim) as follower:
            result = self._until_stopped(FollowedConfig(follower))
        gc.collect()  # Kafka clients in reference cycles would keep their threads and connections, if the process lives on
        return result

    def _until_stopped(self, followed: FollowedConfig) -> TaskResult:
        retry, idle, total = _FIRST_RETRY_SECONDS, _STEP_SECONDS, TaskResult(self._payload.task)
        while True:
            result = self._run_body()
            total = merge_results(total, result)
            reason = None if result.stopped_by is None else StopReason(result.stopped_by)
            if result.state == State.FAILED:
                if not result.retriable:
                    return total
                retry = _FIRST_RETRY_SECONDS if result.seconds > _LAST_RETRY_SECONDS else min(2 * retry, _LAST_RETRY_SECONDS)
                log.warning("%s FAILED and is retried in %g s", self._name, retry)
                reason = self._sleep(retry, followed)
            elif reason is None:  # the limit of records or the end of a backfill is reached
                idle = _STEP_SECONDS if result.records else min(2 * idle, _LAST_RETRY_SECONDS)
                reason = self._sleep(idle, followed)
            if reason not in _RENEWED:
                total.stopped_by = reason
                return total

    def _run_body(self) -> TaskResult:
        try:
            result = run_task(self._payload_now(), self._host)
        except StoreTimeoutException as error:  # the status topic could not be read
            result = TaskResult(self._payload.task, State.FAILED, self._host.mask(trace_of(error)), retriable=True)
        self._on_result(result)
        return result

    def _payload_now(self) -> TaskPayload:
        """The payload with the topics that the connector is known to use now."""
        payload = self._payload
        if payload.known_topics is None:
            return payload
        with closing(self._host.backing.statuses()) as statuses:
            return replace(payload, known_topics=statuses.read().topics_of(payload.connector))

    def _sleep(self, seconds: float, followed: FollowedConfig) -> StopReason | None:
        """Sleep. Returns early with a reason to end. None: the time is over."""
        until = time.monotonic() + seconds
        while True:
            reason = StopReason.ASKED_TO_END if self._connection.is_closed() else followed.poll()
            left = until - time.monotonic()
            if reason is not None or left <= 0:
                return reason
            time.sleep(min(left, _STEP_SECONDS))


class _Lent:
    """The loop's connection, lent to a run of the body. The body closes its connection when it ends, but the loop still needs it."""

    def __init__(self, connection: HostConnection) -> None:
        self._connection = connection

    def is_closed(self) -> bool:
        return self._connection.is_closed()

    @property
    def descriptor(self) -> int | None:
        return self._connection.descriptor

    def close(self) -> None:
        """Does nothing: the loop closes the connection."""
