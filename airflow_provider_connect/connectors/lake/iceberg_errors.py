"""Translates errors of pyiceberg, its catalogs and stores to exceptions of this package. Loaded only by tasks."""

from __future__ import annotations

import errno
from typing import Final

import requests
import sqlalchemy.exc
from pyiceberg import exceptions

from airflow_provider_connect.connectors.bucket_access import MISSING_BUCKET
from airflow_provider_connect.connectors.lake.iceberg_settings import CATALOG, URI, WAREHOUSE
from airflow_provider_connect.connectors.lake.lake_errors import shorten, store_error, text_of
from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.errors import ConfigException, ConnectException, DataException, RetriableException

_KEY_TEXTS: Final = ("ACCESS_DENIED", "InvalidAccessKeyId", "INVALID_ACCESS_KEY_ID", "SignatureDoesNotMatch", "SIGNATURE_DOES_NOT_MATCH")
_RETRIABLE: Final = (
    exceptions.CommitFailedException,
    exceptions.CommitStateUnknownException,
    exceptions.ServerError,
    exceptions.ServiceUnavailableError,
    exceptions.TooManyRequestsError,
    exceptions.WaitingForLockException,
    sqlalchemy.exc.IntegrityError,  # another task has created the same namespace or table
)
_CREDENTIALS: Final = (
    exceptions.UnauthorizedError,
    exceptions.ForbiddenError,
    exceptions.AuthorizationExpiredError,
    exceptions.OAuthError,
)
_MISSING_TABLE: Final = (exceptions.NoSuchTableError, exceptions.NoSuchNamespaceError, exceptions.NoSuchIdentifierError)
_NO_SERVER: Final = (requests.exceptions.RequestException, sqlalchemy.exc.OperationalError, sqlalchemy.exc.InterfaceError)
_WRONG_ADDRESS: Final = (
    requests.exceptions.SSLError,
    requests.exceptions.TooManyRedirects,
    requests.exceptions.InvalidJSONError,
    ValueError,  # requests' classes for invalid addresses
)
_WRONG_DATABASE: Final = (
    "unable to open database file",
    "readonly database",
    "is full",
    "not a database",
    "does not exist",
    "no such",
    "no pg_hba.conf entry",
    "SSL",
)
"""Parts of messages of database drivers, which have one class for all connection problems."""


def translate_error(error: Exception, warehouse: str) -> Exception:
    """The exception of this package, or ``error`` itself if it is unknown."""
    if isinstance(error, ConnectException):
        return error
    text = text_of(error, getattr(error, "orig", None))
    if reason := _settings_reason(error, text):
        return ConfigException(f"{reason}: {shorten(text)}")
    if isinstance(error, _MISSING_TABLE):
        return ConnectException(
            f"The catalog ({URI}) no longer has the table. The next run starts with the tables it then finds: {shorten(text)}"
        )
    if isinstance(error, _NO_SERVER):
        return _catalog_error(error, text)
    if isinstance(error, OSError):
        return store_error(error, text, "A file of a table", f"{WAREHOUSE}={warehouse}")
    is_created = isinstance(error, sqlalchemy.exc.ProgrammingError) and "already exists" in text  # a SQL catalog's own tables
    return RetriableException(shorten(text)) if is_created or isinstance(error, _RETRIABLE) else error


def _settings_reason(error: Exception, text: str) -> str:
    """The reason why settings are rejected. Empty for other errors."""
    if any(word in text for word in _KEY_TEXTS):
        return f"The store refuses the keys of {CATALOG}s3.access-key-id and {CATALOG}s3.secret-access-key"
    if any(word in text for word in MISSING_BUCKET):
        return f"There is no such bucket. Create it, or change {WAREHOUSE}"
    is_refused = isinstance(error, _CREDENTIALS) or "authentication failed" in text
    return f"The catalog refuses the credentials of {CATALOG}*" if is_refused else ""


def _catalog_error(error: Exception, text: str) -> ConnectException:
    response = getattr(error, "response", None)
    if response is not None:
        is_transient = response.status_code == requests.codes.too_many or response.status_code >= requests.codes.server_error
    else:
        is_transient = not isinstance(error, _WRONG_ADDRESS) and not any(word in text for word in _WRONG_DATABASE)
    if is_transient:
        return RetriableException(f"The catalog cannot be used now ({URI}): {shorten(text)}")
    return ConfigException(f"The catalog cannot be used ({URI}): {shorten(text)}")


def row_error(table: str, error: Exception) -> Exception:
    """DataException for an error that rows caused while their files were written. Other errors are returned unchanged."""
    is_long = isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG
    if is_long or isinstance(error, pa.ArrowInvalid | pa.ArrowNotImplementedError | pa.ArrowTypeError | OverflowError):
        return DataException(f"Table {table} rejects a row: {shorten(text_of(error))}")
    return error
