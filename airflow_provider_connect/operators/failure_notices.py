"""Notices of failures in a run that stays. Such a run fails only at its end, so its callbacks are also called when something fails."""

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from airflow.sdk.exceptions import AirflowException

from airflow_provider_connect.errors import last_line
from airflow_provider_connect.runtime.spark.run_directory import RunDirectory

_CHECK_SECONDS = 1.0

_log = logging.getLogger(__name__)


@contextmanager
def notices_of_failures(task: Any, directory: RunDirectory, context: Mapping[str, Any]) -> Iterator[None]:
    """Until the end of the block, call the ``on_failure_callback`` of ``task``, an operator, when the connector or one of its tasks fails.
    A failure that lasts causes one call. The callbacks' context has the failure as its exception, and the operator its trace."""
    is_over = threading.Event()

    def watch() -> None:
        known = set[str]()
        while not is_over.wait(_CHECK_SECONDS):
            failures = directory.failures()
            if new := [trace for trace in failures if trace not in known]:
                task.failure_trace = "\n".join(new)
                call_back(task, {**context, "exception": AirflowException(f"Connector {task.connector}: {last_line(new[0])}")})
            known = set(failures)

    thread = threading.Thread(target=watch, name="failures", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def call_back(task: Any, context: Mapping[str, Any]) -> None:
    """Call the ``on_failure_callback`` of ``task``, an operator."""
    given = task.on_failure_callback or ()
    for callback in given if isinstance(given, list | tuple) else (given,):
        try:
            callback(context)
        except Exception:  # the callback is the DAG author's code; the run continues
            _log.exception("Connector %s: a callback for its failure has failed", task.connector)
