"""Lines of a log between processes: written, read and logged again under their levels and loggers."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from airflow_provider_connect.runtime.model import log_lines
from airflow_provider_connect.runtime.model.log_lines import KeptLines, LineFormatter, LineReader, write_logs


@pytest.fixture
def far() -> Iterator[logging.Logger]:
    """A logger as in another process: nothing of it reaches this process's handlers."""
    logger = logging.getLogger("tests.far")
    logger.propagate, logger.level = False, logging.DEBUG
    yield logger
    logger.handlers.clear()
    logger.propagate, logger.level = True, logging.NOTSET


@pytest.fixture
def written(far: logging.Logger) -> io.StringIO:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LineFormatter())
    far.addHandler(handler)
    return stream


def found(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, str]]:
    return [(record.levelname, record.name, record.getMessage()) for record in caplog.records]


def test_levels_loggers_and_texts_survive(far: logging.Logger, written: io.StringIO, caplog: pytest.LogCaptureFixture) -> None:
    far.getChild("orders").debug("page %d", 3)
    far.info("100 %s of it")
    far.warning("")
    far.error("two\nlines: and | more")
    lines = written.getvalue().splitlines()
    assert lines == [
        "DEBUG tests.far.orders: page 3",
        "INFO tests.far: 100 %s of it",
        "WARNING tests.far: ",
        "ERROR tests.far| two",
        "ERROR tests.far: lines: and | more",
    ]
    caplog.clear()
    far.setLevel(logging.INFO)
    reader = LineReader()
    assert all(reader.read(line) for line in lines)
    assert found(caplog) == [
        ("DEBUG", "tests.far.orders", "page 3"),
        ("INFO", "tests.far", "100 %s of it"),
        ("WARNING", "tests.far", ""),
        ("ERROR", "tests.far", "two\nlines: and | more"),
    ]


def test_a_trace_is_one_record(far: logging.Logger, written: io.StringIO, caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError("no\nnumber")
    except ValueError:
        far.exception("Task orders-0 FAILED")
    caplog.clear()
    reader = LineReader()
    assert all(reader.read(line) for line in written.getvalue().splitlines())
    ((level, _, text),) = found(caplog)
    assert level == "ERROR"
    assert text.startswith("Task orders-0 FAILED\nTraceback (most recent call last):\n  File ")
    assert text.endswith("ValueError: no\nnumber")


def test_lines_of_two_processes_may_come_in_between(caplog: pytest.LogCaptureFixture) -> None:
    reader = LineReader()
    for line in ("ERROR a| first", "26/11/21 WARN Executor: lost", "WARNING b: other", "ERROR a: last"):
        reader.read(line)
    assert found(caplog) == [("WARNING", "b", "other"), ("ERROR", "a", "first\nlast")]


@pytest.mark.parametrize("line", ["", "26/11/21 12:00:00 WARN Utils: slow", "ERROR Status Logger: no", "INFO", "Traceback (most recent"])
def test_other_lines_are_left_alone(line: str, caplog: pytest.LogCaptureFixture) -> None:
    assert not LineReader().read(line)
    assert not caplog.records


def test_a_level_above_info_that_was_set_here_holds(caplog: pytest.LogCaptureFixture) -> None:
    """Airflow's own settings make some libraries quiet."""
    caplog.set_level(logging.WARNING, "tests.chatty")
    assert LineReader().read("INFO tests.chatty: HTTP Request")
    assert not caplog.records


def test_only_the_last_records_are_kept(far: logging.Logger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_lines, "KEPT_RECORDS", 3)
    kept = KeptLines()
    far.addHandler(kept)
    for number in range(5):
        far.info("number %d\n", number)
    assert kept.lines() == [
        "WARNING airflow_provider_connect.runtime.model.log_lines: 2 earlier records of the log are in the executor's own log only",
        *(f"INFO tests.far: number {number}" for number in (2, 3, 4)),
    ]


def test_a_process_without_a_log_writes_from_info_on(monkeypatch: pytest.MonkeyPatch) -> None:
    root, stream = logging.getLogger(), io.StringIO()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", logging.WARNING)
    write_logs(stream)
    write_logs(io.StringIO())
    logging.getLogger("tests.far").debug("no")
    logging.getLogger("tests.far").info("yes")
    assert stream.getvalue() == "INFO tests.far: yes\n"


@pytest.mark.parametrize("library", ["httpx2", "pyiceberg.io"])
def test_a_library_that_logs_each_request_or_file_logs_its_warnings_alone(library: str) -> None:
    before = logging.getLogger(library).level
    try:
        log_lines.quiet_libraries()
        assert not logging.getLogger(library).isEnabledFor(logging.INFO)
        assert logging.getLogger(library).isEnabledFor(logging.WARNING)
    finally:
        logging.getLogger(library).setLevel(before)
