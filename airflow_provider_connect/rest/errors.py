"""Errors of HTTP itself, and the one JSON form in which every error is answered. Knows no routes.

What is wrong with a connector or a config is raised below as an exception of the package's own tree; it carries its status and Kafka
Connect's text. Only what is wrong with the request as such is named here.
"""

from collections.abc import Mapping
from http import HTTPStatus

from starlette.responses import Response

from airflow_provider_connect.errors import ConnectException, UnauthorizedException
from airflow_provider_connect.rest.entities import json_bytes

CHALLENGE = {"WWW-Authenticate": 'Basic realm="Kafka Connect"'}


class HttpException(Exception):
    """A request that no route takes: status, text and headers of the answer."""

    def __init__(self, status: int, message: str | None = None, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message or f"HTTP {status} {HTTPStatus(status).phrase}")
        self.status, self.headers = status, dict(headers or {})

    @property
    def message(self) -> str:
        return str(self)


def error_answer(error: ConnectException | HttpException) -> Response:
    """``{"error_code", "message"}`` with the error's status."""
    if isinstance(error, HttpException):
        return _answer(error.status, error.message, error.headers)
    return _answer(error.status_code, error.message, CHALLENGE if isinstance(error, UnauthorizedException) else {})


def _answer(status: int, message: str, headers: Mapping[str, str]) -> Response:
    body = json_bytes({"error_code": status, "message": message})
    return Response(body, status_code=status, headers=dict(headers), media_type="application/json")
