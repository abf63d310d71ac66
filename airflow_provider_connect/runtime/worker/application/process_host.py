"""Hosts tasks of several connectors in this process, each in a thread of its own.

Started as a program by ``shared_processes``. It reads a pickled ``Setup`` from standard input. Its argument is the descriptor of a
connection to the driver, which sends numbered payloads, pickled. The process sends the result of each task in JSON, and once a second that
it is alive. It ends when the connection is closed.

Tasks take turns in the interpreter. When the process is busy, its busiest task leaves: it ends after its batch, and the driver runs it in a
process of its own.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Final

from airflow_provider_connect.errors import message_of, trace_of
from airflow_provider_connect.runtime.model.run import TaskResult
from airflow_provider_connect.runtime.model.states import State
from airflow_provider_connect.runtime.worker.task.task_payload import TaskPayload

if TYPE_CHECKING:
    from airflow_provider_connect.runtime.config.masking import Mask
    from airflow_provider_connect.runtime.stores.config_stream import ConfigStream
    from airflow_provider_connect.runtime.worker.task.memory_limit import SharedMemoryLimit
    from airflow_provider_connect.runtime.worker.task.stop_signal import HostConnection

ALIVE_SECONDS: Final = 1.0
BUSY_SECONDS: Final = 10.0
BUSY_SHARE: Final = 0.7  # of one core, which is what the interpreter's lock allows
_STEP_SECONDS = 0.2
_FIRST_RETRY_SECONDS, _LAST_RETRY_SECONDS = 1.0, 60.0

log = logging.getLogger(f"{__package__}.process_host")  # the module is a program


@dataclass(frozen=True, slots=True)
class Setup:
    """What all tasks of the process share: the worker's settings and their secrets, and the locations of plugins."""

    settings: Mapping[str, str]
    secrets: Mapping[str, str]
    locations: Sequence[str]

    def __repr__(self) -> str:
        return f"Setup({list(self.locations)})"


@dataclass(frozen=True, slots=True)
class Answer:
    """The end of the task with the number ``number``. ``leaves``: it continues in a process of its own."""

    number: int
    result: TaskResult
    leaves: bool = False

    def to_json(self) -> str:
        return json.dumps({"number": self.number, "leaves": self.leaves, "result": asdict(self.result)})

    @classmethod
    def from_json(cls, text: str) -> Answer:
        values = json.loads(text)
        return cls(values["number"], TaskResult(**values["result"]), values["leaves"])


class ProcessHost:
    """Hosts the tasks that come through ``connection``. ``mask`` receives the secrets of all tasks."""

    def __init__(self, connection: Connection, setup: Setup, *, memory_limit: SharedMemoryLimit, mask: Mask) -> None:
        from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings

        self._connection = connection
        self._settings = WorkerSettings.of(setup.settings, setup.secrets)
        self._memory_limit = memory_limit
        self._mask = mask
        self._sending = threading.Lock()
        self._running: dict[int, _RunningTask] = {}
        self._stream: Future[ConfigStream] = Future()
        self._is_closed = threading.Event()
        self._failure: Exception | None = None

    def serve(self) -> None:
        """Host tasks until the connection is closed. Raises the exception that ended the reading of the config topic."""
        following = threading.Thread(target=self._follow, name="config-stream", daemon=True)
        following.start()
        watched_until = time.monotonic() + BUSY_SECONDS
        alive_at = 0.0
        try:
            while self._failure is None:
                now = time.monotonic()
                if now >= alive_at:
                    alive_at = now + ALIVE_SECONDS
                    self._send("")
                if now >= watched_until:
                    if self._watched_seconds() > BUSY_SHARE * (now - watched_until + BUSY_SECONDS):
                        self._let_busiest_leave()
                    self._start_watch()
                    watched_until = now + BUSY_SECONDS
                if self._connection.poll(ALIVE_SECONDS):
                    number, payload = self._connection.recv()
                    self._start(number, payload)
            raise self._failure
        except (EOFError, OSError):
            log.debug("The driver has closed the connection")
        finally:
            self._is_closed.set()
            following.join(_STEP_SECONDS)

    def _follow(self) -> None:
        from airflow_provider_connect.runtime.stores.config_stream import ConfigStream

        retry = _FIRST_RETRY_SECONDS
        while not self._is_closed.is_set():
            try:
                stream = ConfigStream(self._settings)
            except Exception as error:  # (no broker; the tasks wait)
                log.warning("The config topic cannot be read, and is read again in %g s: %s", retry, self._mask(message_of(error)))
                self._is_closed.wait(retry)
                retry = min(2 * retry, _LAST_RETRY_SECONDS)
                continue
            with stream:
                self._stream.set_result(stream)
                try:
                    while not self._is_closed.is_set():
                        stream.poll(ALIVE_SECONDS)
                except Exception as error:  # (the topic was recreated: the process ends, and its tasks start again)
                    self._failure = error
            return

    def _start(self, number: int, payload: TaskPayload) -> None:
        task = _RunningTask(payload)
        self._running[number] = task
        threading.Thread(target=self._run, args=(number, task), name=f"Task {payload.connector}-{payload.task}", daemon=True).start()

    def _run(self, number: int, task: _RunningTask) -> None:
        try:
            result = self._result(task)
        except Exception as error:  # (a store that cannot be read or written)
            result = TaskResult(task.payload.task, State.FAILED, self._mask(trace_of(error)), retriable=True)
        del self._running[number]
        with suppress(OSError):  # the driver has ended
            self._send(Answer(number, result, task.has_left(result)).to_json())

    def _result(self, task: _RunningTask) -> TaskResult:
        from airflow_provider_connect.runtime.config.masking import Mask
        from airflow_provider_connect.runtime.model.log_levels import apply_levels
        from airflow_provider_connect.runtime.stores.config_stream import StreamBacking
        from airflow_provider_connect.runtime.worker.application.task_body import driver_host
        from airflow_provider_connect.runtime.worker.application.task_loop import run_payload
        from airflow_provider_connect.runtime.worker.task.stop_signal import StopReason

        payload = task.payload
        host = driver_host(payload, Mask(process=self._mask))
        task.begin(host.connection)
        if payload.known is not None:
            apply_levels(payload.known.log_levels().values())
        stream = self._opened_stream(task)
        if stream is None:
            return TaskResult(payload.task, stopped_by=StopReason.ASKED_TO_END)
        backing = StreamBacking(self._settings, stream, payload.connector)
        return run_payload(payload, replace(host, backing=backing, connection=host.connection and task, shared_limit=self._memory_limit))

    def _opened_stream(self, task: _RunningTask) -> ConfigStream | None:
        """Wait until the config topic can be read. None: the task has to end before that."""
        while not task.is_closed():
            with suppress(TimeoutError):
                return self._stream.result(_STEP_SECONDS)
        return None

    def _send(self, text: str) -> None:
        with self._sending:
            self._connection.send_bytes(text.encode())

    def _watched_seconds(self) -> float:
        """The CPU time of the tasks' own threads. Threads of Kafka's clients need no interpreter: without a broker, they are busy with
        connections, and a task that leaves would not help."""
        return sum(task.watched_seconds() for task in list(self._running.values()) if task.is_watched)

    def _start_watch(self) -> None:
        for task in list(self._running.values()):
            task.start_watch()

    def _let_busiest_leave(self) -> None:
        tasks = list(self._running.values())
        watched = [task for task in tasks if task.is_watched]  # a task that has just started is busy with its start
        if len(tasks) > 1 and watched:
            max(watched, key=_RunningTask.watched_seconds).leave()


class _RunningTask:
    """The connection of a task to its driver, with a second reason to end: the process is busy. Its methods may be called from any thread,
    but for ``begin``, which the task's own thread calls. ``is_watched``: its CPU time has been watched since ``start_watch``."""

    def __init__(self, payload: TaskPayload) -> None:
        self.payload = payload
        self._connection: HostConnection | None = None
        self._is_asked = False
        self._is_leaving = False
        self._clock: int | None = None
        self._watched_from = 0.0
        self.is_watched = False

    def begin(self, connection: HostConnection | None) -> None:
        self._connection = connection
        if hasattr(time, "pthread_getcpuclockid"):
            self._clock = time.pthread_getcpuclockid(threading.get_ident())

    def is_closed(self) -> bool:
        if self._connection is not None and self._connection.is_closed():
            self._is_asked = True
        return self._is_asked or self._is_leaving

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    @property
    def descriptor(self) -> int | None:
        return None if self._connection is None else self._connection.descriptor

    def leave(self) -> None:
        log.info("Task %s-%d is busy, and leaves for a process of its own", self.payload.connector, self.payload.task)
        self._is_leaving = True

    def has_left(self, result: TaskResult) -> bool:
        """Whether the task has ended for a process of its own, and not because its driver asked it to end."""
        from airflow_provider_connect.runtime.worker.task.stop_signal import StopReason

        return self._is_leaving and not self._is_asked and result.stopped_by == StopReason.ASKED_TO_END

    def start_watch(self) -> None:
        self._watched_from, self.is_watched = self._cpu_seconds(), self._clock is not None

    def watched_seconds(self) -> float:
        """The CPU time of the task's thread since ``start_watch``."""
        return self._cpu_seconds() - self._watched_from

    def _cpu_seconds(self) -> float:
        try:
            return 0.0 if self._clock is None else time.clock_gettime(self._clock)
        except OSError:  # the thread has ended
            return self._watched_from


def main() -> None:
    """Host tasks until the driver ends, and end the process, without the clean-up that waits for threads of clients."""
    connection = Connection(int(sys.argv[1]))
    setup: Setup = pickle.load(sys.stdin.buffer)
    if setup.locations:
        from airflow_provider_connect.runtime.plugins.loading.plugin_loader import prepend_native_locations

        prepend_native_locations(setup.locations)
    from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings  # after that: plugins may bring compiled code
    from airflow_provider_connect.runtime.worker.application.task_body import own_output
    from airflow_provider_connect.runtime.worker.task.memory_limit import SharedMemoryLimit

    mask = own_output(setup.secrets.values())
    limit = WorkerSettings.of(setup.settings, setup.secrets).task_memory_max
    code = 0
    with SharedMemoryLimit("A process of small tasks", limit, most=limit) as memory_limit:
        try:
            ProcessHost(connection, setup, memory_limit=memory_limit, mask=mask).serve()
        except Exception as error:  # (of the config topic)
            log.error("A process of small tasks ends: %s", mask(message_of(error)))  # noqa: TRY400  (masked)
            code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
