"""When a task body has to end: the config topic, the driver's word, or time. Knows nothing of what the body does."""

from __future__ import annotations

import contextlib
import errno
import hmac
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

LONG_SECONDS = 1.0  # no run of a newer claim is shorter: Spark starts in it
TOKEN_SECONDS = 5.0
MOST_STRANGERS = 64
_NO_ROOM_SECONDS = 0.1
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ECONNABORTED, errno.EINTR, errno.EAGAIN)
LISTEN_SHARE, LISTEN_SECONDS = 0.05, 0.25  # of the silence, and at most: for the client to take in what the broker sent meanwhile


class StopReason(StrEnum):
    """Why a body ends before its source or its topics are exhausted."""

    PAUSED = "paused"
    STOPPED = "stopped"
    DELETED = "deleted"
    FENCED = "a newer claim took over"
    TOLD = "the application was told to end"
    TIME = "batch.max.duration.ms is over"
    EXPIRED = "a value that a config provider gave has to be looked up anew"


class Follower(Protocol):
    """What the config topic says of one connector since a claim; a poll without a time-out costs microseconds."""

    def poll(self, timeout_seconds: float = 0.0) -> StopReason | None: ...


class Wire(Protocol):
    """How whoever started the body tells it to end."""

    def is_cut(self) -> bool: ...

    def close(self) -> None: ...


class StopSignal:
    """Asked between batches: ``reason`` says why to end, or None to go on. Once there is a reason it stays.

    After ``LONG_SECONDS`` without being asked it listens before it answers: the process may have been frozen, and a newer claim have come.
    """

    def __init__(
        self, follower: Follower, wire: Wire | None, *, now: Callable[[], float], deadline: float, expiry: float = math.inf
    ) -> None:
        self._follower = follower
        self._wire = wire
        self._now = now
        self._deadline = deadline
        self._expiry = expiry
        self._asked: float | None = None
        self._reason: StopReason | None = None

    def reason(self) -> StopReason | None:
        if self._reason is None:
            self._reason = self._look()
        return self._reason

    def __bool__(self) -> bool:
        return self.reason() is not None

    def _look(self) -> StopReason | None:
        now = self._now()
        silence = 0.0 if self._asked is None else now - self._asked
        said = self._follower.poll(min(LISTEN_SECONDS, LISTEN_SHARE * silence) if silence >= LONG_SECONDS else 0.0)
        self._asked = now
        if said is not None:
            return said
        if self._wire is not None and self._wire.is_cut():
            return StopReason.TOLD
        if now >= self._deadline:
            return StopReason.TIME
        if now >= self._expiry:
            return StopReason.EXPIRED
        return None


class StopWire:
    """A body's end of a connection to the driver, which never sends anything: the connection ends when the body has to."""

    def __init__(self, address: tuple[str, int], token: str) -> None:
        """``token`` is the switch's, by which it tells bodies from strangers."""
        self._socket = socket.create_connection(address, timeout=5)
        self._socket.sendall(token.encode())
        self._socket.setblocking(False)

    def is_cut(self) -> bool:
        try:
            self._socket.recv(1)
        except BlockingIOError:
            return False
        except OSError:  # reset: the driver has died
            pass
        return True

    def close(self) -> None:
        self._socket.close()


class StopEvent:
    """The same for a body that runs in a thread of the process that tells it."""

    def __init__(self) -> None:
        self._told = threading.Event()

    def cut(self) -> None:
        self._told.set()

    def is_cut(self) -> bool:
        return self._told.is_set()

    def close(self) -> None:
        """Nothing is open."""


class StopSwitch:
    """The driver's end: accepts the bodies' connections, and cuts them all when the application is told to end.

    A body says ``token`` first, which travels with its payload. Strangers are told nothing and cost little: a connection without the token
    is closed after ``TOKEN_SECONDS``, and so is the oldest of more than ``MOST_STRANGERS``.
    """

    def __init__(self, host: str) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.token = secrets.token_hex(32)
        self._listener = socket.create_server((host, 0), family=family)
        self._bodies: list[socket.socket] = []
        self._unknown: dict[socket.socket, _Unknown] = {}
        self._thrown = False
        self.address: tuple[str, int] = (host, self._listener.getsockname()[1])
        threading.Thread(target=self._serve, name=f"stop-switch {self.address[1]}", daemon=True).start()

    def close(self) -> None:
        """Nobody connects any more, and nobody is told. Its thread ends."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # which ends the wait for connections; ``close`` alone would not
        for body in list(self._bodies):
            body.close()

    @property
    def thrown(self) -> bool:
        return self._thrown

    def throw(self) -> None:
        """Tell every body to end, those that connect later too. Safe in a signal handler: it takes no lock and only shuts sockets."""
        self._thrown = True
        for body in list(self._bodies):
            with contextlib.suppress(OSError):
                body.shutdown(socket.SHUT_RDWR)

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
                        continue  # it was dropped for one that came a moment ago
                    elif not self._accept(selector):
                        for stranger in list(self._unknown):
                            self._drop(selector, stranger)
                        return
                for stranger, unknown in list(self._unknown.items()):
                    if time.monotonic() > unknown.deadline:
                        self._drop(selector, stranger)

    def _accept(self, selector: selectors.BaseSelector) -> bool:
        """Take a connection in; False: the switch is closed."""
        try:
            connection, _ = self._listener.accept()
        except OSError as error:
            if error.errno in _NO_ROOM:
                time.sleep(_NO_ROOM_SECONDS)  # the connection stays where it is, and would be offered again at once
            return error.errno in _NO_ROOM
        connection.setblocking(False)
        if len(self._unknown) >= MOST_STRANGERS:
            self._drop(selector, next(iter(self._unknown)))
        self._unknown[connection] = _Unknown(time.monotonic() + TOKEN_SECONDS)
        selector.register(connection, selectors.EVENT_READ)
        return True

    def _read_token(self, selector: selectors.BaseSelector, connection: socket.socket) -> None:
        unknown = self._unknown[connection]
        try:
            piece = connection.recv(len(self.token) - len(unknown.said))
        except OSError:
            piece = b""
        unknown.said += piece
        if piece and len(unknown.said) < len(self.token):
            return
        if not hmac.compare_digest(unknown.said, self.token.encode()):
            self._drop(selector, connection)
            return
        selector.unregister(connection)
        del self._unknown[connection]
        self._bodies.append(connection)
        if self._thrown:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _drop(self, selector: selectors.BaseSelector, connection: socket.socket) -> None:
        selector.unregister(connection)
        del self._unknown[connection]
        connection.close()


@dataclass(slots=True)
class _Unknown:
    """A connection that has not said the whole token yet. ``deadline`` is a time of the monotonic clock."""

    deadline: float
    said: bytes = b""
