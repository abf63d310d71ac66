"""Warm processes that run plugins' code, as their callers use them. Each process gets one request at a time, and is killed if the request
takes too long."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, Final

from airflow_provider_connect.errors import ConnectException, RetriableException
from airflow_provider_connect.runtime.plugins.validation.probe_messages import LATE, LONGEST_ANSWER, error_of, from_line, to_line

PROBE: Final = "airflow_provider_connect.runtime.plugins.validation.probe_server"
_SMALL: Final = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
"""These variables limit the address space that libraries reserve for each core. On a large machine, this alone would reach the limit."""
_PASSED_ON: Final = {
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "LD_PRELOAD", "JAVA_HOME"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "KRB5_CONFIG"),
    *("PGSSLMODE", "PGSSLROOTCERT", "PGSSLCERT", "PGSSLKEY", "PGPASSFILE"),
}
"""Environment variables that programs need. Other variables are not passed on, because an API server's variables contain secrets."""
_PREFIXES_PASSED_ON: Final = ("LC_", "PYTHON")
_TAIL_BYTES: Final = 2000
_LATE_SECONDS: Final = 5.0  # the time for the process to report the current line of the plugin's code
_ENDING_SECONDS: Final = 1.0  # the time for a process to end after it has closed its output
Fingerprints = frozenset[tuple[str, str]]
MOST_IDLE: Final = 6
MOST_AT_ONCE: Final = 4


def environment_of_plugins(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of a server's environment that plugins' code receives."""
    return {name: value for name, value in environment.items() if name in _PASSED_ON or name.startswith(_PREFIXES_PASSED_ON)}


class ProbeProcess:
    """One process, started by the constructor. Not thread-safe."""

    def __init__(
        self, settings: Mapping[str, str], memory_bytes: int, *, module: str = PROBE, secrets: Mapping[str, str] | None = None
    ) -> None:
        """The process gets ``settings``, the values of variables as ``secrets``, and ``environment_of_plugins``. The process runs
        ``module``, which must call ``probe_server.serve``."""
        self._child = subprocess.Popen(
            (sys.executable, "-m", module),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_SMALL | environment_of_plugins(os.environ),
            bufsize=0,
            start_new_session=True,
        )
        assert self._child.stderr is not None
        self._last_lines = _LastLines(self._child.stderr)
        self._send({"settings": dict(settings), "secrets": dict(secrets or {}), "memory_bytes": memory_bytes})

    @property
    def is_alive(self) -> bool:
        return self._child.poll() is None

    def ask(self, request: Mapping[str, object], timeout_seconds: float) -> dict[str, Any]:
        """The answer. Raises the exception that the process raised. Raises RetriableException, with the current line of code if known, if
        the process did not answer in time. Raises ConnectException if the process died or sent an invalid answer. In the last two cases,
        the process has ended."""
        try:
            until = time.monotonic() + timeout_seconds
            self._send({**request, "timeout_seconds": timeout_seconds, "until": until})
            answer = from_line(self._line(until + _LATE_SECONDS))
        except TimeoutError:  # compiled code can prevent the process from reporting its line
            answer = {LATE: ""}
        except (OSError, ValueError) as error:
            how = self._how_it_ended()
            self.end()
            raise ConnectException(f"The process that ran the plugin's code {how}") from error
        if LATE in answer:
            self.end()
            raise RetriableException(f"The plugin's code did not answer within {timeout_seconds:g} s, and was ended{answer[LATE]}")
        if "error" in answer:
            raise error_of(answer)
        return answer

    def end(self) -> None:
        """Kill the process and its child processes, if it is alive."""
        if self.is_alive:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)  # the process has a session of its own
        self._child.wait()
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                pipe.close()

    def _send(self, message: Mapping[str, object]) -> None:
        assert self._child.stdin is not None
        rest = memoryview(to_line(message))
        while rest:
            rest = rest[self._child.stdin.write(rest) :]

    def _line(self, deadline: float) -> bytes:
        """The next line of output. Raises TimeoutError, or OSError if the process ends before the line is complete."""
        assert self._child.stdout is not None
        pieces: list[bytes] = []
        length = 0
        with selectors.DefaultSelector() as selector:  # ``select.select`` cannot handle descriptors above 1,023
            selector.register(self._child.stdout, selectors.EVENT_READ)
            while not pieces or not pieces[-1].endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise TimeoutError
                piece = os.read(self._child.stdout.fileno(), 1 << 16)
                length += len(piece)
                if not piece or length > LONGEST_ANSWER:
                    raise OSError("no whole answer")
                pieces.append(piece)
        return b"".join(pieces)

    def _how_it_ended(self) -> str:
        try:
            code = self._child.wait(_ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            return "broke off without an answer, and was ended"
        tail = self._last_lines.text()
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return f"{how}: {tail.splitlines()[-1]}" if tail else how


class _LastLines:
    """Reads a pipe to its end and keeps only the last lines, because a process may write for days. A line whose beginning was dropped is
    left out. Such a line may start with part of a secret, and only whole secrets are hidden."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._tail, self._was_cut = b"", False
        self._reader = threading.Thread(target=self._read, name="probe-errors", daemon=True)
        self._reader.start()

    def text(self) -> str:
        """The last lines of a process that has ended."""
        self._reader.join(_ENDING_SECONDS)  # a child that has inherited the pipe may still be running
        kept = self._tail.partition(b"\n")[2] if self._was_cut else self._tail
        return kept.decode("utf-8", "replace").strip()

    def _read(self) -> None:
        with self._pipe:
            while piece := os.read(self._pipe.fileno(), 1 << 16):
                read = self._tail + piece
                self._was_cut = self._was_cut or len(read) > _TAIL_BYTES
                self._tail = read[-_TAIL_BYTES:]


class ProbePool:
    """May be used from several threads. At most ``MOST_AT_ONCE`` requests run at a time, and at most ``most_idle`` processes wait for the
    next request. The process that has waited longest ends first. A process never serves plugins whose files have changed since it loaded
    them. Waiting processes end after ``idle_seconds`` without a request. None: they never end for this reason."""

    def __init__(
        self, start: Callable[[], ProbeProcess], timeout_seconds: float, idle_seconds: float | None = None, *, most_idle: int = MOST_IDLE
    ) -> None:
        self._start = start
        self._timeout_seconds = timeout_seconds
        self._idle_seconds = idle_seconds
        self._most_idle = most_idle
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()
        self._idle: OrderedDict[ProbeProcess, Fingerprints] = OrderedDict()
        self._free = threading.Semaphore(MOST_AT_ONCE)
        self._closed = False

    def ask(self, locations: Fingerprints, request: Mapping[str, object]) -> dict[str, Any]:
        """The answer of a process that loads these locations and no others."""
        with self._free, self._process(locations) as process:
            return process.ask(request, self._timeout_seconds)

    def close(self) -> None:
        """End the waiting processes. Busy processes end after their answer."""
        with self._lock:
            self._closed = True
        self._end_idle()

    def _end_idle(self) -> None:
        with self._lock:
            idle = list(self._idle)
            self._idle.clear()
            if self._timer is not None:
                self._timer.cancel()
        for process in idle:
            process.end()

    @contextmanager
    def _process(self, locations: Fingerprints) -> Iterator[ProbeProcess]:
        process = self._take_idle(locations) or self._start()
        try:
            yield process
        finally:
            self._release(process, locations)

    def _take_idle(self, locations: Fingerprints) -> ProbeProcess | None:
        with self._lock:
            for process, loaded in reversed(self._idle.items()):
                if loaded == locations and process.is_alive:
                    del self._idle[process]
                    return process
        return None

    def _release(self, process: ProbeProcess, locations: Fingerprints) -> None:
        over: list[ProbeProcess] = []
        with self._lock:
            if process.is_alive and not self._closed:
                self._idle[process] = locations
                self._end_later()
                while len(self._idle) > self._most_idle:
                    over.append(self._idle.popitem(last=False)[0])
            else:
                over.append(process)
        for ended in over:
            ended.end()

    def _end_later(self) -> None:
        if self._idle_seconds is not None:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = threading.Timer(self._idle_seconds, self._end_idle)
            self._timer.daemon = True
            self._timer.start()
