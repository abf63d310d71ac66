"""What an iterator gives, taken by a thread of its own a little ahead of whoever asks. Knows nothing of databases.

Reading waits for the database, what follows is computing: so the two go on at once, and a statement that takes minutes before its first row
holds nobody up.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

T = TypeVar("T")
_AHEAD: Final = 2
_LOOK_SECONDS: Final = 0.2
_END_SECONDS: Final = 10.0


class NotYet(Exception):
    """Nothing came in time; ask again."""


class ReadAhead(Generic[T]):
    """``next`` takes the items one by one. ``close`` must be called, and waits for the thread: ``interrupt`` makes the source end soon."""

    def __init__(self, source: Iterator[T], interrupt: Callable[[], None]) -> None:
        self._source = source
        self._interrupt = interrupt
        self._items: queue.Queue[T | BaseException | None] = queue.Queue(_AHEAD)
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._read, name="jdbc-read-ahead", daemon=True)
        self._thread.start()

    def next(self, seconds: float) -> T | None:
        """The next item; None after the last. Raises NotYet when there was none for so long, and whatever the source raised."""
        try:
            item = self._items.get(timeout=seconds)
        except queue.Empty:
            raise NotYet from None
        if isinstance(item, BaseException):
            raise item
        return item

    def close(self) -> bool:
        """End the thread; what it read ahead is forgotten. False: it hangs where nothing can reach it, and still uses the source."""
        if self._thread.is_alive():
            self._is_closed.set()
            self._interrupt()
            self._thread.join(_END_SECONDS)
        return not self._thread.is_alive()

    def _read(self) -> None:
        try:
            for item in self._source:
                if not self._put(item):
                    return
            self._put(None)
        except BaseException as error:  # (for the thread that asks)
            self._put(error)
        finally:
            self._source = iter(())  # a generator that was not used up ends here, not in whatever thread forgets it last

    def _put(self, item: T | BaseException | None) -> bool:
        while not self._is_closed.is_set():
            try:
                self._items.put(item, timeout=_LOOK_SECONDS)
            except queue.Full:
                continue
            return True
        return False
