"""Translates errors of deltalake to exceptions of this package. The errors rarely name the table. Loaded only by tasks."""

from __future__ import annotations

import re
from typing import Final

from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from airflow_provider_connect.connectors.bucket_access import ACCESS_DENIED, ACCESS_KEY, MISSING_BUCKET, SECRET_KEY
from airflow_provider_connect.connectors.lake.delta_settings import PATH, UPSERT
from airflow_provider_connect.connectors.lake.lake_errors import shorten, store_error
from airflow_provider_connect.errors import ConfigException, ConnectException, DataException, RetriableException

_COLORS: Final = re.compile(r"\x1b\[[0-9;]*m")
_STORE_TEXTS: Final = ("Generic LocalFileSystem error", "Generic S3 error", "Could not create local directory")
"""Parts of the library's messages for errors of the operating system, such as a full disk, and for an unreachable server."""
_ROW_TEXTS: Final = ("failed validation check", "File name too long")
"""Violations of a constraint, an invariant or a generated column; a partition value too long for a folder name."""
_FORBIDDEN_TEXTS: Final = ("append-only", "nsupported", "not supported", "eature")
"""Commits that the table's properties or protocol forbid."""


def translate_error(error: Exception, address: str) -> Exception:
    """The exception of this package, or ``error`` itself if it is unknown."""
    if isinstance(error, ConnectException):
        return error
    whole = " ".join(_COLORS.sub("", f"{type(error).__name__}: {error}").split())
    text = shorten(whole)
    if reason := _address_reason(error, whole):
        return ConfigException.of(PATH, address, f"{reason}: {text}")
    if any(word in whole for word in _ROW_TEXTS):
        return DataException(f"Table {address} rejects a row: {text}")
    if isinstance(error, CommitFailedError):
        return _commit_error(whole, text, address)
    if isinstance(error, OSError) or (isinstance(error, DeltaError) and any(word in whole for word in _STORE_TEXTS)):
        return store_error(error, whole, f"A file of the table {address}", PATH)
    return error


def _address_reason(error: Exception, text: str) -> str:
    """The reason why the address or its keys are rejected. Empty for other errors."""
    if isinstance(error, TableNotFoundError) and not any(word in text for word in _STORE_TEXTS):
        return "The Delta table no longer exists"
    if any(word in text for word in MISSING_BUCKET):
        return "There is no such bucket. Create it, or set another"
    advice = f"Check {ACCESS_KEY} and {SECRET_KEY}, and their permissions: list, read, write and delete"
    return f"The store refuses access. {advice}" if any(word in text for word in ACCESS_DENIED) else ""


def _commit_error(whole: str, text: str, address: str) -> ConnectException:
    if "append-only" in whole:
        return ConfigException.of(UPSERT, "true", f"Table {address} is append-only (delta.appendOnly): {text}")
    if any(word in whole for word in _FORBIDDEN_TEXTS):
        return ConnectException(f"Table {address} refuses the commit: {text}")
    return RetriableException(text)
