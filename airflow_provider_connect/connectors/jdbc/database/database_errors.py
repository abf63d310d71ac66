"""What goes wrong between us and a database, translated once: a setting to change, a connection to have again, a statement refused.

The words of drivers are looked at, since not all of them tell by a code.
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
    """The database takes none of some rows because of what is in them. ``row`` is the first bad one's place, where that is known."""

    def __init__(self, message: str, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row


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
    """Why there is no connection, with the setting to change; RetriableException where nobody answers. Never holds the password."""
    said = _without_password(url, text)
    if _UNKNOWN_USER.search(text):
        reason = f"{url.place} refuses user {url.user!r}: {said}. Set {USER} and {PASSWORD} to those of a user that may log in."
        return ConfigException.of(PASSWORD, "[hidden]", reason)
    if _UNKNOWN_DATABASE.search(text):
        return ConfigException.of(URL, url.place, f"There is no such database: {said}. Set {URL} to one that exists.")
    return RetriableException(f"No connection to {url.place} ({URL}): {said}")


def statement_refusal(url: DatabaseUrl, text: str, state: str | None) -> ConnectException:
    """What an error of a statement is: a lost connection, which may be had again, or a refusal."""
    said = _without_password(url, text)
    if (state or "").startswith(("08", "57P")) or _LOST.search(text):
        return RetriableException(f"The connection to {url.place} was lost: {said}")
    return StatementException(f"{url.place} refuses a statement: {said}", state)


def _without_password(url: DatabaseUrl, text: str) -> str:
    said = " ".join(text.split())
    return said.replace(url.password, "[hidden]") if url.password else said
