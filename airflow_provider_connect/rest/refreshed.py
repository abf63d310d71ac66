"""A value that is slow to compute and that many requests need. Each request gets the last value; a thread renews the value in the
background.

Knows nothing of the value. A value that no request needs is not computed.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

_T = TypeVar("_T")
_SHARE: Final = 20
"""The pause between computations, as a multiple of their duration, so that a slow value is computed less often."""

_log = logging.getLogger(__name__)


class Refreshed(Generic[_T]):
    """The value is ``unknown`` before the first computation, and after an exception from ``make``. It is renewed when it is older than
    ``seconds``. ``name`` is for the log. ``now`` is a clock in seconds. Safe to share between threads."""

    def __init__(
        self, name: str, make: Callable[[], _T], unknown: _T, *, seconds: float, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._name, self._make, self._unknown, self._seconds, self._now = name, make, unknown, seconds, now
        self._value, self._due = unknown, float("-inf")
        self._making = threading.Lock()

    def known(self) -> _T:
        """The last value. Does not wait."""
        if self._now() >= self._due and self._making.acquire(blocking=False):
            try:
                threading.Thread(target=self._renew, name=f"connect-{self._name}", daemon=True).start()
            except RuntimeError:  # the interpreter ends, or cannot start a thread
                self._making.release()
        return self._value

    def _renew(self) -> None:
        began = self._now()
        try:
            self._value = self._make()
        except Exception as error:  # of any store or database; the next computation may succeed
            self._value = self._unknown
            _log.warning("%s cannot be read: %s", self._name, error)
        finally:
            ended = self._now()
            self._due = ended + max(self._seconds, _SHARE * (ended - began))
            self._making.release()
