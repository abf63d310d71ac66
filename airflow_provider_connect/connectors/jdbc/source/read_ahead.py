"""The items of an iterator, which a separate thread reads slightly ahead of the caller. Knows nothing of databases.

The thread waits for the database while the caller computes. A statement that takes minutes before its first row does not block the caller.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

T = TypeVar("T")
_AHEAD: Final = 2
_AHEAD_BYTES: Final = 16 << 20
_END_SECONDS: Final = 10.0


class NotYet(Exception):
    """There is no item yet; call again."""


class ReadAhead(Generic[T]):
    """``next`` returns the items one by one. ``close`` must be called. ``close`` ends the iterator with ``interrupt``, and waits for the
    thread. ``size`` returns the bytes of an item. At most two items are read ahead, or only one if two would be larger than 16 MiB."""

    def __init__(self, source: Iterator[T], interrupt: Callable[[], None], *, size: Callable[[T], int] = lambda _: 0) -> None:
        self._source = source
        self._interrupt = interrupt
        self._size = size
        self._items: deque[tuple[T | BaseException | None, int]] = deque()
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._read, name="jdbc-read-ahead", daemon=True)
        self._thread.start()

    def next(self, seconds: float) -> T | None:
        """The next item, or None after the last one. Raises NotYet after ``seconds`` without an item, and the iterator's exceptions."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._items, seconds):
                raise NotYet
            item, _ = self._items.popleft()
            self._changed.notify()
        if isinstance(item, BaseException):
            raise item
        return item

    def close(self) -> bool:
        """End the thread and drop its items. False if the thread hangs, cannot be interrupted, and still uses the iterator."""
        if self._thread.is_alive():
            with self._changed:
                self._is_closed = True
                self._changed.notify_all()
            self._interrupt()
            self._thread.join(_END_SECONDS)
        return not self._thread.is_alive()

    def _read(self) -> None:
        try:
            for item in self._source:
                if not self._put(item, self._size(item)):
                    return
            self._put(None)
        except BaseException as error:  # for the calling thread
            self._put(error)
        finally:
            self._source = iter(())  # closes an unfinished generator in this thread, not in the thread that drops the last reference

    def _put(self, item: T | BaseException | None, size: int = 0) -> bool:
        """Add an item. False if ``close`` was called before there was room."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._has_room(size))
            if not self._is_closed:
                self._items.append((item, size))
                self._changed.notify()
            return not self._is_closed

    def _has_room(self, size: int) -> bool:
        return not self._items or (len(self._items) < _AHEAD and size + sum(waiting for _, waiting in self._items) <= _AHEAD_BYTES)
