"""Reads and decompresses the body of an HTTP response within limits of size and time.

``limit_responses`` is a hook for clients that read whole bodies themselves, such as httpx inside of libraries.
"""

from __future__ import annotations

import math
import sys
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Final

from airflow_provider_connect.errors import ConnectException, RetriableException

MOST_BYTES: Final = 64 * 1024 * 1024  # per decompressed body
PACKED: Final = "gzip"
"""The only ``Accept-Encoding`` of requests, besides ``identity``."""


class BoundedBody:
    """Decompresses one body piece by piece. ``title`` names the request in messages; ``hint`` is the remedy for a large body.

    Raises ConnectException for a body that is too large or not compressed as declared. Raises RetriableException for a body that is
    incomplete or does not arrive within ``seconds``.
    """

    def __init__(
        self, encoding: str, *, title: str, most_bytes: int = MOST_BYTES, seconds: float = math.inf, hint: str = "", is_error: bool = False
    ) -> None:
        """``encoding`` is the header ``Content-Encoding``. With ``is_error``, any encoding is accepted."""
        encoding = encoding.strip().lower()
        if encoding not in ("", "identity", PACKED) and not is_error:
            raise ConnectException(f"{title}: the body is compressed as {encoding!r:.50}; only {PACKED} was requested")
        self._title, self._most, self._hint = title, most_bytes, hint
        self._seconds, self._begun = seconds, time.monotonic()
        self._unpacked = zlib.decompressobj(16 + zlib.MAX_WBITS) if encoding == PACKED else None
        self._length, self._behind, self._is_empty = 0, 0, True

    def take(self, piece: bytes) -> bytes:
        """Decompress the next piece."""
        self._is_empty = False
        if time.monotonic() - self._begun > self._seconds:
            raise RetriableException(f"{self._title}: the body has not arrived within {self._seconds:.0f} s")
        if self._unpacked is not None and self._unpacked.eof:  # zlib would keep all later bytes, and copy them with each piece
            self._behind += len(piece)
            if self._behind > self._most:
                raise ConnectException(f"{self._title}: more than {self._most} bytes follow the end of the compressed body")
            return b""
        if self._unpacked is not None:
            try:
                piece = self._unpacked.decompress(piece, self._most - self._length + 1)
            except zlib.error as error:
                raise ConnectException(f"{self._title}: the body is not valid {PACKED}: {error}") from None
        self._length += len(piece)
        if self._length > self._most:
            raise ConnectException(f"{self._title}: the body is larger than {self._most} bytes{self._hint}")
        return piece

    def end(self) -> None:
        """Check that the body is complete. Called after the last piece."""
        if self._unpacked is not None and not self._unpacked.eof and not self._is_empty:
            raise RetriableException(f"{self._title}: the compressed body is incomplete")


def limit_responses_async(seconds: float, *, most_bytes: int = MOST_BYTES) -> Callable[[Any], Awaitable[None]]:
    """``limit_responses`` for httpx's asynchronous client."""
    bind = limit_responses(seconds, most_bytes=most_bytes, stream_of=_async_stream)

    async def bound(response: Any) -> None:
        bind(response)

    return bound


def limit_responses(
    seconds: float, *, most_bytes: int = MOST_BYTES, stream_of: Callable[[Any, Any, BoundedBody], Any] | None = None
) -> Callable[[Any], None]:
    """A hook for the event ``response`` of an httpx client. It limits the bodies that the client reads.

    Any: httpx is imported only if a client is created, and libraries may use a fork of it."""

    def bound(response: Any) -> None:
        url = response.request.url
        title = f"{response.request.method} {url.copy_with(userinfo=b'', query=None)}"
        declared = response.headers.get("content-length", "")
        if declared.isdecimal() and len(declared) < 20 and int(declared) > most_bytes and response.request.method != "HEAD":
            raise ConnectException(f"{title}: the body is larger than {most_bytes} bytes")
        encoding = response.headers.pop("content-encoding", "")
        body = BoundedBody(encoding, title=title, most_bytes=most_bytes, seconds=seconds)
        library = sys.modules[type(response).__module__.partition(".")[0]]
        response.stream = (stream_of or _stream)(library, response.stream, body)

    return bound


def _stream(library: Any, inner: Any, body: BoundedBody) -> Any:
    class Bounded(library.SyncByteStream):  # type: ignore[misc]  # the client accepts only subclasses of its own class
        def __iter__(self) -> Iterator[bytes]:
            for piece in inner:
                yield body.take(piece)
            body.end()

        def close(self) -> None:
            inner.close()

    return Bounded()


def _async_stream(library: Any, inner: Any, body: BoundedBody) -> Any:
    class Bounded(library.AsyncByteStream):  # type: ignore[misc]  # as above
        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for piece in inner:
                yield body.take(piece)
            body.end()

        async def aclose(self) -> None:
            await inner.aclose()

    return Bounded()
