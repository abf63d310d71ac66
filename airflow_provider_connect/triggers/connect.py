"""One trigger that waits for any condition. It shares the triggerer's event loop with other triggers, and never blocks it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_connect.client.conditions import FailureTimeout, of_json
from airflow_provider_connect.client.conversation import is_outage
from airflow_provider_connect.errors import ConnectException

_log = logging.getLogger(__name__)

MET, FAILED, ERROR = "met", "failed", "error"


class ConnectTrigger(BaseTrigger):  # type: ignore[misc]  # Airflow is not typed for us
    """Checks ``condition``, a result of ``conditions.as_json``, every ``poll_seconds`` until it is met. Fires one event.

    The event is ``{"status": …, "text": …}``. The status is ``met``; ``failed`` if the connector was FAILED for ``failure_timeout_seconds``
    without interruption; or ``error`` if the server refused a request that would fail again. If the server is unavailable, the trigger
    continues until the wait's own timeout. It holds no secret, because the triggerer resolves the Connection.
    """

    def __init__(
        self,
        condition: Mapping[str, Any],
        connect_conn_id: str,
        poll_seconds: float = 5.0,
        failure_timeout_seconds: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.condition, self.connect_conn_id = dict(condition), connect_conn_id
        self.poll_seconds, self.failure_timeout_seconds = poll_seconds, failure_timeout_seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Called by Airflow, which creates the trigger again from the result in the triggerer."""
        arguments = {
            "condition": self.condition,
            "connect_conn_id": self.connect_conn_id,
            "poll_seconds": self.poll_seconds,
            "failure_timeout_seconds": self.failure_timeout_seconds,
        }
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Called once by the triggerer."""
        try:
            yield TriggerEvent(await self._outcome())
        except ConnectException as error:
            yield TriggerEvent({"status": ERROR, "text": error.message})

    async def _outcome(self) -> dict[str, str]:
        from airflow_provider_connect.hooks.connect import AsyncConnectHook  # loads the HTTP client, so not when DAG files are parsed

        condition, failure_timeout = of_json(self.condition), FailureTimeout(self.failure_timeout_seconds)
        async with AsyncConnectHook(self.connect_conn_id) as hook:
            while True:
                try:
                    verdict = await hook.look(condition)
                except ConnectException as error:
                    if not is_outage(error):
                        raise
                    _log.warning("The wait goes on until its own time-out: %s", error.message)
                else:
                    if failure_timeout.ends_wait(verdict):
                        return {"status": MET if verdict.is_met else FAILED, "text": verdict.text}
                await asyncio.sleep(self.poll_seconds)
