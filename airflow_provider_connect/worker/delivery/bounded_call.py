"""A call into native code that may never come back, bounded in time. Knows nothing of Kafka."""

from __future__ import annotations

import threading
from collections.abc import Callable

from airflow_provider_connect.errors import RetriableException


def within(seconds: float, act: Callable[[], object], doing: str) -> None:
    """``act()`` in a thread of its own; what it raises comes out.

    RetriableException after ``seconds``: the thread is left behind, and ends with the process. So ``act`` must be a call whose late
    success does no harm.
    """
    raised: list[BaseException] = []

    def run() -> None:
        try:
            act()
        except BaseException as error:  # (raised again below)
            raised.append(error)

    thread = threading.Thread(target=run, name=doing, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise RetriableException(f"{doing[:1].upper()}{doing[1:]} took more than {seconds:g} s. A later try may succeed.")
    if raised:
        raise raised[0]
