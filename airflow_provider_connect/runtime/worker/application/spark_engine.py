"""The engine that runs tasks with Spark, each as a job with one partition in a Python worker. A task that works with data frames runs in a
thread of the driver. This is the only module here that knows Spark.

Two measures save time. py4j's numpy converters, which would import pandas, numpy and pyarrow in the driver, are removed before the
SparkContext starts. Stopping the JVM's context directly saves the second for which Python's stop waits.
"""

from __future__ import annotations

import logging
import math
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from airflow_provider_connect.errors import ConfigException, RetriableException
from airflow_provider_connect.runtime.config.dag_settings import ENGINE, PROCESS, application_key
from airflow_provider_connect.runtime.config.masking import Mask
from airflow_provider_connect.runtime.java.catalog.manifests import SETTING, allowed_locations
from airflow_provider_connect.runtime.model.log_lines import KeptLines, LineReader, write_logs
from airflow_provider_connect.runtime.model.run import TaskResult
from airflow_provider_connect.runtime.plugins.loading.plugin_path import unpacked_paths, write_archive
from airflow_provider_connect.runtime.worker.application.task_threads import TaskThreads
from airflow_provider_connect.runtime.worker.task.task_payload import TaskPayload, refuse_second_attempt

if TYPE_CHECKING:
    from pyspark import SparkContext


_PLUGINS: Final = "connect-plugins"


class SparkEngine:
    """One SparkContext. ``run`` may be called from several threads at the same time. If all cores are busy, a job waits."""

    def __init__(self, application: str, mask: Mask | None = None, *, is_shared: bool = False) -> None:
        """``mask`` hides the secrets of tasks that run in this process, and masks the process's output. ``is_shared``: the process is not
        killed when tasks that run in it exceed their memory limit, because it hosts other connectors."""
        self._context = _context(application)
        self._threads = TaskThreads(mask or Mask(), has_memory_limit=not is_shared)
        self._engine_key = application_key(application, "engine") if is_shared else ENGINE
        self._lock = threading.Lock()
        self._archives: dict[tuple[str, ...], str] = {}  # the sent archives, by the locations of their plugins
        self._staying = 0

    @property
    def is_local(self) -> bool:
        return str(self._context.master).startswith("local")

    def run(self, payload: TaskPayload) -> TaskResult:
        """Run the task as a Spark job. Raises if the job is lost because its Python worker or its executor died."""
        if payload.needs_spark:
            return self._threads.run(payload)
        if not payload.stays:
            return self._run_job(payload)
        with self._core(payload):
            return self._run_job(payload)

    def _run_job(self, payload: TaskPayload) -> TaskResult:
        name = f"{payload.connector}-{payload.task}"
        self._context.setLocalProperty("spark.job.description", name)
        run = body
        if not self.is_local:
            archive = self._send(payload.locations)
            allowed = allowed_locations(payload.settings)
            java = [allowed(Path(path)) for path in payload.locations]  # decided here, because links lead elsewhere on another machine
            run = partial(body, sent=java, archive=archive, keeps_log=True)
        result, *lines = self._context.parallelize([payload], 1).mapPartitions(run).collect()
        reader = LineReader()
        for line in lines:
            reader.read(line)
        assert isinstance(result, TaskResult)
        return result

    @contextmanager
    def _core(self, payload: TaskPayload) -> Iterator[None]:
        """Count a task that stays, which occupies a core. Raises ConfigException if the connector's tasks can never run on this machine at
        the same time, RetriableException if other connectors occupy the cores. The task would not start."""
        cores = self._context.defaultParallelism if self.is_local else math.inf
        reason = f"the run stays, so each task needs a core of its own, and the master {self._context.master} has {cores}"
        fix = f"write more cores into the Spark connection, or set {self._engine_key}={PROCESS} to run without Spark"
        if payload.hosted > cores:
            raise ConfigException.of("tasks.max", str(payload.hosted), f"{reason}: lower tasks.max, {fix}")
        with self._lock:
            if self._staying >= cores:
                raise RetriableException(f"No core is free: {reason}, and other tasks occupy them. For the application's next run, {fix}")
            self._staying += 1
        try:
            yield
        finally:
            with self._lock:
                self._staying -= 1

    def _send(self, locations: Sequence[str]) -> str:
        """Have Spark unpack the plugins next to each executor's other files. Returns the name of the folder. Connectors with the same
        plugins share it.

        Executors fetch the archive from this host. Spark removes it at the end.
        """
        from pyspark import SparkFiles

        if not locations:
            return ""
        with self._lock:
            if (sent := self._archives.get(tuple(locations))) is not None:
                return sent
            name = f"{_PLUGINS}-{len(self._archives)}"
            archive = os.path.join(SparkFiles.getRootDirectory(), f"{name}.zip")
            try:
                write_archive(locations, archive)
            except OSError as error:
                raise RetriableException(
                    f"The plugins that this run began with cannot be read, to be sent to executors: {error}"
                ) from error
            self._context.addArchive(f"{archive}#{name}")
            self._archives[tuple(locations)] = name
            return name

    def stop(self) -> None:
        """Stop the JVM's context, without the second that ``SparkContext.stop`` sleeps. The process must end right after this call."""
        self._context._jsc.sc().stop()


def body(
    payloads: Iterable[TaskPayload], *, sent: Sequence[bool] = (), archive: str = "", keeps_log: bool = False
) -> Iterator[TaskResult | str]:
    """Run the tasks. Spark calls this in the Python worker. The plugin locations of the run came with the job, in the folder ``archive``.
    ``sent`` states for each location whether its Java plugins are allowed. ``keeps_log``: log lines follow each result, because the driver
    does not have the worker's output."""
    from pyspark import SparkFiles, TaskContext

    context = TaskContext.get()
    refuse_second_attempt(context.attemptNumber() if context is not None else 0)
    for given in payloads:
        payload = _unpacked(given, SparkFiles.get(archive), sent) if sent else given
        if payload.locations:
            from airflow_provider_connect.runtime.plugins.loading.plugin_loader import prepend_native_locations

            prepend_native_locations(payload.locations)
        # imported after the locations are set; also, the driver, which sends this function, needs no Arrow
        from airflow_provider_connect.runtime.worker.application.task_loop import run_payload

        if not keeps_log:
            yield run_payload(payload, has_memory_limit=True)
            continue
        write_logs()
        kept = KeptLines()
        logging.getLogger().addHandler(kept)
        yield run_payload(payload, has_memory_limit=True)
        logging.getLogger().removeHandler(kept)
        yield from kept.lines()


def _unpacked(payload: TaskPayload, root: str, allowed: Sequence[bool]) -> TaskPayload:
    """The payload with the locations in ``root``, which came with the job, instead of the driver's locations. ``allowed`` is ``sent`` of
    ``body``."""
    paths = unpacked_paths(root, payload.locations)
    folders = [os.path.dirname(path) for path in paths]
    of_java = ",".join(folder for folder, is_allowed in zip(folders, allowed, strict=True) if is_allowed)
    settings = {**payload.settings, "plugin.path": ",".join(folders), SETTING: of_java}
    return replace(payload, settings=settings, locations=paths)


def _context(connector: str) -> SparkContext:
    from py4j import protocol
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import types  # registers the converters that the next line removes  # noqa: F401

    converters = protocol.INPUT_CONVERTER
    converters[:] = [converter for converter in converters if not type(converter).__name__.startswith("Numpy")]
    conf = SparkConf().setAppName(f"connect-{connector}")
    return SparkContext.getOrCreate(conf)


def exit_at_once(code: int) -> None:
    """End the process without the interpreter's clean-up, which waits for the JVM."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def start_engine(
    application: str, started: list[SparkEngine], mask: Mask | None = None, *, is_shared: bool = False
) -> Callable[[TaskPayload], TaskResult]:
    """Start the engine and return a function that runs tasks. Adds the engine to ``started``. The owner of ``started`` stops the engine."""
    engine = SparkEngine(application, mask, is_shared=is_shared)
    started.append(engine)
    return engine.run
