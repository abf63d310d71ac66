"""The body of an HTTP answer, read within limits of bytes and time, and unpacked no further than its limit.

A client that reads whole bodies by itself (httpx, also within libraries) gets ``bound_answers`` as a hook.
"""

from __future__ import annotations

import math
import sys
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Final

from airflow_provider_connect.errors import ConnectException, RetriableException

MOST_BYTES: Final = 64 * 1024 * 1024  # of one body, unpacked
PACKED: Final = "gzip"
"""What a request may ask for by ``Accept-Encoding``, beside ``identity``."""


class BoundedBody:
    """Takes the pieces of one body as they arrive. ``title`` names the request in messages, ``hint`` what to do about a large body.

    Raises ConnectException for a body that is too large or not packed as it says, RetriableException for one that has not arrived within
    ``seconds`` or that is cut.
    """

    def __init__(
        self, encoding: str, *, title: str, most_bytes: int = MOST_BYTES, seconds: float = math.inf, hint: str = "", is_error: bool = False
    ) -> None:
        """``encoding`` is the header ``Content-Encoding``; ``is_error``: it is taken however it is packed."""
        encoding = encoding.strip().lower()
        if encoding not in ("", "identity", PACKED) and not is_error:
            raise ConnectException(f"{title}: the body is packed as {encoding!r:.50}, and was asked for as {PACKED}")
        self._title, self._most, self._hint = title, most_bytes, hint
        self._seconds, self._begun = seconds, time.monotonic()
        self._unpacked = zlib.decompressobj(16 + zlib.MAX_WBITS) if encoding == PACKED else None
        self._length, self._behind, self._is_empty = 0, 0, True

    def take(self, piece: bytes) -> bytes:
        """The piece, unpacked."""
        self._is_empty = False
        if time.monotonic() - self._begun > self._seconds:
            raise RetriableException(f"{self._title}: the body has not arrived within {self._seconds:.0f} s")
        if self._unpacked is not None and self._unpacked.eof:  # zlib would keep what follows, and copy it for each piece
            self._behind += len(piece)
            if self._behind > self._most:
                raise ConnectException(f"{self._title}: more than {self._most} bytes follow the end of the packed body")
            return b""
        if self._unpacked is not None:
            try:
                piece = self._unpacked.decompress(piece, self._most - self._length + 1)
            except zlib.error as error:
                raise ConnectException(f"{self._title}: the body is not packed as {PACKED}: {error}") from None
        self._length += len(piece)
        if self._length > self._most:
            raise ConnectException(f"{self._title}: the body is larger than {self._most} bytes{self._hint}")
        return piece

    def end(self) -> None:
        """There are no more pieces."""
        if self._unpacked is not None and not self._unpacked.eof and not self._is_empty:
            raise RetriableException(f"{self._title}: the packed body has no end")


def bound_answers_awaited(seconds: float, *, most_bytes: int = MOST_BYTES) -> Callable[[Any], Awaitable[None]]:
    """``bound_answers`` for httpx's asynchronous client."""
    bind = bound_answers(seconds, most_bytes=most_bytes, stream_of=_async_stream)

    async def bound(response: Any) -> None:
        bind(response)

    return bound


def bound_answers(
    seconds: float, *, most_bytes: int = MOST_BYTES, stream_of: Callable[[Any, Any, BoundedBody], Any] | None = None
) -> Callable[[Any], None]:
    """A hook for the event ``response`` of httpx's client, after which the body that the client then reads has these limits. Any: httpx
    is not loaded where no client is created, and libraries may have a fork of it."""

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
    class Bounded(library.SyncByteStream):  # type: ignore[misc]  # the client accepts subclasses of its own alone
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
