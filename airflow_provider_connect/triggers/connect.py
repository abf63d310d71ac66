"""Waiting in the triggerer: one trigger for all conditions. Shares the triggerer's event loop with many others, and blocks nothing."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_connect.client.conditions import of_json
from airflow_provider_connect.errors import ConnectException

MET, HOPELESS, ERROR = "met", "hopeless", "error"


class ConnectTrigger(BaseTrigger):  # type: ignore[misc]  # Airflow is not typed for us
    """Looks every ``poll_seconds`` until ``condition``, made by ``conditions.as_json``, is met. Fires once, ``{"status": …, "says": …}``.

    The status is ``met``; ``hopeless`` when the connector was seen FAILED for ``patience_seconds`` without a break; ``error`` for a refusal
    that another look would not mend. Holds no secret: the Connection is looked up where it runs.
    """

    def __init__(
        self, condition: Mapping[str, Any], connect_conn_id: str, poll_seconds: float = 5.0, patience_seconds: float = 0.0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.condition, self.connect_conn_id = dict(condition), connect_conn_id
        self.poll_seconds, self.patience_seconds = poll_seconds, patience_seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Called by Airflow, which makes the trigger anew from it in the triggerer."""
        arguments = {
            "condition": self.condition,
            "connect_conn_id": self.connect_conn_id,
            "poll_seconds": self.poll_seconds,
            "patience_seconds": self.patience_seconds,
        }
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Called by the triggerer, once."""
        try:
            yield TriggerEvent(await self._outcome())
        except ConnectException as error:
            yield TriggerEvent({"status": ERROR, "says": error.message})

    async def _outcome(self) -> dict[str, str]:
        from airflow_provider_connect.hooks.connect import AsyncConnectHook  # loads the HTTP client: not where DAG files are parsed

        condition, patience = of_json(self.condition), Patience(self.patience_seconds)
        async with AsyncConnectHook(self.connect_conn_id) as hook:
            while True:
                verdict = await hook.look(condition)
                if verdict.is_met:
                    return {"status": MET, "says": verdict.says}
                if patience.is_over(is_hopeless=verdict.is_hopeless):
                    return {"status": HOPELESS, "says": verdict.says}
                await asyncio.sleep(self.poll_seconds)


class Patience:
    """How long FAILED may be seen without a break before it counts: what was changed or restarted shows its old state for a while."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: float | None = None

    def is_over(self, *, is_hopeless: bool) -> bool:
        """Called after each look."""
        if not is_hopeless:
            self._since = None
            return False
        self._since = time.monotonic() if self._since is None else self._since
        return time.monotonic() - self._since >= self._seconds
