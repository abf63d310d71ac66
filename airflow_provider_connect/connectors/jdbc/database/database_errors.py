"""A driver's errors as our exceptions: a setting to change, a connection to open again, a refused statement.

Decided by SQLSTATE or the server's number where the driver has one, else by the words of its message. An unknown error is not temporary.
"""

from __future__ import annotations

import re
from typing import Final

from airflow_provider_connect.connectors.jdbc.database.database_url import URL, DatabaseUrl
from airflow_provider_connect.errors import ConfigException, ConnectException, DataException, RetriableException

USER: Final = "connection.user"
PASSWORD: Final = "connection.password"


class StatementException(ConnectException):
    """The database refuses a statement: a dropped table, a missing right, a failed conversion. ``state`` is its SQLSTATE where it has
    one."""

    def __init__(self, message: str, state: str | None = None) -> None:
        super().__init__(message)
        self.state = state


class RefusedException(DataException):
    """The database refuses rows for their values. ``row`` is the index of the first bad one, if known."""

    def __init__(self, message: str, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row


class ValueException(DataException):
    """A value in an answer has another type than the rest of its column. ``column`` is the index in the answer."""

    def __init__(self, column: int, value: object) -> None:
        super().__init__(f"Column {column + 1} of the statement: the value {value} is of another type than those before it")
        self.column = column
        self.value = value


_UNKNOWN_USER: Final = re.compile(
    r"password authentication failed|no password supplied|Access denied for user|role \"[^\"]*\" does not exist|no pg_hba\.conf entry"
    r"|is not permitted to log in|Login failed|ORA-01017|ORA-2800[01]|authentication failed",
    re.IGNORECASE,
)
_UNKNOWN_DATABASE: Final = re.compile(
    r"database \"[^\"]*\" does not exist|Unknown database|unable to open database file|failed to open 'file:|file is not a database"
    r"|Cannot open database|ORA-125(?:05|14)|DPY-600[13]",
    re.IGNORECASE,
)
_TLS: Final = re.compile(
    r"certificate|server does not support SSL|SSL (?:is required|connection is required)|tlsv?1? alert|wrong version number|sslmode",
    re.IGNORECASE,
)
_UNREACHABLE: Final = re.compile(
    r"(?:connection|actively) refused|timed?[ -]?out|timeout|unreachable|no route to host|name resolution"
    r"|name or service not known|nodename nor servname"
    r"|could not translate host name|getaddrinfo|can't connect|unable to connect|cannot connect|Adaptive Server is unavailable"
    r"|too many (?:clients|connections)|remaining connection slots|session is (?:not )?read-|server is (?:not )?in hot standby"
    r"|no more connections allowed|server login has been failing|ORA-12(?:170|516|519|520|528|541|537|547|571)|DPY-(?:6005|4011)",
    re.IGNORECASE,
)
_LOST: Final = re.compile(
    r"server closed the connection|terminating connection|connection (?:to server )?was lost|no connection to the server|broken pipe"
    r"|could not receive data|could not send data|Lost connection|gone away|connection reset|the database system is"
    r"|database (?:table )?is locked|SSL connection has been closed|SSL SYSCALL|connection not open|Connection was killed"
    r"|DBPROCESS is dead|Not connected to any|ORA-(?:00028|01012|0103[34]|01089|0109[02]|0311[34]|03135)|DPY-(?:1001|4011)",
    re.IGNORECASE,
)
_ROLLED_BACK: Final = re.compile(
    r"deadlock (?:detected|found|victim)|could not serialize access|conflict with recovery|lock wait timeout|lock request time out"
    r"|ORA-000(?:54|60)|ORA-08177|ORA-01555",
    re.IGNORECASE,
)
_LOST_STATES: Final = ("08", "57P")  # connection exceptions, and what an operator does to the server
_ROLLBACK_STATES: Final = ("40", "55P03", "53300")  # rolled back by the server, a lock not available, too many connections


def error_number(error: object) -> int | None:
    """The server's number of a driver's error, if it has one."""
    arguments = getattr(error, "args", ())
    first = arguments[0] if arguments else None
    first = first[0] if isinstance(first, tuple) and first else first
    return first if isinstance(first, int) and not isinstance(first, bool) else None


def connection_error(url: DatabaseUrl, text: str, number: int | None = None) -> ConnectException:
    """Why there is no connection, with the setting to change; RetriableException for an error that is known to be temporary. Has no
    secret."""
    message = redacted(url, text)
    if _UNKNOWN_USER.search(text):
        reason = f"{url.address} refuses user {url.user!r}: {message}. Set {USER} and {PASSWORD} to those of a user that may log in."
        return ConfigException.of(PASSWORD, "[hidden]", reason)
    if _UNKNOWN_DATABASE.search(text):
        return ConfigException.of(URL, url.address, f"There is no such database: {message}. Set {URL} to one that exists.")
    if _TLS.search(text):
        reason = f"TLS failed: {message}. Check the options of {URL} that begin with ssl, and the files that they name."
        return ConfigException.of(URL, url.address, reason)
    if number in url.dialect.lost_numbers or any(words.search(text) for words in (_UNREACHABLE, _LOST, _ROLLED_BACK)):
        return RetriableException(f"No connection to {url.address} ({URL}): {message}")
    return ConnectException(f"No connection to {url.address} ({URL}), and the error is not known to be temporary: {message}")


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
    """Whether the server ended a transaction in favor of others, so that it may succeed when it is run again."""
    if state or number:  # the message may quote values, so its words decide nothing
        return (state or "").startswith(_ROLLBACK_STATES) or number in url.dialect.rollback_numbers
    return _ROLLED_BACK.search(text) is not None


def redacted(url: DatabaseUrl, text: str) -> str:
    """A driver's message in one line, without the URL's password and secret options."""
    message = " ".join(text.split())
    for secret in url.secrets:
        message = message.replace(secret, "[hidden]")
    return message
