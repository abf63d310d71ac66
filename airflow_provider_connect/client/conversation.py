"""One call carried through: sent, sent again where that helps and cannot do harm, its answer read or its refusal raised.

Does no I/O: a generator that yields what to do next (``Send``, ``Wait``) and is sent what came of it (``Answer``, ``Lost``), so that the
client and its asynchronous twin are one. Refusals become the exceptions of ``errors``.
"""

import re
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TypeVar

from airflow_provider_connect.client.calls import Answer, Call
from airflow_provider_connect.errors import (
    AlreadyExistsException,
    BadRequestException,
    ConflictException,
    ConnectException,
    ForbiddenException,
    NotFoundException,
    RetriableException,
    UnauthorizedException,
)

T = TypeVar("T")

_LEAST_REFUSAL = 300
_REMOVED = 404
_REBALANCE = re.compile(r"rebalance|stale configuration|no known leader|zombie sink tasks", re.IGNORECASE)
_EXISTS = re.compile(r"\balready exists\b")
_PASSING = frozenset({429, 502, 503, 504})
"""Statuses of servers that start, and of proxies before servers that are away."""

_BY_STATUS = {403: ForbiddenException, 404: NotFoundException, 409: ConflictException}
_SHOWN_CHARACTERS = 200


class UnreachableException(RetriableException):
    """No answer came within the limits: the server is away, or the address is wrong."""


class ServerException(ConnectException):
    """The server failed, or is not a Kafka Connect; ``status`` is its HTTP status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class RetryLimits:
    """``seconds`` from the first attempt on in which another one may begin; 0: there is but one.

    The waits between attempts double from the first to the longest, each shortened by up to a half at random, so that many clients do
    not come back together.
    """

    seconds: float = 30.0
    first_wait_seconds: float = 0.25
    longest_wait_seconds: float = 4.0

    def wait(self, attempt: int, random: float) -> float:
        """Seconds to wait after attempt number ``attempt``, counted from 0; ``random`` is from 0 to 1."""
        longest = min(self.first_wait_seconds * 2.0 ** min(attempt, 30), self.longest_wait_seconds)
        return longest * (1 - random / 2)


@dataclass(frozen=True, slots=True)
class Send:
    """Send the call's request."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Let this time pass."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Lost:
    """No answer. ``was_sent``: the server may have carried the request out."""

    reason: str
    was_sent: bool


Conversation = Generator[Send | Wait, Answer | Lost | None, T]


def conversation(call: Call[T], server: str, limits: RetryLimits, now: Callable[[], float], random: Callable[[], float]) -> Conversation[T]:
    """``call`` carried through on the ``server`` of this base URL; ``now`` in seconds.

    Raises UnreachableException when no answer came in time, else what ``refusal`` makes of the answer.
    """
    request = f"{call.verb.method} {server}{call.path}"
    started, attempt, was_lost = now(), 0, False
    while True:
        came = yield Send()
        if isinstance(came, Answer) and not _is_refusal(call, came):
            return _read(call, came, request)
        if was_lost and isinstance(came, Answer) and call.verb.removes and came.status == _REMOVED:
            return call.read(Answer(204))
        wait = limits.wait(attempt, random())
        may_repeat = (
            is_passing(came) if isinstance(came, Answer) else isinstance(came, Lost) and (call.verb.is_repeatable or not came.was_sent)
        )
        if not may_repeat or now() + wait - started > limits.seconds:
            raise refusal(came, request) if isinstance(came, Answer) else _unreachable(came, request, attempt + 1)
        was_lost = was_lost or (isinstance(came, Lost) and came.was_sent)
        attempt += 1
        yield Wait(wait)


def _is_refusal(call: Call[T], answer: Answer) -> bool:
    return answer.status >= _LEAST_REFUSAL and not (answer.status in call.verb.also and isinstance(answer.body, dict))


def _read(call: Call[T], answer: Answer, request: str) -> T:
    try:
        return call.read(answer)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ServerException(
            f"{request} answers {answer.status}, but not as Kafka Connect does ({type(error).__name__}: {error}): is this its address?",
            answer.status,
        ) from error


def _unreachable(came: Lost | None, request: str, attempts: int) -> UnreachableException:
    reason = came.reason if came is not None else "nothing was sent"
    times = "once" if attempts == 1 else f"{attempts} times"
    unclear = " Whether the server carried it out is not known." if came is not None and came.was_sent else ""
    return UnreachableException(f"{request} has no answer, tried {times}: {reason}.{unclear} Check the address, and that the server runs")


def is_outage(error: ConnectException) -> bool:
    """Whether a server or the way to it failed, and not the request: a wait goes on."""
    return error.retriable or (isinstance(error, ServerException) and error.status >= 500)


def is_passing(answer: Answer) -> bool:
    """Whether the same request may be met soon. A rebalance is a 409, but for some reads and changes of offsets a 500."""
    return answer.status in _PASSING or (answer.status in (409, 500) and _REBALANCE.search(_message(answer)) is not None)


def refusal(answer: Answer, request: str) -> ConnectException:
    """The exception for ``answer``; ``request`` is its method and URL. A Kafka Connect's own message is kept as it is."""
    message = _message(answer)
    if answer.status == 401:
        return UnauthorizedException(
            f"{request} answers 401{f': {message}' if message else ''}. Give the login and password, or the token, of a user it knows"
        )
    if not message:
        return ServerException(f"{request} answers {answer.status} and not as Kafka Connect does: {_shown(answer)}", answer.status)
    if message.startswith("HTTP ") or "message" not in answer.body:  # not from a route of Kafka Connect's
        message = f"{request}: {message}"
    if answer.status == 409 and _EXISTS.search(message):
        return AlreadyExistsException(message)
    if 400 <= answer.status < 500:
        return _BY_STATUS.get(answer.status, BadRequestException)(message)
    return ServerException(message, answer.status)


def _message(answer: Answer) -> str:
    """The server's message; empty for an answer that is not Kafka Connect's."""
    if not isinstance(answer.body, dict):
        return answer.text if answer.status == 401 and len(answer.text) < _SHOWN_CHARACTERS else ""
    found = answer.body.get("message", answer.body.get("detail"))  # the second is how Airflow's own server words it
    return "" if found is None else str(found)


def _shown(answer: Answer) -> str:
    text = " ".join((answer.text or str(answer.body or "")).split())
    return repr(text[:_SHOWN_CHARACTERS]) if text else "without a body"
