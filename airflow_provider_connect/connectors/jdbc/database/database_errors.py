"""What goes wrong between us and a database, translated once: a setting to change, a connection to open again, a statement refused.

The messages of drivers are searched, since not all of them have codes.
"""

from __future__ import annotations

import re
from typing import Final

from airflow_provider_connect.connectors.jdbc.database.database_url import URL, DatabaseUrl
from airflow_provider_connect.errors import ConfigException, ConnectException, DataException, RetriableException

USER: Final = "connection.user"
PASSWORD: Final = "connection.password"


class StatementException(ConnectException):
    """The database refuses a statement: a table that is gone, a right that is missing, a conversion that fails. ``state`` is its SQLSTATE
    where it has one."""

    def __init__(self, message: str, state: str | None = None) -> None:
        super().__init__(message)
        self.state = state


class RefusedException(DataException):
    """The database refuses rows for their values. ``row`` is the index of the first bad one, where that is known."""

    def __init__(self, message: str, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row


class ValueException(DataException):
    """An answer of the database has a value of another type than the rest of its column. ``column`` is the index in the answer."""

    def __init__(self, column: int, value: object) -> None:
        super().__init__(f"Column {column + 1} of the statement: the value {value} is of another type than those before it")
        self.column = column
        self.value = value


_UNKNOWN_USER: Final = re.compile(
    r"password authentication failed|no password supplied|Access denied for user|role \"[^\"]*\" does not exist|no pg_hba\.conf entry"
    r"|is not permitted to log in|Login failed|ORA-01017|authentication failed",
    re.IGNORECASE,
)
_UNKNOWN_DATABASE: Final = re.compile(
    r"database \"[^\"]*\" does not exist|Unknown database|unable to open database file|failed to open 'file:|file is not a database"
    r"|Cannot open database",
    re.IGNORECASE,
)
_LOST: Final = re.compile(
    r"server closed the connection|terminating connection|connection (?:to server )?was lost|no connection to the server|broken pipe"
    r"|could not receive data|could not send data|Lost connection|gone away|connection reset|the database system is"
    r"|database is locked|SSL connection has been closed|SSL SYSCALL|connection not open",
    re.IGNORECASE,
)


def connection_refusal(url: DatabaseUrl, text: str) -> ConnectException:
    """Why there is no connection, with the setting to change; RetriableException where no server answers. Never holds the password."""
    message = _without_password(url, text)
    if _UNKNOWN_USER.search(text):
        reason = f"{url.address} refuses user {url.user!r}: {message}. Set {USER} and {PASSWORD} to those of a user that may log in."
        return ConfigException.of(PASSWORD, "[hidden]", reason)
    if _UNKNOWN_DATABASE.search(text):
        return ConfigException.of(URL, url.address, f"There is no such database: {message}. Set {URL} to one that exists.")
    return RetriableException(f"No connection to {url.address} ({URL}): {message}")


def statement_refusal(url: DatabaseUrl, text: str, state: str | None) -> ConnectException:
    """What an error of a statement is: a lost connection, which a retry may open again, or a refusal."""
    message = _without_password(url, text)
    if (state or "").startswith(("08", "57P")) or _LOST.search(text):
        return RetriableException(f"The connection to {url.address} was lost: {message}")
    return StatementException(f"{url.address} refuses a statement: {message}", state)


def _without_password(url: DatabaseUrl, text: str) -> str:
    message = " ".join(text.split())
    return message.replace(url.password, "[hidden]") if url.password else message
