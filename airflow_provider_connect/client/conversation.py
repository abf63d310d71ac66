"""Carries out one call: sends it, retries it if a retry is safe, then reads the answer or raises the refusal.

Does no I/O: a generator yields the next step (``Send``, ``Wait``) and receives its outcome (``Answer``, ``Lost``). So the blocking and the
asynchronous client share this module. Refusals become the exceptions of ``errors``.
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
_TRANSIENT = frozenset({429, 502, 503, 504})
"""Statuses of starting servers, and of proxies whose server is down."""

_BY_STATUS = {403: ForbiddenException, 404: NotFoundException, 409: ConflictException}
_SHOWN_CHARACTERS = 200


class UnreachableException(RetriableException):
    """No answer arrived within the limits: the server is down, or the address is wrong."""


class ServerException(ConnectException):
    """The server failed, or is not a Kafka Connect. ``status`` is the HTTP status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class RetryLimits:
    """No attempt begins later than ``seconds`` after the first; 0: no retry.

    The wait between attempts doubles up to the longest wait. Each wait is shortened at random by up to a half, so that clients do not retry
    together.
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
    """Let this time pass. ``notice`` is a sentence for a user who is waiting, before the first retry of a request without an answer."""

    seconds: float
    notice: str | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """No answer. ``was_sent``: the server may have executed the request."""

    reason: str
    was_sent: bool


Conversation = Generator[Send | Wait, Answer | Lost | None, T]


def conversation(call: Call[T], server: str, limits: RetryLimits, now: Callable[[], float], random: Callable[[], float]) -> Conversation[T]:
    """Carry out ``call`` on the server with the base URL ``server``. ``now`` returns seconds.

    Raises UnreachableException if no answer arrives in time. For a refused request, raises the exception that ``refusal`` returns.
    """
    request = f"{call.verb.method} {server}{call.path}"
    started, attempt, was_lost = now(), 0, False
    while True:
        outcome = yield Send()
        if isinstance(outcome, Answer) and not _is_refusal(call, outcome):
            return _read(call, outcome, request)
        if was_lost and isinstance(outcome, Answer) and call.verb.removes and outcome.status == _REMOVED:
            return call.read(Answer(204))
        wait = limits.wait(attempt, random())
        may_repeat = (
            is_transient(outcome)
            if isinstance(outcome, Answer)
            else isinstance(outcome, Lost) and (call.verb.is_repeatable or not outcome.was_sent)
        )
        if not may_repeat or now() + wait - started > limits.seconds:
            raise refusal(outcome, request) if isinstance(outcome, Answer) else _unreachable(outcome, request, attempt + 1)
        was_lost = was_lost or (isinstance(outcome, Lost) and outcome.was_sent)
        attempt += 1
        yield Wait(wait, _notice(outcome, request, limits) if attempt == 1 and isinstance(outcome, Lost) else None)


def _is_refusal(call: Call[T], answer: Answer) -> bool:
    return answer.status >= _LEAST_REFUSAL and not (answer.status in call.verb.also and isinstance(answer.body, dict))


def _read(call: Call[T], answer: Answer, request: str) -> T:
    try:
        return call.read(answer)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ServerException(
            f"{request} answers {answer.status}, but not as Kafka Connect does ({type(error).__name__}: {error}): check the address",
            answer.status,
        ) from error


def _notice(outcome: Lost, request: str, limits: RetryLimits) -> str:
    return f"{request} has no answer: {outcome.reason}. It is retried for up to {limits.seconds:g} seconds"


def _unreachable(outcome: Lost | None, request: str, attempts: int) -> UnreachableException:
    reason = outcome.reason if outcome is not None else "nothing was sent"
    times = "once" if attempts == 1 else f"{attempts} times"
    unclear = " Whether the server carried it out is not known." if outcome is not None and outcome.was_sent else ""
    return UnreachableException(f"{request} has no answer, tried {times}: {reason}.{unclear} Check the address, and that the server runs")


def is_outage(error: ConnectException) -> bool:
    """Whether the server or the network failed. The request was not refused, so a wait continues."""
    return error.retriable or (isinstance(error, ServerException) and error.status >= 500)


def is_transient(answer: Answer) -> bool:
    """Whether a retry may succeed soon. During a rebalance, the status is 409, or 500 for some reads and changes of offsets."""
    return answer.status in _TRANSIENT or (answer.status in (409, 500) and _REBALANCE.search(_message(answer)) is not None)


def refusal(answer: Answer, request: str) -> ConnectException:
    """The exception for ``answer``. ``request`` is the method and URL. A message of Kafka Connect is not changed."""
    message = _message(answer)
    if answer.status == 401:
        return UnauthorizedException(
            f"{request} answers 401{f': {message}' if message else ''}. Give the login and password, or the token, of a user it knows"
        )
    if not message:
        return ServerException(f"{request} answers {answer.status} and not as Kafka Connect does: {_excerpt(answer)}", answer.status)
    if message.startswith("HTTP ") or "message" not in answer.body:  # not from Kafka Connect
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
    found = answer.body.get("message", answer.body.get("detail"))  # Airflow's own server uses ``detail``
    return "" if found is None else str(found)


def _excerpt(answer: Answer) -> str:
    text = " ".join((answer.text or str(answer.body or "")).split())
    return repr(text[:_SHOWN_CHARACTERS]) if text else "without a body"
