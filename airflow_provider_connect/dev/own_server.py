"""A server process with its data in its own folder, and free TCP ports of the loopback interface."""

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.spark.parent_death import dies_with_parent

LOOPBACK = "127.0.0.1"
_LOWEST_PORT, _USUAL_LOWEST = 10_000, 32_768


def free_ports(count: int) -> list[int]:
    """``count`` different ports on which no process listens now. The ports are not reserved. They are outside of the kernel's range for
    connections, unless this range has nearly all ports."""
    found: list[int] = []
    for port in random.SystemRandom().sample(range(_LOWEST_PORT, _lowest_of_connections()), 50 + 20 * count):
        with contextlib.suppress(OSError), socket.socket() as one:
            one.bind((LOOPBACK, port))
            found.append(port)
        if len(found) == count:
            return found
    raise ConnectException(f"There are no {count} free ports from {_LOWEST_PORT} to {_lowest_of_connections() - 1}")


def _lowest_of_connections() -> int:
    try:
        lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:  # not Linux
        return _USUAL_LOWEST
    return lowest if lowest > 2 * _LOWEST_PORT else _USUAL_LOWEST


def is_listening(port: int) -> bool:
    """Whether a connection to the port is accepted within a second."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=1):
            return True
    except OSError:
        return False


_END_SECONDS = 20


class OwnServer(ABC):
    """A server on a free ``port`` of the loopback interface. The server ends with the process that started it. Its folder is deleted when
    the server stops. A context manager starts and stops it. ``end_signal`` ends it without waiting for clients.
    """

    def __init__(self, end_signal: signal.Signals) -> None:
        self.port = free_ports(1)[0]
        self._end_signal = end_signal
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None

    @abstractmethod
    def start(self) -> Self:
        """Start the server, and return when it answers."""

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
        """Start the process, with its output in ``log``. ``identity`` has Popen's arguments for its user."""
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
