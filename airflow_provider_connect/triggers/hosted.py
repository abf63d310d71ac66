"""The trigger of a connector's run in a shared application. It only waits: the API server fires the event when the connector fails."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

OVER, FAILED, NOTICE = "over", "failed", "notice"
HOSTED = "airflow_provider_connect.triggers.hosted.HostedTrigger"
"""The trigger's path, as Airflow's database has it."""


class HostedTrigger(BaseTrigger):  # type: ignore[misc]  # Airflow is not typed for us
    """Waits ``seconds``, then fires ``{"status": "over"}``. ``noticed`` are hashes of the failures that callbacks know already.

    Events of the API server (``api_server.hosted_runs``) are ``{"status": …, "trace": …, "noticed": …}``. The status is ``failed`` if the
    run has failed, ``notice`` if one of several tasks has failed.
    """

    def __init__(self, seconds: float, noticed: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.seconds, self.noticed = seconds, list(noticed)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Called by Airflow, which creates the trigger again from the result in the triggerer."""
        return HOSTED, {"seconds": self.seconds, "noticed": self.noticed}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Called once by the triggerer. After a restart of the triggerer the wait begins again."""
        await asyncio.sleep(self.seconds)
        yield TriggerEvent({"status": OVER})
