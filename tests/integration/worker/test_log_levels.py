"""A log level that was requested of the whole cluster, in a run's driver and in the process of its task."""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from airflow_provider_connect.runtime.model.records import LoggerRecord
from airflow_provider_connect.runtime.model.run import RunState, TaskResult
from airflow_provider_connect.runtime.stores.config_store import ConfigStore
from airflow_provider_connect.runtime.worker.task.task_payload import TaskPayload
from tests.integration.worker.environment import RunEnvironment, make_topic, values_of
from tests.waiting import HANG_SECONDS

CONNECTORS_LOGGER = "tests.integration.worker.plugins"
DRIVERS_LOGGER = "airflow_provider_connect.runtime.worker.application.application"
BODY = """
import pickle, sys
from airflow_provider_connect.runtime.worker.application.task_body import run_task
sys.stdout.buffer.write(pickle.dumps(run_task(pickle.load(sys.stdin.buffer))))
"""


class TaskProcess:
    """Runs task bodies in processes of their own, as Spark's Python workers do, and keeps what they log."""

    def __init__(self, on_line: Callable[[str], None] = lambda _: None) -> None:
        self.lines: list[str] = []
        self._on_line = on_line

    def __call__(self, payload: TaskPayload) -> TaskResult:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        pipe, command = subprocess.PIPE, [sys.executable, "-c", BODY]
        with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            reading = threading.Thread(target=self._read, args=(process.stderr,))
            reading.start()
            process.stdin.write(pickle.dumps(payload))
            process.stdin.close()
            result: TaskResult = pickle.loads(process.stdout.read())
            reading.join(HANG_SECONDS)
        return result

    def _read(self, stream: Iterator[bytes]) -> None:
        for line in stream:
            self.lines.append(line.decode().rstrip())
            self._on_line(self.lines[-1])


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    """The levels of this process as they were."""
    before = {name: logging.getLogger(name).level for name in (CONNECTORS_LOGGER, DRIVERS_LOGGER)}
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


def put_level(environment: RunEnvironment, logger: str, level: str) -> None:
    with ConfigStore(environment.settings) as store:
        store.change(lambda _: [LoggerRecord(logger, level)])


def test_a_level_that_was_set_before_the_run_reaches_driver_and_task(environment: RunEnvironment, unique: str) -> None:
    quiet, loud = TaskProcess(), TaskProcess()
    config = environment.numbers(unique, until="10")
    assert environment.application(config, engine=quiet).run().state is RunState.DONE
    assert [line for line in quiet.lines if "DEBUG" in line] == []
    assert f"INFO {CONNECTORS_LOGGER}: task 0 reads 10 numbers" in quiet.lines
    put_level(environment, CONNECTORS_LOGGER, "debug")
    put_level(environment, DRIVERS_LOGGER, "TRACE")
    result = environment.application(config, engine=loud).run()
    assert (result.state, [task.records for task in result.tasks]) == (RunState.DONE, [0])
    assert f"DEBUG {CONNECTORS_LOGGER}: task 0 starts at 10" in loud.lines
    assert logging.getLogger(DRIVERS_LOGGER).level == 5
    assert len(values_of(environment.bootstrap, unique)) == 10


def test_a_task_that_runs_applies_a_later_level(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    process = TaskProcess()
    application = environment.application(environment.numbers(unique, until="100", size="1", poll_ms="100"), engine=process)
    running = threading.Thread(target=application.run)
    running.start()
    while not values_of(environment.bootstrap, unique):
        assert running.is_alive()
    put_level(environment, CONNECTORS_LOGGER, "DEBUG")
    running.join(HANG_SECONDS)
    debug = [line for line in process.lines if line.startswith("DEBUG")]
    assert debug[-1] == f"DEBUG {CONNECTORS_LOGGER}: task 0 polls at 99"
    assert f"DEBUG {CONNECTORS_LOGGER}: task 0 starts at 0" not in debug
