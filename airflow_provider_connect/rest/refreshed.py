"""A value that many requests want and that takes long to make: each is given what is known, and a thread makes it anew behind them.

Knows nothing of what the value is. A value that is not asked for is not made.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

_T = TypeVar("_T")
_SHARE: Final = 20
"""The thread rests so many times as long as it worked, so that a value that takes long to make is older rather than dear."""

_log = logging.getLogger(__name__)


class Refreshed(Generic[_T]):
    """See the module. ``make`` may raise: the value is ``unknown`` then, as it is before the first time. ``seconds``: how old it may be
    before it is made anew. ``name`` is in the log. ``now`` is a clock in seconds. Safe to share between threads."""

    def __init__(
        self, name: str, make: Callable[[], _T], unknown: _T, *, seconds: float, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._name, self._make, self._unknown, self._seconds, self._now = name, make, unknown, seconds, now
        self._value, self._due = unknown, float("-inf")
        self._making = threading.Lock()

    def known(self) -> _T:
        """The value that was made last, at once."""
        if self._now() >= self._due and self._making.acquire(blocking=False):
            try:
                threading.Thread(target=self._renew, name=f"connect-{self._name}", daemon=True).start()
            except RuntimeError:  # the interpreter ends, or has no room for a thread
                self._making.release()
        return self._value

    def _renew(self) -> None:
        began = self._now()
        try:
            self._value = self._make()
        except Exception as error:  # of any store or database; the next time may be better
            self._value = self._unknown
            _log.warning("%s cannot be read: %s", self._name, error)
        finally:
            ended = self._now()
            self._due = ended + max(self._seconds, _SHARE * (ended - began))
            self._making.release()
