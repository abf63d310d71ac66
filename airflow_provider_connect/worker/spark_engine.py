"""Spark as what runs tasks: each is a job of one partition, whose body is a Python worker. The only module here that knows Spark.

Two start-up measures live here because they must precede the SparkContext: without the numpy converters py4j imports pandas, numpy and
pyarrow in the driver at its first call with an argument, and the JVM's own stop saves the second that Python's waits.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from airflow_provider_connect.model.run import TaskResult
from airflow_provider_connect.worker.task_payload import TaskPayload, refuse_second_attempt

if TYPE_CHECKING:
    from pyspark import SparkContext


class SparkEngine:
    """One SparkContext. ``run`` may be called from several threads at once; jobs beyond the free cores wait their turn."""

    def __init__(self, connector: str) -> None:
        self._context = _context(connector)

    @property
    def is_local(self) -> bool:
        return str(self._context.master).startswith("local")

    def run(self, payload: TaskPayload) -> TaskResult:
        """The task as a Spark job. Raises when the job is lost: its Python worker or its executor died."""
        name = f"{payload.connector}-{payload.task}"
        self._context.setLocalProperty("spark.job.description", name)
        results: list[TaskResult] = self._context.parallelize([payload], 1).mapPartitions(body).collect()
        return results[0]

    def stop(self) -> None:
        """Stop the JVM's context, without the second that ``SparkContext.stop`` sleeps. The process must end right after."""
        self._context._jsc.sc().stop()


def body(payloads: Iterable[TaskPayload]) -> Iterator[TaskResult]:
    """What Spark calls in the Python worker."""
    from pyspark import TaskContext

    from airflow_provider_connect.worker.task_body import run_task  # here: the driver, which ships this function, needs no Arrow

    context = TaskContext.get()
    refuse_second_attempt(context.attemptNumber() if context is not None else 0)
    for payload in payloads:
        yield run_task(payload)


def _context(connector: str) -> SparkContext:
    from py4j import protocol
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import types  # registers the converters that the next line takes out  # noqa: F401

    converters = protocol.INPUT_CONVERTER
    converters[:] = [converter for converter in converters if not type(converter).__name__.startswith("Numpy")]
    conf = SparkConf().setAppName(f"connect-{connector}")
    return SparkContext.getOrCreate(conf)


def exit_at_once(code: int) -> None:
    """End the process without the interpreter's clean-up, which waits for the JVM."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def starter(connector: str, made: list[SparkEngine]) -> Callable[[TaskPayload], TaskResult]:
    """Make the engine, note it in ``made`` for the one who stops it, and return what runs tasks."""
    engine = SparkEngine(connector)
    made.append(engine)
    return engine.run
