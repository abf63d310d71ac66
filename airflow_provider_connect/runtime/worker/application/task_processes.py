"""Runs each task in a process of its own, without Spark but as Spark does. So a task that kills its process affects no other task.

Used for runs with several tasks. Started as a program, this module is such a process. It reads the pickled payload from standard input, and
writes the result as JSON to the descriptor that is its argument.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from typing import IO, BinaryIO, Final

from airflow_provider_connect.errors import RetriableException
from airflow_provider_connect.runtime.model.run import RunResult, RunState, TaskResult
from airflow_provider_connect.runtime.spark.parent_death import bounded_lines, dies_with_parent
from airflow_provider_connect.runtime.worker.task.task_payload import TaskPayload

_PROGRAM: Final = "airflow_provider_connect.runtime.worker.application.task_processes"


class TaskProcessLost(Exception):
    """The process of a task ended without a result."""


def run_in_process(payload: TaskPayload) -> TaskResult:
    """Run the task, and return its result, which may be a failure. Thread-safe. The child dies with the calling thread.

    Raises TaskProcessLost if the process ends without a result, RetriableException if it does not start.
    """
    reading, writing = os.pipe()
    try:
        process = start_program(_PROGRAM, writing)
    except OSError as error:
        os.close(reading)
        raise RetriableException(f"The process of task {payload.connector}-{payload.task} does not start: {error}") from error
    finally:
        os.close(writing)
    with process, os.fdopen(reading, "rb") as answered:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(pickle.dumps(payload))
            process.stdin.close()
        except BrokenPipeError:  # the process has ended: its exit code follows
            pass
        show(process.stdout)  # to the end of the output, because the process writes its result at its end
        text = answered.read()
        code = process.wait()
    if not text:
        raise TaskProcessLost(f"The process of task {payload.connector}-{payload.task} {ending(code)}")
    return RunResult.from_json(text.decode()).tasks[0]


def start_program(module: str, descriptor: int) -> subprocess.Popen[bytes]:
    """Start ``module`` as a program that inherits ``descriptor``, its argument. The child dies with the calling thread. Raises OSError."""
    return subprocess.Popen(
        [sys.executable, "-m", module, str(descriptor)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=[descriptor],
        preexec_fn=dies_with_parent(),  # in this process's group, which Airflow kills  # noqa: PLW1509
    )


def show(output: IO[bytes]) -> None:
    """Print what a process prints, until it ends."""
    for line in bounded_lines(output):
        sys.stdout.write(line.decode("utf-8", "replace"))
        sys.stdout.flush()


def ending(code: int) -> str:
    """How a process with this exit code of ``subprocess`` ended, in words."""
    return f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"


def answer(asked: BinaryIO, descriptor: int) -> None:
    """Run the task whose pickled payload is in ``asked``, and write its result."""
    payload: TaskPayload = pickle.load(asked)
    if payload.locations:
        from airflow_provider_connect.runtime.plugins.loading.plugin_loader import prepend_native_locations

        prepend_native_locations(payload.locations)
    from airflow_provider_connect.runtime.worker.application.task_loop import run_payload  # after that: plugins may bring compiled code

    result = run_payload(payload, has_memory_limit=True)
    with os.fdopen(descriptor, "w") as answered:
        answered.write(RunResult(payload.connector, RunState.DONE, payload.claim, [result]).to_json())


def main() -> None:
    """Run the task and end the process, without the clean-up that waits for threads of clients."""
    answer(sys.stdin.buffer, int(sys.argv[1]))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
