"""A server process with its data in a folder of its own, and free TCP ports of the loopback interface."""

import os
import shutil
import signal
import socket
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from airflow_provider_connect.spark.parent_death import dies_with_parent

LOOPBACK = "127.0.0.1"


def free_ports(count: int) -> list[int]:
    """As many different ports on which no process listens now. Nothing reserves them: use them at once."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind((LOOPBACK, 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def is_listening(port: int) -> bool:
    """Whether a connection to the port is accepted within a second."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=1):
            return True
    except OSError:
        return False


_END_SECONDS = 20


class OwnServer(ABC):
    """On a free ``port`` of the loopback interface; ends with the process that started it, and its folder is gone when it stops. As a
    context manager it starts and stops. ``end_signal`` makes it end without waiting for clients.
    """

    def __init__(self, end_signal: signal.Signals) -> None:
        self.port = free_ports(1)[0]
        self._end_signal = end_signal
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None

    @abstractmethod
    def start(self) -> Self:
        """Returns when it answers."""

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(self._end_signal)
            try:
                self._process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(_END_SECONDS)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _spawn(self, command: Sequence[object], log: Path, environment: Mapping[str, str] = os.environ, **identity: Any) -> None:
        """Start the process; what it prints goes to ``log``. ``identity``: who it runs as, in Popen's words."""
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=environment,
                preexec_fn=dies_with_parent(),  # noqa: PLW1509 - calls the kernel only
                **identity,
            )
