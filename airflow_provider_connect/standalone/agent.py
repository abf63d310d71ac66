"""``connect-standalone worker.properties connector.properties …``: Kafka Connect's standalone worker in one process, with its REST API.

Configs are kept in memory, and source offsets in the file ``offset.storage.file.filename``. On SIGTERM or SIGINT, each task ends after its
current batch, with its offsets committed. A second signal ends the process immediately.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.rest.server import RestListener, rest_server
from airflow_provider_connect.runtime.config.config_providers import warn_open_file_providers
from airflow_provider_connect.runtime.config.masking import Mask, mask_output
from airflow_provider_connect.runtime.model.log_lines import escape_unprintable, quiet_libraries
from airflow_provider_connect.runtime.plugins.probe import PluginProbe
from airflow_provider_connect.runtime.stores.admin_connection import server_info
from airflow_provider_connect.runtime.worker.task.memory_limit import SharedMemoryLimit
from airflow_provider_connect.standalone.files import open_backing, read_connector_file, read_properties, standalone_settings
from airflow_provider_connect.standalone.worker import StandaloneWorker

ENDED, WRONG, FAILED = 0, 2, 3
"""Exit codes: ended by a signal; invalid files or settings; the start failed (Connect's own code if a connector cannot be created)."""

_IDLE_SECONDS = 60.0  # after this time, the process in which plugins validate configs ends: it needs 35 MB

log = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> None:
    """The console script. Ends the process."""
    parser = argparse.ArgumentParser(prog="connect-standalone", description=__doc__.partition("\n")[0])
    parser.add_argument("worker", type=Path, metavar="worker.properties", help="the worker's settings, as Kafka Connect names them")
    parser.add_argument("connectors", type=Path, nargs="*", metavar="connector.properties", help="configs: properties, or JSON")
    options = parser.parse_args(arguments)
    escape_unprintable(sys.stdout)
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    quiet_libraries()
    ends, mask = _end_signal(), Mask()
    mask_output(mask)
    try:
        run_agent(read_properties(options.worker), options.connectors, ends, mask)
        code = ENDED
    except ConnectException as error:
        log.error("%s", error.message)  # noqa: TRY400  (the message has the reason)
        code = WRONG if isinstance(error, ConfigException) else FAILED
    sys.stdout.flush()
    os._exit(code)  # without waiting for clients' threads and overdue tasks


def run_agent(properties: Mapping[str, str], connectors: Sequence[Path], ends: threading.Event, mask: Mask) -> None:
    """Run the worker until ``ends`` is set. ``mask`` gets each secret before the code that uses it is called. If the worker cannot start,
    raises ConnectException, and no task is left running."""
    files = [read_connector_file(path) for path in connectors]
    settings = standalone_settings(properties)
    listener = RestListener.of(settings.values)
    warn_open_file_providers(settings.originals)
    with ExitStack() as opened:
        backing = open_backing(settings, opened)
        probe = PluginProbe(settings, idle_seconds=_IDLE_SECONDS)
        opened.callback(probe.close)
        memory_limit = opened.enter_context(SharedMemoryLimit("The standalone worker", settings.task_memory_max))
        worker = StandaloneWorker(
            settings, backing, probe, worker_id=f"{listener.host}:{listener.port}", mask=mask, memory_limit=memory_limit
        )
        opened.enter_context(worker)
        rest = rest_server(settings.values, herder=lambda: worker.herder, info=lambda: server_info(settings))
        opened.enter_context(rest)
        log.info("Kafka Connect standalone worker started; its REST API is at %s", rest.url)
        for asked in files:
            worker.put_connector(asked.name, asked.config, asked.initial_state)
            log.info("Created connector %s", asked.name)
        ends.wait()
        log.info("Kafka Connect standalone worker stopping")
    log.info("Kafka Connect standalone worker stopped")


def _end_signal() -> threading.Event:
    """The event is set by the first SIGTERM or SIGINT. The second signal ends the process."""
    ends = threading.Event()

    def end(number: int, _: object) -> None:
        if ends.is_set():
            os._exit(128 + number)
        ends.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    return ends


if __name__ == "__main__":
    main()
