"""Failures of single connectors in a loop over many connectors. A failure is logged once and does not stop the loop."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait

from airflow_provider_connect.api_server.ticker import error_line
from airflow_provider_connect.errors import ConnectException

_WAIT_SECONDS = 0.2
_MOST_AT_ONCE = 32
_LONGEST_BACK_OFF_SECONDS = 30.0
_MOST_LOST_SECONDS = 10.0  # the longest time of failures in one pass

_log = logging.getLogger(__name__)


class RepeatedWarnings:
    """Keeps the last warning about each connector, so that a warning is logged only when it changes.

    A change that raised a retriable error, perhaps after a timeout, backs off. The back-off grows with each further error. Independent
    changes of one connector have different ``kind``s, so that the success of one change does not clear the failure of another. ``now`` is
    in seconds.
    """

    def __init__(self, *, now: Callable[[], float]) -> None:
        self._now = now
        self._last: dict[tuple[str, str], str] = {}
        self._running: dict[str, Future[object]] = {}
        self._waits: dict[tuple[str, str], tuple[float, float]] = {}  # the back-off of each change, and its end
        self._begin_pass()

    def attempt(self, connector: str, change: Callable[[], object], kind: str = "") -> None:
        """Call ``change``, unless it backs off. Also does not call it during a long change of the connector (``attempt_bounded``), because
        the long change would undo it. Raises no exception (see ``end_pass``)."""
        running = self._running.get(connector)
        if (running is not None and not running.done()) or self._must_wait(connector, kind):
            return
        self._running.pop(connector, None)
        self._call(connector, change, kind)

    def attempt_bounded(self, connector: str, change: Callable[[], object], kind: str = "") -> None:
        """Like ``attempt``, but a slow change continues in its own thread while the loop handles the other connectors.

        Until the slow change ends, no other change of the connector starts. The first call after its end logs its error.
        """
        running = self._running.get(connector)
        if running is None:
            # an ended change stays in ``_running`` until the next call for its connector, if there is one
            if self._must_wait(connector, kind) or sum(not other.done() for other in self._running.values()) >= _MOST_AT_ONCE:
                return
            running = self._running[connector] = _start_thread(change)
            wait([running], timeout=_WAIT_SECONDS)
            if not running.done():
                _log.info("Connector %s: ending it takes long; continuing with other connectors", connector)
        if running.done():
            del self._running[connector]
            self._call(connector, running.result, kind)

    def end_pass(self) -> None:
        """Called after the loop. Raises the first retriable error if it seems to affect all connectors: no change succeeded, or the errors
        took so long that connectors were skipped. The next pass handles the skipped connectors while the failed ones back off."""
        failures, is_cut = self._failures, self._lost_seconds > _MOST_LOST_SECONDS
        concerns_all = is_cut or not self._has_worked
        if is_cut:
            self._waits |= dict.fromkeys(failures, (_LONGEST_BACK_OFF_SECONDS, self._now() + _LONGEST_BACK_OFF_SECONDS))
        self._begin_pass()
        if failures and concerns_all:
            raise next(iter(failures.values()))

    def _begin_pass(self) -> None:
        self._failures: dict[tuple[str, str], ConnectException] = {}
        self._has_worked = False
        self._lost_seconds = 0.0

    def _must_wait(self, connector: str, kind: str) -> bool:
        _, until = self._waits.get((connector, kind), (0.0, float("-inf")))
        return self._lost_seconds > _MOST_LOST_SECONDS or self._now() < until

    def _call(self, connector: str, change: Callable[[], object], kind: str) -> None:
        key, begun = (connector, kind), self._now()
        try:
            change()
        except Exception as error:  # an error of one connector must not affect the others
            if self._last.get(key) != (line := error_line(error)):
                _log.warning("Connector %s: %s", connector, line)
                _log.debug("Connector %s failed", connector, exc_info=True)
            self._last[key] = line
            if isinstance(error, ConnectException) and error.retriable:
                self._failures[key] = error
                self._lost_seconds += self._now() - begun
                seconds = min(2 * self._waits.get(key, (0.5, 0.0))[0], _LONGEST_BACK_OFF_SECONDS)
                self._waits[key] = (seconds, self._now() + seconds)
        else:
            self._has_worked = True
            self._last.pop(key, None)
            self._waits.pop(key, None)


def _start_thread(change: Callable[[], object]) -> "Future[object]":
    outcome: Future[object] = Future()

    def run() -> None:
        try:
            outcome.set_result(change())
        except BaseException as error:  # Future.result raises it again
            outcome.set_exception(error)

    threading.Thread(target=run, name="connect-change", daemon=True).start()
    return outcome
