"""Starts the JVM with Kafka Connect's worker in which a connector's Java plugins run, for the plan and for each task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from airflow_provider_connect.errors import ConfigException, RetriableException
from airflow_provider_connect.runtime.config.dag_settings import java_heap
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.java.bounded.runs import SINK_FLUSH_MS
from airflow_provider_connect.runtime.java.catalog.manifests import SETTING, allowed_locations
from airflow_provider_connect.runtime.java.config.connector import java_config, java_settings
from airflow_provider_connect.runtime.java.jvm.class_data import connect_class_data
from airflow_provider_connect.runtime.java.jvm.connect_worker import ConnectWorker
from airflow_provider_connect.runtime.java.jvm.host import JavaHost
from airflow_provider_connect.runtime.java.jvm.jvm import CALL_SECONDS, Jvm
from airflow_provider_connect.runtime.java.jvm.runtime_jars import runtime_jars
from airflow_provider_connect.runtime.spark.cache import cache_directory
from airflow_provider_connect.runtime.spark.java_runtime import find_java
from airflow_provider_connect.runtime.worker.bounded_call import CallOverdueException, within
from airflow_provider_connect.runtime.worker.task.checked_connector import CheckedConnector, invalid_config
from airflow_provider_connect.runtime.worker.task.task_configs import publishable_configs

_LINE_SECONDS: Final = 10.0
_Returned = TypeVar("_Returned")


def start_connect_worker(
    settings: WorkerSettings, checked: CheckedConnector, locations: Sequence[str], *, hide: Callable[[str], str]
) -> ConnectWorker:
    """Start a JVM with Kafka Connect's worker that may load the plugins at ``locations``. The caller closes it.

    Raises ConfigException for a location that the worker does not allow and for an invalid heap size. Raises ConnectException if Java or
    Connect's jars are missing, and JavaException if Connect refuses the settings.
    """
    allowed = allowed_locations(settings.values)
    for location in locations:
        if not allowed(Path(location)):
            raise ConfigException(f"A Java plugin of the config is in {location}, which the worker setting {SETTING} does not name")
    cache = cache_directory()
    runtime = find_java(cache=cache)
    heap = java_heap(settings.values, checked.resolved)
    jars = runtime_jars(cache, runtime)
    seconds = max(CALL_SECONDS, settings.plugin_plan_timeout_ms / 1000)
    seconds += settings.task_shutdown_graceful_timeout_ms / 1000  # longer, because a call may wait for the end of a task
    jvm = Jvm(
        runtime,
        jars,
        heap=heap,
        hide=hide,
        class_data=connect_class_data(cache, runtime, jars),
        call_seconds=seconds,
        title=f"{checked.plugin.class_name} ({checked.plugin.origin})",
    )
    try:
        flush = {} if checked.is_source else {"offset.flush.interval.ms": str(SINK_FLUSH_MS)}  # a sink's run ends after commits
        return ConnectWorker(jvm, {**java_settings(settings), **flush}, [Path(location) for location in locations])
    except BaseException:
        jvm.kill()
        raise


def start_valid_connector(
    checked: CheckedConnector, settings: WorkerSettings, *, is_valid: bool, mask: Callable[[str], str]
) -> tuple[ConnectWorker, Mapping[str, str]]:
    """Start a JVM, and the connector in it. Returns the worker, which the caller closes, and the config as the connector has it. Parameters
    and errors: see ``java_task_configs``."""
    worker = start_connect_worker(settings, checked, checked.plugins.locations(), hide=mask)
    try:
        config = java_config(checked.name, checked.resolved)
        if not is_valid and (errors := worker.validation_errors(config)):
            raise invalid_config(checked.name, map(mask, errors))
        _limited(worker, checked, settings, lambda: worker.start_connector(checked.name, config), "to start")
    except BaseException:
        worker.close()
        raise
    return worker, config


def started_task_configs(
    worker: ConnectWorker, checked: CheckedConnector, config: Mapping[str, str], settings: WorkerSettings
) -> list[Mapping[str, str]]:
    """The configs of the tasks that the started connector needs now, as they are published. Raises JavaException for an exception of the
    connector, RetriableException if its JVM has ended or it exceeds ``plugin.plan.timeout.ms``."""
    generated = _limited(
        worker, checked, settings, lambda: worker.task_configs(checked.name, config, is_source=checked.is_source), "to name its tasks"
    )
    return publishable_configs(checked, generated, settings)


def line_within(worker: ConnectWorker, connector: str) -> str:
    """The line of a plugin that runs now. Never raises."""
    try:
        return within(_LINE_SECONDS, lambda: worker.line_of_plugin(connector), f"search of the line of connector {connector}")
    except Exception:  # (the JVM has ended, or does not answer)
        return "an unknown line"


def _limited(
    worker: ConnectWorker, checked: CheckedConnector, settings: WorkerSettings, act: Callable[[], _Returned], doing: str
) -> _Returned:
    """Call ``act``, which runs code of the connector. After ``plugin.plan.timeout.ms``, kill the JVM and raise RetriableException."""
    seconds, plugin = settings.plugin_plan_timeout_ms / 1000, checked.plugin
    try:
        return within(seconds, act, f"plan of connector {checked.name}")
    except CallOverdueException:
        line = line_within(worker, checked.name)
        worker.jvm.kill()
        raise RetriableException(
            f"{plugin.class_name} ({plugin.origin}) took more than the {seconds:g} s of plugin.plan.timeout.ms {doing}, and its JVM was "
            f"ended. It was then at {line}. A later try may succeed."
        ) from None


def java_task_configs(
    checked: CheckedConnector, settings: WorkerSettings, host: JavaHost | None, *, is_valid: bool, mask: Callable[[str], str]
) -> list[Mapping[str, str]]:
    """The task configs of a Java connector, as they are published. Kafka Connect first validates the config, unless the config ``is_valid``
    because tasks were planned from it before. Kafka Connect then asks the connector for the task configs. ``host`` keeps the JVM for a
    task. None: the JVM is closed.

    Raises ConfigException with the errors that Connect finds, JavaException for an exception of the connector.
    """
    worker, config = start_valid_connector(checked, settings, is_valid=is_valid, mask=mask)
    try:
        configs = started_task_configs(worker, checked, config, settings)
        worker.stop_connector(checked.name)
    except BaseException:
        worker.close()
        raise
    if host is None:
        worker.close()
    else:
        host.keep(worker)
    return configs
