"""FileSignal: which changes of a real file end its wait, and what becomes of it without inotify."""

from __future__ import annotations

import logging
import os
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.connectors.file_source import FileStreamSourceConnector
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.stores.offset_store import SourceOffsets
from airflow_provider_connect.runtime.worker.task.renewal import Renewal
from airflow_provider_connect.sdk import AllowedPaths, DataSignal
from tests.waiting import HANG_SECONDS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")
SHORT_SECONDS = 0.01  # nothing is reported
LONG_SECONDS = HANG_SECONDS  # a change that is reported ends the wait at once


def connector_below(folder: Path) -> FileStreamSourceConnector:
    connector = FileStreamSourceConnector()
    connector.allowed_paths = AllowedPaths((str(folder),))
    return connector


@contextmanager
def signal_of(path: Path, *, below: Path | None = None) -> Iterator[DataSignal]:
    connector = connector_below(below or path.parent)
    signal = connector.open_data_signal(connector.config_def.parse({"file": str(path), "topic": "t"}))
    assert signal is not None
    try:
        yield signal
    finally:
        signal.close()


def append(path: Path, text: str = "line\n") -> None:
    with path.open("a") as file:
        file.write(text)


def replace(path: Path) -> None:
    new = path.with_name("new.txt")
    new.write_text("another\n")
    new.replace(path)


def move_away(path: Path) -> None:
    path.rename(path.with_name("old.txt"))


@pytest.mark.parametrize("change", [append, lambda path: os.truncate(path, 2), replace, move_away, Path.unlink], ids=lambda c: c.__name__)
def test_a_change_of_the_file_is_reported(tmp_path: Path, change: Callable[[Path], Any]) -> None:
    path = tmp_path / "lines.txt"
    append(path)
    with signal_of(path) as signal:
        assert signal.wait(0)
        assert not signal.wait(0)
        change(path)
        assert signal.wait(LONG_SECONDS)


def test_a_change_while_it_waits_ends_the_wait(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    append(path)
    with signal_of(path) as signal:
        assert signal.wait(0)
        begun = time.monotonic()
        threading.Timer(0.1, append, [path]).start()
        assert signal.wait(LONG_SECONDS)
        assert time.monotonic() - begun < LONG_SECONDS


def test_the_new_file_is_watched_after_a_rotation(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    append(path)
    with signal_of(path) as signal:
        assert signal.wait(0)
        move_away(path)
        assert signal.wait(LONG_SECONDS)
        while signal.wait(0):  # now it watches the folder
            pass
        append(path)
        assert signal.wait(LONG_SECONDS)
        while signal.wait(0):
            pass
        append(path.with_name("old.txt"))
        assert not signal.wait(SHORT_SECONDS)
        append(path)
        assert signal.wait(LONG_SECONDS)


@pytest.mark.parametrize("create", [append, replace])
def test_a_missing_file_is_reported_when_it_is_created_and_other_files_are_not(tmp_path: Path, create: Callable[[Path], None]) -> None:
    path = tmp_path / "lines.txt"
    with signal_of(path) as signal:
        assert signal.wait(0)
        (tmp_path / "other.txt").touch()
        assert not signal.wait(SHORT_SECONDS)
        create(path)
        assert signal.wait(LONG_SECONDS)


def test_a_folder_that_is_created_or_replaced_is_found_by_the_next_wait(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    path = folder / "lines.txt"
    with signal_of(path, below=tmp_path) as signal:
        assert not signal.wait(SHORT_SECONDS)
        folder.mkdir()
        append(path)
        assert signal.wait(0)
        folder.rename(tmp_path / "moved")
        folder.mkdir()
        append(path)
        assert signal.wait(0)


def test_a_link_out_of_the_allowed_folders_is_not_watched(tmp_path: Path) -> None:
    folder, secret = tmp_path / "allowed", tmp_path / "secret.txt"
    folder.mkdir()
    append(secret)
    path = folder / "lines.txt"
    append(path)
    with signal_of(path) as signal:
        assert signal.wait(0)
        path.unlink()
        path.symlink_to(secret)
        with pytest.raises(ConfigException, match=r"connectors\.allowed\.paths"):
            signal.wait(0)


class Stop:
    def reason(self) -> None:
        return None


def test_without_inotify_the_source_checks_at_intervals(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "lines.txt"
    append(path)
    signal: Any = Stop()
    task: Any = "a new task"
    renewal = Renewal(
        "c-0",
        connector_below(tmp_path),
        {"file": str(path), "topic": "t"},
        offsets=lambda: SourceOffsets("c", {}),
        create_task=lambda _: task,
        stop=signal,
        records=lambda: 0,
        offsets_written=lambda: 0,
    )
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with caplog.at_level(logging.WARNING), open(os.devnull) as last:
        resource.setrlimit(resource.RLIMIT_NOFILE, (last.fileno() + 1, hard))
        try:
            renewal._open_signal()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert renewal() == "a new task"
    assert "without a signal of new data, it checks every 0.02 s" in caplog.text
    assert "Too many open files" in caplog.text
    renewal.close()
