"""Whether an error of a file or a lake's store is transient. Knows nothing of libraries' exceptions.

Errors with known transient causes are retried: an unreachable or busy server, a broken connection. All other errors persist until an admin
fixes the cause.
"""

from __future__ import annotations

import errno
import re
from typing import Final

from airflow_provider_connect.errors import ConnectException, RetriableException

_LONGEST: Final = 500
_TRANSIENT: Final = frozenset(
    {
        *(errno.EAGAIN, errno.EBUSY, errno.EINTR, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ESTALE, errno.ENOBUFS, errno.EPIPE),
        *(errno.ECONNABORTED, errno.ECONNREFUSED, errno.ECONNRESET, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EHOSTUNREACH),
        *(errno.ENETDOWN, errno.ENETRESET, errno.ENETUNREACH),
    }
)
_NUMBER: Final = re.compile(r"(?:os error|errno) (\d{1,3})\b", re.IGNORECASE)
_STATUS: Final = re.compile(r"(?:HTTP status|status code:?|non-2xx[^:]{0,20}:) ?(\d{3})\b")
_UNREACHABLE: Final = re.compile(
    r"AWS Error (?:NETWORK_CONNECTION|SLOW_DOWN|SERVICE_UNAVAILABLE|INTERNAL_FAILURE|REQUEST_TIMEOUT|THROTTLING)|SlowDown|InternalError"
    r"|ServiceUnavailable|error sending request|timed out|timeout|[Cc]onnection (?:error|refused|reset|closed|aborted)|[Cc]ouldn't connect"
    r"|[Cc]ould not (?:connect|resolve host)|dns error|error decoding response body|Temporary failure in name resolution"
)


def text_of(error: Exception, shown: object = None) -> str:
    """The class and message on one line. ``shown`` replaces the error's own message."""
    return " ".join(f"{type(error).__name__}: {shown or error}".split())


def shorten(text: str) -> str:
    """A library's message, truncated."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def is_transient(error: Exception, text: str) -> bool:
    """Whether an error of a file or store is transient. ``text`` is the complete message."""
    number = error.errno if isinstance(error, OSError) else None
    if number is None and (found := _NUMBER.search(text)):
        number = int(found[1])
    if number is not None:
        return number in _TRANSIENT
    if found := _STATUS.search(text):
        return found[1] == "429" or found[1] >= "500"
    return isinstance(error, ConnectionError | TimeoutError) or bool(_UNREACHABLE.search(text))


def store_error(error: Exception, text: str, what: str, setting: str) -> ConnectException:
    """RetriableException for a transient error, otherwise ConnectException. ``what`` is the unusable object. ``setting`` is the setting
    that names it."""
    if is_transient(error, text):
        return RetriableException(f"{what} cannot be used now ({setting}): {shorten(text)}")
    return ConnectException(f"{what} cannot be used ({setting}): {shorten(text)}. Fix the cause, and run again")
