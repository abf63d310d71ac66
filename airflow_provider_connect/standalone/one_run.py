"""``connect-run connector.properties``: one bounded run of one connector. For cron, Kubernetes jobs and other orchestrators.

With ``offset.storage.file.filename`` in the worker's settings, offsets are kept in that file, and delivery is at least once. Without this
setting, everything is kept on the internal topics of the group, as in Airflow's runs. Delivery is then exactly once if the connector
supports it.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, redirect_stdout, suppress
from itertools import dropwhile
from pathlib import Path
from typing import NoReturn

from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.runtime.config.config_providers import warn_open_file_providers
from airflow_provider_connect.runtime.config.masking import Mask, mask_output, secret_values
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.java.config.rules import SIGNAL_CHANNELS, refused_end
from airflow_provider_connect.runtime.java.jvm.host import JavaHost
from airflow_provider_connect.runtime.model.batches import refusals
from airflow_provider_connect.runtime.model.log_lines import escape_unprintable, quiet_libraries
from airflow_provider_connect.runtime.model.run import RunResult, RunSpec, RunState
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import PluginCatalog
from airflow_provider_connect.runtime.stores.backing import Backing
from airflow_provider_connect.runtime.stores.offset_file import SETTING
from airflow_provider_connect.runtime.worker.application.application import Application
from airflow_provider_connect.runtime.worker.application.task_threads import TaskThreads
from airflow_provider_connect.runtime.worker.errors.traces import line_of_author
from airflow_provider_connect.runtime.worker.missing import missing_of, warn_missing
from airflow_provider_connect.runtime.worker.task.checked_connector import (
    CheckedConnector,
    check_connector,
    check_outside,
    guarantee_of,
    warn_unused_settings,
)
from airflow_provider_connect.runtime.worker.task.stop_signal import StopReason
from airflow_provider_connect.standalone.files import (
    ConnectorFile,
    open_backing,
    read_connector_file,
    read_properties,
    standalone_settings,
    with_data_folder,
)
from airflow_provider_connect.standalone.watch import watch

DONE, FAILED, WRONG, LATER, SIGNALLED = 0, 1, 2, 75, 143
"""Exit codes.

- ``DONE``: the run is complete or had no work, or the rest is left for a later run, or for a newer run that took over.
- ``FAILED``: the run FAILED, and a retry would fail, too.
- ``WRONG``: the config is invalid.
- ``LATER``: the run FAILED, but a retry may succeed (EX_TEMPFAIL).
- ``SIGNALLED``: a signal ended the run, with offsets committed (a shell's code for SIGTERM).
"""

PREVIEWED = 10
"""The number of records in a preview, if the command line has no number."""

_LOOPBACK = "127.0.0.1"
_PACKAGE = os.path.join(Path(__file__).parents[1], "")
_exit = os._exit
_OWN_CLASS = re.compile(r"\bairflow_provider_connect\.errors\.\w+: ")
log = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> None:
    """The console script. Ends the process."""
    options = parse_arguments(arguments)
    escape_unprintable(sys.stdout)
    stream = sys.stdout if options.preview is None else sys.stderr  # records are on standard output
    logging.basicConfig(stream=stream, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    quiet_libraries()
    try:
        if options.watch:
            watch(options.connector, options.worker, _preview_options(options))
            code = DONE
        else:
            code = _once(read_connector_file(options.connector), read_worker(options.worker), options.preview, with_steps=options.steps)
    except ConnectException as error:
        if options.preview is None and not isinstance(error, ConfigException):
            _print_failure(error.message)
        else:
            log.error("%s", error.message if options.preview is None else " ".join(error.message.split()))  # noqa: TRY400  (it has the reason)
        code = WRONG if isinstance(error, ConfigException) else LATER if error.retriable else FAILED
    sys.stdout.flush()
    _exit(code)  # without waiting for clients' threads


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The parsed arguments. None: parse the arguments of this process."""
    parser = argparse.ArgumentParser(prog="connect-run", description=__doc__.partition("\n")[0])
    parser.add_argument("connector", type=Path, help="the connector's config: properties, or JSON as Kafka Connect takes it")
    parser.add_argument("--worker", type=Path, metavar="worker.properties", help="the worker's settings; without it, the defaults")
    parser.add_argument("--preview", type=int, nargs="?", const=PREVIEWED, metavar="N", help="print the next N records, and write nothing")
    parser.add_argument("--steps", action="store_true", help="with --preview: print the first records before and after each transformation")
    parser.add_argument("--watch", action="store_true", help="run again after each change of the connector's code or properties")
    options = parser.parse_args(arguments)
    if options.steps and options.preview is None:
        parser.error("--steps needs --preview")
    return options


def _preview_options(options: argparse.Namespace) -> list[str]:
    """The options of a preview, for the process of one run."""
    if options.preview is None:
        return []
    return ["--preview", str(options.preview), *(["--steps"] if options.steps else [])]


def read_worker(path: Path | None) -> dict[str, str]:
    """The worker's settings from the file, or the defaults without a file. Raises ConfigException if the file cannot be read."""
    return with_data_folder({}, Path.cwd()) if path is None else read_properties(path)


def _once(connector: ConnectorFile, properties: Mapping[str, str], previewed: int | None, *, with_steps: bool) -> int:
    """Run the connector, or preview ``previewed`` records. Returns the exit code. The output contains no secret."""
    mask = Mask()
    mask_output(mask)
    _refuse_early_end()
    try:
        if previewed is None:
            return _exit_code(run_once(connector, properties, mask, has_memory_limit=True))
        settings = _settings(properties)
        warn_open_file_providers(settings.originals)
        with redirect_stdout(sys.stderr):  # output of the connector is not a record
            checked = check_connector(connector.name, connector.config, settings, {}, hide=mask.add)  # loads plugins before Arrow
        warn_unused_settings(checked, settings)
        from airflow_provider_connect.standalone.preview import print_preview

        print_preview(connector, settings, previewed, mask, with_steps=with_steps)
        return DONE
    except ConfigException:
        _log_broken_locations(connector, properties)
        raise


def _refuse_early_end() -> None:
    """If a connector's code calls ``os._exit(0)``, end the process with ``FAILED``, because the run is not complete."""
    own = os.getpid()

    def end(status: int) -> NoReturn:
        if status == DONE and os.getpid() == own:  # otherwise it is a forked child
            stack = dropwhile(lambda each: not each.filename.startswith(_PACKAGE), traceback.extract_stack())  # the console script
            _print_failure(f"The plugin's code called os._exit(0){line_of_author(''.join(traceback.format_list(list(stack))))}")
            status = FAILED
        _exit(status)

    os._exit = end


def _log_broken_locations(connector: ConnectorFile, properties: Mapping[str, str]) -> None:
    """If a plugin of the config is not found, log the unusable locations of ``plugin.path``: one of them may contain the plugin."""
    with suppress(ConfigException):
        catalog = PluginCatalog(_settings(properties).plugin_path)
        named = [text for key, text in connector.config.items() if key == "connector.class" or key.endswith((".type", ".converter"))]
        for broken in () if all(map(catalog.named, named)) else catalog.broken():
            log.warning("Plugin location %s: %s", broken.path, broken.reason)


def run_once(connector: ConnectorFile, properties: Mapping[str, str], mask: Mask, *, has_memory_limit: bool = False) -> RunResult:
    """Run the connector to the end of its data. If this is the main thread, SIGTERM and SIGINT end each task after its current batch, and a
    second signal ends the process.

    ``mask`` gets each secret before the code that uses it is called. With ``has_memory_limit``, the process is killed if its tasks need
    more memory than allowed.

    Raises ConfigException for invalid settings. Raises ConnectException if the state cannot be read.
    """
    settings = _settings(properties)
    warn_open_file_providers(settings.originals)
    mask.add(secret_values(settings.originals, settings.config_providers(), {}))
    with ExitStack() as opened:
        return _run(connector, settings, open_backing(settings, opened), mask, has_memory_limit=has_memory_limit)


def _settings(properties: Mapping[str, str]) -> WorkerSettings:
    return standalone_settings(properties) if properties.get(SETTING, "").strip() else WorkerSettings.of(properties)


def _run(connector: ConnectorFile, settings: WorkerSettings, backing: Backing, mask: Mask, *, has_memory_limit: bool) -> RunResult:
    """(1) Check the config. (2) Write it. (3) Run."""
    checked = check_connector(connector.name, connector.config, settings, {}, hide=mask.add)  # 1
    signals = {SIGNAL_CHANNELS: checked.resolved.get(SIGNAL_CHANNELS)}
    if checked.is_java and (reason := refused_end(checked.plugin.class_name, signals)) is not None:
        raise ConfigException.of("connector.class", checked.plugin.class_name, f"{reason}, in Airflow or in Connect(…); this run ends")
    guarantee_of(checked, settings, exactly_once=backing.exactly_once)
    _check_pipeline(checked, settings)
    check_outside(checked)
    warn_missing(connector.name, missing_of(checked.connector, mask))
    backing.ensure()
    with backing.configs() as configs:
        if configs.read().connector_config(connector.name) != dict(connector.config):
            configs.put_connector(connector.name, connector.config)  # 2
    spec = RunSpec(connector.name, settings.originals, run_id=f"connect-run-{int(time.time() * 1000)}")
    java = JavaHost()
    threads = TaskThreads(mask, java, backing, has_memory_limit=has_memory_limit)
    application = Application(spec, lambda: threads.run, host=_LOOPBACK, on_claim=lambda _: None, backing=backing, mask=mask, java=java)
    if threading.current_thread() is threading.main_thread():
        _end_at_signals(application)
    result = application.run()  # 3
    if warning := refusals(result.tasks):
        log.warning("Connector %s: %s", result.connector, warning)
    for task in result.tasks:
        log.info(
            "Connector %s task %d: %d records, %d bytes in %.2f s", result.connector, task.task, task.records, task.bytes, task.seconds
        )
    return result


def _check_pipeline(checked: CheckedConnector, settings: WorkerSettings) -> None:
    from airflow_provider_connect.runtime.worker.task.pipeline_setup import check_pipeline  # loads Arrow, so only after the plugins

    check_pipeline(checked, settings)


def _end_at_signals(application: Application) -> None:
    """At the second signal, the process ends, because the connector's code may never return."""
    is_ending = False

    def end(number: int, _: object) -> None:
        nonlocal is_ending
        if is_ending:
            os._exit(128 + number)
        is_ending = True
        application.request_end()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)


def _exit_code(result: RunResult) -> int:
    if result.state is RunState.FAILED:
        trace = next((task.trace for task in result.tasks if task.trace), "")
        _print_failure(f"{result.error}{line_of_author(trace)}")
        return LATER if result.retriable else FAILED
    if result.state is RunState.SKIPPED:
        log.info("Connector %s did not run: %s", result.connector, result.error)
    if result.state is RunState.STOPPED:
        reasons = list(dict.fromkeys(task.stopped_by for task in result.tasks if task.stopped_by)) or [str(result.error)]
        log.warning("Connector %s was ended before the end of what there is: %s", result.connector, "; ".join(reasons))
        return SIGNALLED if StopReason.ASKED_TO_END in reasons else DONE
    return DONE


def _print_failure(reason: str) -> None:
    """Print the last line of a run that FAILED, after the traces. Removes the names of this package's exception classes."""
    print(f"FAILED: {_OWN_CLASS.sub('', ' '.join(reason.split()))}", flush=True)


if __name__ == "__main__":
    main()
