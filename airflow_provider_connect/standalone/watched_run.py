"""The process of one run of ``connect-run --watch``. It loads this package's modules before the run begins, but no plugin.

``watch`` starts the process in advance, with the arguments of ``connect-run``. A line on standard input begins the run. The end of standard
input ends the run after its current batch.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from importlib import import_module
from pathlib import Path
from typing import BinaryIO, Final

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.plugins.loading.plugin_path import locations
from airflow_provider_connect.standalone import one_run

END_SECONDS: Final = 10.0
"""The time within which a run must end after its current batch."""

_PACKAGE: Final = "airflow_provider_connect"
_MODULES: Final = (
    *("standalone.preview", "runtime.worker.application.task_body", "runtime.worker.task.source_runner", "runtime.worker.task.sink_runner"),
    *("runtime.plugins.catalog.location_reader", "runtime.plugins.loading.plugin_loader", "converters.json.converter", "converters.plain"),
    *("sdk.functions.source", "sdk.functions.sink", "sdk.functions.transformation"),
)


def main() -> None:
    """End the process with the exit code of ``connect-run``."""
    asked = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # for the connector's code
    options = one_run.parse_arguments(None)
    if not _has_compiled_plugins(options.worker):
        _load()
    if not asked.readline():
        return
    sys.dont_write_bytecode = True  # Python's cache would miss a change within a second that keeps the file's size
    threading.Thread(target=_end_with_input, args=(asked,), name="watch", daemon=True).start()
    one_run.main()


def _load() -> None:
    for name in _MODULES:
        import_module(f"{_PACKAGE}.{name}")
    import_module("pyarrow").array([None])  # this loads pandas, if it is installed


def _has_compiled_plugins(worker: Path | None) -> bool:
    """Whether plugins may have to be loaded before Arrow (``plugins.loading.native_locations``)."""
    try:
        found, _ = locations(WorkerSettings.of(one_run.read_worker(worker)).plugin_path)
        return any(location.is_native() for location in found)
    except (ConnectException, OSError):  # the run reports the error
        return False


def _end_with_input(asked: BinaryIO) -> None:
    asked.read()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(END_SECONDS)
    os._exit(one_run.SIGNALLED)


if __name__ == "__main__":
    main()
