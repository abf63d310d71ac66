"""Warm processes that run plugins' code, seen from outside: each is asked one thing at a time, and killed when it takes too long."""

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
"""Libraries reserve address space for each core; on a large machine that alone would reach the limit."""
_PASSED_ON: Final = {
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "LD_PRELOAD", "JAVA_HOME"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "KRB5_CONFIG"),
    *("PGSSLMODE", "PGSSLROOTCERT", "PGSSLCERT", "PGSSLKEY", "PGPASSFILE"),
}
"""Variables of the environment that programs need here. The others are not passed on: those of an API server hold its secrets."""
_PREFIXES_PASSED_ON: Final = ("LC_", "PYTHON")
_TAIL_BYTES: Final = 2000
_LATE_SECONDS: Final = 5.0  # for the process to report where the plugin's code is
_ENDING_SECONDS: Final = 1.0  # for a process that has closed its answers to end
Fingerprints = frozenset[tuple[str, str]]
MOST_IDLE: Final = 6
MOST_AT_ONCE: Final = 4


def environment_of_plugins(environment: Mapping[str, str]) -> dict[str, str]:
    """What of a server's environment the code of plugins sees."""
    return {name: value for name, value in environment.items() if name in _PASSED_ON or name.startswith(_PREFIXES_PASSED_ON)}


class ProbeProcess:
    """Started when created. Not for two threads at once."""

    def __init__(
        self, settings: Mapping[str, str], memory_bytes: int, *, module: str = PROBE, secrets: Mapping[str, str] | None = None
    ) -> None:
        """The process gets ``settings``, the ``secrets`` that variables stand for, and of the environment what programs need to run.
        ``module`` is what it runs: one that ends in ``probe_server.serve``."""
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
        self._last_words = _LastWords(self._child.stderr)
        self._send({"settings": dict(settings), "secrets": dict(secrets or {}), "memory_bytes": memory_bytes})

    @property
    def is_alive(self) -> bool:
        return self._child.poll() is None

    def ask(self, request: Mapping[str, object], timeout_seconds: float) -> dict[str, Any]:
        """The answer. Raises what the process raised; RetriableException, with the line of code if that is known, when it did not answer in
        time, ConnectException when it died or answered nonsense: it is dead then."""
        try:
            until = time.monotonic() + timeout_seconds
            self._send({**request, "timeout_seconds": timeout_seconds, "until": until})
            answer = from_line(self._line(until + _LATE_SECONDS))
        except TimeoutError:  # compiled code keeps the process from reporting where it is
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
        """Kill it, and what it has started, if it still lives."""
        if self.is_alive:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)  # the session is its own
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
        """Raises TimeoutError, or OSError when the process ends before the line does."""
        assert self._child.stdout is not None
        pieces: list[bytes] = []
        length = 0
        with selectors.DefaultSelector() as selector:  # ``select.select`` knows no file with a number above 1,023
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
        tail = self._last_words.text()
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return f"{how}: {tail.splitlines()[-1]}" if tail else how


class _LastWords:
    """Reads a pipe to its end, and keeps the last lines of it: what runs for days may write for days. A line of which the beginning is not
    kept is left out: it may end in part of a secret, which is hidden only where it is whole."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._tail, self._was_cut = b"", False
        self._reader = threading.Thread(target=self._read, name="probe-errors", daemon=True)
        self._reader.start()

    def text(self) -> str:
        """The last of what was written, of a process that has ended."""
        self._reader.join(_ENDING_SECONDS)  # who has inherited the pipe may live on
        kept = self._tail.partition(b"\n")[2] if self._was_cut else self._tail
        return kept.decode("utf-8", "replace").strip()

    def _read(self) -> None:
        with self._pipe:
            while piece := os.read(self._pipe.fileno(), 1 << 16):
                read = self._tail + piece
                self._was_cut = self._was_cut or len(read) > _TAIL_BYTES
                self._tail = read[-_TAIL_BYTES:]


class ProbePool:
    """Safe to share between threads. At most ``MOST_AT_ONCE`` requests run at a time, and ``most_idle`` processes wait for the next one;
    those that waited longest go first. A process is never given plugins whose files have changed since it loaded them. All that
    wait end when nothing was asked for ``idle_seconds``; None: never."""

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
        """The answer of a process that has loaded, or will now load, these locations and no others."""
        with self._free, self._process(locations) as process:
            return process.ask(request, self._timeout_seconds)

    def close(self) -> None:
        """End the processes that wait; those at work end after their answer."""
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
        process = self._taken(locations) or self._start()
        try:
            yield process
        finally:
            self._put_back(process, locations)

    def _taken(self, locations: Fingerprints) -> ProbeProcess | None:
        with self._lock:
            for process, loaded in reversed(self._idle.items()):
                if loaded == locations and process.is_alive:
                    del self._idle[process]
                    return process
        return None

    def _put_back(self, process: ProbeProcess, locations: Fingerprints) -> None:
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
