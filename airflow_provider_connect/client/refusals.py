"""What a server's refusal means: the exception to raise, and whether the same request may be met a little later."""

import re

from airflow_provider_connect.client.calls import Answer
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

_REBALANCE = re.compile(r"rebalance|stale configuration|no known leader|zombie sink tasks", re.IGNORECASE)
_EXISTS = re.compile(r"\balready exists\b")
_PASSING = frozenset({429, 502, 503, 504})
"""Statuses of servers that start, and of proxies before servers that are away."""

_BY_STATUS = {403: ForbiddenException, 404: NotFoundException, 409: ConflictException}
_SHOWN_CHARACTERS = 200


class UnreachableException(RetriableException):
    """No answer came within the limits: the server is away, or the address is wrong."""


class ServerException(ConnectException):
    """The server failed, or is no Kafka Connect; ``status`` is its HTTP status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def is_outage(error: ConnectException) -> bool:
    """Whether a server or the way to it failed, and not what was asked: who waits for something goes on waiting."""
    return error.retriable or (isinstance(error, ServerException) and error.status >= 500)


def is_passing(answer: Answer) -> bool:
    """Whether the same request may be met soon. A rebalance says so by 409, but for some reads and changes of offsets by 500."""
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
    """The server's message; empty for what is no answer of Kafka Connect's."""
    if not isinstance(answer.body, dict):
        return answer.text if answer.status == 401 and len(answer.text) < _SHOWN_CHARACTERS else ""
    found = answer.body.get("message", answer.body.get("detail"))  # the second is how Airflow's own server words it
    return "" if found is None else str(found)


def _shown(answer: Answer) -> str:
    text = " ".join((answer.text or str(answer.body or "")).split())
    return repr(text[:_SHOWN_CHARACTERS]) if text else "without a body"
