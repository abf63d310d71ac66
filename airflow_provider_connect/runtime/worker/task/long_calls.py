"""Warns while a task's thread does not return to its loop. A warning contains the time since the last return, and the current line.

Neither the end of a run's time nor a signal interrupts a call of a plugin, so the log and the connector's note name the call.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from types import TracebackType

from airflow_provider_connect.runtime.worker.task.stop_signal import StopSignal

FIRST_SECONDS = 60.0
"""The time until the first warning. Each further warning about the same call follows after twice the time."""
END_SECONDS = 5.0
"""How long the task's end waits until the note is gone. It is written later if Kafka takes longer to answer."""
_PACKAGE = os.path.join(Path(__file__).parents[3], "")

log = logging.getLogger(__name__)


Note = Callable[[str | None, str | None], None]
"""Called with the new note and with the note that it replaces. None: no note, and any note."""


class LongCalls:
    """Watches the thread that enters it, until the thread leaves. The thread's loop polls ``stop`` between batches. ``note`` is called with
    each warning, and with None when the thread has returned. The task's end waits for ``note`` no longer than ``END_SECONDS``."""

    def __init__(self, stop: StopSignal, title: str, *, note: Note, first_seconds: float = FIRST_SECONDS) -> None:
        self._stop, self._title, self._note, self._first = stop, title, note, first_seconds
        self._watched = threading.get_ident()
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"long-calls-{title}", daemon=True)

    def __enter__(self) -> LongCalls:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._left.set()
        self._thread.join(END_SECONDS)

    def _watch(self) -> None:
        entered = time.monotonic()
        since, limit, noted = entered, self._first, None
        while not self._left.wait(max(since + limit - time.monotonic(), 0.0)):
            asked = self._stop.polled_at or entered
            if asked > since:
                since, limit = asked, self._first
                if noted is not None:
                    self._note(None, noted)
                    noted = None
                continue
            noted = f"{self._title}: no batch has ended for {limit:.0f} s; its thread is at {line_of(self._watched)}"
            log.warning("%s", noted)
            self._note(noted, None)
            limit *= 2
        if noted is not None:
            self._note(None, noted)


def line_of(thread: int) -> str:
    """The line of foreign code that this package has called, and the innermost line if it is another one: "orders.py:12 in fetch"."""
    frame = sys._current_frames().get(thread)
    if frame is None:
        return "its end"
    stack = traceback.extract_stack(frame)[::-1]
    outside = list(takewhile(lambda each: not each.filename.startswith(_PACKAGE), stack)) or stack[:1]
    innermost, outermost = (f"{Path(each.filename).name}:{each.lineno} in {each.name}" for each in (outside[0], outside[-1]))
    return outermost if len(outside) == 1 else f"{outermost}, and in it at {innermost}"
