"""Translates a driver's errors to our exceptions: a setting to change, a connection to reopen, a refused statement.

The SQLSTATE or the server's error number decides. If the driver has neither, the words of its message decide. An unknown error is not
temporary.
"""

from __future__ import annotations

import re
from typing import Final

from airflow_provider_connect.connectors.jdbc.database.database_url import PASSWORD, URL, DatabaseUrl
from airflow_provider_connect.connectors.jdbc.dialects.dialect import ErrorWords
from airflow_provider_connect.connectors.jdbc.dialects.registry import DIALECTS
from airflow_provider_connect.errors import ConfigException, ConnectException, DataException, RetriableException


class StatementException(ConnectException):
    """The database refuses a statement: a dropped table, a missing privilege, a failed conversion. ``state`` is its SQLSTATE, if any."""

    def __init__(self, message: str, state: str | None = None) -> None:
        super().__init__(message)
        self.state = state


class RefusedException(DataException):
    """The database refuses rows because of their values. ``row`` is the index of the first bad row, if known."""

    def __init__(self, message: str, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row


class ValueException(DataException):
    """A value in a result has another type than the rest of its column. ``column`` is the index in the result."""

    def __init__(self, column: int, value: object) -> None:
        super().__init__(f"Column {column + 1} of the statement: the value {value} is of another type than those before it")
        self.column = column
        self.value = value


_WORDS_OF_ALL: Final = ErrorWords(
    unknown_user="authentication failed",
    unreachable=(
        r"(?:connection|actively) refused|timed?[ -]?out|timeout|unreachable|no route to host|name resolution|name or service not known"
        r"|nodename nor servname|getaddrinfo|can't connect|unable to connect|cannot connect|too many (?:clients|connections)"
    ),
    lost=r"connection (?:to server )?was lost|broken pipe|connection reset",
)
_WORDS: Final = zip(_WORDS_OF_ALL, *(dialect.error_words for dialect in DIALECTS), strict=True)
_UNKNOWN_USER, _UNKNOWN_DATABASE, _UNREACHABLE, _LOST, _ROLLED_BACK = (
    re.compile("|".join(filter(None, words)), re.IGNORECASE) for words in _WORDS
)
_TLS: Final = re.compile(
    r"certificate|server does not support SSL|SSL (?:is required|connection is required)|tlsv?1? alert|wrong version number|sslmode",
    re.IGNORECASE,
)
_LOST_STATES: Final = ("08", "57P")  # connection exceptions, and an operator's intervention
_ROLLBACK_STATES: Final = ("40", "55P03", "53300")  # rolled back by the server, a lock not available, too many connections


def error_number(error: object) -> int | None:
    """The server's error number in a driver's error, if any."""
    arguments = getattr(error, "args", ())
    first = arguments[0] if arguments else None
    first = first[0] if isinstance(first, tuple) and first else first
    return first if isinstance(first, int) and not isinstance(first, bool) else None


def connection_error(url: DatabaseUrl, text: str, number: int | None = None) -> ConnectException:
    """The exception for a failed connection, with the setting to change. RetriableException for an error that is known to be temporary.
    Contains no secrets."""
    message = redacted(url, text)
    if _UNKNOWN_USER.search(text):
        reason = f"{url.address} refuses user {url.user!r}: {message}. Set {_login_keys(url)} to those of a user that may log in."
        shown = {URL: url.address, PASSWORD: "null" if url.password is None else "[hidden]"}
        return ConfigException.of(url.password_key, shown[url.password_key], reason)
    if _UNKNOWN_DATABASE.search(text):
        return ConfigException.of(URL, url.address, f"There is no such database: {message}. Set {URL} to one that exists.")
    if _TLS.search(text):
        reason = f"TLS failed: {message}. Check the options of {URL} that begin with ssl, and the files that they name."
        return ConfigException.of(URL, url.address, reason)
    if number in url.dialect.lost_numbers or any(words.search(text) for words in (_UNREACHABLE, _LOST, _ROLLED_BACK)):
        return RetriableException(f"No connection to {url.address} ({URL}): {message}")
    return ConnectException(f"No connection to {url.address} ({URL}), and the error is not known to be temporary: {message}")


def _login_keys(url: DatabaseUrl) -> str:
    if url.user_key == url.password_key == URL:
        return f"the user and password in {URL}"
    named = ((url.user_key, "user"), (url.password_key, "password"))
    return " and ".join(f"the {what} in {URL}" if key == URL else key for key, what in named)


def statement_error(url: DatabaseUrl, text: str, state: str | None, number: int | None = None) -> ConnectException:
    """The exception for an error of a statement: RetriableException for a lost connection or a transaction that the server ended, else
    StatementException."""
    message, state = redacted(url, text), state or ""
    is_known = bool(state or number)  # the message may quote values, so its words decide nothing
    has_number = number in url.dialect.lost_numbers
    if state.startswith(_LOST_STATES) or has_number or (not is_known and _LOST.search(text)):
        return RetriableException(f"The connection to {url.address} was lost: {message}")
    if is_retriable_rollback(url, text, state, number):
        return RetriableException(f"{url.address} has ended the transaction: {message}")
    return StatementException(f"{url.address} refuses a statement: {message}", state or None)


def is_retriable_rollback(url: DatabaseUrl, text: str, state: str | None, number: int | None = None) -> bool:
    """Whether the server ended a transaction in favor of others, so that a repetition may succeed."""
    if state or number:  # the message may quote values, so its words decide nothing
        return (state or "").startswith(_ROLLBACK_STATES) or number in url.dialect.rollback_numbers
    return _ROLLED_BACK.search(text) is not None


def redacted(url: DatabaseUrl, text: str) -> str:
    """A driver's message on one line, without the URL's password and secret options."""
    message = " ".join(text.split())
    for secret in url.secrets:
        message = message.replace(secret, "[hidden]")
    return message
