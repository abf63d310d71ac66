"""The reason why a task must end: from the config topic, its driver's connection, or time. Knows nothing of what tasks do."""

from __future__ import annotations

import contextlib
import errno
import hmac
import json
import math
import secrets
import selectors
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from airflow_provider_connect.runtime.stores.config_follower import ChangeKind, ConfigFollower

LONG_SECONDS = 1.0  # no run of a newer claim is shorter, since it starts Spark
TOKEN_SECONDS = 30.0
MAX_UNAUTHENTICATED = 64
MAX_REPORT_BYTES = 1 << 14
_NO_ROOM_SECONDS = 0.1
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ECONNABORTED, errno.EINTR, errno.EAGAIN)
LISTEN_SHARE, LISTEN_SECONDS = 0.05, 0.25  # share of the silence, and its maximum: time for the client to receive what the broker sent


class StopReason(StrEnum):
    """Why a task ends before its source or its topics are exhausted."""

    PAUSED = "paused"
    STOPPED = "stopped"
    DELETED = "deleted"
    FENCED = "a newer claim took over"
    INTERRUPTED = "the connector was changed or restarted"
    ASKED_TO_END = "the application was asked to end"
    TIME = "batch.max.duration.ms is over"
    EXPIRED = "a value of a config provider has expired"
    NEXT_RUN = "the next run continues"
    IDLE = "there was no new record for airflow.run.idle.timeout"
    OUTDATED = "the topics, partitions or offsets of the task have changed"


class TopicWatch(Protocol):
    """The config topic's reasons to end, as a FollowedConfig returns them. A poll without a timeout costs microseconds."""

    def poll(self, timeout_seconds: float = 0.0) -> StopReason | None: ...


class HostConnection(Protocol):
    """How the host of a task requests its end: a StopConnection or a StopEvent. A closed connection is a request."""

    def is_closed(self) -> bool: ...

    def close(self) -> None: ...

    @property
    def descriptor(self) -> int | None:
        """The descriptor of the connection to the driver. The connection carries the report about a killed process. None: no connection."""


class StopSignal:
    """Polled between batches. ``reason`` is why the task must end, or None to continue. A reason never changes again.

    ``topic`` has the config topic's reasons, ``connection`` the host's request. None: no host can request the end. ``now`` is the clock. At
    ``deadline`` the time of the run is over. At ``expiry`` a value of a config provider expires. After ``LONG_SECONDS`` without a poll, the
    signal first waits for the topic, because the process may have been frozen and a newer claim may exist.
    """

    def __init__(
        self, topic: TopicWatch, connection: HostConnection | None, *, now: Callable[[], float], deadline: float, expiry: float = math.inf
    ) -> None:
        self._topic = topic
        self._driver_connection = connection
        self._now = now
        self._deadline = deadline
        self._expiry = expiry
        self._polled: float | None = None
        self._reason: StopReason | None = None

    @property
    def polled_at(self) -> float | None:
        """When the signal was last polled, on its clock. None: never."""
        return self._polled

    def reason(self) -> StopReason | None:
        if self._reason is None:
            self._reason = self._poll()
        return self._reason

    def __bool__(self) -> bool:
        return self.reason() is not None

    def is_final(self) -> bool:
        """Whether the task no longer owns its work. Then the task waits for no commit."""
        return self.reason() in {StopReason.FENCED, StopReason.INTERRUPTED, StopReason.STOPPED, StopReason.DELETED}

    def _poll(self) -> StopReason | None:
        now = self._now()
        silence = 0.0 if self._polled is None else now - self._polled
        reason = self._topic.poll(min(LISTEN_SECONDS, LISTEN_SHARE * silence) if silence >= LONG_SECONDS else 0.0)
        self._polled = now
        if reason is not None:
            return reason
        if self._driver_connection is not None and self._driver_connection.is_closed():
            return StopReason.ASKED_TO_END
        if now >= self._deadline:
            return StopReason.TIME
        if now >= self._expiry:
            return StopReason.EXPIRED
        return None


class StopConnection:
    """The task's side of a connection to the driver. The driver sends nothing: it closes the connection to request that the task end."""

    def __init__(self, address: tuple[str, int], token: str) -> None:
        """``token`` is the token of the StopServer, which accepts no connection without it."""
        self._socket = socket.create_connection(address, timeout=5)
        self._socket.sendall(token.encode())
        self._socket.setblocking(False)

    def is_closed(self) -> bool:
        try:
            self._socket.recv(1)
        except BlockingIOError:
            return False
        except OSError:  # connection reset: the driver has died
            pass
        return True

    @property
    def descriptor(self) -> int | None:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()


class StopEvent:
    """The request to end, for a task in a thread of its host's process."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def request(self) -> None:
        """Have the task end. Safe in a signal handler."""
        self._event.set()

    def is_closed(self) -> bool:
        return self._event.is_set()

    @property
    def descriptor(self) -> int | None:
        return None

    def close(self) -> None:
        """Does nothing: no connection is open."""


class StopServer:
    """The driver's side: accepts the tasks' connections, and closes them all when the application must end.

    A task first sends ``token``, which is in its payload. A connection without the token is closed after ``TOKEN_SECONDS``. If more than
    ``MAX_UNAUTHENTICATED`` are open, the oldest is closed.
    """

    def __init__(self, host: str) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.token = secrets.token_hex(32)
        self._listener = socket.create_server((host, 0), family=family)
        self._connections: list[socket.socket] = []
        self._unknown: dict[socket.socket, _Unknown] = {}
        self._is_requested = False
        self._report_lock, self._reports = threading.Lock(), dict[int, str]()
        self.address: tuple[str, int] = (host, self._listener.getsockname()[1])
        threading.Thread(target=self._serve, name=f"stop-server {self.address[1]}", daemon=True).start()

    def close(self) -> None:
        """Close all connections and accept no more. Its thread ends."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # this ends the wait for connections; ``close`` alone would not
        for each in list(self._connections):
            each.close()

    def request_stop(self) -> None:
        """Have every task end, including those that connect later. Safe in a signal handler: it takes no lock and only shuts sockets
        down."""
        self._is_requested = True
        for each in list(self._connections):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def last_report(self, task: int) -> str | None:
        """The report that ``memory_watch`` sent before it killed a task's process. None: no report. Thread-safe."""
        with self._report_lock:
            for each in list(self._connections):
                with contextlib.suppress(OSError, ValueError, TypeError):  # nothing was sent, or no report
                    number, text = json.loads(each.recv(MAX_REPORT_BYTES))
                    self._reports[int(number)] = str(text)
            return self._reports.get(task)

    def _serve(self) -> None:
        with selectors.DefaultSelector() as selector, self._listener:
            selector.register(self._listener, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select(1.0 if self._unknown else None):
                    connection = key.fileobj
                    assert isinstance(connection, socket.socket)
                    if connection in self._unknown:
                        self._read_token(selector, connection)
                    elif connection is not self._listener:
                        continue  # dropped in favour of a newer one
                    elif not self._accept(selector):
                        for stranger in list(self._unknown):
                            self._drop(selector, stranger)
                        return
                for stranger, unknown in list(self._unknown.items()):
                    if time.monotonic() > unknown.deadline:
                        self._drop(selector, stranger)

    def _accept(self, selector: selectors.BaseSelector) -> bool:
        """Accept a connection. False: the server is closed."""
        try:
            connection, _ = self._listener.accept()
        except OSError as error:
            if error.errno in _NO_ROOM:
                time.sleep(_NO_ROOM_SECONDS)  # the connection stays in the queue, and would be offered again immediately
            return error.errno in _NO_ROOM
        connection.setblocking(False)
        if len(self._unknown) >= MAX_UNAUTHENTICATED:
            self._drop(selector, next(iter(self._unknown)))
        self._unknown[connection] = _Unknown(time.monotonic() + TOKEN_SECONDS)
        selector.register(connection, selectors.EVENT_READ)
        return True

    def _read_token(self, selector: selectors.BaseSelector, connection: socket.socket) -> None:
        unknown = self._unknown[connection]
        try:
            piece = connection.recv(len(self.token) - len(unknown.sent))
        except OSError:
            piece = b""
        unknown.sent += piece
        if piece and len(unknown.sent) < len(self.token):
            return
        if not hmac.compare_digest(unknown.sent, self.token.encode()):
            self._drop(selector, connection)
            return
        selector.unregister(connection)
        del self._unknown[connection]
        self._connections.append(connection)
        if self._is_requested:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _drop(self, selector: selectors.BaseSelector, connection: socket.socket) -> None:
        selector.unregister(connection)
        del self._unknown[connection]
        connection.close()


@dataclass(slots=True)
class _Unknown:
    """A connection that has not yet sent the whole token. ``deadline`` is a time of the monotonic clock."""

    deadline: float
    sent: bytes = b""


class FollowedConfig:
    """The config topic's reasons to end a task."""

    def __init__(self, follower: ConfigFollower) -> None:
        self._follower = follower

    def poll(self, timeout_seconds: float = 0.0) -> StopReason | None:
        change = self._follower.poll(timeout_seconds)
        return None if change is None else _REASONS[change.kind]


_REASONS = {
    ChangeKind.CLAIMED: StopReason.FENCED,
    ChangeKind.INTERRUPTED: StopReason.INTERRUPTED,
    ChangeKind.PAUSED: StopReason.PAUSED,
    ChangeKind.STOPPED: StopReason.STOPPED,
    ChangeKind.DELETED: StopReason.DELETED,
}
