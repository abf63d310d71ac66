"""Errors of deltalake, which seldom name the table, in the exceptions of this package. Loaded by tasks alone."""

from __future__ import annotations

import re
from typing import Final

from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from airflow_provider_connect.connectors.bucket_access import ACCESS_KEY, NO_BUCKET, REFUSED, SECRET_KEY
from airflow_provider_connect.connectors.lake.delta_settings import PATH, UPSERT
from airflow_provider_connect.connectors.lake.lake_errors import of_store, shortened
from airflow_provider_connect.errors import ConfigException, ConnectException, DataException, RetriableException

_COLORS: Final = re.compile(r"\x1b\[[0-9;]*m")
_OF_STORES: Final = ("Generic LocalFileSystem error", "Generic S3 error", "Could not create local directory")
"""In texts of the library for errors of the operating system, such as a disk that is full, and for a server that is away."""
_OF_ROWS: Final = ("failed validation check", "File name too long")
"""A constraint, an invariant or a generated column of the table; a partition value that is the name of a folder."""
_FOR_GOOD: Final = ("append-only", "nsupported", "not supported", "eature")
"""Of commits: what the table's properties and protocol forbid."""


def translated(error: Exception, address: str) -> Exception:
    """The exception of this package; ``error`` itself where nothing is known of it."""
    if isinstance(error, ConnectException):
        return error
    whole = " ".join(_COLORS.sub("", f"{type(error).__name__}: {error}").split())
    text = shortened(whole)
    if reason := _of_address(error, whole):
        return ConfigException.of(PATH, address, f"{reason}: {text}")
    if any(word in whole for word in _OF_ROWS):
        return DataException(f"Table {address} takes no such row: {text}")
    if isinstance(error, CommitFailedError):
        return _of_commit(whole, text, address)
    if isinstance(error, OSError) or (isinstance(error, DeltaError) and any(word in whole for word in _OF_STORES)):
        return of_store(error, whole, f"A file of the table {address}", PATH)
    return error


def _of_address(error: Exception, text: str) -> str:
    """What the address or its keys are refused for; empty for another error."""
    if isinstance(error, TableNotFoundError) and not any(word in text for word in _OF_STORES):
        return "There is no Delta table any more"
    if any(word in text for word in NO_BUCKET):
        return "There is no such bucket. Create it, or set another"
    advice = f"Check {ACCESS_KEY} and {SECRET_KEY}, and what they are allowed: to list, read, write and delete"
    return f"The store refuses access. {advice}" if any(word in text for word in REFUSED) else ""


def _of_commit(whole: str, text: str, address: str) -> ConnectException:
    if "append-only" in whole:
        return ConfigException.of(UPSERT, "true", f"Table {address} is append-only (delta.appendOnly): {text}")
    if any(word in whole for word in _FOR_GOOD):
        return ConnectException(f"Table {address} refuses the commit: {text}")
    return RetriableException(text)
