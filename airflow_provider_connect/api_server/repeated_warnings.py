"""Failures of single connectors in a loop over many: logged once, and never a reason to leave the others out."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait

from airflow_provider_connect.errors import ConnectException

_WAIT_SECONDS = 0.2
_MOST_AT_ONCE = 32

_log = logging.getLogger(__name__)


class RepeatedWarnings:
    """Remembers the last warning about each connector, so that one is logged when it changes, not every second."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}
        self._running: dict[str, Future[object]] = {}

    def attempt(self, connector: str, change: Callable[[], object]) -> None:
        """Call ``change``, but not while a long change of the connector (``attempt_bounded``) goes on, which would undo it.

        Raises only what concerns all connectors, because the topics cannot be reached.
        """
        running = self._running.get(connector)
        if running is not None and not running.done():
            return
        self._running.pop(connector, None)
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

    def attempt_bounded(self, connector: str, change: Callable[[], object]) -> None:
        """As ``attempt``, but a change that takes long goes on in a thread of its own, and the loop with the other connectors.

        Until it has ended no other of the same connector begins; what it raised is raised by the call that finds it ended.
        """
        running = self._running.get(connector)
        if running is None:
            # an ended change stays here until the next call for its connector, which may not come
            if sum(not other.done() for other in self._running.values()) >= _MOST_AT_ONCE:
                return
            running = self._running[connector] = _started(change)
            wait([running], timeout=_WAIT_SECONDS)
            if not running.done():
                _log.info("Connector %s: ending it takes a while; the others go on", connector)
        if running.done():
            del self._running[connector]
            self.attempt(connector, running.result)


def _started(change: Callable[[], object]) -> "Future[object]":
    outcome: Future[object] = Future()

    def run() -> None:
        try:
            outcome.set_result(change())
        except BaseException as error:  # (raised again where the outcome is read)
            outcome.set_exception(error)

    threading.Thread(target=run, name="connect-change", daemon=True).start()
    return outcome
