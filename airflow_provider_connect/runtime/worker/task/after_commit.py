"""Calls that a source task has requested for the time after a commit."""

from __future__ import annotations

import logging
from collections.abc import Callable

from airflow_provider_connect.errors import plugin_code, trace_of

log = logging.getLogger(__name__)


class AfterCommit:
    """Keeps the calls that the task adds within a ``poll`` until the records of that poll are committed. ``mask`` hides secrets in the log.
    Used in the task's thread."""

    def __init__(self, mask: Callable[[str], str] = str) -> None:
        self._mask = mask
        self._polled: list[Callable[[], None]] = []
        self._delivered: list[Callable[[], None]] = []

    def add(self, call: Callable[[], None]) -> None:
        self._polled.append(call)

    @property
    def is_due(self) -> bool:
        """Whether a commit would lead to a call."""
        return bool(self._delivered)

    def delivered(self) -> None:
        """Note that the records of the poll are delivered: the next commit includes them."""
        self._delivered += self._polled
        self._polled.clear()

    def drop(self) -> None:
        """Drop the calls of a poll that has failed."""
        self._polled.clear()

    def committed(self) -> None:
        """Make the calls. Their exceptions are logged."""
        calls, self._delivered = self._delivered, []
        for call in calls:
            try:
                with plugin_code():
                    call()
            except Exception as error:
                trace = self._mask(trace_of(error))
                log.error("A call after a commit raised; the records are committed all the same\n%s", trace)  # noqa: TRY400  (masked)
