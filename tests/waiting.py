"""Waits for events. The pause between two polls grows, since a poll may open Kafka clients; a limit only ends what hangs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

HANG_SECONDS = 300.0 * float(os.environ.get("TEST_TIMEOUT_SCALE", "1"))
"""What has not come by then does not come, however busy the machine is."""
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS, _GROWTH = 0.02, 0.25, 1.25


def wait_until(
    condition: Callable[[], Any], what: str | Callable[[], str] = "", within_seconds: float = HANG_SECONDS
) -> Any:  # Any: as waited for
    """The first true answer of ``condition``. Fails after ``within_seconds``, with ``what`` in its message, which may be read only then."""
    deadline, pause_seconds = time.monotonic() + within_seconds, pauses()
    while not (answer := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_seconds:g} s: {(what() if callable(what) else what) or condition}")
        time.sleep(next(pause_seconds))
    return answer


def pauses() -> Iterator[float]:
    """The seconds between polls, from 20 to 250 ms, without end."""
    pause_seconds = _FIRST_PAUSE_SECONDS
    while True:
        yield pause_seconds
        pause_seconds = min(pause_seconds * _GROWTH, _LONGEST_PAUSE_SECONDS)
