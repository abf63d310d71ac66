"""Troubles of single connectors in a loop over many: logged once, and never a reason to leave the others out."""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager

from sqlalchemy.orm import Session

from airflow_provider_connect.errors import ConnectException

Sessions = Callable[[], AbstractContextManager[Session]]
"""Opens a session of Airflow's database that commits when its body ends."""

_log = logging.getLogger(__name__)


class Complaints:
    """Remembers what each connector was complained of, so that it is logged when it changes, not every second."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}

    def attempt(self, connector: str, change: Callable[[], object]) -> None:
        """Call ``change``. Raises only what concerns all connectors, because the topics cannot be reached."""
        try:
            change()
        except ConnectException as error:
            if self._last.get(connector) != error.message:
                _log.warning("Connector %s: %s", connector, error.message)
            self._last[connector] = error.message
            if error.retriable:
                raise
        else:
            self._last.pop(connector, None)
