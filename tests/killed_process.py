"""Processes that tests have killed. Each is forked from a process that has imported what they need: two of three seconds of a start."""

import functools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Mapping
from multiprocessing.context import ForkServerContext
from typing import Any

from tests.waiting import HANG_SECONDS

IMPORTED = ("tests.integration.worker.killed_run", "tests.integration.herder.killed_change", "tests.e2e.killed_run")


def run_to_kill(work: Callable[..., object], *arguments: Any) -> None:
    """Call ``work``, a function of a module, in a process of its own. Returns when the process is dead; it must have been killed."""
    process = _context().Process(target=_work, args=(dict(os.environ), work, arguments))
    process.start()
    try:
        process.join(HANG_SECONDS)
        assert process.exitcode is not None, f"still alive after {HANG_SECONDS} s"
        assert process.exitcode == -signal.SIGKILL, f"ended with {process.exitcode}, and was not killed"
    finally:
        process.kill()


def _work(environment: Mapping[str, str], work: Callable[..., object], arguments: tuple[Any, ...]) -> None:
    assert threading.active_count() == 1
    os.environ.clear()
    os.environ.update(environment)
    work(*arguments)


@functools.cache
def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(IMPORTED))
    return context
