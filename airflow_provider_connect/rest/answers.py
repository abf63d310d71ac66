"""Answers as Kafka Connect sends them: JSON, an empty body, or an error in Kafka Connect's form. Knows no routes.

For an error of a connector or a config, lower layers raise an exception of ``errors``, with the status and Kafka Connect's text.
``HttpException`` is for errors of the request itself.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from itertools import accumulate, takewhile

from starlette.requests import Request
from starlette.responses import Response

from airflow_provider_connect.errors import BadRequestException, ConnectException, UnauthorizedException
from airflow_provider_connect.runtime.model.config_limits import cut
from airflow_provider_connect.runtime.model.verbs import WARNINGS_HEADER
from airflow_provider_connect.runtime.model.view_json import to_json

JSON = "application/json"
CHALLENGE = {"WWW-Authenticate": 'Basic realm="Kafka Connect"'}
_ENCODED_AT_ONCE = 256
_LONGEST_WARNINGS = 3000  # nginx accepts 4 KiB of headers by default
_MOST_DIGITS = 9  # of a number in a query
_SPLIT_LEVELS = 2


class HttpException(Exception):
    """A request that no route accepts: status, text and headers of the answer."""

    def __init__(self, status: int, message: str | None = None, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message or f"HTTP {status} {HTTPStatus(status).phrase}")
        self.status, self.headers = status, dict(headers or {})

    @property
    def message(self) -> str:
        return str(self)


def answer(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer with ``value`` as JSON. ``value`` may contain views; ``bytes`` are already JSON."""
    body = value if isinstance(value, bytes) else json_bytes(to_json(value))
    return Response(body, status_code=status, headers=dict(headers or {}), media_type=JSON)


def warnings_header(warnings: Sequence[str]) -> dict[str, str]:
    """The header with the warnings of a validation. Empty if there are no warnings."""
    return {WARNINGS_HEADER: json.dumps(list(warnings))} if warnings else {}


def short_warnings_header(warnings: Sequence[str]) -> dict[str, str]:
    """Like ``warnings_header``, but short enough for every proxy and client: if one of them refused the answer to a write, the write would
    look as if it had failed. The last entry is the number of warnings left out."""
    ends = accumulate(len(json.dumps(warning)) + 2 for warning in warnings)
    shown = warnings[: sum(1 for _ in takewhile(lambda end: end <= _LONGEST_WARNINGS, ends))]
    left = len(warnings) - len(shown)
    return warnings_header([*shown, f"and {left} more warnings: validate the config to see them"] if left else shown)


def empty(status: int) -> Response:
    """An answer without body and without Content-Type."""
    return Response(status_code=status)


def error_answer(error: ConnectException | HttpException) -> Response:
    """``{"error_code", "message"}`` with the error's status."""
    if isinstance(error, HttpException):
        status, headers = error.status, error.headers
    else:
        status, headers = error.status_code, CHALLENGE if isinstance(error, UnauthorizedException) else {}
    return answer({"error_code": status, "message": error.message}, status, headers)


def query(request: Request, name: str, default: str) -> str:
    """The first value of a query parameter. A missing or empty parameter has the default, as in Kafka Connect."""
    values = request.query_params.getlist(name)
    return values[0] if values and values[0] else default


def whole_number(request: Request, name: str, default: str) -> int:
    """The number of a query parameter, as by ``query``. Raises BadRequestException for anything but at most nine digits."""
    text = query(request, name, default)
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise BadRequestException(f"{name} is a whole number, not {cut(text)}")
    return int(text)


def json_bytes(value: object) -> bytes:
    """``value`` as JSON without white space. An unpaired surrogate, which another program may have written, becomes a question mark.

    Long lists and objects are encoded in pieces: one call of the encoder blocks all other threads, including the event loop.
    """
    return b"".join(_encoded(value, _SPLIT_LEVELS))


def _encoded(value: object, levels: int) -> Iterator[bytes]:
    if levels and isinstance(value, dict) and any(isinstance(inner, dict | list) for inner in value.values()):
        before = b"{"
        for key, inner in value.items():
            yield before + _dumped(key) + b":"
            yield from _encoded(inner, levels - 1)
            before = b","
        yield b"}"
    elif isinstance(value, dict | list) and len(value) > _ENCODED_AT_ONCE:
        entries, (first, last) = (list(value.items()), b"{}") if isinstance(value, dict) else (value, b"[]")
        for at in range(0, len(entries), _ENCODED_AT_ONCE):
            some = entries[at : at + _ENCODED_AT_ONCE]
            yield (b"," if at else bytes([first])) + _dumped(dict(some) if isinstance(value, dict) else some)[1:-1]
        yield bytes([last])
    else:
        yield _dumped(value)


def _dumped(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode(errors="replace")
