"""What a server's refusal means: the exception to raise, and whether the same request may be met a little later."""

import re

from airflow_provider_connect.client.answers import Answer
from airflow_provider_connect.errors import (
    AlreadyExistsException,
    BadRequestException,
    ConflictException,
    ConnectException,
    NotFoundException,
    RetriableException,
)

_REBALANCE = re.compile(r"rebalance|stale configuration|no known leader|zombie sink tasks", re.IGNORECASE)
_EXISTS = re.compile(r"\balready exists\b")
_PASSING = frozenset({429, 502, 503, 504})
"""Statuses of servers that start, and of proxies before servers that are away."""

_SHOWN_CHARACTERS = 200


class UnreachableException(RetriableException):
    """No answer came within the limits: the server is away, or the address is wrong."""


class AccessException(ConnectException):
    """The server does not know the user (401), or does not let the user do this (403)."""

    status_code = 403


class ServerException(ConnectException):
    """The server failed, or is no Kafka Connect; ``status`` is its HTTP status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def is_passing(answer: Answer) -> bool:
    """Whether the same request may be met soon. A rebalance says so by 409, but for some reads and changes of offsets by 500."""
    return answer.status in _PASSING or (answer.status in (409, 500) and _REBALANCE.search(_message(answer)) is not None)


def refusal(answer: Answer, request: str) -> ConnectException:
    """The exception for ``answer``; ``request`` is its method and URL. A Kafka Connect's own message is kept as it is."""
    message = _message(answer)
    if answer.status in (401, 403):
        return _no_access(answer.status, message, request)
    if not message:
        return ServerException(f"{request} answers {answer.status} and not as Kafka Connect does: {_shown(answer)}", answer.status)
    if message.startswith("HTTP ") or "message" not in answer.body:  # not from a route of Kafka Connect's
        message = f"{request}: {message}"
    if answer.status == 404:
        return NotFoundException(message)
    if answer.status == 409:
        return AlreadyExistsException(message) if _EXISTS.search(message) else ConflictException(message)
    if 400 <= answer.status < 500:
        return BadRequestException(message)
    return ServerException(message, answer.status)


def _no_access(status: int, message: str, request: str) -> AccessException:
    said = f": {message}" if message else ""
    if status == 401:
        return AccessException(f"{request} answers 401{said}. Give the login and password, or the token, of a user whom the server knows")
    return AccessException(f"{request} answers 403{said}. The user may not do this: ask for the right, or give another user")


def _message(answer: Answer) -> str:
    """The server's message; empty for what is no answer of Kafka Connect's."""
    if not isinstance(answer.body, dict):
        return answer.text if answer.status == 401 and len(answer.text) < _SHOWN_CHARACTERS else ""
    found = answer.body.get("message", answer.body.get("detail"))  # the second is how Airflow's own server words it
    return "" if found is None else str(found)


def _shown(answer: Answer) -> str:
    text = " ".join((answer.text or str(answer.body or "")).split())
    return repr(text[:_SHOWN_CHARACTERS]) if text else "without a body"
