"""What follows from errors of lakes' libraries: which may pass, which are a setting's or a record's, and which are final."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

import pyarrow as pa
import pytest
import requests
import sqlalchemy.exc
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from pyiceberg import exceptions

from airflow_provider_connect.connectors.lake import delta_errors, iceberg_errors
from airflow_provider_connect.connectors.lake.delta_sink import DeltaSinkConnector
from airflow_provider_connect.data.records import SinkRecord
from airflow_provider_connect.errors import ConfigException, ConnectException, DataException, FencedException, RetriableException
from airflow_provider_connect.sdk.batch import Batch

Translated = Callable[[Exception], Exception]


def of_iceberg(error: Exception) -> Exception:
    return iceberg_errors.translate_error(error, "/warehouse")


def of_delta(error: Exception) -> Exception:
    return delta_errors.translate_error(error, "/lake/notes")


def of_number(number: int, kind: type[OSError] = OSError) -> OSError:
    return kind(number, os.strerror(number), "/lake/file")


def answered(status: int) -> requests.exceptions.HTTPError:
    response = requests.Response()
    response.status_code = status
    return requests.exceptions.HTTPError(f"{status} from the catalog", response=response)


def of_database(text: str) -> sqlalchemy.exc.OperationalError:
    return sqlalchemy.exc.OperationalError("SELECT 1", {}, Exception(text))


PASSING: dict[str, tuple[Translated, Exception]] = {
    "a lost connection": (of_iceberg, of_number(errno.ECONNRESET)),
    "a busy file": (of_iceberg, of_number(errno.EBUSY)),
    "S3 is slow": (of_iceberg, OSError("When writing: AWS Error SLOW_DOWN during PutObject operation: busy (HTTP status 503)")),
    "S3 is away": (
        of_iceberg,
        OSError("AWS Error NETWORK_CONNECTION during HeadObject operation: curlCode: 7, Couldn't connect to server"),
    ),
    "the catalog is away": (of_iceberg, requests.exceptions.ConnectionError("Connection refused")),
    "the catalog is slow": (of_iceberg, requests.exceptions.ReadTimeout("read timed out")),
    "the catalog is busy": (of_iceberg, exceptions.TooManyRequestsError("slow down")),
    "the catalog fails": (of_iceberg, exceptions.ServerError("500")),
    "an answer of a proxy": (of_iceberg, answered(502)),
    "a locked database": (of_iceberg, of_database("database is locked")),
    "a database that is away": (of_iceberg, of_database("connection to server at 127.0.0.1 failed: Connection refused")),
    "another writer": (of_iceberg, exceptions.CommitFailedException("the branch main has changed")),
    "delta: another writer": (of_delta, CommitFailedError("Transaction failed: a concurrent transaction has changed the metadata")),
    "delta: the store is away": (
        of_delta,
        OSError("Generic S3 error: Error performing PUT http://h/b - HTTP error: error sending request"),
    ),
    "delta: the store fails": (of_delta, DeltaError("Generic S3 error: Server returned non-2xx status code: 503: busy")),
    "delta: too many files": (
        of_delta,
        DeltaError("Generic LocalFileSystem error: Unable to open file: Too many open files (os error 24)"),
    ),
}
FINAL: dict[str, tuple[Translated, Exception, str]] = {
    "a missing file": (
        of_iceberg,
        of_number(errno.ENOENT, FileNotFoundError),
        r"cannot be used \(iceberg\.catalog\.warehouse=/warehouse\): .*No such file",
    ),
    "a file without rights": (of_iceberg, of_number(errno.EACCES, PermissionError), r"\(iceberg\.catalog\.warehouse=/warehouse\)"),
    "a full disk": (of_iceberg, of_number(errno.ENOSPC), "No space left on device"),
    "a disk that is read only": (of_iceberg, of_number(errno.EROFS), "Read-only file system"),
    "an error that has no number": (of_iceberg, OSError("Scale must be a non-negative integer"), r"cannot be used .*: OSError: Scale"),
    "a table that is gone": (of_iceberg, exceptions.NoSuchTableError("Table does not exist: shop.notes"), "no longer has the table"),
    "delta: a full disk": (
        of_delta,
        DeltaError("Generic LocalFileSystem error: Unable to copy: No space left on device (os error 28)"),
        r"/lake/notes cannot be used \(delta\.table\.path\)",
    ),
    "delta: no rights": (of_delta, OSError("Generic LocalFileSystem error: Permission denied (os error 13)"), "cannot be used"),
    "delta: a refused address": (
        of_delta,
        DeltaError("Generic S3 error: Server returned non-2xx status code: 404: gone"),
        "cannot be used",
    ),
    "delta: an unknown protocol": (of_delta, CommitFailedError("Unsupported table features required: [rowTracking]"), "refuses the commit"),
}
SETTINGS: dict[str, tuple[Translated, Exception, str]] = {
    "401": (of_iceberg, exceptions.UnauthorizedError("no"), r"iceberg\.catalog\.\*"),
    "403": (of_iceberg, exceptions.ForbiddenError("no"), r"iceberg\.catalog\.\*"),
    "a wrong client": (of_iceberg, exceptions.OAuthError("invalid_client"), r"iceberg\.catalog\.\*"),
    "404 for all": (of_iceberg, answered(404), r"iceberg\.catalog\.uri"),
    "no address": (of_iceberg, requests.exceptions.InvalidURL("http://"), r"iceberg\.catalog\.uri"),
    "a wrong certificate": (of_iceberg, requests.exceptions.SSLError("certificate verify failed"), r"iceberg\.catalog\.uri"),
    "no such database": (of_iceberg, of_database('FATAL: database "lake" does not exist'), r"iceberg\.catalog\.uri"),
    "a database without rights": (of_iceberg, of_database("attempt to write a readonly database"), r"iceberg\.catalog\.uri"),
    "delta: 403": (of_delta, OSError("Generic S3 error: 403 Forbidden"), r"aws\.access\.key\.id"),
    "delta: no table": (of_delta, TableNotFoundError("No files in log segment"), r"delta\.table\.path"),
    "delta: append-only": (of_delta, CommitFailedError("a Remove action but Delta table is append-only"), r"delta\.appendOnly"),
}
UNKNOWN: dict[str, tuple[Translated, Exception]] = {
    "division": (of_iceberg, ZeroDivisionError("division by zero")),
    "a key": (of_iceberg, KeyError("field")),
    "delta: a value": (of_delta, ValueError("x")),
    "delta: an error": (of_delta, DeltaError("Kernel error")),
}


@pytest.mark.parametrize(("translated", "error"), PASSING.values(), ids=PASSING)
def test_what_may_pass_is_retriable(translated: Translated, error: Exception) -> None:
    assert isinstance(translated(error), RetriableException)


@pytest.mark.parametrize(("translated", "error", "text"), FINAL.values(), ids=FINAL)
def test_what_stays_is_final_and_names_its_file(translated: Translated, error: Exception, text: str) -> None:
    found = translated(error)
    assert isinstance(found, ConnectException)
    assert not found.retriable
    with pytest.raises(ConnectException, match=text):
        raise found


@pytest.mark.parametrize(("translated", "error", "text"), SETTINGS.values(), ids=SETTINGS)
def test_what_a_setting_is_refused_for_names_it(translated: Translated, error: Exception, text: str) -> None:
    with pytest.raises(ConfigException, match=text):
        raise translated(error)


@pytest.mark.parametrize(("translated", "error"), UNKNOWN.values(), ids=UNKNOWN)
def test_nothing_is_made_of_an_error_that_is_not_known(translated: Translated, error: Exception) -> None:
    assert translated(error) is error


def test_rows_are_at_fault_for_what_they_bring_about_alone() -> None:
    for error in (pa.ArrowInvalid("x"), pa.ArrowNotImplementedError("x"), of_number(errno.ENAMETOOLONG)):
        assert isinstance(iceberg_errors.row_error("shop.notes", error), DataException)
    for other in (KeyError("x"), of_number(errno.ENOSPC), FencedException("x")):
        assert iceberg_errors.row_error("shop.notes", other) is other


class _Nothing:
    """A session that takes all."""

    written: dict[str, dict[str, str]] = {}  # noqa: RUF012  # as the protocol has it

    def begin(self) -> None: ...

    def write(self, batch: Batch) -> None: ...

    def commit(self) -> None: ...


@pytest.mark.parametrize(("timeout_ms", "expected"), [("0", ConnectException), ("-1", RetriableException), ("60000", RetriableException)])
def test_an_unknown_error_is_final_after_the_timeout_and_names_its_records(
    timeout_ms: str, expected: type[ConnectException], monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, session = DeltaSinkConnector(), _Nothing()
    sink.config = sink.config_def.parse({"delta.table.path": "/lake/notes", "errors.retry.timeout": timeout_ms})
    sink.begin(session)  # type: ignore[arg-type]
    records = [SinkRecord("notes", 3, offset, value={"id": offset}) for offset in (7, 8, 9)]
    for batch in Batch.from_sink_records(records):
        sink.write(session, batch)  # type: ignore[arg-type]
    found = sink.translate_error(KeyError("x"))
    assert type(found) is expected
    assert "notes-3, offsets 7 to 9: KeyError: 'x'" in str(found)
    now = 1e9
    monkeypatch.setattr("time.monotonic", lambda: now)
    assert isinstance(sink.translate_error(KeyError("x")), RetriableException) is (timeout_ms == "-1")
