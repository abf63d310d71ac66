"""Retries of a plugin's call that raised RetriableException: how long to wait, what to log, when to fail. Knows no clients.

The waits are Kafka Connect's: 300 ms, doubled each time. If that exceeds ``errors.retry.delay.max.ms``, the wait is a random time below
this maximum.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass

from airflow_provider_connect.errors import RetriableException
from airflow_provider_connect.runtime.model.connector_settings import ErrorSettings
from airflow_provider_connect.runtime.worker.errors.failures import RetriedByNextRunException
from airflow_provider_connect.runtime.worker.metrics import TaskMetrics

log = logging.getLogger(__name__)
FIRST_DELAY_MS = 300
JITTER = 0.2  # how much shorter a wait may be, as a share: tasks that failed together must not retry together
STEP_SECONDS = 0.1  # how late a wait may notice that the task must end


@dataclass(slots=True)
class Retries:
    """The attempts at one ``call`` of ``task``, over a whole run. ``jitter`` is 0 where Connect's waits apply exactly."""

    call: str
    task: str
    settings: ErrorSettings
    metrics: TaskMetrics
    is_stopping: Callable[[], bool]
    now: Callable[[], float]
    sleep: Callable[[float], None]
    draw: random.Random
    mask: Callable[[str], str] = str
    jitter: float = JITTER
    _since: float | None = None  # start of the attempts that currently fail
    _in_row: int = 0
    _failures: int = 0
    _has_succeeded: bool = False
    last_error: RetriableException | None = None

    def begin(self) -> None:
        """Begin an operation whose ``errors.retry.timeout`` starts now, not at its first failure."""
        self._since, self._in_row = self.now(), 0

    def succeeded(self) -> None:
        """Note that the call has returned."""
        if self._in_row > 1 and self._since is not None:
            seconds = self.now() - self._since
            log.info("Task %s: %s works again after %d failed attempts in %.1f s", self.task, self.call, self._in_row, seconds)
        self._since, self._in_row, self._has_succeeded = None, 0, True

    def is_over(self) -> bool:
        """Whether ``errors.retry.timeout`` is exhausted."""
        return self._left_ms() <= 0

    def delay(self, error: RetriableException, asked_ms: float | None = None) -> float:
        """Note a failed attempt. Returns the seconds to wait before the next one: ``asked_ms`` if the plugin requested a delay.

        Logs a warning for the 2nd, 4th, 8th … consecutive failure, and for a first one if it is the 1st, 2nd, 4th … failure of the run.
        Raises RetriedByNextRunException when ``errors.retry.timeout`` is exhausted, or would be after the requested delay.
        """
        self._since = self.now() if self._since is None else self._since
        self._in_row, self._failures, self.last_error = self._in_row + 1, self._failures + 1, error
        left_ms = self._left_ms()
        if left_ms <= 0 or (asked_ms is not None and asked_ms > left_ms):
            limit = f"errors.retry.timeout ({self.settings.retry_timeout_ms} ms) allows no further attempt"
            raise RetriedByNextRunException(f"{self._failed_text()}; {limit}: {error}") from error
        if asked_ms is None:
            delay_ms = retry_delay_ms(self._in_row, self.settings.retry_delay_max_ms, left_ms, self.draw)
            delay_ms *= 1 - self.jitter * self.draw.random()
        else:
            delay_ms = max(asked_ms, 0.0)
        self.metrics.retries += 1
        if _is_power_of_two(self._in_row) and (self._in_row > 1 or _is_power_of_two(self._failures)):
            text = self.mask(f"{self._failed_text()}: {type(error).__name__}: {error}")
            log.warning("Task %s: %s. The next attempt follows in %.1f s", self.task, text, delay_ms / 1000)
        return delay_ms / 1000

    def wait(self, error: RetriableException, asked_ms: float | None = None) -> bool:
        """Wait before the next attempt. Returns False immediately when the task must end. Raises as ``delay`` does."""
        until = self.now() + self.delay(error, asked_ms)
        while not self.is_stopping():
            left = until - self.now()
            if left <= 0:
                return True
            self.sleep(min(left, STEP_SECONDS))
        return False

    def refuse_run_without_success(self) -> None:
        """Called when the time of the run is over. Raises RetriedByNextRunException if no attempt of the run has succeeded, because a run
        without an answer is not a success. Does not raise if ``errors.retry.timeout`` is -1."""
        if self.last_error is not None and not self._has_succeeded and self.settings.retry_timeout_ms >= 0:
            text = f"{self._failed_text()}, and never succeeded before the time of the run was over: {self.last_error}"
            raise RetriedByNextRunException(text) from self.last_error

    def _left_ms(self) -> float:
        """The rest of ``errors.retry.timeout``. 0 and -1 do not limit calls."""
        if self.settings.retry_timeout_ms <= 0 or self._since is None:
            return float("inf")
        return self.settings.retry_timeout_ms - (self.now() - self._since) * 1000

    def _failed_text(self) -> str:
        times = "once" if self._in_row == 1 else f"{self._in_row} times in a row"
        return f"{self.call} has failed {times}"


def requested_delay_ms(error: RetriableException, context_ms: int | None = None) -> float | None:
    """The delay that a plugin requests through its exception, else through its context."""
    return context_ms if error.retry_after_ms is None else error.retry_after_ms


def retry_delay_ms(attempt: int, max_ms: int, left_ms: float, draw: random.Random) -> float:
    """How long Connect waits after attempt number ``attempt`` (the first is 1): 300 ms, doubled each time. If that exceeds ``max_ms``, a
    random time below ``max_ms``. Never more than ``left_ms``."""
    delay = FIRST_DELAY_MS << min(attempt - 1, 40)
    if delay > max_ms:
        delay = draw.randrange(max_ms) if max_ms > 0 else 0
    return min(delay, max(left_ms, 0.0))


def _is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0
