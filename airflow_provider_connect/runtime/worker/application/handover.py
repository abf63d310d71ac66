"""The handover of a connector from a run that stays, whose time is over, to the next run, without a pause of more than a second.

Steps: 1 the older run offers the connector, and continues to deliver while Airflow starts the next run; 2 the next run starts its engine,
loads the connector's code, and asks for the connector; 3 the tasks of the older run end after their batch and commit, and the older run
claims the connector for the next run; 4 the next run plans and starts its tasks. If no run asks, the older run ends after
``HANDOVER_SECONDS``. If the older run does not answer, the next run claims the connector itself.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from airflow_provider_connect.runtime.model.run import Claim, RunResult
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.stores.admin_connection import installed_version
from airflow_provider_connect.runtime.stores.config_changes import ConfigChanges

HANDOVER_SECONDS = 120.0
REHEARSAL_SECONDS = 15.0
_ANSWER_SECONDS = 5.0  # in addition to the time in which tasks have to end
_POLL_SECONDS = 0.02
_CHECK_SECONDS = 60.0

Leave = Callable[[RunResult], bool]
"""Reports the result of a run to Airflow, whose task ends. The driver's process lives on. False: it cannot."""

log = logging.getLogger(__name__)


def request_handover(
    store: ConfigChanges, connector: str, owner: str, *, graceful_seconds: float, is_ending: Callable[[], bool] = lambda: False
) -> Claim | None:
    """Ask the connector's run for it, as ``owner``, and wait, unless this run ``is_ending``. ``graceful_seconds`` is the time in which the
    tasks of the older run have to end. None: that run does not offer the connector, or has not answered."""
    state, until = store.read(), time.monotonic() + graceful_seconds + _ANSWER_SECONDS
    if connector not in state.successors:
        return None
    others = (None, state.owners.get(connector))  # after a verb's claim, the run claims and offers its connector again
    while time.monotonic() < until and not is_ending():
        state = store.read()
        if state.owners.get(connector) == owner:
            return state.claims[connector]
        if state.owners.get(connector) not in others or state.target_state(connector) is not TargetState.STARTED:
            return None
        if state.successors.get(connector) != owner:
            store.request_handover(connector, owner)
        time.sleep(_POLL_SECONDS)
    log.warning("Connector %s: its run has not handed it over in time", connector)
    return None


class InstalledPackage:
    """The version of this package that is installed."""

    def __init__(self) -> None:
        self._version = installed_version()
        self._checked = time.monotonic()

    def is_replaced(self) -> bool:
        """Whether another version was installed since. Looks once a minute."""
        now = time.monotonic()
        if now - self._checked < _CHECK_SECONDS:
            return False
        self._checked = now
        return installed_version() != self._version
