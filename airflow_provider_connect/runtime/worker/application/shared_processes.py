"""Runs small tasks of several connectors in processes that they share. Used by shared applications without Spark.

A process hosts up to ``MOST_TASKS`` tasks whose plugins have the same locations. When a process is lost, its connectors continue in
processes of fewer tasks (``FEWER_TASKS``), and after another loss in processes of their own (``task_processes``). So a faulty
task affects the others at most twice. A connector that has kept a shared process busy continues in processes of its own.
"""

from __future__ import annotations

import logging
import pickle
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Final

from airflow_provider_connect.errors import RetriableException
from airflow_provider_connect.runtime.model.run import TaskResult
from airflow_provider_connect.runtime.worker.application.process_host import Answer, Setup
from airflow_provider_connect.runtime.worker.application.task_processes import TaskProcessLost, ending, run_in_process, show, start_program
from airflow_provider_connect.runtime.worker.metrics import merge_results
from airflow_provider_connect.runtime.worker.task.task_payload import TaskPayload

_PROGRAM: Final = "airflow_provider_connect.runtime.worker.application.process_host"
MOST_TASKS: Final = 25
FEWER_TASKS: Final = 5
SILENT_SECONDS: Final = 60.0  # a process without a sign of life for this time hangs, and is killed
_UNUSED_SECONDS: Final = 60.0  # a process without tasks ends

log = logging.getLogger(__name__)


class SharedProcesses:
    """``run`` may be called from several threads at the same time. ``settings`` and ``secrets`` are those of the worker."""

    def __init__(self, settings: Mapping[str, str], secrets: Mapping[str, str]) -> None:
        self._settings = settings
        self._secrets = secrets
        self._lock = threading.Lock()
        self._processes: list[SharedProcess] = []
        self._limits: dict[str, int] = {}  # how many tasks share a process with one of the connector

    def run(self, payload: TaskPayload) -> TaskResult:
        """Run the task, and return its result, which may be a failure. Raises as ``run_in_process`` does."""
        limit = self._limits.get(payload.connector, MOST_TASKS)
        if limit == 1:
            return run_in_process(payload)
        try:
            process, slot = self._reserve(tuple(payload.locations), limit)
            answer = process.run(slot, payload)
        except TaskProcessLost:
            self._limits[payload.connector] = FEWER_TASKS if limit > FEWER_TASKS else 1
            raise
        if not answer.leaves:
            return answer.result
        self._limits[payload.connector] = 1
        return merge_results(answer.result, run_in_process(payload))

    def _reserve(self, locations: Sequence[str], limit: int) -> tuple[SharedProcess, Slot]:
        """Room for a task in a process, or in a new one."""
        with self._lock:
            self._processes = [process for process in self._processes if not process.has_ended]
            for process in self._processes:
                if (process.locations, process.limit) == (locations, limit) and (slot := process.reserve()) is not None:
                    return process, slot
            process = SharedProcess(Setup(self._settings, self._secrets, locations), limit)
            self._processes.append(process)
            slot = process.reserve()
        if slot is None:
            raise TaskProcessLost("The process that the task shares with others ended at its start")
        return process, slot


@dataclass(frozen=True, slots=True)
class Slot:
    """Room for one task in a process. ``answer`` raises TaskProcessLost if the process ends before the task."""

    number: int
    answer: Future[Answer] = field(default_factory=Future)


class SharedProcess:
    """A process that hosts at most ``limit`` tasks. Its methods are safe to share between threads. Raises RetriableException if the process
    does not start."""

    def __init__(self, setup: Setup, limit: int = MOST_TASKS) -> None:
        self.locations = setup.locations
        self.limit = limit
        self.has_ended = False
        self._connection, theirs = Pipe()
        self._lock = threading.Lock()
        self._sending = threading.Lock()  # a process that hangs reads nothing, and only those who send to it wait
        self._number = 0
        self._waiting: dict[int, Slot] = {}
        started = Future[subprocess.Popen[bytes]]()
        threading.Thread(target=self._show, args=(theirs, started), name="shared-process", daemon=True).start()
        try:
            process = started.result()
        except OSError as error:
            self._connection.close()
            raise RetriableException(f"A process of small tasks does not start: {error}") from error
        finally:
            theirs.close()
        threading.Thread(target=self._receive, args=(process, setup), name="shared-process-answers", daemon=True).start()

    def reserve(self) -> Slot | None:
        """Room for a task. None: the process is full, or has ended."""
        with self._lock:
            if self.has_ended or len(self._waiting) >= self.limit:
                return None
            self._number += 1
            slot = self._waiting[self._number] = Slot(self._number)
            return slot

    def run(self, slot: Slot, payload: TaskPayload) -> Answer:
        """Run the task in its slot. Raises TaskProcessLost if the process ends first."""
        with self._sending, suppress(OSError):  # the process has just ended, which its end reports
            self._connection.send((slot.number, payload))
        return slot.answer.result()

    def _show(self, theirs: Connection, started: Future[subprocess.Popen[bytes]]) -> None:
        """Start the process, and show its output until it ends. The kernel would end the process with this thread."""
        try:
            process = start_program(_PROGRAM, theirs.fileno())
        except OSError as error:
            started.set_exception(error)
            return
        started.set_result(process)
        assert process.stdout is not None
        with process.stdout:
            show(process.stdout)
        process.wait()

    def _receive(self, process: subprocess.Popen[bytes], setup: Setup) -> None:
        """Receive answers until the process ends, or is ended: because it hangs, or has been without tasks for a while."""
        with suppress(EOFError, OSError):
            assert process.stdin is not None
            with process.stdin:
                pickle.dump(setup, process.stdin)
            self._receive_answers()
        with self._lock:
            self.has_ended = True
            waiting, self._waiting = self._waiting, {}
        if waiting:
            process.kill()
        with self._sending:
            self._connection.close()  # a process without tasks ends when it finds this
        how = ending(process.wait())
        for slot in waiting.values():
            slot.answer.set_exception(TaskProcessLost(f"The process that the task shares with others {how}"))

    def _receive_answers(self) -> None:
        used_at = time.monotonic()
        while self._connection.poll(SILENT_SECONDS):
            text = self._connection.recv_bytes().decode()
            if text:
                answer = Answer.from_json(text)
                with self._lock:
                    slot = self._waiting.pop(answer.number)
                slot.answer.set_result(answer)
            with self._lock:
                now = time.monotonic()
                used_at = now if self._waiting else used_at
                self.has_ended = now - used_at > _UNUSED_SECONDS
            if self.has_ended:
                return
        log.error("A process of small tasks has not responded for %g s, and is killed", SILENT_SECONDS)
